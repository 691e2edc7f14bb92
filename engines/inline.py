"""The engine without processes: for small data, and the double of the others in tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy.typing as npt

from engines.base import Engine, WorkerEvent, laid_out
from errors import EngineError
from worker import Request, SharedArray, Worker, plain_error


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
