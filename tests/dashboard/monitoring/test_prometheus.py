"""The real Prometheus reads the real server; its own tool checks the text, the rules and what they fire at."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.dashboard.monitoring.collector import Collector
from shoal.dashboard.monitoring.exposition import CONTENT_TYPE
from shoal.dashboard.monitoring.traffic import Traffic
from shoal.library import tokens
from support.browser import Server, free_port
from support.dashboard.http_client import Answer, ask
from support.runs import made, until

DEPLOY = Path(__file__).parents[3] / "deploy"
PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(
    not (PROMTOOL and PROMETHEUS), reason="promtool is not installed (Debian: prometheus)"
)
NAME = re.compile(r"\b(?:shoal|process)_[a-z0-9_]+\b")
ENDINGS = ("", "_bucket", "_sum", "_count")  # of a histogram's lines


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(folder))
        (folder / "token").write_text(tokens.create("prometheus", "read")[0])
        made(result={"state": "finished"})
    found = Server(folder, free_port())
    found.start()
    yield found
    found.stop()


def scraped(server: Server, **headers: str) -> Answer:
    return ask(server, "/metrics", **headers)


def bearer(server: Server) -> str:
    return f"Bearer {(server.home / 'token').read_text()}"


def promtool(*arguments: str, text: str = "", cwd: Path = DEPLOY) -> str:
    command = [PROMTOOL or "", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=cwd, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# ------------------------------------------------------------------ the server


def test_who_may_read_them(server: Server) -> None:
    refused = scraped(server)
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert b"shoal_" not in refused.body
    assert scraped(server, Authorization="Bearer shoal_nothing").status == 401
    for answer in (scraped(server, Authorization=bearer(server)), scraped(server, Cookie=server.cookie)):
        assert (answer.status, answer.headers["content-type"]) == (200, CONTENT_TYPE)
        assert b'\nshoal_runs{state="finished"} 1\n' in answer.body
    assert ask(server, "/metrics", "POST", b"", Authorization=bearer(server)).status == 403  # it may only read


def test_requests_are_in_it(server: Server) -> None:
    ask(server, "/api/v1/version", Authorization=bearer(server))
    found = scraped(server, Authorization=bearer(server)).body.decode()
    assert 'shoal_http_requests_total{route="api-other",status="2xx"} 1\n' in found
    assert re.search(r'shoal_http_request_duration_seconds_bucket\{route="health",le="\+Inf"\} [1-9]', found)
    for part in ("build", "runs", "queue", "host", "process"):
        assert f'shoal_part_readable{{part="{part}"}} 1\n' in found


def test_it_is_there_under_another_path_too(tmp_path: Path) -> None:
    """As a proxy may have it; without a token, which nobody asks for there."""
    found = Server(tmp_path, free_port(), ("--server.baseUrlPath", "shoal"), {"SHOAL_NO_TOKEN": "1"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("support.browser.wait_until_healthy", _healthy_below)
        found.start()
    try:
        answer = ask(found, "/shoal/metrics")
        assert answer.headers["content-type"] == CONTENT_TYPE
        assert b'shoal_http_requests_total{route="health",status="2xx"}' in answer.body
    finally:
        found.stop()


def _healthy_below(port: int, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        assert process.poll() is None
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/shoal/_stcore/health"):
            return True
        return False

    until(answers)


# ------------------------------------------------------------------ Prometheus


@needs_prometheus
def test_promtool_has_nothing_to_say_of_the_text(server: Server) -> None:
    text = scraped(server, Authorization=bearer(server)).body.decode()
    assert promtool("check", "metrics", text=text) == ""


@needs_prometheus
def test_promtool_takes_the_rules() -> None:
    assert "6 rules found" in promtool("check", "rules", "prometheus-rules.yaml")


@needs_prometheus
def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    calm = {
        'up{job="shoal"}': "1x60", 'shoal_runs_ended_total{state="failed"}': "4x60", "shoal_queue_oldest_seconds": "3599x60",
        "shoal_disk_free_bytes": "10x60", "shoal_disk_bytes": "100x60", "shoal_workers_lost_total": "9x60",
        'shoal_part_readable{part="runs"}': "1x60",
    }  # fmt: skip
    alarming = {
        "ShoalDashboardGone": {'up{job="shoal"}': "0x60"},
        "ShoalRunFailed": {'shoal_runs_ended_total{state="failed"}': "4x20 5x40"},
        "ShoalQueueTooOld": {"shoal_queue_oldest_seconds": "3601+60x60"},
        "ShoalDiskNearlyFull": {"shoal_disk_free_bytes": "9x60"},
        "ShoalWorkersLost": {"shoal_workers_lost_total": "0+1x60"},
        "ShoalFiguresMissing": {'shoal_part_readable{part="runs"}': "0x60"},
    }
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())["groups"][0]["rules"]
    assert {rule["alert"] for rule in rules} == set(alarming)
    cases = [_case(name, {**calm, **worse}, [name]) for name, worse in alarming.items()]
    cases += [_case(name, calm, []) for name in alarming]
    cases.append(_case("ShoalDashboardGone", {"other": "1x60"}, ["ShoalDashboardGone"]))  # nobody asks for it any more
    path = tmp_path / "cases.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(DEPLOY / "prometheus-rules.yaml")], "tests": cases}))
    assert "SUCCESS" in promtool("test", "rules", str(path))


def _case(alert: str, series: dict[str, str], firing: list[str]) -> dict[str, Any]:
    """Whether it fires after half an hour, by a query that has no words of the alert in it."""
    query = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "30m", "exp_samples": [{"value": 1} for _ in firing]}],
    }  # fmt: skip


@needs_prometheus
def test_a_real_prometheus_reads_it_by_the_settings_that_we_give(server: Server, tmp_path: Path) -> None:
    text = (DEPLOY / "prometheus.yaml").read_text()
    for ours, here in (
        ("localhost:5000", f"127.0.0.1:{server.port}"),
        ("/etc/prometheus/shoal-token", str(server.home / "token")),
        ("scrape_interval: 15s", "scrape_interval: 1s"),
        ("- prometheus-rules.yaml", f"- {DEPLOY / 'prometheus-rules.yaml'}"),
    ):
        assert text.count(ours) == 1
        text = text.replace(ours, here)
    settings, port = tmp_path / "prometheus.yaml", free_port()
    settings.write_text(text)
    assert "SUCCESS" in promtool("check", "config", str(settings))
    with prometheus(settings, port):
        assert until(lambda: asked(port, 'up{job="shoal"}')) == [1.0]
        assert asked(port, 'shoal_runs{state="finished"}') == [1.0]
        assert asked(port, "count(shoal_build_info)") == [1.0]
        dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                asked(port, target["expr"].replace("$instance", ".*"))  # which it can answer


@contextlib.contextmanager
def prometheus(settings: Path, port: int) -> Iterator[None]:
    command = [
        PROMETHEUS or "", f"--config.file={settings}", f"--storage.tsdb.path={settings.parent / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (settings.parent / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "GOMAXPROCS": "1"})
    try:
        yield
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(60)


def asked(port: int, query: str) -> list[float]:
    """The values that Prometheus answers with; none while it starts. A query that it does not understand fails."""
    address = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code != 503:
            pytest.fail(f"{query}: {error.read()!r}")
        return []
    except urllib.error.URLError:
        return []
    return [float(one["value"][1]) for one in found["data"]["result"]]


# ------------------------------------------------------------------ what is in deploy/


@pytest.fixture
def names(home: Path) -> set[str]:
    """Of all figures that there are, with the parts of histograms."""
    traffic = Traffic()
    traffic.answered("page", 200, 0.1)
    typed = re.findall(r"^# TYPE (\S+) (\S+)$", Collector().text(traffic.families()), re.MULTILINE)
    return {
        name + ending for name, kind in typed for ending in (ENDINGS if kind == "histogram" else ENDINGS[:1])
    }  # fmt: skip


@pytest.mark.parametrize("file", ["prometheus-rules.yaml", "grafana-dashboard.json"])
def test_only_figures_that_there_are_are_asked_for(file: str, names: set[str]) -> None:
    if file.endswith(".json"):
        panels = json.loads((DEPLOY / file).read_text())["panels"]
        queries = [target["expr"] for panel in panels for target in panel["targets"]]
    else:
        queries = [rule["expr"] for rule in yaml.safe_load((DEPLOY / file).read_text())["groups"][0]["rules"]]
    wanted = {name for query in queries for name in NAME.findall(query)}
    assert len(wanted) > 4
    assert wanted <= names


def test_the_docs_name_all_figures(names: set[str]) -> None:
    page = (DEPLOY.parent / "docs" / "operations.md").read_text()
    base = {name for name in names if name.startswith("shoal_") and not name.endswith(ENDINGS[1:])}
    assert {name for name in base if f"`{name}" not in page} == set()


def test_panels_lie_beside_one_another() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in dashboard["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
