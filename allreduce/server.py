"""A parameter server whose workers add gradients up: it says when, makes the step of their sum, and goes on without
those that are lost."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shoal.allreduce.summing import TOTAL, AddUp, GroupBoard, StretchAdded
from shoal.coordinator import ParameterServer
from shoal.engines.base import Engine, Instruction, Send
from shoal.errors import EngineError, Remedy
from shoal.models import Array
from shoal.parameters.stepping import VectorStep
from shoal.passes.board import MappedBoard, ServerBoard
from shoal.passes.gradient_loop import Part
from shoal.settings.checks import check_aggregation
from shoal.settings.config import RunConfig
from shoal.steps.compression import make_compression
from shoal.steps.grouped import TRIES, Call, GroupBarrier
from shoal.steps.policy import Task


def server_for(config: RunConfig, folder: Path) -> Callable[..., ParameterServer]:
    """What makes the server that the config asks for; `folder` is where its workers may find each other."""
    if config.aggregation == "server":
        return ParameterServer
    check_aggregation(config)
    return partial(GroupServer, folder=folder)


class GroupServer(ParameterServer):
    """In phases of a `GroupBarrier`; gradients of one network, not compressed."""

    def __init__(self, *arguments: Any, folder: Path) -> None:
        """`folder` is where workers find each other; it is there while the server is."""
        super().__init__(*arguments)
        self._plain = make_compression("none", len(self.w), 1.0)
        self._folder = folder
        self._called = 0.0
        shutil.rmtree(folder, ignore_errors=True)  # of a process before this one

    def _make_board(self, engine: Engine, shards: int, width: int, centre: Array | None) -> ServerBoard:
        board = ServerBoard(engine.allocate, shards, width, centre)
        assert isinstance(board.shared, MappedBoard)
        board.shared = GroupBoard(**vars(board.shared))
        return board

    def release(self) -> None:
        super().release()
        shutil.rmtree(self._folder, ignore_errors=True)

    def pushed(self, rank: int, update: Any, now: float) -> list[Instruction]:
        if not isinstance(update, StretchAdded):
            return super().pushed(rank, update, now)
        assert isinstance(self.policy, GroupBarrier)
        self._tally.bytes_sent += update.nbytes
        if rank in self.workers:
            self.workers[rank].busy += update.seconds
        if self.policy.added(rank, update.done, now):
            self._tally.apply += time.perf_counter() - self._called
        self._look_at(self.policy, update.why)
        self._make_steps(now)
        return self._instructions(now)

    def _look_at(self, policy: GroupBarrier, why: str) -> None:
        if not why:
            return
        self._observer.happened("warning", f"A sum of gradients was not made and is made again: {why}.", cause=why)
        if policy.failures >= TRIES:
            raise EngineError(
                f"Workers could not add up their gradients {TRIES} times in a row; the last time: {why}.",
                Remedy.set("Let the server add them up", "aggregation", "server"),
            )

    def _instructions(self, now: float) -> list[Instruction]:
        orders = super()._instructions(now)
        if self.finished or not isinstance(self.policy, GroupBarrier):
            return orders
        call = self.policy.called(now)
        return orders if call is None else [*orders, *self._calls(call)]

    def _calls(self, call: Call) -> list[Instruction]:
        self._called = time.perf_counter()
        file = self._file(call.generation)
        return [Send(rank, AddUp(call, place, file)) for place, (rank, _) in enumerate(call.holders)]

    def _file(self, generation: int) -> str:
        """One for each generation; those of others are of no use to anybody."""
        file = self._folder / str(generation)
        if not file.exists():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for other in self._folder.iterdir():
                with contextlib.suppress(OSError):
                    other.unlink()
        return str(file)

    def _vector_step(self, tasks: Sequence[Task], parts: Sequence[Part], rate: float) -> VectorStep:
        """Of the sum, in the place of its terms."""
        self._board.take(tasks)
        rows, knobs = sum(part.rows for part in parts), self.steering
        return VectorStep((TOTAL,), (self._plain,), (rows,), rate, 0, knobs.clip, self.model.penalty)
