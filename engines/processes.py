"""The engine of one machine: a process per worker, arrays through anonymous memory; no policy of training."""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.engines.base import Helpers, WorkerEvent, laid_out
from shoal.engines.crewed import CrewEngine
from shoal.engines.helping import CrewHelpers
from shoal.engines.worker_process import ProcessCrew, WorkerProcess
from shoal.utils import anonymous_file, write_at
from shoal.worker import SharedArray

HELPING = 3.0  # seconds in which a helper that is asked may do nothing; one that works may take any time


class ProcessEngine(CrewEngine):
    """Worker processes on this machine.

    `preload`: modules that requests come from, imported while the coordinator is still preparing them. `forks`: this is
    a process of ours, and workers may be forks of it, made within that when they are first needed; see `forking`.
    """

    def __init__(
        self,
        workers: int,
        on_event: Callable[[WorkerEvent], None] | None = None,
        restarts: int = 3,
        preload: Sequence[str] = (),
        forks: Callable[[], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._shared: dict[int, tuple[SharedArray, int]] = {}

        def crew(emit: Callable[[WorkerEvent], None]) -> ProcessCrew:
            made = ProcessCrew(emit, preload, forks=forks)
            self._shared = made.shared
            return made

        super().__init__(workers, on_event, restarts, crew)
        self._keys = itertools.count()

    def share(self, array: npt.NDArray[Any]) -> SharedArray:
        self._check_open()
        shared, whole = laid_out(array, next(self._keys))
        flat = whole.reshape(-1, order="F" if shared.fortran else "C").view(np.uint8)
        descriptor = anonymous_file(shared.nbytes)
        self._shared[shared.key] = shared, descriptor
        write_at(descriptor, flat.data, 0)
        return shared

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> tuple[SharedArray, npt.NDArray[Any]]:
        self._check_open()
        shared = SharedArray(next(self._keys), shape, np.dtype(dtype), writable=True)
        descriptor = anonymous_file(max(1, shared.nbytes))
        self._shared[shared.key] = shared, descriptor
        memory = mmap.mmap(descriptor, max(1, shared.nbytes))
        return shared, np.frombuffer(memory, shared.dtype, int(np.prod(shape, dtype=np.int64))).reshape(shape)

    def helpers(self, preload: Sequence[str]) -> Helpers:
        self._check_open()
        crew = ProcessCrew(lambda event: None, preload, self._shared)
        crew.lease = HELPING
        return CrewHelpers(crew)

    def works(self, rank: int) -> bool:
        member = self._crew.members.get(rank)
        return isinstance(member, WorkerProcess) and member.pulse.beats()

    def release(self, shared: SharedArray) -> None:
        _, descriptor = self._shared.pop(shared.key, (None, None))
        if descriptor is not None:
            os.close(descriptor)
