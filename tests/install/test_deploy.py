"""The manifests in deploy/: pods fit the schema of Kubernetes, and say what the docs promise."""

from __future__ import annotations

import copy
import itertools
import json
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml
from starlette.applications import Starlette

from shoal.dashboard.http.gate import Gate
from shoal.dashboard.monitoring import health
from support.dashboard.gate import call
from support.tables import shoal

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile"
GROUPS = ("head", "nodes")


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy/raycluster.yaml").read_text())
    return found


def pods(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    spec = cluster["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, **group["template"]} for group in groups]


def check(pod: dict[str, Any]) -> None:
    kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)


def test_pods_fit_the_schema_of_kubernetes(cluster: dict[str, Any]) -> None:
    assert len(pods(cluster)) == len(GROUPS)
    for pod in pods(cluster):
        check(pod)
        misspelt = copy.deepcopy(pod)
        misspelt["spec"]["containers"][0]["enviroment"] = []
        with pytest.raises(kubernetes_validate.ValidationError):
            check(misspelt)


def test_all_machines_ask_for_the_token_and_have_a_disk_of_their_own(cluster: dict[str, Any]) -> None:
    for pod in pods(cluster):
        (container,) = pod["spec"]["containers"]
        said = {entry["name"]: entry.get("value") or entry["valueFrom"] for entry in container["env"]}
        assert said["RAY_AUTH_MODE"] == "token"
        assert said["RAY_AUTH_TOKEN"] == {"secretKeyRef": {"name": "shoal-ray", "key": "token"}}
        assert said["SHOAL_HOME"] in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_ray_is_the_one_that_is_tested(cluster: dict[str, Any]) -> None:
    assert f"ray=={cluster['spec']['rayVersion']}" in (ROOT / "constraints.txt").read_text().split()


def test_the_values_for_helm_say_the_same(cluster: dict[str, Any]) -> None:
    values, spec = yaml.safe_load((ROOT / "deploy/values.yaml").read_text()), cluster["spec"]
    image = f"{values['image']['repository']}:{values['image']['tag']}"
    for group, own in ((spec["headGroupSpec"], values["head"]), (spec["workerGroupSpecs"][0], values["worker"])):
        (container,) = group["template"]["spec"]["containers"]
        assert container["image"] == image
        assert container["env"] == own["containerEnv"]
        assert container["resources"] == own["resources"]
        assert container["volumeMounts"] == own["volumeMounts"]
        assert group["rayStartParams"] == own["rayStartParams"]


# ------------------------------------------------------------------ a service for a team


def documents() -> list[dict[str, Any]]:
    folder = ROOT / "deploy/kubernetes"
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert set(named) == {path.name for path in folder.iterdir()} - {"kustomization.yaml"}
    return [found for name in named for found in yaml.safe_load_all((folder / name).read_text())]


def containers(found: dict[str, Any]) -> list[dict[str, Any]]:
    pod = found["spec"].get("template", {}).get("spec", {})
    return [*pod.get("initContainers", []), *pod.get("containers", [])]


@pytest.mark.parametrize("found", documents(), ids=lambda found: f"{found['kind']}-{found['metadata']['name']}")
def test_manifests_fit_the_schema_of_kubernetes(found: dict[str, Any]) -> None:
    check(found)
    for container in containers(found):
        assert "limits" in container["resources"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
    if containers(found):
        assert found["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    misspelt = {**found, "spec": {**found["spec"], "replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        check(misspelt)


def test_passwords_come_from_the_secret_that_the_first_lines_make() -> None:
    head = (ROOT / "deploy/kubernetes/kustomization.yaml").read_text()
    made = set(re.findall(r"--from-literal=([a-z-]+)=", head))
    asked = {
        (entry["valueFrom"]["secretKeyRef"]["name"], entry["valueFrom"]["secretKeyRef"]["key"])
        for found in documents() for container in containers(found) for entry in container.get("env", [])
        if "valueFrom" in entry
    }  # fmt: skip
    assert asked == {("shoal", key) for key in made}


def test_only_pods_that_say_so_reach_the_database() -> None:
    marked = {
        found["metadata"]["name"] for found in documents() if containers(found)
        and "shoal/uses-database" in found["spec"]["template"]["metadata"]["labels"]
    }  # fmt: skip
    asking = {
        found["metadata"]["name"] for found in documents() for container in containers(found)
        if any(entry["name"] == "SHOAL_DATABASE" for entry in container.get("env", []))
    }  # fmt: skip
    assert marked == asking == {"dashboard", "run-host"}


def composed() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    return found


def _line(word: str) -> str:
    (found,) = [line for line in DOCKERFILE.read_text().splitlines() if line.startswith(f"{word} ")]
    return found.removeprefix(f"{word} ")


def commands() -> list[list[str]]:
    """What pods and services start the program with."""
    pods = [
        container["args"] for found in documents() for container in containers(found) if container["image"] == "shoal"
    ]
    services = [service["command"] for service in composed()["services"].values() if "command" in service]
    return [*pods, *services, json.loads(_line("CMD"))]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_what_is_started_is_a_command_with_flags_that_it_has(words: list[str]) -> None:
    ours = words[: words.index("--")] if "--" in words else words
    asked = [word for word in ours if not word.startswith("-") and not word.isdigit()]
    done = shoal(*asked, "--help")
    assert done.code == 0, done.err
    assert all(flag in done.out for flag in ours if flag.startswith("--"))


def test_services_share_one_home_and_wait_for_the_tables() -> None:
    services = composed()["services"]
    for name in ("dashboard", "host", "upgrade"):
        assert services[name]["volumes"] == ["home:/shoal"]
    for name in ("dashboard", "host"):
        assert services[name]["depends_on"] == {"upgrade": {"condition": "service_completed_successfully"}}
    assert all(port.startswith("127.0.0.1:") for service in services.values() for port in service.get("ports", ()))
    for name in re.findall(r"- \./([a-z-]+\.yaml):", (ROOT / "deploy/compose.yaml").read_text()):
        assert (ROOT / "deploy" / name).is_file()


def test_prometheus_reads_both_in_the_same_way() -> None:
    plain, beside = (
        yaml.safe_load((ROOT / "deploy" / name).read_text()) for name in ("prometheus.yaml", "prometheus-compose.yaml")
    )
    (job,) = beside["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["dashboard:5000"]}]
    plain["scrape_configs"][0]["static_configs"] = job["static_configs"]
    assert plain == beside


def test_the_image_is_not_root_has_a_health_check_and_only_extras_that_there_are() -> None:
    assert _line("USER").isdigit()
    assert int(_line("USER")) > 0
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(_line("ARG").removeprefix("EXTRAS=").split(",")) <= set(known)
    left_out = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv*", "tests"} <= set(left_out)
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert not {name.removeprefix("shoal.").replace(".", "/") for name in package} & set(left_out)


def test_what_probes_ask_is_answered_by_a_dashboard_that_is_started_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the hosts that it is allowed to be asked by, in Compose and in Kubernetes."""
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    _, deployment = yaml.safe_load_all((ROOT / "deploy/kubernetes/dashboard.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    probes = [container[name]["exec"]["command"][-1] for name in ("livenessProbe", "readinessProbe")]
    probes.append(_line("HEALTHCHECK").split()[-1])
    app = Starlette(routes=health.routes())
    for flags in (container["args"], composed()["services"]["dashboard"]["command"]):
        gate = Gate(app)
        # One at a time: Streamlit takes a list with commas for a single name.
        gate.allowed_hosts = [after for flag, after in itertools.pairwise(flags) if flag == "--server.allowedHosts"]
        assert "dashboard" in gate.allowed_hosts  # by which Prometheus asks
        for probe in map(urlsplit, probes):
            assert call(gate, probe.path, headers=[(b"host", probe.netloc.encode())]).status == 200, probe
        assert call(gate, "/health", headers=[(b"host", b"evil.example")]).status == 400
