"""The manifests in deploy/: pods fit the schema of Kubernetes, and say what the docs promise."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
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
