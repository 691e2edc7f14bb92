"""The data sets under one folder, found again by what their file was when they were made.

A data set is written under another name, locked by its writer, and gets its name by one rename when it is whole; so a
folder with a data set's name is a whole data set. What is in one stands in `dataset`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from shoal.data.dataset import Dataset
from shoal.errors import DamagedFile, ResourceError, StateError
from shoal.files import sealed
from shoal.files.locks import alone_with, hold
from shoal.home import MANIFEST, UNFINISHED, cache_directory, cache_index, make_folder
from shoal.utils import identity_of

T = TypeVar("T")


class Cache:
    """The data sets under one folder, by key; and which key a file had when it was last read."""

    def __init__(self, home: Path) -> None:
        self.directory = cache_directory(home)
        self.repairs: list[str] = []  # what was found damaged and removed, to be made again: people are told once

    def find(self, question: Mapping[str, Any], identity: Mapping[str, int]) -> Dataset | None:
        """The data set that answers `question` (path, dialect, types), if the file is still what it was."""
        try:
            known = sealed.read(self._index(question), of=digest(question))
        except OSError:
            return None
        except DamagedFile as error:
            self.repairs.append(_told(error))
            return None
        return self.open(known["key"]) if known["identity"] == dict(identity) else None

    def open(self, key: str) -> Dataset | None:
        """The data set of that name; one that is damaged is removed, to be made anew."""
        directory = self.directory / key
        if not (directory / MANIFEST).exists():
            return None
        try:
            dataset = Dataset(directory)
            dataset.check_sizes()
        except DamagedFile as error:
            self.discard(error)
        except StateError:  # removed a moment ago
            pass
        else:
            return dataset
        return None

    def discard(self, error: DamagedFile) -> None:
        """Remove the folder that a damaged file is in, so that it is made anew; the error itself where that is no
        folder of this cache."""
        folder = Path(error.path).parent
        if folder.parent != self.directory or folder == cache_index(self.directory):
            raise error
        if identity_of(error.path) != error.identity:
            return  # another process was faster
        self.repairs.append(_told(error))
        aside = self.directory / f"{UNFINISHED}{os.getpid()}-{os.urandom(4).hex()}"
        with contextlib.suppress(OSError):  # it is gone already
            folder.rename(aside)  # whoever comes at this moment finds a whole folder or none
            shutil.rmtree(aside, ignore_errors=True)

    def mending(self, work: Callable[[], T]) -> T:
        """What `work` answers; where that comes upon a damaged file of the cache, the file is removed and all of
        `work` done once more, which makes it again. Twice in a row is no accident, and an error."""
        try:
            return work()
        except DamagedFile as error:
            self.discard(error)
        try:
            return work()
        except DamagedFile as error:
            raise DamagedFile(
                f"{error.message} It was made again a moment ago, because of damage before: the disk or the memory "
                "of this machine may be failing. Check them, then try again.", path=error.path, identity=error.identity,
            ) from error  # fmt: skip

    def remember(self, question: Mapping[str, Any], identity: Mapping[str, int], key: str) -> None:
        entry = {"identity": dict(identity), "key": key, "question": dict(question)}
        sealed.write(self._index(question), entry, of=digest(question))

    def _index(self, question: Mapping[str, Any]) -> Path:
        return cache_index(self.directory) / f"{digest(question)}.json"

    @contextlib.contextmanager
    def workshop(self) -> Iterator[Path]:
        """A folder to build a data set in; whatever is left in it afterwards is removed, if need be by the next
        one to come: the lock on it ends with the process."""
        made: list[Path] = []  # noted before they are: Ctrl-C may come between the making of one and its lock
        with contextlib.ExitStack() as locked:
            try:
                self._lock_folder(made, locked)
                yield made[-1]
            finally:
                for directory in made:
                    _remove_for_good(directory)

    def _lock_folder(self, made: list[Path], locked: contextlib.ExitStack) -> None:
        """A new folder, the last of those made, and its lock; once more if a sweep came between the two."""
        try:
            make_folder(self.directory)
            self.sweep()
            while True:
                directory = self.directory / f"{UNFINISHED}{os.getpid()}-{os.urandom(4).hex()}"
                made.append(directory)
                directory.mkdir()
                with contextlib.suppress(FileNotFoundError):
                    lock = locked.enter_context((directory / "lock").open("w"))
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    if (directory / "lock").exists():
                        return
        except OSError as error:
            raise ResourceError(
                f"Expected a folder to keep data sets in at '{self.directory}', got: {error.strerror}. "
                "Set SHOAL_HOME to a folder with room that you may write to."
            ) from None

    def commit(self, directory: Path, key: str) -> Dataset:
        """Give a whole data set its name; where another process was first, its equal is used."""
        self.place(directory, key)
        dataset = self.open(key)
        if dataset is None and directory.exists():  # that of the other process was cleaned up a moment ago
            self.place(directory, key)
            dataset = self.open(key)
        if dataset is None:
            raise StateError(f"The data set '{key}' was removed while it was made. Try again.")
        return dataset

    def place(self, directory: Path, key: str) -> Path:
        """Give any whole folder with a manifest its name, or leave it where one of that name is there already."""
        whole = self.directory / key
        for left in directory.glob("*.bin.*"):  # half of a file, by a worker that was killed
            left.unlink(missing_ok=True)
        hold(directory / MANIFEST, self)  # in use from its first moment
        try:
            directory.rename(whole)
        except OSError:
            if not (whole / MANIFEST).exists():  # what is left of one that lost its manifest
                shutil.rmtree(whole, ignore_errors=True)
                directory.rename(whole)
        return whole

    def keep(self, directory: Path, key: str) -> None:
        """Give a whole data set its name for later, without having it in use: a table has thousands of parts."""
        with contextlib.suppress(OSError):  # there is one of that name
            directory.rename(self.directory / key)

    def sweep(self) -> None:
        """Remove what dead processes left unfinished."""
        for directory in self.directory.glob(f"{UNFINISHED}*"):
            if not (directory / "lock").exists():
                _remove_if_old(directory)
            with alone_with(directory / "lock") as alone:
                if alone:
                    shutil.rmtree(directory, ignore_errors=True)


def _remove_for_good(directory: Path) -> None:
    """Also when a worker whose answer nobody waits for puts one more block into the folder meanwhile."""
    for _ in range(100):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.01)


def _remove_if_old(directory: Path) -> None:
    """A folder without a lock is either a minute old at most, and someone is about to lock it, or left over."""
    try:
        if time.time() - directory.stat().st_mtime > 60:
            shutil.rmtree(directory, ignore_errors=True)
    except OSError:
        return


def _told(error: DamagedFile) -> str:
    path = Path(error.path)
    what = error.message.partition(" is damaged: ")[2].rstrip(".") or error.message
    return f"A file of the cache was damaged and has been made again ('{path.parent.name}/{path.name}': {what})."


def digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=12).hexdigest()
