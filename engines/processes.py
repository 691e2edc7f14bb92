"""The engine of one machine: a process per worker, arrays through anonymous memory; no policy of training."""

from __future__ import annotations

import itertools
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import worker as worker_module
from engines.base import Engine, Ledger, WorkerEvent, laid_out
from errors import ConfigError, EngineError, WorkerFailed
from utils import THREAD_LIMITS, anonymous_file, write_at
from worker import Channel, Drop, Hold, Parts, Request, SharedArray, pack, plain_error, unpack


class WorkerProcess:
    """One child process, the channel to it, and what it is doing."""

    TAIL = 2000  # bytes of the start-up log that a message shows
    PATIENCE = 5.0  # seconds for a process that hung up to be gone by itself, so that its own status is seen

    def __init__(self, rank: int, lifeline: int, *, replaces: bool, preload: Sequence[str] = ()) -> None:
        self.rank = rank
        self.replaces = replaces
        self.ready = False
        self.job: tuple[Ledger, int] | None = None
        self.holds: set[int] = set()
        with ExitStack() as on_failure:
            ours, theirs = socket.socketpair()
            on_failure.callback(ours.close)
            with theirs:
                inbox, outbox, self._log = (_file(on_failure) for _ in range(3))
                self.process = _start(rank, (theirs.fileno(), outbox, inbox, lifeline), self._log, preload)
            on_failure.pop_all()
        self.channel = Channel(ours, inbox, outbox)

    def send(self, request: Parts, live: dict[int, tuple[SharedArray, int]]) -> None:
        """The request, and before it what has changed among the shared arrays since the last one."""
        for key in self.holds - live.keys():
            self.channel.send(pack(Drop(key)))
        for key in live.keys() - self.holds:
            shared, descriptor = live[key]
            self.channel.send(pack(Hold(shared)), [descriptor])
        self.holds = set(live)
        self.channel.send(request)

    def bury(self, patience: float = PATIENCE) -> WorkerFailed:
        """Make sure that the process is gone, free what belonged to it, and say how it ended."""
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        cause = _cause(code) + ("" if self.ready else f" before it was ready{self._last_words()}")
        self.channel.close()
        os.close(self._log)
        return WorkerFailed(self.rank, cause, -code if code < 0 else None)

    def _last_words(self) -> str:
        size = os.fstat(self._log).st_size
        text = os.pread(self._log, self.TAIL, max(0, size - self.TAIL)).decode(errors="replace").strip()
        return f", saying:\n{text}" if text else ""


def _file(on_failure: ExitStack) -> int:
    descriptor = anonymous_file()
    on_failure.callback(os.close, descriptor)
    return descriptor


