"""The engine without processes: for small data, and the double of the others in tests."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.engines.base import Engine, Instruction, Send, Server, WorkerEvent, laid_out
from shoal.errors import EngineError
from shoal.utils import plain_error
from shoal.worker import Request, SharedArray, Worker


class _InlineStore:
    """The parameter server in the same thread: a push is a call, and the next work is among what it returns."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def join(self) -> Any:
        return self._work(self._server.joined(0, os.getpid(), time.monotonic()))

    def push_pull(self, update: Any) -> Any:
        now = time.monotonic()
        return self._work([*self._server.pushed(0, update, now), *self._server.digest(now)])

    def _work(self, instructions: Sequence[Instruction]) -> Any:
        """The work; while there is none (the run is paused), the server is asked again and again."""
        while True:
            instructions = [*instructions, *self._server.tick(time.monotonic())]
            for instruction in instructions:
                if isinstance(instruction, Send):
                    return instruction.work
            if self._server.finished:
                return None
            time.sleep(self._server.patience)
            instructions = []


class InlineEngine(Engine):
    """One worker, in this process and this thread."""

    def __init__(self, on_event: Callable[[WorkerEvent], None] | None = None) -> None:
        super().__init__(1, on_event)
        self._worker: Worker | None = Worker()
        self._keys = itertools.count()
        self._emit(WorkerEvent("started", 0, os.getpid()))

    def sweep(self, requests: Iterable[Request]) -> Iterator[Any]:
        for request in requests:
            try:
                report = self._alive().handle(request)
            except Exception as error:
                plain = plain_error(request, error)
                if plain is error:
                    raise
                raise plain from error
            yield report

    def share(self, array: npt.NDArray[Any]) -> SharedArray:
        shared, whole = laid_out(array, next(self._keys))
        view = whole.view()
        view.flags.writeable = False
        self._alive().hold(shared, view)
        return shared

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> tuple[SharedArray, npt.NDArray[Any]]:
        array = np.zeros(shape, dtype)
        shared = SharedArray(next(self._keys), shape, array.dtype, writable=True)
        self._alive().hold(shared, array)
        return shared, array

    @property
    def elastic(self) -> bool:
        return False

    def run_workers(self, loop: Request, server: Server) -> None:
        worker = self._alive().serving(_InlineStore(server))
        try:
            worker.handle(loop)
        except Exception as error:
            plain = plain_error(loop, error)
            if plain is error:
                raise
            raise plain from error

    def release(self, shared: SharedArray) -> None:
        if self._worker is not None:
            self._worker.drop(shared.key)

    def close(self) -> None:
        if self._worker is not None:
            self._worker = None
            self._emit(WorkerEvent("stopped", 0, os.getpid()))

    def _alive(self) -> Worker:
        if self._worker is None:
            raise EngineError("This engine is closed. Open a new one.")
        return self._worker
