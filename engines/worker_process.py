"""Worker processes of this machine: starting, telling, losing and burying them; a crew whose members are processes."""

from __future__ import annotations

import contextlib
import importlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from multiprocessing import Pipe

from shoal.engines.base import WorkerEvent
from shoal.engines.crew import Crew, CrewMember
from shoal.engines.forking import ForkedProcess, can_fork, forked
from shoal.errors import WorkerFailed
from shoal.utils import THREAD_LIMITS, anonymous_file
from shoal.worker import Channel, Drop, Hold, Parts, SharedArray, pack


class Pulse:
    """Whether a process gets on: it, or what it started, has computed, read or written since it last did."""

    COMPUTED = 0.05  # seconds of the processor: one that hangs wakes now and then, and uses less

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seconds, self._traffic = 0.0, 0

    def beats(self) -> bool:
        seconds, traffic = self._work()
        beats = abs(seconds - self._seconds) >= self.COMPUTED or traffic != self._traffic
        if beats:
            self._seconds, self._traffic = seconds, traffic
        return beats

    def _work(self) -> tuple[float, int]:
        import psutil  # where somebody waits for long: its import takes as long as a small fit

        seconds, traffic = 0.0, 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._pid)
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error), one.oneshot():
                    used = one.cpu_times()
                    seconds += used.user + used.system
                    if hasattr(one, "io_counters"):  # not on every system
                        moved = one.io_counters()
                        traffic += moved.read_count + moved.write_count
        return seconds, traffic


class WorkerProcess(CrewMember):
    """One child process, the channel to it, and what it is doing."""

    TAIL = 2000  # bytes of the start-up log that a message shows
    PATIENCE = 5.0  # seconds for a process that hung up to be gone by itself, so that its own status is seen

    def __init__(
        self, rank: int, lifeline: int, shared: dict[int, tuple[SharedArray, int]], replaces: bool,
        preload: Sequence[str] = (), forks: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(rank, replaces)
        self.silent = 0.0  # seconds of waiting for it in which it did nothing
        self._shared, self._holds = shared, set[int]()
        with ExitStack() as on_failure:
            ours, theirs = Pipe()
            on_failure.callback(ours.close)
            with theirs:
                inbox, outbox, self._log = (_file(on_failure) for _ in range(3))
                self.process = _start(rank, (theirs.fileno(), outbox, inbox, lifeline), self._log, preload, forks)
            on_failure.pop_all()
        self.channel = Channel(ours, inbox, outbox)
        self.pulse = Pulse(self.process.pid)

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, request: Parts) -> None:
        live = self._shared
        for key in self._holds - live.keys():
            self.channel.send(pack(Drop(key)))
        for key in live.keys() - self._holds:
            shared, descriptor = live[key]
            self.channel.send(pack(Hold(shared)))
            self.channel.send_descriptor(descriptor, self.process.pid)
        self._holds = set(live)
        self.silent = 0.0
        self.channel.send(request)

    def tell(self, message: Parts) -> None:
        self.channel.send(message)

    def receive(self) -> list[memoryview]:
        return self.channel.receive()

    def kill(self) -> None:
        self.process.kill()

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
        if self.verdict:
            return WorkerFailed(self.rank, self.verdict)
        return WorkerFailed(self.rank, cause, -code if code < 0 else None)

    def _last_words(self) -> str:
        size = os.fstat(self._log).st_size
        text = os.pread(self._log, self.TAIL, max(0, size - self.TAIL)).decode(errors="replace").strip()
        return f", saying:\n{text}" if text else ""


def _file(on_failure: ExitStack) -> int:
    descriptor = anonymous_file()
    on_failure.callback(os.close, descriptor)
    return descriptor


def _start(
    rank: int, descriptors: tuple[int, ...], log: int, preload: Sequence[str], forks: bool
) -> subprocess.Popen[bytes] | ForkedProcess:
    """Start `python -m shoal.worker`: unlike `multiprocessing.Process`, this never runs the caller's `__main__`. Or, in
    a process that `forks`, make one that need not import anything."""
    stderr = _standard_error()
    try:
        # The system ends a worker with the thread that started it: only the main one lives as long as its process.
        tied = threading.current_thread() is threading.main_thread()
        arguments = [*map(str, (rank, os.getpid(), int(tied), *descriptors, stderr)), *preload]
        if forks and can_fork():
            return forked(arguments, (*descriptors, stderr), log)
        return subprocess.Popen(
            # -P: a worker.py that lies in the current directory is not ours.
            [sys.executable, "-P", "-m", "shoal.worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(*descriptors, stderr),
            env=os.environ | THREAD_LIMITS | {"PYTHONPATH": import_path()},
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


def import_path() -> str:
    """Our own directory, then all that this process can import from: requests may be defined anywhere."""
    return os.pathsep.join([*(os.path.abspath(entry) for entry in sys.path)])


def _cause(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    guess = ", possibly out of memory" if -code == signal.SIGKILL else ""
    return f"killed by signal {-code} ({name}){guess}"


class ProcessCrew(Crew):
    """Worker processes, the arrays they share, and one place to listen to them all."""

    LEASE = 60.0  # seconds in which a worker that has a request may do nothing; one that works may take any time

    def __init__(
        self, emit: Callable[[WorkerEvent], None], preload: Sequence[str],
        shared: dict[int, tuple[SharedArray, int]] | None = None,
        forks: Callable[[], AbstractContextManager[None]] | None = None,
    ) -> None:  # fmt: skip
        """`shared` are the arrays of another crew, which closes them; those that it begins with are forks, made within
        `forks`, where they can be."""
        super().__init__(emit)
        self.shared = {} if shared is None else shared
        self._lends = shared is None
        self.lease = self.LEASE
        self._preload = preload
        self._alone = forks or nullcontext
        with self._alone():
            self.forks = forks is not None and can_fork()
        self._selector = selectors.DefaultSelector()
        # Only this process has the write end: its end, however it comes, is end-of-file for every worker.
        self._lifeline, self._lifeline_held = os.pipe()

    def alone(self) -> AbstractContextManager[None]:
        for module in self._preload if self.forks else ():  # once for all of them
            with contextlib.suppress(Exception):  # what keeps a worker from it, the worker tells
                importlib.import_module(module)
        return self._alone()

    def start(self, rank: int, *, replaces: bool) -> CrewMember:
        how = self._preload, self.forks and not replaces
        member = WorkerProcess(rank, self._lifeline, self.shared, replaces, *how)
        self._selector.register(member.channel, selectors.EVENT_READ, member)
        return member

    def listen(self, timeout: float) -> Iterable[CrewMember]:
        return [key.data for key, _ in self._selector.select(timeout)]

    def hung(self, seconds: float) -> list[CrewMember]:
        """Looks are counted, not the clock: while this process itself is held up, nobody is judged."""
        found: list[CrewMember] = []
        for member in self.members.values():
            if member.job is None or not isinstance(member, WorkerProcess):
                continue
            member.silent = 0.0 if member.pulse.beats() else member.silent + seconds
            if member.silent >= self.lease:
                member.verdict = f"it did nothing for {self.lease:g} seconds and was ended"
                found.append(member)
        return found

    def forget(self, member: CrewMember) -> None:
        assert isinstance(member, WorkerProcess)
        self._selector.unregister(member.channel)

    def close(self) -> None:
        os.close(self._lifeline_held)
        os.close(self._lifeline)
        super().close()
        self._selector.close()
        if self._lends:
            for _, descriptor in self.shared.values():
                os.close(descriptor)
            self.shared.clear()
