"""The flat vector on several parameter shards: processes that step their pieces at the same time, while the server's
process says when, and which see its memory or, on a cluster, are sent what they need (`apart`). What a step is stands
in `stepping`, where pieces lie in `steps.placement`.

All that matters lies in memory that the run's process holds. A shard that is lost spoils nothing: the step is taken
again from its beginning, and the others have its pieces until another process is there.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.engines.base import Engine, Helpers
from shoal.errors import WorkerFailed
from shoal.lazy.classes import dataclass
from shoal.models import L1L2, Array, NoPenalty
from shoal.parameters.apart import DistantShards
from shoal.parameters.own import OwnParameters
from shoal.parameters.stepping import StepMemory, StepParts, VectorStep, counted_on, stretches_of, vectors_of
from shoal.passes.board import COPIES, MappedBoard, ServerBoard
from shoal.passes.parcels import own_memory
from shoal.steps.clipping import shortening
from shoal.steps.compression import Touched
from shoal.steps.optimizers import PartwiseRule, StepRule
from shoal.steps.placement import ParameterPiece, Placement
from shoal.worker import Request, SharedArray, Worker

LONG = 500_000  # numbers from which on one process steps in stretches as well: they stay in its cache
OWN = -1  # the place of all pieces where no shard has any
Tell = Callable[..., None]  # (kind, text, **data)


@dataclass
class _Spread:
    """What the rule remembers, where shards see it; `side` is the one that counts."""

    places: StepMemory
    memory: dict[str, Array]  # (2, p) each
    gradient: Array
    rule: PartwiseRule
    counts: dict[str, NDArray[Any]]
    side: int = 0

    @property
    def shared(self) -> list[SharedArray]:
        return [self.places.gradient, *(shared for _, shared in self.places.memory)]


class ShardedParameters(OwnParameters):
    """With a count of 1, or while no shard has come, the server's own process steps all; in stretches if it is long."""

    def __init__(
        self,
        board: ServerBoard,
        start: Array,
        pieces: Sequence[ParameterPiece],
        engine: Engine,
        restarts: int,
        tell: Tell,
    ) -> None:
        super().__init__(board, start, pieces)
        self.count = 1
        self.steps_apart = 0  # that were taken by shards, not by the server's process
        self._engine, self._restarts, self._tell = engine, restarts, tell
        self._helpers: Helpers | None = None
        self._distant: DistantShards | None = None  # where they see no memory of this process
        self._placement = Placement(pieces)
        self._losses: Counter[int] = Counter()  # in a row
        self._spread: _Spread | None = None
        self._worker = Worker()  # whom this process asks in place of shards
        self._is_long = len(start) >= LONG and isinstance(board.shared, MappedBoard)
        self._numbers: dict[int, tuple[int, ...]] = {}  # of pieces
        self._pieces: dict[int, NDArray[np.int64]] = {}
        self._stretches: dict[int, NDArray[np.int64]] = {}
        self._lay_out()

    # ---------------------------------------------------------------- which shards there are

    @property
    def possible(self) -> bool:
        """Whether there can be more than one here."""
        return self._helpers is not None or (self._engine.elastic and self._helping())

    def _helping(self) -> bool:
        self._helpers = self._engine.helpers(["shoal.parameters.apart"])
        if self._helpers is not None and not self._engine.maps:
            self._distant = DistantShards(self._helpers, self._worker)
        return self._helpers is not None

    def scale(self, count: int) -> None:
        """So many shards from now on: those that are too many go at once, others take part as soon as they are here."""
        if count > 1 and not self.possible:
            self._tell(
                "warning", f"Parameter shards: {count} are asked for, and there is one. More are processes beside "
                "worker processes (engine processes or ray).",
            )  # fmt: skip
            count = 1
        self.count = count
        self._losses.clear()
        if self._helpers is None:
            return
        for shard in self._placement.shards:
            if shard not in self._wanted:
                self._helpers.dismiss(shard)
                self._placement.remove(shard)
                self._changed(f"Parameter shard {shard} has left.")
        for shard in self._wanted:
            self._helpers.hire(shard)

    def kill(self, shard: int) -> None:
        """End its process, to see what comes of that."""
        if self._helpers is not None:
            self._helpers.kill(shard)

    @property
    def _wanted(self) -> range:
        """One shard is no process of its own."""
        return range(self.count if self.count > 1 else 0)

    def tick(self) -> None:
        """Who has come and who is gone: what that moves lies elsewhere from the next step on."""
        if self._helpers is None:
            return
        for failure in self._helpers.news():
            self._lose(self._helpers, failure)
        for shard, pid in self._helpers.ready.items():
            if shard in self._wanted and shard not in self._placement.shards:
                self._placement.add(shard)
                size = self._placement.sizes()[shard]
                self._changed(f"Parameter shard {shard} is here (process {pid}) and has {size:,} parameters.")

    def _lose(self, helpers: Helpers, failure: WorkerFailed) -> None:
        shard = failure.rank
        if shard not in self._wanted:
            return
        size = self._placement.sizes().get(shard, 0)
        self._placement.remove(shard)
        self._losses[shard] += 1
        again = self._losses[shard] <= self._restarts
        if again:
            helpers.hire(shard)
        others = "the other shards" if self._placement.shards else "the server's process"
        then = "until it is back" if again else f"for good: it was lost {self._losses[shard]} times in a row"
        self._changed(
            f"Parameter shard {shard} is gone: {failure.cause}. Its {size:,} parameters are with {others} {then}.",
            lost=shard, signal=failure.signal,
        )  # fmt: skip

    def _changed(self, text: str, **data: Any) -> None:
        self._lay_out()
        self._tell("shards", text, shards=self.table(), **data)

    def _lay_out(self) -> None:
        """What each shard is asked for, as they are now."""
        pieces = self._placement.pieces
        self._numbers = self._placement.assigned() or {OWN: tuple(range(len(pieces)))}
        owned = {shard: [(pieces[n].begin, pieces[n].end) for n in numbers] for shard, numbers in self._numbers.items()}
        self._pieces = {shard: np.array(pieces, np.int64).reshape(-1, 2) for shard, pieces in owned.items()}
        self._stretches = {shard: stretches_of(pieces) for shard, pieces in owned.items()}

    def table(self) -> list[dict[str, Any]]:
        """Of each shard: its process, how many parameters and pieces it has, and how it is."""
        ready, sizes = (self._helpers.ready if self._helpers else {}), self._placement.sizes()
        given_up = {shard for shard, losses in self._losses.items() if losses > self._restarts}
        if not sizes:  # the server's own process
            return [_line(0, os.getpid(), len(self.w), len(self._placement.pieces), "server")]
        return [
            _line(
                shard, ready.get(shard), sizes.get(shard, 0), len(self._numbers.get(shard, ())),
                "here" if shard in sizes else "gone" if shard in given_up else "starting",
            )
            for shard in self._wanted
        ]  # fmt: skip

    def ask_each(self, request: Callable[[int, StepMemory, NDArray[np.int64], int], Request]) -> dict[int, Any]:
        """What each shard answers about its stretches of the memory and the side that counts; again while one is lost.

        Nothing where this process has all.
        """
        while self._spread is not None and self._placement.shards and self._distant is None:
            assert self._helpers is not None
            asked = {n: request(n, self._spread.places, s, self._spread.side) for n, s in self._stretches.items()}
            reports = self._helpers.ask(asked)
            if len(reports) == len(asked):
                return reports
            self.tick()
        return {}

    # ---------------------------------------------------------------- steps

    def apply(self, step: VectorStep, version: int) -> None:
        """By all shards at the same time; from its beginning again while one of them is lost."""
        if self._helpers is None and not self._is_long:  # what most runs are, by the thousand steps a second
            super().apply(step, version)
            return
        self.tick()
        while (self._placement.shards or self._is_long) and self._is_partwise(step):
            if self._stepped(step, version):
                return
            self.tick()
        self._collect()
        super().apply(step, version)

    def _is_partwise(self, step: VectorStep) -> bool:
        """Whether parts can be stepped apart: not by a plug-in's rule or penalty that is about all of the vector, nor
        by updates of sparse rows, whose coordinates lie anywhere in it."""
        if any(isinstance(encoding, Touched) for encoding in step.encodings):
            return False
        kind = type(self.rule)
        if not isinstance(self.rule, PartwiseRule) or kind.step is not PartwiseRule.step:
            return False
        return kind.query is StepRule.query and type(step.penalty) in (L1L2, NoPenalty)

    def _stepped(self, step: VectorStep, version: int) -> bool:
        """Whether all shards took all stages; what one has written by half is written again the next time."""
        spread = self._spread or self._spread_out()
        try:
            self._stages(spread, step, version)
        except _ShardLost:
            return False
        if not step.local_steps:  # moves of their own, which no rule had a part in
            spread.side ^= 1
            spread.counts = counted_on(spread.rule, spread.counts)
        self.w, self.gradient = self._board.row(version + 1), spread.gradient
        for shard in self._placement.shards:
            del self._losses[shard]
        self.steps_apart += bool(self._placement.shards)
        return True

    def _stages(self, spread: _Spread, step: VectorStep, version: int) -> None:
        def ask(*stages: str, pieces: bool = False, **known: Any) -> dict[int, Any]:
            rows = version % COPIES, (version + 1) % COPIES
            known = {"counts": spread.counts, **known}
            return self._asked({
                shard: StepParts(spread.places, stretches, stages, step, rows, spread.side, spread.rule, **known)
                for shard, stretches in (self._pieces if pieces else self._stretches).items()
            }, version)  # fmt: skip

        if step.local_steps:
            ask("gather")
            return
        known: dict[str, Any] = {}
        if step.clip:
            peak = _largest(ask("gather"))
            factor = shortening(step.clip, peak, self._in_order(ask("square", pieces=True, peak=peak))) if peak else 0.0
            known = {"peak": peak, "factor": factor}
        gather = () if step.clip else ("gather",)
        if spread.rule.needs_peak:
            known["largest"] = _largest(ask(*gather, "look", **known))
            ask("move", **known, counts=counted_on(spread.rule, spread.counts))
        else:
            ask(*gather, "step", **known)

    def _asked(self, requests: dict[int, StepParts], version: int) -> dict[int, Any]:
        if OWN in requests:
            return {OWN: self._worker.handle(requests[OWN])}
        assert self._helpers is not None
        reports = self._distant.ask(requests, version) if self._distant else self._helpers.ask(requests)
        if len(reports) < len(requests):
            raise _ShardLost
        return reports

    def _in_order(self, squares: dict[int, list[float]]) -> list[float]:
        """Of all pieces, in their order, whoever has them."""
        found = (zip(self._numbers[shard], values, strict=True) for shard, values in squares.items())
        return [value for _, value in sorted(itertools.chain.from_iterable(found))]

    # ---------------------------------------------------------------- memory that shards see

    def _spread_out(self) -> _Spread:
        """Put what the rule remembers where shards see it; the weights are on the board already."""
        rule, board = self.rule, self._board.places
        assert isinstance(rule, PartwiseRule)
        width, memory, shared = len(self.w), {}, []
        allocate = self._engine.allocate if self._engine.maps else own_memory
        place, gradient = allocate((width,), np.float64)
        self._board.lend(self._worker)
        self._worker.hold(place, gradient)
        for name in vectors_of(rule):
            there, memory[name] = allocate((2, width), rule.memory[name].dtype)
            memory[name][0] = rule.memory[name]
            self._worker.hold(there, memory[name])
            shared.append((name, there))
        counts = {name: array for name, array in rule.memory.items() if name not in memory}
        places = StepMemory(board.weights, board.slots, place, tuple(shared))
        self._spread = _Spread(places, memory, gradient, rule.of_width(0), counts)
        rule.memory = {}  # it is elsewhere now, and may be large
        return self._spread

    def _collect(self) -> None:
        """Bring all back into this process."""
        if (spread := self._spread) is None:
            return
        self.w, self.gradient = self.w.copy(), self.gradient.copy()
        self.rule.memory = self._remembered(spread)
        self._spread = None
        for shared in spread.shared:
            self._worker.drop(shared.key)
            self._engine.release(shared)

    def _remembered(self, spread: _Spread) -> dict[str, NDArray[Any]]:
        return {**spread.counts, **{name: array[spread.side].copy() for name, array in spread.memory.items()}}

    def begin(self, rule: StepRule) -> None:
        self._collect()
        super().begin(rule)

    def put(self, w: Array) -> None:
        self._collect()
        super().put(w)

    def forget(self) -> None:
        self._collect()
        super().forget()

    def publish(self, version: int) -> None:
        if self._spread is not None:
            self._board.announce(version)  # the shards have written it
        else:
            super().publish(version)

    def counts(self) -> dict[str, NDArray[Any]]:
        """Of `state`, what is of the vector as a whole: all that is left where shards have kept the rest."""
        return {f"rule.{name}": array for name, array in self._spread.counts.items()} if self._spread else {}

    def state(self) -> dict[str, NDArray[Any]]:
        if (spread := self._spread) is None:
            return super().state()
        remembered = {f"rule.{name}": array for name, array in self._remembered(spread).items()}
        return {**remembered, "weights": self.w.copy()}

    def release(self) -> None:
        self._collect()
        self._worker = Worker()
        if self._helpers is not None:
            self._helpers.close()


class _ShardLost(Exception):
    """Not all stretches of a stage were done."""


def _largest(reports: dict[int, float]) -> float:
    """Or NaN, where one is."""
    return float(np.max(list(reports.values()), initial=0.0))


def _line(shard: int, pid: int | None, parameters: int, pieces: int, state: str) -> dict[str, Any]:
    return {"shard": shard, "pid": pid, "parameters": parameters, "pieces": pieces, "state": state}
