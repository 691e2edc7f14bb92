"""A worker's end where gradients are summed by the workers: it keeps those that it has computed, and when all are done
adds up one stretch of the vector, of all shards in their order. So a sum has the bits of the server's own, whoever
computed what and however many they are.

An all-reduce is a reduce-scatter and an all-gather. The first half is made here; in place of the second the stretches
of the sum lie in memory that all map, where the server takes its step once, and all read the weights that come of it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.passes.board import Exchange, MappedBoard, MappedExchange, Slot
from shoal.steps.grouped import Call
from shoal.worker import Worker

if TYPE_CHECKING:
    from shoal.allreduce.gloo import GlooGroup

TOTAL = 0  # the slot that the sum is put into; the others are not used


class AddUp(NamedTuple):
    """To a worker: its place among the members of a call, and the file by which a new group is formed."""

    call: Call
    place: int
    file: str


class StretchAdded(NamedTuple):
    """To the server: whether this worker's stretch of the sum is where it belongs, or why not."""

    done: bool
    seconds: float
    nbytes: int  # that were sent to others
    why: str = ""


@dataclass(frozen=True)
class GroupBoard(MappedBoard):
    """Weights come by the memory that all map, gradients stay with whoever computed them."""

    def joined_by(self, worker: Worker) -> Exchange:
        return _GroupExchange(*(worker.array(shared) for shared in vars(self).values()))


class _GroupExchange(MappedExchange):
    def __init__(self, weights: Array, version: npt.NDArray[np.int64], slots: Slot, residuals: Array) -> None:
        super().__init__(weights, version, slots, residuals)
        self._width = weights.shape[1]
        self._total: Array = slots[TOTAL].view(np.float64)[: self._width]
        self._own: dict[int, Slot] = {}  # gradients by their shards
        self._group: tuple[int, GlooGroup] | None = None  # with its generation
        importlib.import_module("shoal.allreduce.gloo")  # now, and not while others wait: PyTorch takes seconds

    def slot(self, shard: int) -> Slot:
        if shard not in self._own:
            self._own[shard] = np.empty(8 * self._width + 8, np.uint8)
        return self._own[shard]

    def seal(self, update: Any) -> Any:
        """Nothing of it was sent to anybody so far."""
        return replace(update, parts=tuple((*part[:-1], 0) for part in update.parts))

    def carry(self, work: Any, done: Callable[[Any], Any]) -> Any:
        return self._added(work) if isinstance(work, AddUp) else super().carry(work, done)

    def _added(self, work: AddUp) -> StretchAdded:
        started = time.perf_counter()
        try:
            sent = self._add_up(work)
        except (RuntimeError, OSError) as error:  # the first of PyTorch, for all that can happen to a connection
            self._group = None
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            return StretchAdded(False, time.perf_counter() - started, 0, why)
        return StretchAdded(True, time.perf_counter() - started, sent)

    def _add_up(self, work: AddUp) -> int:
        holders = [shards for _, shards in work.call.holders]
        mine = [self._own[shard].view(np.float64)[: self._width] for shard in holders[work.place]]
        ends = [self._width * place // len(holders) for place in range(len(holders) + 1)]
        begin, end = ends[work.place], ends[work.place + 1]
        rows: Array
        if len(holders) == 1:
            rows, sent = np.stack(mine), 0
        else:
            rows = self._exchanged(work, mine, ends)
            sent = 8 * len(mine) * (self._width - (end - begin))
        order = np.argsort([shard for shards in holders for shard in shards])
        self._total[begin:end] = np.add.reduce(rows[order], axis=0)
        return sent

    def _exchanged(self, work: AddUp, mine: Sequence[Array], ends: list[int]) -> Array:
        """Our stretch of all gradients, as the members have them one after the other."""
        import torch  # here: whoever only unpacks a board needs no PyTorch

        own = torch.from_numpy(np.stack(mine) if mine else np.empty((0, self._width)))
        parts = [own[:, begin:end] for begin, end in pairwise(ends)]
        counts = [len(shards) for _, shards in work.call.holders]
        rows: Array = self._formed(work).exchanged(parts, counts, work.call.patience).numpy()
        return rows

    def _formed(self, work: AddUp) -> GlooGroup:
        from shoal.allreduce.gloo import GlooGroup

        if self._group is None or self._group[0] != work.call.generation:
            self._group = None  # first, so that its connections are closed
            members = len(work.call.holders)
            self._group = work.call.generation, GlooGroup(work.file, work.place, members, work.call.patience)
        return self._group[1]
