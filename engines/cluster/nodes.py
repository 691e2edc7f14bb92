"""The machines of a cluster: what each offers, what is left of it, and whether it answers."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import ray
from ray._private.state import available_resources_per_node
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.engines.cluster.actor import versions
from shoal.home import home
from shoal.lazy.classes import dataclass

PATIENCE = 30.0  # seconds for all of them to answer; a process has to start there first, on a busy machine too


@dataclass(frozen=True)
class NodeFacts:
    """What a machine says of itself: bytes in all and free, and the versions of what is installed."""

    memory: int
    memory_free: int
    disk: int  # where it keeps blocks
    disk_free: int
    versions: dict[str, str]


def facts_here() -> NodeFacts:
    memory, folder = psutil.virtual_memory(), home()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    disk = shutil.disk_usage(Path(folder))
    return NodeFacts(memory.total, memory.available, disk.total, disk.free, versions())


def look_at_nodes() -> list[dict[str, Any]]:
    """Each machine that the cluster knows, those with most cores first; `state` is a word or two on its health."""
    known, free = ray.nodes(), available_resources_per_node()
    asked = {node["NodeID"]: _ask(node["NodeID"]) for node in known if node["Alive"]}
    deadline = time.monotonic() + PATIENCE
    found = [
        {
            "address": str(node["NodeManagerAddress"]), "alive": bool(node["Alive"]),
            "cores": int(node["Resources"].get("CPU", 0)), "free": int(free.get(node["NodeID"], {}).get("CPU", 0)),
            **_heard(asked.get(node["NodeID"]), deadline),
        }
        for node in known
    ]  # fmt: skip
    return sorted(found, key=lambda node: (not node["alive"], -node["cores"], node["address"]))


def _ask(node: str) -> Any:
    """Beside whatever it is doing: the question takes no core."""
    here = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(num_cpus=0, max_retries=0)(facts_here).options(scheduling_strategy=here).remote()


def _heard(answer: Any, deadline: float) -> dict[str, Any]:
    if answer is None:
        return {"state": "gone"}
    try:
        facts: NodeFacts = ray.get(answer, timeout=max(0.0, deadline - time.monotonic()))
    except ray.exceptions.GetTimeoutError:
        ray.cancel(answer, force=True)
        return {"state": f"no answer within {PATIENCE:.0f} s"}
    except (RayError, ImportError) as error:
        missing = "ModuleNotFoundError" in str(error)
        return {"state": "Shoal is not installed there" if missing else "it cannot be asked"}
    here = versions()
    other = [f"{name} {there}, here {here[name]}" for name, there in facts.versions.items() if there != here[name]]
    told = {name: value for name, value in asdict(facts).items() if name != "versions"}
    return {**told, "state": f"has {'; '.join(other)}: install the same versions" if other else "answers"}
