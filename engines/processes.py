"""The engine of one machine: a process per worker, arrays through anonymous memory; no policy of training."""

from __future__ import annotations

import itertools
import mmap
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.engines.base import Engine, Ledger, Server, WorkerEvent, laid_out
from shoal.engines.crew import Crew, WorkerProcess
from shoal.engines.rounds import Training
from shoal.errors import ConfigError, EngineError
from shoal.utils import anonymous_file, plain_error, write_at
from shoal.worker import Request, SharedArray, pack, unpack


class ProcessEngine(Engine):
    """Worker processes on this machine; a lost one is replaced and its request redone by whoever is idle.

    A worker may be replaced `restarts` times in a row: the count begins anew when it answers and when
    a sweep begins, so that a long run survives any number of losses as long as it makes progress.
    `preload`: modules that requests come from, imported while the coordinator is still preparing them.
    """

    LOOK = 1.0  # seconds between two looks for hung workers
    LEASE = 60.0  # seconds in which a worker that has a request may do nothing; one that works may take any time

    def __init__(
        self,
        workers: int,
        on_event: Callable[[WorkerEvent], None] | None = None,
        restarts: int = 3,
        preload: Sequence[str] = (),
    ) -> None:
        if workers < 1:
            raise ConfigError(f"workers must be 1 or more, not {workers}.")
        super().__init__(workers, on_event)
        self._restarts = restarts
        self._used: defaultdict[int, int] = defaultdict(int)  # restarts in a row
        self._crew = Crew(self._emit, preload)
        self._keys = itertools.count()
        self._closed = False
        for rank in range(workers):
            self._crew.hire(rank, replaces=False)

    @property
    def pids(self) -> dict[int, int]:
        """The process number of each worker that lives, by rank."""
        return {rank: member.process.pid for rank, member in sorted(self._crew.members.items())}

    def sweep(self, requests: Iterable[Request]) -> Iterator[Any]:
        self._check_open()
        self._renew()
        ledger = Ledger(requests, window=2 * self.workers + 2)
        try:
            while not ledger.finished():
                self._check_open()
                self._listen(wait=not ledger.due() and not self._dispatch(ledger))
                self._dispatch(ledger)  # everyone is busy while the consumer looks at its report
                if ledger.due():
                    yield ledger.collect()
        finally:
            ledger.close()

    def share(self, array: npt.NDArray[Any]) -> SharedArray:
        self._check_open()
        shared, whole = laid_out(array, next(self._keys))
        flat = whole.reshape(-1, order="F" if shared.fortran else "C").view(np.uint8)
        descriptor = anonymous_file(shared.nbytes)
        self._crew.shared[shared.key] = shared, descriptor
        write_at(descriptor, flat.data, 0)
        return shared

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> tuple[SharedArray, npt.NDArray[Any]]:
        self._check_open()
        shared = SharedArray(next(self._keys), shape, np.dtype(dtype), writable=True)
        descriptor = anonymous_file(max(1, shared.nbytes))
        self._crew.shared[shared.key] = shared, descriptor
        memory = mmap.mmap(descriptor, max(1, shared.nbytes))
        return shared, np.frombuffer(memory, shared.dtype, int(np.prod(shape, dtype=np.int64))).reshape(shape)

    @property
    def elastic(self) -> bool:
        return True

    def run_workers(self, loop: Request, server: Server) -> None:
        self._check_open()
        self._renew()
        Training(self._crew, loop, server).run()

    def release(self, shared: SharedArray) -> None:
        _, descriptor = self._crew.shared.pop(shared.key, (None, None))
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._crew.close()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("This engine is closed. Open a new one.")

    def _renew(self) -> None:
        """Begin a sweep with a full crew and a full budget of restarts."""
        self._used.clear()
        for rank in range(self.workers):
            if rank not in self._crew.members:
                self._crew.hire(rank, replaces=True)

    def _dispatch(self, ledger: Ledger) -> bool:
        """Give every idle worker a request; whether anything happened that may have changed the ledger."""
        moved = False
        for member in list(self._crew.members.values()):
            if member.ready and member.job is None and (job := ledger.take()) is not None:
                self._ask(member, ledger, *job)
                moved = True
        return moved

    def _ask(self, member: WorkerProcess, ledger: Ledger, index: int, request: Request) -> None:
        try:
            parts = pack(request)
        except Exception as error:  # noqa: BLE001 - pickling runs the request's own code
            ledger.settle(index, error=plain_error(request, error))
            return
        try:
            member.send(parts, self._crew.shared)
        except ConnectionError:
            ledger.give_back(index)
            self._lose(member)
        except BaseException as error:  # half a message may be out: the channel cannot be trusted any more
            member.process.kill()
            self._lose(member)
            if not isinstance(error, OSError):
                raise
            ledger.settle(index, error=plain_error(request, error))
        else:
            member.job, member.silent = (ledger, index), 0.0

    def _listen(self, *, wait: bool) -> None:
        """Take in what workers have sent, waiting for the first message where told to."""
        if wait and not self._crew.members:
            raise self._nobody_left()
        heard = self._crew.selector.select(self.LOOK if wait else 0)
        for key, _ in heard:
            self._hear(key.data)
        if wait and not heard:
            self._end_hung()

    def _end_hung(self) -> None:
        """Kill workers that have a request and have done nothing for a lease: they hang.

        Looks are counted, not the clock: while this process itself is held up, nobody is judged.
        """
        for member in list(self._crew.members.values()):
            if member.job is None:
                continue
            member.silent = 0.0 if member.pulse.beats() else member.silent + self.LOOK
            if member.silent >= self.LEASE:
                member.verdict = f"it did nothing for {self.LEASE:g} seconds and was ended"
                member.process.kill()
                self._lose(member)

    def _hear(self, member: WorkerProcess) -> None:
        try:
            parts = member.channel.receive()
        except (EOFError, ConnectionError):
            self._lose(member)
        except BaseException:  # half a message is in
            member.process.kill()
            self._lose(member)
            raise
        else:
            self._take_in(member, parts)

    def _take_in(self, member: WorkerProcess, parts: list[memoryview]) -> None:
        if member.job is None:
            self._crew.welcome(member)
            return
        (ledger, index), member.job = member.job, None
        self._used[member.rank] = 0
        try:
            reply = unpack(parts)
        except Exception as error:  # noqa: BLE001 - unpickling runs the report's own code
            ledger.settle(index, error=plain_error(parts, error))
        else:
            ledger.settle(index, reply.report, reply.error)

    def _lose(self, member: WorkerProcess) -> None:
        """Account for a worker that is gone, then replace it while the budget lasts."""
        failure = self._crew.lose(member)
        if member.job is not None:
            ledger, index = member.job
            ledger.lose(index, failure)
        if self._used[member.rank] < self._restarts:
            self._used[member.rank] += 1
            self._crew.hire(member.rank, replaces=True)

    def _nobody_left(self) -> EngineError:
        cause = self._crew.last_failure.cause if self._crew.last_failure else "none was started"
        error = EngineError(
            f"No worker is left: each was replaced {self._restarts} times and lost again. The last one was "
            f"lost because: {cause}"
        )
        error.__cause__ = self._crew.last_failure
        return error
