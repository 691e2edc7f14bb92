"""The data sets under one folder, found again by what their file was when they were made.

A data set is written under another name, locked by its writer, and gets its name by one rename when it is whole; so a
folder with a data set's name is a whole data set. What is in one stands in `dataset`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from shoal.data.dataset import Dataset
from shoal.errors import ResourceError, StateError
from shoal.home import MANIFEST, UNFINISHED, alone_with, cache_directory, cache_index, hold
from shoal.utils import write_atomically


class Cache:
    """The data sets under one folder, by key; and which key a file had when it was last read."""

    def __init__(self, home: Path) -> None:
        self.directory = cache_directory(home)

    def find(self, question: Mapping[str, Any], identity: Mapping[str, int]) -> Dataset | None:
        """The data set that answers `question` (path, dialect, types), if the file is still what it was."""
        try:
            known = json.loads(self._index(question).read_text())
        except (OSError, ValueError):
            return None
        if not isinstance(known, dict) or known.get("identity") != dict(identity) or "key" not in known:
            return None
        return self.open(known["key"])

    def open(self, key: str) -> Dataset | None:
        """The data set of that name; one that is damaged is removed, to be made anew."""
        directory = self.directory / key
        if not (directory / MANIFEST).exists():
            return None
        try:
            dataset = Dataset(directory)
            if dataset.is_whole():
                return dataset
        except StateError:
            pass
        shutil.rmtree(directory, ignore_errors=True)
        return None

    def remember(self, question: Mapping[str, Any], identity: Mapping[str, int], key: str) -> None:
        entry = {"identity": dict(identity), "key": key, "question": dict(question)}
        write_atomically(self._index(question), json.dumps(entry).encode())

    def _index(self, question: Mapping[str, Any]) -> Path:
        return cache_index(self.directory) / f"{digest(question)}.json"

    @contextmanager
    def workshop(self) -> Iterator[Path]:
        """A folder to build a data set in; whatever is left in it afterwards is removed, if need be by the next
        one to come: the lock on it ends with the process."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.sweep()
            directory, lock = self._locked_folder()
        except OSError as error:
            raise ResourceError(
                f"Expected a folder to keep data sets in at '{self.directory}', got: {error.strerror}. "
                "Set SHOAL_HOME to a folder with room that you may write to."
            ) from None
        with lock:
            try:
                yield directory
            finally:
                _remove_for_good(directory)

    def _locked_folder(self) -> tuple[Path, IO[str]]:
        """A new folder and the lock on it; once more if a sweep came between the making and the locking."""
        while True:
            directory = self.directory / f"{UNFINISHED}{os.getpid()}-{os.urandom(4).hex()}"
            directory.mkdir()
            try:
                lock = (directory / "lock").open("w")
                fcntl.flock(lock, fcntl.LOCK_EX)
                if (directory / "lock").exists():
                    return directory, lock
                lock.close()
            except FileNotFoundError:
                continue
            except OSError:
                shutil.rmtree(directory, ignore_errors=True)
                raise

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
        hold(directory / MANIFEST, self)  # in use from its first moment
        try:
            directory.rename(whole)
        except OSError:
            if not (whole / MANIFEST).exists():  # what is left of one that lost its manifest
                shutil.rmtree(whole, ignore_errors=True)
                directory.rename(whole)
        return whole

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


def digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=12).hexdigest()
