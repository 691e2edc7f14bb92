"""How the process of a run, a search or the queue is started: detached, with what it is given; not what it does.

Fits that are started while others of the same starter are at work come from a warm process (`processes.warm`), which is
started by need and gone when it has nothing to do: a fork takes a tenth of the time of a new interpreter. It is no
parent that anybody depends on. Its forks live on when it is killed, and what it was told and has not begun is then
started as everything else is; so it is when it says nothing for a while. If its starter is gone, it begins what it was
told and ends.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from shoal.database.address import VARIABLE as DATABASE
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.home import home
from shoal.utils import THREAD_LIMITS, identity_of

STOPS = (signal.SIGTERM, signal.SIGINT)  # what asks for an orderly end
MANY = 3  # fits at work from one starter, from which on the next ones come from a warm process
IDLE = 10.0  # seconds without work after which that process ends
SILENT = 15.0  # seconds after which a fit that it has not begun is started without it; `folder.PATIENCE` is longer
DEAD = "dead"
PROCESS = "process"  # in a folder: which process was started there last
CODE = Path(__file__).parent.parent
Start = tuple[tuple[int, ...], tuple[int, ...]]
killed_by: dict[str, int] = {}  # signals that ended processes which this one has started, by the name of their folder


def spawn(
    directory: Path,
    module: str = "shoal.processes.run",
    held: Sequence[IO[str]] = (),
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Start the process of a run (or of a search) in a session of its own; it goes on when its starter is gone.

    Files with locks that are `held` go over to it; their descriptors are its arguments. Signals wait until
    it is ready for them.
    """
    start = start_of(directory)
    process = begun(directory, module, held, python, environment)
    # Somebody must hear of its end, or it stays a zombie for as long as the dashboard lives.
    life = _begin(directory)
    buried = (directory, start, process, life)
    threading.Thread(target=_bury, args=buried, name=f"reaper-{directory.name}", daemon=True).start()


