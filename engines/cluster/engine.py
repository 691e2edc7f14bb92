"""The engine of many machines: workers are actors of a Ray cluster, arrays are its objects, the server stays here."""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
import ray

from shoal.engines.base import Choose, Helpers, Ledger, Link, WorkerEvent, laid_out
from shoal.engines.cluster.actor import Brief, as_arrays
from shoal.engines.cluster.connection import Connection
from shoal.engines.cluster.crew import RayCrew, RayMember, Shared
from shoal.engines.cluster.whereabouts import Errand, Whereabouts
from shoal.engines.crew import CrewMember
from shoal.engines.crewed import CrewEngine
from shoal.engines.helping import CrewHelpers
from shoal.errors import EngineError
from shoal.worker import Request, SharedArray, pack


class RayEngine(CrewEngine):
    """Workers on the cores of a cluster that is there, or of a small one of its own.

    `workers`: 0 for one per core that is free. `preload` as for worker processes.
    """

    def __init__(
        self, workers: int, connection: Connection, on_event: Callable[[WorkerEvent], None] | None = None,
        restarts: int = 3, preload: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.connection = connection
        self._shared: Shared = {}
        self._keys = itertools.count()
        self._briefed: set[str] = set()
        self._whereabouts = Whereabouts()
        self._asked: dict[int, Errand] = {}  # what each worker is at, by rank

        def crew(emit: Callable[[WorkerEvent], None]) -> RayCrew:
            made = RayCrew(emit, preload, connection, self._wait)
            self._shared = made.shared
            return made

        try:
            super().__init__(workers or max(1, connection.free_cores()), on_event, restarts, crew)
        except BaseException:
            connection.close()
            raise

    @property
    def maps(self) -> bool:
        return False

    @property
    def node(self) -> str:
        return str(ray.get_runtime_context().get_node_id())

    @property
    def start(self) -> float:
        return math.inf  # it may wait for a core that comes free, or for a node that joins

    def most(self) -> int:
        return len(self._crew.members) + self.connection.free_cores()

    def brief(self, name: str, request: Callable[[], Request]) -> None:
        if name not in self._briefed:
            self._briefed.add(name)
            key = next(self._keys)
            self._shared[key] = Brief(key), ray.put(as_arrays(pack(request())))

    def _choice(self, member: CrewMember) -> Choose:
        nodes = {rank: _node(other) for rank, other in self._crew.members.items() if other.ready}
        return functools.partial(self._whereabouts.choose, member.rank, nodes)

    def _ask(self, member: CrewMember, ledger: Ledger, index: int, request: Request) -> None:
        super()._ask(member, ledger, index, request)
        self._asked[member.rank] = self._whereabouts.asked(request, _node(member), time.monotonic())

    def _take_in(self, member: CrewMember, parts: Sequence[memoryview | bytes]) -> None:
        if member.job is not None and member.rank in self._asked:
            self._whereabouts.answered(self._asked.pop(member.rank), time.monotonic())
        super()._take_in(member, parts)

    def helpers(self, preload: Sequence[str]) -> Helpers:
        """Beside the workers: they take no core from them, and are asked between two rounds."""
        self._check_open()
        return CrewHelpers(RayCrew(lambda event: None, preload, self.connection, lambda why: None, cores=0))

    def used(self, rank: int) -> tuple[float, int] | None:
        member = self._crew.members.get(rank)
        beat = member.beat if isinstance(member, RayMember) else None
        return (beat.cpu, beat.memory) if beat else None

    def works(self, rank: int) -> bool:
        member = self._crew.members.get(rank)
        return isinstance(member, RayMember) and member.gets_on()

    def link(self, rank: int) -> Link | None:
        member = self._crew.members.get(rank)
        if not isinstance(member, RayMember) or member.facts is None or member.lease is None:
            return None
        silent = member.lease.silent(time.monotonic())
        return Link(member.facts.address, member.lease.took, silent, member.received, member.sent)

    def share(self, array: npt.NDArray[Any]) -> SharedArray:
        self._check_open()
        shared, whole = laid_out(array, next(self._keys))
        self._shared[shared.key] = shared, ray.put(whole)
        return shared

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> tuple[SharedArray, npt.NDArray[Any]]:
        raise EngineError("Workers of a cluster see no memory of this process: send them what they are to know.")

    def release(self, shared: SharedArray) -> None:
        self._shared.pop(shared.key, None)

    def close(self) -> None:
        if not self._closed:
            super().close()
            self._shared.clear()
            self.connection.close()


def _node(member: CrewMember) -> str:
    assert isinstance(member, RayMember)
    return member.node
