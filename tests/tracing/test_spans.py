"""Traces of real runs, received by a real OTLP endpoint: one trace a run, whole, private, and never in the way."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from shoal.runs.launch import Run, list_runs
from support.runs import run_home, small_table, until

pytest.importorskip("opentelemetry.sdk", reason="shoal[traces] is not installed")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Collector(ThreadingHTTPServer):
    """Keeps every span that is posted to /v1/traces."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.spans: list[tuple[str, Span]] = []  # each with the service that it is of

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def named(self, name: str) -> list[Span]:
        return [span for _, span in self.spans if span.name == name]


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = {fact.key: fact.value.string_value for fact in part.resource.attributes}["service.name"]
            self.server.spans += [(service, span) for scope in part.scope_spans for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path


@pytest.fixture
def collector(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        monkeypatch.setenv(ENDPOINT, server.address)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def trained(table: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "shoal.cli.app", "train", str(table), "--target", "y", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def the_run() -> Run:
    (run,) = list_runs()
    until(lambda: not run.is_alive)
    return run


def test_a_run_is_one_trace_from_the_command_to_its_last_round(collector: Collector, tmp_path: Path) -> None:
    done = trained(small_table(tmp_path), "--solver", "gradient", "--epochs", "5")
    assert done.returncode == 0, done.stderr
    run = the_run()
    until(lambda: collector.named("run: train") and collector.named("shoal train"))
    names = {span.name: span for _, span in collector.spans}
    assert {"launch", "ingest", "shards", "train", "checkpoint", "rounds", "score"} <= set(names)
    assert len({span.trace_id for _, span in collector.spans}) == 1

    above = {span.span_id: span.name for _, span in collector.spans}
    parents = {span.name: above.get(span.parent_span_id, "") for _, span in collector.spans}
    assert parents["shoal train"] == ""
    assert (parents["launch"], parents["run: train"], parents["train"]) == ("shoal train", "launch", "run: train")
    assert parents["rounds"] == parents["checkpoint"] == "train"
    assert {service for service, _ in collector.spans} == {"shoal", "shoal-run"}

    for _, span in collector.spans:
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    facts = {fact.key: fact.value for fact in names["rounds"].attributes}
    assert facts["first"].int_value == 1
    assert facts["last"].int_value > 1

    lines = [json.loads(line) for line in (run.directory / "log.jsonl").read_text().splitlines()]
    assert {line["trace_id"] for line in lines if "trace_id" in line} == {names["train"].trace_id.hex()}
    assert any("trace_id" in line for line in lines)


def test_names_and_values_of_the_data_stay_here(collector: Collector, tmp_path: Path) -> None:
    table = small_table(tmp_path)
    table = table.rename(tmp_path / "salaries.csv")
    table.write_text(table.read_text().replace("a,b,c,y", "wage_of_anna,b,c,y", 1))
    assert trained(table).returncode == 0
    until(lambda: collector.named("shoal train"))
    told = repr(collector.spans)
    assert collector.named("sweep: scoring")
    assert "salaries" not in told
    assert "wage" not in told


def test_a_collector_that_is_away_harms_no_run_and_is_told_of_once(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as server:
        address = server.address
    monkeypatch.setenv(ENDPOINT, address)  # nobody is there any more
    done = trained(small_table(tmp_path), "--solver", "gradient", "--epochs", "5")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Traces cannot be sent") == 1
    log = (the_run().directory / "log.txt").read_text()
    assert log.count("Traces cannot be sent") == 1
    assert "Traceback" not in log


def test_nothing_of_it_is_loaded_unless_a_collector_is_named(home: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from shoal.cli.app import main; main(sys.argv[1:]); "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    command = [sys.executable, "-P", "-c", code, "train", str(small_table(tmp_path)), "--target", "y"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
