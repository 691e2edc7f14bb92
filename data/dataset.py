"""Data sets on disk: immutable blocks with a manifest, found again by what the file was when they were made.

A data set is a folder. It is written under another name, locked by its writer, and gets its name by one rename when
it is whole; so a folder with a data set's name is a whole data set. Reading CSV does not belong here.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from shoal.errors import ResourceError, StateError
from shoal.models import Array
from shoal.solve.moments import Moments
from shoal.utils import hold, write_atomically

FORMAT = 1  # of manifests and blocks; another number means another cache key
MANIFEST = "manifest.json"
UNFINISHED = "unfinished-"


@dataclass(frozen=True)
class Column:
    """What all rows say about one column. `slot` is its place among the number or the level columns of a block."""

    name: str
    type: str  # numeric, datetime, categorical or text
    slot: int
    missing: int
    minimum: float | None = None
    maximum: float | None = None
    levels: tuple[str, ...] = ()
    distinct: int | None = None
    more_levels: bool = False  # there are more levels than are remembered
    flags: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        return self.type in ("numeric", "datetime")


@dataclass(frozen=True)
class Block:
    """A run of rows: `first` is the file's row index of the first one, `bad` are local indices of unread rows."""

    index: int
    first: int
    rows: int
    bad: tuple[int, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """All that is known of a data set but its rows."""

    source: str
    size: int
    dialect: dict[str, Any]
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    bad_rows: tuple[tuple[int, str], ...]  # the first ones: line in the file, what is wrong
    bad_count: int
    largest_norm: float
    content: str
    notes: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    def to_json(self) -> str:
        return json.dumps(asdict(self))  # ASCII: the name of the source need not be valid UTF-8

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        raw = json.loads(text)
        raw["columns"] = tuple(
            Column(**{**c, "levels": tuple(c["levels"]), "flags": tuple(c["flags"])}) for c in raw["columns"]
        )
        raw["blocks"] = tuple(Block(b["index"], b["first"], b["rows"], tuple(b["bad"])) for b in raw["blocks"])
        raw["bad_rows"] = tuple((line, what) for line, what in raw["bad_rows"])
        raw["notes"] = tuple(raw["notes"])
        return cls(**raw)


class Dataset:
    """A whole data set, opened for reading; blocks are mapped when they are asked for. While it lives, it is in use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            self.manifest = Manifest.from_json((directory / MANIFEST).read_text("utf-8"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"The cached data set in '{directory}' cannot be opened: {error}. Delete that folder; it is made anew."
            ) from None
        if not hold(directory / MANIFEST, self):
            raise StateError(
                f"The cached data set in '{directory}' was removed a moment ago. Try again; it is made anew."
            )
        self.columns = {column.name: column for column in self.manifest.columns}

    @cached_property
    def number_columns(self) -> list[Column]:
        return sorted((c for c in self.manifest.columns if c.is_number), key=lambda c: c.slot)

    @cached_property
    def level_columns(self) -> list[Column]:
        return sorted((c for c in self.manifest.columns if not c.is_number), key=lambda c: c.slot)

    @property
    def rows(self) -> int:
        return self.manifest.rows

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.manifest.blocks

    def is_whole(self) -> bool:
        """Whether every block file has the size that its rows need, and the archives have an end."""
        width = 8 * len(self.number_columns) + 4 * len(self.level_columns)
        moments = self.directory / "moments.npz"
        try:
            return (
                all(block_path(self.directory, b.index).stat().st_size == b.rows * width for b in self.blocks)
                and zipfile.is_zipfile(self.directory / "levels.npz")
                and (not moments.exists() or zipfile.is_zipfile(moments))
            )
        except OSError:
            return False

    def numbers(self, block: Block) -> Array:
        """(rows, number columns), mapped from the file, NaN where missing."""
        shape = (block.rows, len(self.number_columns))
        if not shape[0] * shape[1]:
            return np.zeros(shape)
        return np.memmap(block_path(self.directory, block.index), np.float64, "r", 0, shape)

    def codes(self, block: Block, slot: int) -> npt.NDArray[np.int32]:
        """(rows,): the index of each row's level in the column's sorted levels, -1 where missing or not remembered."""
        if not block.rows:
            return np.zeros(0, np.int32)
        offset = 8 * block.rows * len(self.number_columns) + 4 * slot * block.rows
        local = np.memmap(block_path(self.directory, block.index), np.int32, "r", offset, (block.rows,))
        table = self._level_maps[f"{block.index}.{slot}"]
        return np.asarray(table[local])

    @cached_property
    def _level_maps(self) -> Mapping[str, npt.NDArray[np.int32]]:
        """For each block and column: from the block's own codes to the data set's; the last entries serve -2, -1."""
        with np.load(self.directory / "levels.npz") as maps:
            return dict(maps)

    @cached_property
    def cells(self) -> list[Moments]:
        """Moments of the number columns by row index modulo their count, summed while the file was read."""
        try:
            with np.load(self.directory / "moments.npz") as saved:
                parts = zip(saved["n"], saved["mean"], saved["scatter"], strict=True)
                return [Moments(float(n), mean, scatter) for n, mean, scatter in parts]
        except OSError:
            return []


def block_path(directory: Path, index: int) -> Path:
    return directory / f"block-{index:06d}.bin"


@dataclass
class LevelTable:
    """The levels of one text column over all blocks, up to a limit."""

    limit: int = 20_000
    seen: dict[str, None] = field(default_factory=dict)
    missing: int = 0
    refused: bool = False

    def add(self, levels: Sequence[str], missing: int, refused: int) -> None:
        levels = [level for level in levels if level]  # "" is missing, so it marks a text of unread rows only
        self.missing += missing
        self.refused = self.refused or refused > 0
        if (
            len(self.seen) + len(levels) <= self.limit
            or len(set(levels) - self.seen.keys()) + len(self.seen) <= self.limit
        ):
            self.seen.update(dict.fromkeys(levels))
        else:
            self.refused = True

    def sorted(self) -> tuple[str, ...]:
        return tuple(sorted(self.seen))

    @staticmethod
    def codes_of(levels: Sequence[str], places: Mapping[str, int]) -> npt.NDArray[np.int32]:
        """The map from a block's codes to the data set's; indices -2 and -1 lead to -1, missing."""
        return np.array([*(places.get(level, -1) for level in levels), -1, -1], np.int32)


# ------------------------------------------------------------------ the cache


class Cache:
    """The data sets under one folder, by key; and which key a file had when it was last read."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "cache"

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
        return self.directory / "index" / f"{digest(question)}.json"

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
            directory = self.directory / f"{UNFINISHED}{os.getpid()}-{secrets.token_hex(4)}"
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
            try:
                with (directory / "lock").open("r") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory, ignore_errors=True)
            except FileNotFoundError:
                _remove_if_old(directory)
            except OSError:
                continue


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
