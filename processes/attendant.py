"""Who hears signals for a run and watches its folder, beside the work; what the work is, is not known here."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from shoal.errors import ResourceError, StateError
from shoal.runs.folder import Run
from shoal.runs.spawning import STOPS

ATTENTION = 0.2  # seconds between two looks at the folder and at what a signal asked for
VANISHES = 0.0002  # seconds between two looks whether a thread that ended is gone
GRACE = 10.0  # seconds for the work to end once its folder is gone


class Stopped(BaseException):
    """A signal asked for the end where nobody takes commands. Not an Exception, so that nothing treats it as one."""


class Unawaited(BaseException):
    """Nobody waits for this job any more: the page was closed or left."""


class FolderGone(BaseException):
    """Somebody removed the folder of this run: there is nobody to work for."""


class Attendant:
    """Hears signals for the run and watches its folder, beside the work."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.listens = False  # training takes commands: a signal becomes one
        self.chores: list[Callable[[], None]] = []  # done at every look
        self.no_room = ""  # why training cannot be told to stop, and has no result
        self._too_late = False
        self._ending: type[BaseException] = Stopped  # what the main thread is woken with
        self._asked, self._done = threading.Event(), threading.Event()
        self._rests = threading.Event()  # its thread has ended, or is about to
        self._identity = (run.directory / "lock").stat().st_ino

    @contextlib.contextmanager
    def attending(self) -> Iterator[None]:
        for number in STOPS:
            signal.signal(number, self._signalled)
        signal.signal(signal.SIGUSR1, self._woken)
        self._thread = self._begin()
        try:
            yield
        finally:
            self._end()
            self._thread.join(GRACE)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """For a moment without its thread, as the system counts them; what is asked for meanwhile is heard after it."""
        self._rests.set()
        try:
            self._thread.join()
            while Path(f"/proc/self/task/{self._thread.native_id}").exists():
                time.sleep(VANISHES)
            yield
        finally:
            if not self._done.is_set():
                self._thread.join()
                self._rests.clear()
                self._thread = self._begin()

    def _begin(self) -> threading.Thread:
        thread = threading.Thread(target=self._attend, name="attendant", daemon=True)
        thread.start()
        return thread

    def _end(self) -> None:
        self._done.set()
        self._rests.set()

    def stop(self) -> None:
        """As a signal would."""
        if self.listens:
            self._asked.set()
        else:
            self._end_the_work()

    def give_up(self, last_word: Callable[[], None]) -> None:
        """End work that nobody waits for; its `last_word` is said here if it does not hear of it."""
        self._ending = Unawaited
        self._end_the_work(last_word)

    def ignore_signals(self) -> None:
        """The last word is being written: too late for anything else."""
        self._too_late = True
        self._end()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self._too_late:
            return
        for other in STOPS:
            signal.signal(other, signal.SIG_DFL)
        if not self.listens:
            raise Stopped
        self._asked.set()

    def _woken(self, number: int, frame: FrameType | None) -> None:
        if not self._has_folder():
            raise FolderGone
        if not self._too_late:
            raise self._ending

    def _attend(self) -> None:
        while not self._rests.wait(ATTENTION):
            if not self._has_folder():
                self._end_the_work()
                return
            for chore in self.chores:
                chore()
            if self._asked.is_set():
                with contextlib.suppress(StateError):  # the store is locked: the next look tries again
                    self._pass_on()
                    self._asked.clear()

    def _pass_on(self) -> None:
        """The stop that a signal asked for, as a command."""

        try:
            with self.run.open_records() as storage:
                storage.post("stop", {})
        except ResourceError as error:  # no room for a command: training will not hear of it
            self.no_room = error.message
            self._end_the_work()

    def _end_the_work(self, last_word: Callable[[], None] = lambda: None) -> None:
        """Raise in the main thread, which cleans up; if it does not come to that, end the process."""
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        if not self._done.wait(GRACE):
            last_word()
            os._exit(1)

    def _has_folder(self) -> bool:
        try:
            return (self.run.directory / "lock").stat().st_ino == self._identity
        except FileNotFoundError:
            return False
        except OSError:
            return True  # a disk that is away for a moment