def begun(
    directory: Path, module: str, held: Sequence[IO[str]] = (), python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    """As `spawn`, for somebody who hears of its end in a way of their own."""
    given = [file.fileno() for file in held]
    with (directory / "log.txt").open("ab") as log, _signals_held():
        process = subprocess.Popen(
            [python, "-P", "-m", module, str(directory), *map(str, given)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=given,
            cwd="/", env={**_without_ours(environment), "SHOAL_HOME": str(home()), **THREAD_LIMITS},
        )  # fmt: skip
    note_process(directory, process.pid)
    return process


def _bury(directory: Path, start: Start, process: subprocess.Popen[bytes], life: str) -> None:
    code = process.wait()
    _ended(life, code)
    if code < 0 and not any(_name_in(one) == directory.name for one in list(_alive)):
        note_lost(directory, start)


def start_of(directory: Path) -> Start:
    """What is written with every start of what is in a folder, and by nobody else before its process has begun."""
    return identity_of(directory / "config.json"), identity_of(directory / "state.json")


def note_lost(directory: Path, start: Start) -> None:
    """Its process is gone, and may have been killed before it could say that it had begun: nobody waits for that.

    Somebody may have started it again by now, whose process is still to come: of that one nothing is said.
    """
    if start_of(directory) == start:
        with contextlib.suppress(OSError):
            (directory / "started").open("x").close()


def note_process(directory: Path, pid: int) -> None:
    """Which process was started there: whoever looks can tell that it is gone, also when its starter is gone too."""
    with contextlib.suppress(OSError):
        said = {"pid": pid, "born": _born(pid), "machine": _machine()}
        (directory / PROCESS).write_bytes(sealed.sealed(said, directory.name))


def is_gone(directory: Path) -> bool:
    """Whether the process that was started there is gone; no where there was none, or nobody here can tell."""
    try:
        said = sealed.read(directory / PROCESS, directory.name)
        now = _born(said["pid"])
        return said["machine"] == _machine() and (now == DEAD or now not in ("", said["born"]))
    except (OSError, DamagedFile, KeyError):
        return False


def _born(pid: int) -> str:
    """When a process began, which tells it from a later one of its number, and whether it is dead; empty where the
    system does not tell."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return DEAD if Path("/proc/self/stat").exists() else ""
    return DEAD if state in "ZX" else rest[18]


def _machine() -> str:
    """Whose numbers of processes are ours: this system since its start, and this container on it."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"


def _begin(directory: Path) -> str:
    """The name of a new life: a folder may have several, and the end of one is told when the next has begun."""
    killed_by.pop(directory.name, None)
    life = f"{directory.name} {next(_lives)}"
    _alive.add(life)
    return life


def _ended(life: str, code: int) -> None:
    _alive.discard(life)
    if code < 0:
        killed_by[_name_in(life)] = -code


def _name_in(life: str) -> str:
    return life.rpartition(" ")[0]


_lives = itertools.count()
_alive: set[str] = set()  # lives that this process has started and not seen the end of


def spawn_fit(directory: Path) -> None:
    """A fit that waits for nothing: by a new process, or, where several are at work, by a fork of a warm one."""
    if len(_alive) < MANY or not _warmth().start_fit(directory):
        spawn(directory)


# ------------------------------------------------------------------ warm processes


class WarmProcess:
    """The process that makes those of runs (`processes.warm`), and the channel to it."""

    hosted = False  # whether it is a run host's, ends with it, and says there what goes wrong

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._channel, theirs = socket.socketpair()
        output = None if self.hosted else subprocess.DEVNULL  # whose reader waits for the starter, and not for this one
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "shoal.processes.warm", str(theirs.fileno()), *["hosted"] * self.hosted],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[theirs.fileno()], cwd="/",
                start_new_session=True,  # Ctrl+C in a terminal is for the starter
                env={**os.environ, "SHOAL_HOME": str(home()), **THREAD_LIMITS},
            )  # fmt: skip
        except OSError:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self._rest = b""

    @property
    def takes_more(self) -> bool:
        """Whether there is room for a word: one that does not read must not keep whoever speaks to it."""
        return self._is_ready(select.POLLOUT, 0.0)

    def say(self, **word: str | int) -> None:
        with contextlib.suppress(OSError):  # it is gone, which `heard` tells
            self._channel.sendall(json.dumps(word).encode() + b"\n")

    def heard(self, wait: float) -> list[dict[str, Any]] | None:
        """What it says, none if it says nothing for so long; None if it is gone."""
        if not self._is_ready(select.POLLIN, wait):
            return []
        try:
            data = self._channel.recv(1 << 16)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines] if data else None

    def _is_ready(self, event: int, wait: float) -> bool:
        poll = select.poll()  # `select` knows no descriptors from 1,024 on
        poll.register(self._channel, event)
        return bool(poll.poll(1000 * wait))

    def close(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()


class _Warmth:
    """The warm process of this one, while it has work for it."""

    def __init__(self) -> None:
        self.of = os.getpid()
        self._lock = threading.Lock()
        self._warm: WarmProcess | None = None
        self._as: Circumstances = ()  # in which it was started
        self._told: dict[str, tuple[Path, float]] = {}  # lives that it has not begun: folder, and when it was told
        self._begun: set[str] = set()

    def start_fit(self, directory: Path) -> bool:
        """False where a new process would be another than a fork, or where there is no warm one that listens."""
        with self._lock:
            if self._warm is None:
                self._as = _circumstances()
                try:
                    self._warm = WarmProcess()
                except OSError:
                    return False
                threading.Thread(target=self._listen, args=(self._warm,), name="warmth", daemon=True).start()
            elif self._as != _circumstances() or not self._warm.takes_more:
                return False
            life = _begin(directory)
            self._told[life] = directory, time.monotonic()
            self._warm.say(start=life, folder=str(directory))
            return True

    def _listen(self, warm: WarmProcess) -> None:
        while True:
            words = warm.heard(min(IDLE, SILENT))
            with self._lock:
                refused = [one for word in words or () if (one := self._hear(word))]
                if words is None or not (words or self._told or self._begun) or self._is_silent():
                    break
            _spawn_all(refused)
        with self._lock:
            warm.close()
            self._warm = None
            refused += [directory for directory, _ in self._told.values()]
            _alive.difference_update(self._told, self._begun)
            self._told, self._begun = {}, set()
        _spawn_all(refused)

    def _is_silent(self) -> bool:
        """Whether a fit is not begun for so long that the process seems to be stopped, or to have no room."""
        return any(time.monotonic() - since > SILENT for _, since in self._told.values())

    def _hear(self, word: dict[str, Any]) -> Path | None:
        """The folder of a fit that it could not begin, if it says that of one."""
        if life := word.get("begun"):
            if self._told.pop(life, None):
                self._begun.add(life)
        elif life := word.get("ended"):
            self._begun.discard(life)
            _ended(life, int(word["code"]))
            if told := self._told.pop(life, None):
                return told[0]
        return None


def _spawn_all(directories: Sequence[Path]) -> None:
    for (
        directory
    ) in directories:  # one that has begun all the same has its lock or its last word, and the second leaves
        with contextlib.suppress(OSError):  # its folder is gone, or there is no room: then it is told as interrupted
            spawn(directory)


_mine: _Warmth | None = None


def _warmth() -> _Warmth:
    """Of this process: a fork of it has not the thread that listens, and must not speak for it."""
    global _mine
    if _mine is None or _mine.of != os.getpid():
        _mine = _Warmth()
    return _mine


Circumstances = tuple[Any, ...]


def _circumstances() -> Circumstances:
    """What a new process would take from this one, and the code that it would run; a fork of a warm one has the same as
    when that was started."""
    return dict(os.environ), _umask(), _limits(), os.getpriority(os.PRIO_PROCESS, 0), _processors(), _code_stamp()


def _umask() -> str:
    """As the system tells it: to ask for it is to set it, for all threads."""
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        return next((line for line in status if line.startswith("Umask:")), "")
    return ""


def _limits() -> tuple[tuple[int, int], ...]:
    names = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CPU")
    return tuple(resource.getrlimit(getattr(resource, name)) for name in names)


def _processors() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def _code_stamp() -> tuple[int, ...]:
    """Folders of the package as they are now: a file that was put in the place of another changes them."""
    with contextlib.suppress(OSError):
        return tuple(os.stat(folder).st_mtime_ns for folder in _code_folders())
    return ()  # while it is being replaced


@functools.cache
def _code_folders() -> list[str]:
    found = []
    for folder, inside, _ in os.walk(CODE):
        inside[:] = [name for name in inside if name.isidentifier() and name != "__pycache__"]
        found.append(folder)
    return found


def _without_ours(other: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of this process; where there is an `other` one, what is about Shoal comes from there alone.

    All but the address of the database, which is written nowhere: it comes from whoever starts the process.
    """
    if not other:
        return dict(os.environ)
    own = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_") or name == DATABASE}
    return own | dict(other)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """A process that is started in here hears of a stop when it is ready to, and not before: see `hear_signals`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear_signals() -> None:
    """For a process that `spawn` has started, once it knows what to do about them."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