def _start(rank: int, descriptors: tuple[int, ...], log: int, preload: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `python -m worker`: unlike `multiprocessing`, this never runs the caller's `__main__` again."""
    stderr = _standard_error()
    try:
        arguments = [rank, os.getpid(), *descriptors, stderr]
        return subprocess.Popen(
            # -P: a worker.py that lies in the current directory is not ours.
            [sys.executable, "-P", "-m", worker_module.__name__, *map(str, arguments), *preload],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(*descriptors, stderr),
            env=os.environ | THREAD_LIMITS | {"PYTHONPATH": _import_path()},
            # Signals of the terminal are for the coordinator alone; the lifeline ends the worker with it.
            start_new_session=True,
        )
    finally:
        os.close(stderr)


def _standard_error() -> int:
    try:
        return os.dup(2)
    except OSError:  # a daemon may have closed it
        return os.open(os.devnull, os.O_WRONLY)


def _import_path() -> str:
    """Our own directory, then all that this process can import from: requests may be defined anywhere."""
    home = str(Path(worker_module.__file__).resolve().parent)
    return os.pathsep.join([home, *(os.path.abspath(entry) for entry in sys.path)])


def _cause(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    guess = ", possibly out of memory" if -code == signal.SIGKILL else ""
    return f"killed by signal {-code} ({name}){guess}"


class ProcessEngine(Engine):
    """Worker processes on this machine; a lost one is replaced and its request redone by whoever is idle.

    A worker may be replaced `restarts` times in a row: the count begins anew when it answers and when
    a sweep begins, so that a long run survives any number of losses as long as it makes progress.
    `preload`: modules that requests come from, imported while the coordinator is still preparing them.
    """

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
        self._preload = preload
        self._used = [0] * workers  # restarts in a row
        self._crew: dict[int, WorkerProcess] = {}
        self._shared: dict[int, tuple[SharedArray, int]] = {}
        self._keys = itertools.count()
        self._last_failure: WorkerFailed | None = None
        self._closed = False
        self._selector = selectors.DefaultSelector()
        # Only this process has the write end: its end, however it comes, is end-of-file for every worker.
        self._lifeline, self._lifeline_held = os.pipe()
        for rank in range(workers):
            self._hire(rank, replaces=False)

    @property
    def pids(self) -> dict[int, int]:
        """The process number of each worker that lives, by rank."""
        return {rank: member.process.pid for rank, member in sorted(self._crew.items())}

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
        self._shared[shared.key] = shared, descriptor
        write_at(descriptor, flat.data, 0)
        return shared

    def release(self, shared: SharedArray) -> None:
        _, descriptor = self._shared.pop(shared.key, (None, None))
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        os.close(self._lifeline_held)
        os.close(self._lifeline)
        self._selector.close()
        crew, self._crew = self._crew, {}
        for member in crew.values():
            member.bury(patience=0)  # it holds nothing that matters
        for shared, _ in list(self._shared.values()):
            self.release(shared)
        for member in filter(lambda member: member.ready, crew.values()):
            self._emit(WorkerEvent("stopped", member.rank, member.process.pid))

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("This engine is closed. Open a new one.")

    def _renew(self) -> None:
        """Begin a sweep with a full crew and a full budget of restarts."""
        self._used = [0] * self.workers
        for rank in range(self.workers):
            if rank not in self._crew:
                self._hire(rank, replaces=True)

    def _hire(self, rank: int, *, replaces: bool) -> None:
        try:
            member = WorkerProcess(rank, self._lifeline, replaces=replaces, preload=self._preload)
        except OSError as error:  # no more processes or descriptors: the others may still do the work
            self._last_failure = WorkerFailed(rank, f"could not be started: {error}")
            return
        self._crew[rank] = member
        self._selector.register(member.channel, selectors.EVENT_READ, member)

    def _dispatch(self, ledger: Ledger) -> bool:
        """Give every idle worker a request; whether anything happened that may have changed the ledger."""
        moved = False
        for member in list(self._crew.values()):
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
            member.send(parts, self._shared)
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
            member.job = ledger, index

    def _listen(self, *, wait: bool) -> None:
        """Take in what workers have sent, waiting for the first message where told to."""
        if wait and not self._crew:
            raise self._nobody_left()
        for key, _ in self._selector.select(None if wait else 0):
            self._hear(key.data)

    def _hear(self, member: WorkerProcess) -> None:
        try:
            parts, _ = member.channel.receive()
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
            self._welcome(member)
            return
        (ledger, index), member.job = member.job, None
        self._used[member.rank] = 0
        try:
            reply = unpack(parts)
        except Exception as error:  # noqa: BLE001 - unpickling runs the report's own code
            ledger.settle(index, error=plain_error(parts, error))
        else:
            ledger.settle(index, reply.report, reply.error)

    def _welcome(self, member: WorkerProcess) -> None:
        member.ready = True
        self._emit(WorkerEvent("restarted" if member.replaces else "started", member.rank, member.process.pid))

    def _lose(self, member: WorkerProcess) -> None:
        """Account for a worker that is gone, then replace it while the budget lasts."""
        self._selector.unregister(member.channel)
        del self._crew[member.rank]
        failure = self._last_failure = member.bury()
        if member.job is not None:
            ledger, index = member.job
            ledger.lose(index, failure)
        if self._used[member.rank] < self._restarts:
            self._used[member.rank] += 1
            self._hire(member.rank, replaces=True)
        self._emit(WorkerEvent("lost", member.rank, member.process.pid, failure.cause, failure.signal))

    def _nobody_left(self) -> EngineError:
        cause = self._last_failure.cause if self._last_failure else "none was started"
        error = EngineError(
            f"No worker is left: each was replaced {self._restarts} times and lost again. The last one was "
            f"lost because: {cause}"
        )
        error.__cause__ = self._last_failure
        return error
