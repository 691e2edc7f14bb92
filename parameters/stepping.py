"""One step of the flat vector, as a whole or in stretches of it; who takes which stretch is not known here."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.lazy.classes import dataclass
from shoal.models import Array, Penalty
from shoal.passes.board import Slot
from shoal.steps.clipping import peak_of, shortened, squares_of
from shoal.steps.compression import Compression
from shoal.steps.optimizers import PartwiseRule, unbounded
from shoal.worker import SharedArray, Worker

STRETCH = 65_536  # numbers that are stepped at a time: what is computed on the way stays in the cache


class VectorStep(NamedTuple):
    """What becomes of some updates, whoever applies them."""

    shards: tuple[int, ...]  # of rows: whose slots have the updates, in their order
    encodings: tuple[Compression, ...]
    rows: tuple[int, ...]  # behind each of them
    rate: float
    local_steps: int  # of updates that are moves, not gradients: how many steps they are of; else 0
    clip: float
    penalty: Penalty
    shrink: float = 0.0  # of moves that leave the penalty to the server: the step that it takes of it

    @property
    def factors(self) -> tuple[int, ...] | None:
        """What each update counts for in their sum: a move as its rows, a gradient, which is a sum itself, as it is."""
        return self.rows if self.local_steps else None

    @property
    def total_rows(self) -> int:
        return max(sum(self.rows), 1)

    def total(self, updates: Array) -> Array:
        """The sum of updates (tasks, p) in their order: whoever computed them, it has the same bits."""
        if self.local_steps:
            updates = updates * np.array([[rows] for rows in self.rows])
        total: Array = np.add.reduce(updates, axis=0)
        return total

    def gradient(self, total: Array) -> Array:
        """The mean gradient, or what plain steps of that length would have had for one."""
        if not self.local_steps:
            return total / self.total_rows
        rows = sum(self.rows)
        return -total / (rows * self.rate * self.local_steps) if rows else total


def steps_of(rows: Sequence[int], full: Sequence[int]) -> float:
    """How many full steps moves of so many rows each have taken, by what they count for in their mean; `full`: the rows
    of one. It is how far the penalty has to go where moves left it out."""
    taken = sum(own * own / max(step, 1) for own, step in zip(rows, full, strict=True))
    return taken / max(sum(rows), 1)


@dataclass(frozen=True)
class StepMemory:
    """Memory that server and parameter shards see: (COPIES, p) weights, the slots of updates, the gradient (p,), and
    (2, p) of each vector that the rule remembers: a step reads one side and writes the other, and the server turns the
    page when all shards are done. So a shard that is killed spoils nothing, and its part is stepped again."""

    weights: SharedArray
    slots: SharedArray
    gradient: SharedArray
    memory: tuple[tuple[str, SharedArray], ...]


@dataclass(frozen=True)
class StepParts:
    """The request to take some stages of a step in some stretches of the vector."""

    places: StepMemory
    stretches: NDArray[np.int64]  # (n, 2): begin and end
    stages: tuple[str, ...]  # methods of `_Stretches`; what is told is what the last one tells
    step: VectorStep
    rows: tuple[int, int]  # of the weights: read, written
    side: int  # of the memory that is read
    rule: PartwiseRule  # before its first step
    counts: Mapping[str, NDArray[Any]]  # what it remembers of the vector as a whole, as the first stage needs it
    peak: float = 0.0  # of all gradients
    factor: float = 0.0  # by which they are shortened
    largest: float = 0.0  # of what the rule told

    @unbounded
    def answer(self, worker: Worker) -> Any:
        taken = _Stretches(self, worker)
        told: Any = None
        for stage in self.stages:
            told = getattr(taken, stage)()
        return told


class _Stretches:
    """Each method is a stage and tells one thing of all stretches."""

    def __init__(self, request: StepParts, worker: Worker) -> None:
        self._request, self._step = request, request.step
        places = request.places
        self._slots: Slot = worker.array(places.slots)
        weights = worker.array(places.weights)
        self._old, self._new = (weights[row] for row in request.rows)
        self._gradient = worker.array(places.gradient)
        self._memory = {name: worker.array(shared) for name, shared in places.memory}
        self._stretches = [(int(begin), int(end)) for begin, end in request.stretches]

    def gather(self) -> float:
        """The gradient from the slots; the largest of it in size."""
        step, peaks = self._step, [0.0]
        plain = all(encoding.name == "none" for encoding in step.encodings)
        if plain:
            whole = self._slots.view(np.float64)
        else:
            decoded = zip(step.shards, step.encodings, strict=True)
            whole = np.stack([encoding.decode(self._slots[shard]) for shard, encoding in decoded])
        shards: Sequence[int] = step.shards if plain else range(len(step.shards))
        for begin, end in self._stretches:
            total = step.total(whole[list(shards), begin:end])
            self._gradient[begin:end] = step.gradient(total)
            if step.local_steps:
                self._new[begin:end] = self._old[begin:end] + total / step.total_rows
            elif step.clip:
                peaks.append(peak_of(self._gradient[begin:end]))
        return float(np.max(peaks))

    def square(self) -> list[float]:
        """The squares of each stretch, which have to be pieces for that."""
        return [squares_of(self._gradient[begin:end], self._request.peak) for begin, end in self._stretches]

    def look(self) -> float:
        """What the rule has to tell of the gradients."""
        peaks = [0.0]
        for begin, end in self._stretches:
            rule = self._rule(begin, end, self._request.side)
            peaks.append(rule.look(self._shortened(begin, end)))
            self._keep(rule, begin, end)
        return float(np.max(peaks))

    def move(self) -> None:
        """The weights, after `look`."""
        for begin, end in self._stretches:
            self._move(self._rule(begin, end, 1 - self._request.side), begin, end)

    def step(self) -> None:
        """`look` and `move` at once, for rules that need to know nothing of others in between."""
        for begin, end in self._stretches:
            rule = self._rule(begin, end, self._request.side)
            rule.look(self._shortened(begin, end))
            self._move(rule, begin, end)

    def _move(self, rule: PartwiseRule, begin: int, end: int) -> None:
        request, gradient = self._request, self._shortened(begin, end)
        w = rule.move(self._old[begin:end], gradient, request.step.rate, request.step.penalty.prox, request.largest)
        self._new[begin:end] = w
        self._keep(rule, begin, end)

    def _shortened(self, begin: int, end: int) -> Array:
        return shortened(self._gradient[begin:end], self._request.peak, self._request.factor)

    def _rule(self, begin: int, end: int, side: int) -> PartwiseRule:
        """The rule with its memory of a stretch; not by `of_width`, which would make a blank one first."""
        rule = copy.copy(self._request.rule)
        vectors = {name: array[side, begin:end] for name, array in self._memory.items()}
        rule.width, rule.memory = end - begin, {**self._request.counts, **vectors}
        return rule

    def _keep(self, rule: PartwiseRule, begin: int, end: int) -> None:
        for name, array in self._memory.items():
            place = array[1 - self._request.side, begin:end]
            if not np.may_share_memory(place, rule.memory[name]):  # else it is where it belongs
                place[:] = rule.memory[name]


def counted_on(rule: PartwiseRule, counts: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What a rule remembers of the vector as a whole, after one more look."""
    alone = rule.of_width(0)
    alone.memory = {**alone.memory, **counts}
    alone.look(np.zeros(0))
    return {name: alone.memory[name] for name in counts}


def vectors_of(rule: PartwiseRule) -> tuple[str, ...]:
    """The names of what a rule remembers of each coordinate; all else is of the vector as a whole."""
    one, two = rule.of_width(1).memory, rule.of_width(2).memory
    return tuple(name for name in one if one[name].shape != two[name].shape)


def stretches_of(pieces: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Rising (begin, end) of pieces, joined where they meet, and no longer than what fits the cache."""
    joined: list[list[int]] = []
    for begin, end in pieces:
        if joined and joined[-1][1] == begin and end - joined[-1][0] <= STRETCH:
            joined[-1][1] = end
        else:
            joined.append([begin, end])
    return np.array(joined, np.int64).reshape(-1, 2)
