"""Other nodes of a cluster, as a worker asks them for what lies there; whoever does not answer is done without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.engines.cluster.doors import AT_ONCE, Door, answers

PATIENCE = 20.0  # seconds for an answer; a process may have to start there first
REST = 30.0  # seconds for which one that was silent is not asked again: many pieces are asked for in a row


def door_of(node: str) -> Door | None:
    """Where a node answers; None where the cluster knows it for dead or not at all."""
    found = next((known for known in ray.nodes() if known["NodeID"] == node and known["Alive"]), None)
    return (str(found["NodeManagerAddress"]), int(found["NodeManagerPort"])) if found else None


class Neighbours:
    """Those of one worker. Ray itself takes a minute to notice a node that is cut off, so its door is tried first."""

    def __init__(self) -> None:
        self._rests: dict[str, float] = {}  # until when the silent are left alone
        self.is_waiting = False  # for one of them: who waits does not hang

    def ask(self, node: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function says on another node, beside whatever that is doing; None where it comes to no answer."""
        if time.monotonic() < self._rests.get(node, 0.0):
            return None
        with self._waiting():
            door = door_of(node)
            found = self._asked(node, function, *arguments) if door and answers(door, AT_ONCE) else None
        if found is None:
            self._rests[node] = time.monotonic() + REST
        return found

    def _asked(self, node: str, function: Callable[..., Any], *arguments: Any) -> Any:
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        answer = ray.remote(num_cpus=0, max_retries=0)(function).options(scheduling_strategy=there).remote(*arguments)
        try:
            return ray.get(answer, timeout=PATIENCE)
        except (RayError, OSError, ImportError):  # gone, silent, or it does not have what was asked for
            ray.cancel(answer, force=True)
            return None

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        self.is_waiting = True
        try:
            yield
        finally:
            self.is_waiting = False
