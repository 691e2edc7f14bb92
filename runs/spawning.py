"""How the process of a run, a search or the queue is started: detached, with what it is given; not what it does.

Fits that are started while others of the same starter are at work come from a warm process (`processes.warm`), which is
started by need and gone when it has nothing to do: a fork takes a tenth of the time of a new interpreter. It is no
parent that anybody depends on. Its forks live on when it is killed, and what it was told and has not begun is then
started as everything else is.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from shoal.database.address import VARIABLE as DATABASE
from shoal.home import home
from shoal.utils import THREAD_LIMITS

STOPS = (signal.SIGTERM, signal.SIGINT)  # what asks for an orderly end
MANY = 3  # fits at work from one starter, from which on the next ones come from a warm process
IDLE = 10.0  # seconds without work after which that process ends
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
    given = [file.fileno() for file in held]
    with (directory / "log.txt").open("ab") as log, _signals_held():
        process = subprocess.Popen(
            [python, "-P", "-m", module, str(directory), *map(str, given)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=given,
            cwd="/", env={**_without_ours(environment), "SHOAL_HOME": str(home()), **THREAD_LIMITS},
        )  # fmt: skip
    # Somebody must hear of its end, or it stays a zombie for as long as the dashboard lives.
    killed_by.pop(directory.name, None)
    _alive.add(directory.name)
    threading.Thread(target=_bury, args=(process, directory.name), name=f"reaper-{directory.name}", daemon=True).start()


def _bury(process: subprocess.Popen[bytes], name: str) -> None:
    _ended(name, process.wait())


def _ended(name: str, code: int) -> None:
    _alive.discard(name)
    if code < 0:
        killed_by[name] = -code


_alive: set[str] = set()  # processes that this one has started, by the name of their folder


def spawn_fit(directory: Path) -> None:
    """A fit that waits for nothing: by a new process, or, where several are at work, by a fork of a warm one."""
    if len(_alive) < MANY or not _warmth.start_fit(directory):
        spawn(directory)


# ------------------------------------------------------------------ warm processes


class WarmProcess:
    """The process that makes those of runs (`processes.warm`), and the channel to it."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "shoal.processes.warm", str(theirs.fileno())],
            stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], cwd="/",
            env={**os.environ, "SHOAL_HOME": str(home()), **THREAD_LIMITS},
        )  # fmt: skip
        theirs.close()
        self._rest = b""

    def say(self, **word: str | int) -> None:
        with contextlib.suppress(OSError):  # it is gone, which `heard` tells
            self._channel.sendall(json.dumps(word).encode() + b"\n")

    def heard(self, wait: float) -> list[dict[str, Any]] | None:
        """What it says, none if it says nothing for so long; None if it is gone."""
        if not select.select([self._channel], [], [], wait)[0]:
            return []
        try:
            data = self._channel.recv(1 << 16)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines] if data else None

    def close(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()


class _Warmth:
    """The warm process of this one, while it has work for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warm: WarmProcess | None = None
        self._as: dict[str, str] = {}  # the environment that it was started with
        self._told: dict[str, Path] = {}  # fits that it has not begun
        self._begun: set[str] = set()

    def start_fit(self, directory: Path) -> bool:
        """False where it would be started in another way than by this process: its settings have changed since."""
        with self._lock:
            if self._warm is None:
                self._as = dict(os.environ)
                self._warm = WarmProcess()
                threading.Thread(target=self._listen, args=(self._warm,), name="warmth", daemon=True).start()
            elif self._as != dict(os.environ):
                return False
            killed_by.pop(directory.name, None)
            _alive.add(directory.name)
            self._told[directory.name] = directory
            self._warm.say(start=directory.name, folder=str(directory))
            return True

    def _listen(self, warm: WarmProcess) -> None:
        while True:
            words = warm.heard(IDLE)
            with self._lock:
                for word in words or ():
                    self._hear(word)
                if words is None or not (words or self._told or self._begun):
                    warm.close()
                    self._warm, self._begun = None, set()
                    left, self._told = self._told, {}
                    break
        for directory in left.values():  # one that has begun all the same has its lock, and the second one leaves
            with contextlib.suppress(OSError):  # its folder is gone
                spawn(directory)

    def _hear(self, word: dict[str, Any]) -> None:
        if name := word.get("begun"):
            if self._told.pop(name, None):
                self._begun.add(name)
        elif name := word.get("ended"):
            self._begun.discard(name)
            _ended(name, int(word["code"]))


_warmth = _Warmth()


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
