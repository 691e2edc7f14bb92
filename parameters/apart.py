"""Parameter shards that see no memory of the server: numbers go to them and come back, and the server keeps them all.

A shard holds its stretches of the weights and of what the rule remembers from one step to the next, so that it is sent
the gradient alone. What it made of them comes back and is all that counts: one that is lost takes nothing along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.engines.base import Helpers
from shoal.lazy.classes import dataclass
from shoal.parameters.stepping import StepMemory, StepParts
from shoal.worker import SharedArray, Worker

KNOWN = "memory of steps"  # what a shard has allocated, by that name
HERE = ("gather", "square")  # stages that read updates or tell a number: sending costs more than they do
ArrayRow = tuple[SharedArray, int | None]  # an array, and a row of it


@dataclass(frozen=True)
class SentParts:
    """The request to take stages of a step, with what a shard needs for it and which places are wanted back."""

    request: StepParts
    given: tuple[tuple[ArrayRow, NDArray[Any]], ...]
    wanted: tuple[ArrayRow, ...]

    def answer(self, worker: Worker) -> tuple[Any, list[NDArray[Any]]]:
        places, stretches = self.request.places, self.request.stretches
        if worker.known.get(KNOWN) != places:
            for shared in _arrays(worker.known.get(KNOWN)):
                worker.drop(shared.key)
            for shared in _arrays(places):  # of the whole width; pages that nobody writes to take no room
                worker.hold(shared, np.zeros(shared.shape, shared.dtype))
            worker.know(KNOWN, places)
        for place, values in self.given:
            spread(stretches, values, _row(worker, place))
        told = self.request.answer(worker)
        return told, [taken(stretches, _row(worker, place)) for place in self.wanted]


class DistantShards:
    """Asks them for the stages of steps."""

    def __init__(self, helpers: Helpers, worker: Worker) -> None:
        """`worker` has all the memory."""
        self._helpers, self._worker = helpers, worker
        self._hold: dict[int, tuple[Any, ...]] = {}  # what each holds, of which version

    def ask(self, requests: Mapping[int, StepParts], version: int) -> dict[int, Any]:
        """As shards of this machine tell it; who is lost meanwhile has no report."""
        told: dict[int, Any] = {}
        sent: dict[int, SentParts] = {}
        for shard, request in requests.items():
            if here := tuple(stage for stage in request.stages if stage in HERE):
                told[shard] = self._worker.handle(replace(request, stages=here))
            if there := request.stages[len(here) :]:
                sent[shard] = self._sent(shard, replace(request, stages=there), version)
        reports = self._helpers.ask(sent) if sent else {}
        for shard, (said, values) in reports.items():
            told[shard] = said
            self._take_in(shard, sent[shard], requests[shard], values, version)
        return {shard: said for shard, said in told.items() if shard not in sent or shard in reports}

    def _sent(self, shard: int, request: StepParts, version: int) -> SentParts:
        """With two rows of weights in place of the many that workers read."""
        own = request.places
        weights = replace(own.weights, shape=(2, own.weights.shape[-1]))
        places = StepMemory(weights, own.gradient, own.gradient, own.memory)  # updates stay here
        rows, sides = (version % 2, (version + 1) % 2), (request.side, 1 - request.side)
        given: list[tuple[ArrayRow, NDArray[Any]]] = []
        if request.stages != ("move",):  # else it has just looked
            given.append(((own.gradient, None), self._taken(request, own.gradient)))
            if self._hold.pop(shard, None) != self._state(shard, request, version, request.side):
                given.append(((weights, rows[0]), self._taken(request, own.weights, request.rows[0])))
                given += [((one, sides[0]), self._taken(request, one, sides[0])) for _, one in own.memory]
        moved = request.stages != ("look",)
        wanted: tuple[ArrayRow, ...] = (
            ((weights, rows[1]), *((one, sides[1]) for _, one in own.memory)) if moved else ()
        )
        return SentParts(replace(request, places=places, rows=rows), tuple(given), wanted)

    def _take_in(
        self, shard: int, sent: SentParts, request: StepParts, values: list[NDArray[Any]], version: int
    ) -> None:
        if not sent.wanted:
            return
        places = [(request.places.weights, request.rows[1]), *sent.wanted[1:]]
        for place, stretches in zip(places, values, strict=True):
            spread(request.stretches, stretches, _row(self._worker, place))
        self._hold[shard] = self._state(shard, request, version + 1, 1 - request.side)

    def _state(self, shard: int, request: StepParts, version: int, side: int) -> tuple[Any, ...]:
        process = self._helpers.ready.get(shard)
        return process, request.places.gradient.key, request.stretches.tobytes(), version, side

    def _taken(self, request: StepParts, shared: SharedArray, row: int | None = None) -> NDArray[Any]:
        return taken(request.stretches, _row(self._worker, (shared, row)))


def taken(stretches: NDArray[np.int64], array: NDArray[Any]) -> NDArray[Any]:
    """Numbers of stretches, one after the other."""
    return np.concatenate([array[begin:end] for begin, end in stretches] or [array[:0]])


def spread(stretches: NDArray[np.int64], values: NDArray[Any], array: NDArray[Any]) -> None:
    """The other way round."""
    at = 0
    for begin, end in stretches.tolist():
        array[begin:end] = values[at : at + end - begin]
        at += end - begin


def _row(worker: Worker, place: ArrayRow) -> NDArray[Any]:
    shared, row = place
    array = worker.array(shared)
    return array if row is None else array[row]


def _arrays(places: StepMemory | None) -> Iterator[SharedArray]:
    if places is not None:
        yield from (places.weights, places.gradient, *(shared for _, shared in places.memory))
