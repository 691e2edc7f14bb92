"""A warm process, `python -m shoal.processes.warm SOCKET`: it has imported what fits need, and makes a process for each
run by a fork; which run, and what becomes of it, is decided by a run host (`processes.host`), or by whoever starts many
fits on one machine (`runs.spawning`).

It has one thread and no connection, so that a fork is safe. A run's process is as any other (`processes.run`), in a
session of its own. That of a host ends with its host. It begins by a new lock in the folder of the run. Who had the one
before, and does not know that its lease is over, finds another in its place before it gives any file a name, and ends.
On one machine it outlives whoever started it, and takes its turn: as many at a time as there are cores, or after a
moment in any case, since a person waits for it. There the warm process outlives its starter as well, until it has begun
what it was told.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import mmap
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from shoal.home import keep_private, runs_directory
from shoal.processes.run import Hosted
from shoal.processes.run import main as main_of_run
from shoal.runs.slots import cores
from shoal.runs.spawning import STOPS, Start, note_lost, note_process, start_of
from shoal.utils import check_before_naming, die_with_parent

TURN = 3.0  # seconds that a fit of one machine waits for those before it at most
MOST = mmap.PAGESIZE  # forks that live at a time; more are started in another way
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGTERM}


class _Child(NamedTuple):
    life: str
    place: int  # in `_at_work`
    folder: Path | None  # None of a host, whose queue tells what became of it
    start: Start


class Warm:
    """Words come in as lines of JSON: {"start": LIFE, "run": RUN, "fence": 0, "again": ""}, {"kill": LIFE},
    {"stop": LIFE}; out go {"ended": LIFE, "code": N}. A run that is taken once more has another life.
    Without a host it is {"start": LIFE, "folder": PATH}, and {"begun": LIFE} goes out before the end; an end without it
    is of a fit that could not be begun."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self._rest = b""
        self.children: dict[int, _Child] = {}  # by number of the process
        self.woken, waker = socket.socketpair()
        self.woken.setblocking(False)
        waker.setblocking(False)
        self._waker = waker
        self._turns, self._turn_over = os.pipe()  # a byte for each that may be at work
        os.write(self._turn_over, b"." * cores())
        self._at_work = mmap.mmap(-1, MOST)  # shared with forks: who has one of these bytes
        self._taken: set[int] = set()
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Until whoever has started it hangs up, and all that was said before is done."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.channel, selectors.EVENT_READ)
            selector.register(self.woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self.woken:
                        with contextlib.suppress(BlockingIOError):
                            self.woken.recv(4096)
                        self._bury()
                    elif not self._hear():
                        return

    def _hear(self) -> bool:
        """Whatever has come; False when the host has hung up."""
        try:
            data = self.channel.recv(1 << 16)
        except ConnectionError:
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._do(json.loads(line))
        return bool(data)

    def _do(self, word: dict[str, Any]) -> None:
        if "start" in word:
            if "folder" in word:
                if self._start(word["start"], Path(word["folder"]), None):
                    self._say(begun=word["start"])
            else:
                self._start(word["start"], runs_directory() / word["run"], Hosted(word["fence"], word["again"]))
        for name, number in SIGNALS.items():
            for pid, child in self.children.items():
                if word.get(name) == child.life:
                    os.kill(pid, number)

    def _start(self, life: str, directory: Path, hosted: Hosted | None) -> bool:
        """Where there is no room for one more process, that is said as its end: the others go on."""
        place = next((place for place in range(MOST) if place not in self._taken), MOST)
        start = start_of(directory)
        try:
            pid = os.fork() if place < MOST else -1
        except OSError:
            pid = -1
        if pid == 0:
            self._become(directory, hosted, place)
        if pid < 0:
            self._say(ended=life, code=1)
            return False
        if hosted is None:
            note_process(directory, pid)
        self.children[pid] = _Child(life, place, directory if hosted is None else None, start)
        self._taken.add(place)
        return True

    def _say(self, **word: str | int) -> None:
        with contextlib.suppress(OSError):  # nobody is there to hear it
            self.channel.sendall(json.dumps(word).encode() + b"\n")

    def _bury(self) -> None:
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            gone, code = self.children.pop(pid), os.waitstatus_to_exitcode(status)
            if self._at_work[gone.place]:  # it was killed, and could not let the next one have its turn
                self._at_work[gone.place] = 0
                os.write(self._turn_over, b".")
            self._taken.discard(gone.place)
            again = any(child.folder == gone.folder for child in self.children.values())
            if code < 0 and gone.folder is not None and not again:
                note_lost(gone.folder, gone.start)
            self._say(ended=gone.life, code=code)

    def _become(self, directory: Path, hosted: Hosted | None, place: int) -> NoReturn:
        """In the child: a process of a run, from its lock to its last word."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # heard once it knows what to do about them
            for number in STOPS:
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            if hosted is not None:
                die_with_parent()
            for own in (self.channel, self.woken, self._waker):
                own.close()
            _write_to(directory / "log.txt")
            gc.enable()
            if hosted is None:
                with self._turn(place):
                    main_of_run(directory)
            else:
                fence = FolderFence(directory)
                check_before_naming(fence.check)
                main_of_run(directory, fence.lock, hosted=hosted)
            code = 0
        except BaseException:  # noqa: BLE001 - nothing may come back from here into the loop of its parent
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    @contextlib.contextmanager
    def _turn(self, place: int) -> Iterator[None]:
        """One of those who are at work at a time; the place of one that is killed is given back by its parent."""
        signal.signal(signal.SIGALRM, _waited_enough)
        try:
            signal.setitimer(signal.ITIMER_REAL, TURN)
            self._at_work[place] = len(os.read(self._turns, 1))  # of all who read, the system wakes one
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        except _Enough:
            pass
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        try:
            yield
        finally:
            if self._at_work[place]:
                self._at_work[place] = 0
                os.write(self._turn_over, b".")


class _Enough(Exception):
    """A fit has waited for its turn as long as it may."""


def _waited_enough(number: int, frame: FrameType | None) -> NoReturn:
    raise _Enough


class FolderFence:
    """The lock of a run's folder, new and this process's, in place of the one that is there, whoever has that."""

    def __init__(self, directory: Path) -> None:
        self._path, own = directory / "lock", directory / f".lock-{os.urandom(4).hex()}"
        self.lock = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.replace(own, self._path)
        self._own = os.fstat(self.lock)

    def check(self) -> None:
        """End without a word if another process has put its lock there: its run goes on elsewhere."""
        try:
            with self._path.open("rb") as lock:  # opened, not only looked at: a network's disk then asks its server
                found = os.fstat(lock.fileno())
        except OSError:
            return  # the folder was removed, which the attendant hears of, or cannot be written to either
        if not os.path.samestat(found, self._own):
            os._exit(0)


def _write_to(log: Path) -> None:
    with contextlib.suppress(OSError):  # a full disk: it writes to where its host does
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)


def _import() -> None:
    """What a fit needs, once for all of them."""
    from shoal.processes.rehearsal import rehearse

    rehearse()

    gc.collect()
    gc.freeze()  # what is shared with children is not touched by their looking for garbage
    gc.disable()


def main(channel: int, hosted: bool) -> None:
    """Of a host, it ends with the host."""
    if hosted:
        die_with_parent()
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)  # whoever has started it decides when it ends
    _import()
    with socket.socket(fileno=channel) as connected:
        Warm(connected).serve()


if __name__ == "__main__":
    keep_private()
    main(int(sys.argv[1]), "hosted" in sys.argv[2:])
