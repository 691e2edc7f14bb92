"""How much of what there is under SHOAL_HOME, in one walk; what may go, and how, is in `cleaning`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from shoal.home import (
    REMOVED,
    SHARDS,
    UNFINISHED,
    archive_directory,
    cache_directory,
    cache_index,
    fetched_directory,
    home,
    jobs_directory,
    models_directory,
    modules_directory,
    names_in,
    runs_directory,
    samples_directory,
    searches_directory,
    trash_directory,
    uploads_directory,
)
from shoal.lazy.classes import dataclass
from shoal.library import archives
from shoal.library.kinds import KINDS, DiskKind


@dataclass(frozen=True)
class Item:
    """One thing that can go or stay as a whole; `bytes` is what it takes on the disk."""

    kind: str
    path: Path
    bytes: int
    changed: float  # the newest change in it, seconds since 1970


@dataclass(frozen=True)
class Use:
    """How much of the disk one kind takes."""

    kind: DiskKind
    count: int
    bytes: int
    oldest: float | None
    unread: tuple[str, ...] = ()  # folders that cannot be read, each with why: what is in them is not counted


def survey() -> list[Use]:
    """All kinds, in their order; their bytes add up to what the disk has under SHOAL_HOME."""
    found: dict[str, list[Item]] = {name: [] for name in KINDS}
    inventory = _Inventory()
    for item in inventory.items():
        found[item.kind].append(item)
    unread = {"other": tuple(f"'{folder}' ({why})" for folder, why in inventory.unread.items())}
    return [
        Use(
            KINDS[name], len(those), sum(i.bytes for i in those), min((i.changed for i in those), default=None),
            unread.get(name, ()),
        )
        for name, those in found.items()
        if those or name not in ("fetched", "networks")  # which only a team has, and who writes Python
    ]  # fmt: skip


def items() -> list[Item]:
    """Everything under SHOAL_HOME; StateError where one of its own folders cannot be read: that is not empty."""
    inventory = _Inventory()
    found = inventory.items()
    inventory.prove()
    return found


class _Inventory:
    """One walk through the home. A file with two names is counted where it is met first."""

    def __init__(self) -> None:
        self.folder = home()
        self.unread: dict[Path, str] = {}  # with why
        self._seen: set[tuple[int, int]] = set()
        self._rooms: dict[Path, Callable[[os.DirEntry[str]], Iterator[Item]]] = {
            cache_directory(): self._cached, uploads_directory(): self._uploaded, samples_directory(): self._sampled,
            jobs_directory(): self._done_job, runs_directory(): self._run, archive_directory(): self._archived,
            models_directory(): self._modelled, fetched_directory(): self._fetched,
            trash_directory(): self._trashed, searches_directory(): self._searched,
            modules_directory(): self._networked,
        }  # fmt: skip

    def items(self) -> list[Item]:
        return [item for item in self._take() if item.changed]

    def prove(self) -> None:
        """StateError if one of the folders that things are kept in could not be read."""
        for folder in {self.folder, *self._rooms} & self.unread.keys():
            names_in(folder)

    def _take(self) -> Iterator[Item]:
        yield self._own(self.folder)
        for entry in self._entries(self.folder):
            room = self._rooms.get(Path(entry.path))
            if room and entry.is_dir(follow_symlinks=False):
                yield self._own(entry)
                for inner in self._entries(entry.path):
                    yield from room(inner)
            else:
                yield self._whole("leftovers" if entry.name.startswith(REMOVED) else "other", entry)

    def _cached(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        kind = "data"
        if not entry.is_dir(follow_symlinks=False) or Path(entry.path) == cache_index(cache_directory()):
            kind = "other"
        elif entry.name.startswith(UNFINISHED):
            kind = "leftovers"
        elif entry.name.startswith(SHARDS):
            kind = "shards"
        yield self._whole(kind, entry)

    def _uploaded(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        yield self._whole("leftovers" if entry.name.startswith(".") else "uploads", entry)

    def _sampled(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        yield self._whole("leftovers" if entry.name.startswith(".") else "samples", entry)

    def _archived(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        """An archive goes with its account; other files in that folder are locks."""
        kind = "leftovers" if entry.name.startswith(".") and entry.name != ".lock" else "other"
        yield self._whole("archives" if entry.name.endswith(archives.ENDING) and kind == "other" else kind, entry)

    def _trashed(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        yield self._whole("leftovers", entry)

    def _modelled(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        yield self._whole("models" if entry.is_dir(follow_symlinks=False) else "other", entry)

    def _networked(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        kind = "leftovers" if entry.name.startswith(".") else "networks"
        yield self._whole(kind if entry.is_dir(follow_symlinks=False) else "other", entry)

    def _fetched(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        """Version by version."""
        yield self._own(entry)
        for version in self._entries(entry.path):
            yield self._whole("fetched", version)

    def _searched(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        yield self._whole("searches" if entry.is_dir(follow_symlinks=False) else "other", entry)

    def _done_job(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        if not entry.is_dir(follow_symlinks=False):
            yield self._whole("other", entry)
            return
        yield self._own(entry)
        for inner in self._entries(entry.path):
            yield self._whole("jobs", inner)

    def _run(self, entry: os.DirEntry[str]) -> Iterator[Item]:
        """A run's folder in two parts, since its checkpoints can go alone."""
        if not entry.is_dir(follow_symlinks=False):
            yield self._whole("other", entry)
            return
        size, changed = self._own_size(entry)
        for inner in self._entries(entry.path):
            part = self._measure(inner)
            if inner.name == "checkpoints" and inner.is_dir(follow_symlinks=False):
                yield Item("checkpoints", Path(inner.path), *part)
            else:
                size, changed = size + part[0], max(changed, part[1])
        yield Item("runs", Path(entry.path), size, changed)

    # ---------------------------------------------------------------- sizes

    def _whole(self, kind: str, entry: os.DirEntry[str]) -> Item:
        movable = kind == "other" or not entry.is_symlink()
        return Item(kind if movable else "other", Path(entry.path), *self._measure(entry))

    def _own(self, entry: os.DirEntry[str] | Path) -> Item:
        """A folder without what is in it."""
        return Item("other", Path(entry), *self._own_size(entry))

    def _measure(self, entry: os.DirEntry[str]) -> tuple[int, float]:
        """Bytes and newest change of a file, or of a folder with all that is in it."""
        found = self._stat(entry)
        if found is None:
            return 0, 0.0
        size, changed = self._blocks(found), found.st_mtime
        if stat.S_ISDIR(found.st_mode):
            for inner in self._entries(entry.path):
                more, later = self._measure(inner)
                size, changed = size + more, max(changed, later)
        return size, changed

    def _own_size(self, entry: os.DirEntry[str] | Path) -> tuple[int, float]:
        found = self._stat(entry)
        return (0, 0.0) if found is None else (self._blocks(found), found.st_mtime)

    def _entries(self, folder: str | Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as found:
                return list(found)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.unread[Path(folder)] = str(error.strerror)
            return []

    def _stat(self, entry: os.DirEntry[str] | Path) -> os.stat_result | None:
        try:
            return entry.stat(follow_symlinks=False)
        except OSError:  # it went away meanwhile
            return None

    def _blocks(self, found: os.stat_result) -> int:
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            if (found.st_dev, found.st_ino) in self._seen:
                return 0
            self._seen.add((found.st_dev, found.st_ino))
        return found.st_blocks * 512


def entries(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []
