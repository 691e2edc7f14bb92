"""Worker processes: starting, telling, losing and burying them; what they are asked belongs to their users."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing import Pipe

from shoal.engines.base import Ledger, WorkerEvent
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


class WorkerProcess:
    """One child process, the channel to it, and what it is doing."""

    TAIL = 2000  # bytes of the start-up log that a message shows
    PATIENCE = 5.0  # seconds for a process that hung up to be gone by itself, so that its own status is seen

    def __init__(self, rank: int, lifeline: int, *, replaces: bool, preload: Sequence[str] = ()) -> None:
        self.rank = rank
        self.replaces = replaces
        self.ready = False
        self.job: tuple[Ledger, int] | None = None
        self.silent = 0.0  # seconds of waiting for it in which it did nothing
        self.verdict = ""  # why it was ended, where that was decided here
        self.trains = False
        self.holds: set[int] = set()
        with ExitStack() as on_failure:
            ours, theirs = Pipe()
            on_failure.callback(ours.close)
            with theirs:
                inbox, outbox, self._log = (_file(on_failure) for _ in range(3))
                self.process = _start(rank, (theirs.fileno(), outbox, inbox, lifeline), self._log, preload)
            on_failure.pop_all()
        self.channel = Channel(ours, inbox, outbox)
        self.pulse = Pulse(self.process.pid)

    def send(self, request: Parts, live: dict[int, tuple[SharedArray, int]]) -> None:
        """The request, and before it what has changed among the shared arrays since the last one."""
        for key in self.holds - live.keys():
            self.channel.send(pack(Drop(key)))
        for key in live.keys() - self.holds:
            shared, descriptor = live[key]
            self.channel.send(pack(Hold(shared)))
            self.channel.send_descriptor(descriptor, self.process.pid)
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


def _start(rank: int, descriptors: tuple[int, ...], log: int, preload: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `python -m shoal.worker`: unlike `multiprocessing.Process`, this never runs the caller's `__main__`."""
    stderr = _standard_error()
    try:
        # The system ends a worker with the thread that started it: only the main one lives as long as its process.
        tied = threading.current_thread() is threading.main_thread()
        arguments = [rank, os.getpid(), int(tied), *descriptors, stderr]
        return subprocess.Popen(
            # -P: a worker.py that lies in the current directory is not ours.
            [sys.executable, "-P", "-m", "shoal.worker", *map(str, arguments), *preload],
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


class Crew:
    """The living worker processes by rank, the arrays they share, and one place to listen to them all."""

    def __init__(self, emit: Callable[[WorkerEvent], None], preload: Sequence[str]) -> None:
        self.members: dict[int, WorkerProcess] = {}
        self.shared: dict[int, tuple[SharedArray, int]] = {}
        self.selector = selectors.DefaultSelector()
        self.last_failure: WorkerFailed | None = None
        self._emit, self._preload = emit, preload
        # Only this process has the write end: its end, however it comes, is end-of-file for every worker.
        self._lifeline, self._lifeline_held = os.pipe()

    def hire(self, rank: int, *, replaces: bool) -> bool:
        """Start a worker; whether that worked: without more processes or descriptors, others may still do the work."""
        try:
            member = WorkerProcess(rank, self._lifeline, replaces=replaces, preload=self._preload)
        except OSError as error:
            self.last_failure = WorkerFailed(rank, f"could not be started: {error}")
            return False
        self.members[rank] = member
        self.selector.register(member.channel, selectors.EVENT_READ, member)
        return True

    def welcome(self, member: WorkerProcess) -> None:
        member.ready = True
        self._emit(WorkerEvent("restarted" if member.replaces else "started", member.rank, member.process.pid))

    def lose(self, member: WorkerProcess) -> WorkerFailed:
        """A worker that hung up: it is gone when this returns, and this is how it ended."""
        self.selector.unregister(member.channel)
        del self.members[member.rank]
        failure = self.last_failure = member.bury()
        self._emit(WorkerEvent("lost", member.rank, member.process.pid, failure.cause, failure.signal))
        return failure

    def kill(self, member: WorkerProcess) -> WorkerFailed:
        member.process.kill()
        return self.lose(member)

    def dismiss(self, member: WorkerProcess) -> None:
        """Let a worker go that is not needed any more; it holds nothing that matters."""
        self.selector.unregister(member.channel)
        del self.members[member.rank]
        member.process.kill()
        member.bury()
        if member.ready:
            self._emit(WorkerEvent("stopped", member.rank, member.process.pid))

    def close(self) -> None:
        os.close(self._lifeline_held)
        os.close(self._lifeline)
        for member in list(self.members.values()):
            self.dismiss(member)
        self.selector.close()
        for _, descriptor in self.shared.values():
            os.close(descriptor)
        self.shared.clear()
