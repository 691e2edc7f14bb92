"""Checkpoints: snapshots of a run that survive kills, full disks and damaged files, and become fewer with age.

What does not belong here: what a snapshot means, its bytes (`snapshots`), and when one is due.

Folder:  step-000000001200.ckpt          the newest `keep`, as they are
         archive/step-000000000400.ckpt  older ones: packed if that helps, and the fewer the older
         .step-000000001300.ckpt-*.tmp   being written, or left behind by a process that was killed

Of the older ones, one is kept for each power of two of the distance to the newest: at most log2(steps) + 1 in all. It
is the oldest of its kind, because a newer one would be replaced before it could grow old; so the first always stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from shoal.errors import ConfigError, DiskFull, ResourceError, StateError
from shoal.home import alone_with
from shoal.tracing import spans
from shoal.training.snapshots import (
    MAGIC,
    START,
    Damaged,
    OtherFormat,
    Snapshot,
    check_start,
    decode,
    encode,
    fits_otherwise,
)
from shoal.utils import is_full, put_in_place, sync_folder, write_at
from shoal.words import listed

__all__ = ["MAGIC", "Checkpoints", "Damaged", "OtherFormat", "Snapshot", "decode", "encode", "spread"]

FILE = re.compile(r"step-(\d{12,})\.ckpt")
RUN = "run"  # in a snapshot's meta: whose it is
TEMPORARY = re.compile(r"\.step-\d{12,}\.ckpt-.+\.tmp")


def to_stderr(text: str) -> None:
    print(f"shoal: {text}", file=sys.stderr)


class Checkpoints:
    """The checkpoints of one run, in one folder. One process saves; others may read at the same time.

    Where it is said whose they are (`of`), those of another run are not taken for its own, whole as they may be.
    """

    def __init__(
        self, directory: Path, keep: int = 5, warn: Callable[[str], None] = to_stderr, of: str = ""
    ) -> None:  # fmt: skip
        if keep < 1:
            raise ConfigError(f"Expected keep_checkpoints to be at least 1, got {keep}. Give a number such as 5.")
        self.directory, self.archive = directory, directory / "archive"
        self.keep, self.warn, self.of = keep, warn, of
        self._latest: tuple[int, bytearray] | None = None
        self._whole: dict[Path, tuple[int, ...]] = {}  # what files looked like when they were found to be whole
        for folder in (self.directory, self.archive):
            _remove_leftovers(folder)

    # ---------------------------------------------------------------- save

    def save(self, snapshot: Snapshot) -> Path:
        """Write a snapshot; when this returns, it survives a loss of power. Then tidy up the older ones.

        It is the newest from now on: later steps, of a continuation that was given up, are removed.
        """
        if snapshot.step < 0:
            raise StateError(f"Expected a step of at least 0 to save, got {snapshot.step}.")
        with spans.span("checkpoint", step=snapshot.step):
            data = encode(replace(snapshot, meta={**snapshot.meta, RUN: self.of}) if self.of else snapshot)
            path = self.directory / _name(snapshot.step)
            try:
                _write(path, data)
            except OSError as error:
                raise _no_room(path, error) from error
        self._remember(path)
        self._latest = snapshot.step, data
        self.forget_after(snapshot.step)
        self._thin()
        return path

    def forget_after(self, step: int) -> None:
        """Remove what is later than a step, because the run goes on from there."""
        if self._latest is not None and self._latest[0] > step:
            self._latest = None
        for folder in (self.directory, self.archive):
            later = [other for other in _steps_in(folder) if other > step]
            for other in later:
                self._remove(folder / _name(other))
            with contextlib.suppress(OSError):
                if later:
                    sync_folder(folder)  # or they could be back after a loss of power

    def _thin(self) -> None:
        """Leave the newest `keep` as they are; pack or remove what is older."""
        plain, packed = _steps_in(self.directory), _steps_in(self.archive)
        newest = max(plain)
        older = sorted(plain)[: -self.keep]
        survivors = spread({*older, *packed} - (set(plain) - set(older)), newest)
        for step in older:
            if step in survivors and step not in packed and not self._pack(step):
                continue
            self._remove(self.directory / _name(step))
        for step in packed:
            if step not in survivors:
                self._remove(self.archive / _name(step))

    def _pack(self, step: int) -> bool:
        """Copy a step to the archive; whether the plain file may go."""
        plain, packed = self.directory / _name(step), self.archive / _name(step)
        try:
            _write(packed, encode(self._read(plain, step), pack=True))
        except OtherFormat:
            return False
        except Damaged as damage:
            self.warn(f"The checkpoint '{plain}' {damage}. It was too old to be needed, and is removed.")
            return True
        except OSError as error:
            self.warn(
                f"The checkpoint '{plain}' could not be moved to the archive ({error.strerror}) and stays where it is. "
                "Free some space."
            )
            return False
        self._remember(packed)
        return True

    def _remove(self, path: Path) -> None:
        self._whole.pop(path, None)
        with contextlib.suppress(OSError):  # it is tried again after the next one
            if not _is_of_other_format(path):
                path.unlink()

    # ---------------------------------------------------------------- load

    def newest(self) -> Snapshot | None:
        """The last snapshot that is whole: from memory, disk or archive; None if there is none.

        One of another format is not skipped: what comes after it would be done again, and be lost.
        """
        if self._latest is not None:
            return decode(self._latest[1])
        skipped: list[str] = []
        found = None
        for path, step in self._files():
            try:
                found = self._read(path, step)
            except FileNotFoundError:
                continue  # the process that saves has thinned it out meanwhile
            except OtherFormat as other:
                raise StateError(
                    f"The checkpoint '{path}' {other}. Nothing was changed. Go on with the Shoal that wrote it, or "
                    "move the file elsewhere to go on from the one before."
                ) from None
            except Damaged as damage:
                skipped.append(f"The checkpoint '{path}' {damage}.")
                continue
            self._remember(path)
            break
        instead = f"Step {found.step} is used instead." if found else "There is no other to use instead."
        for what in skipped:
            self.warn(f"{what} {instead}")
        return found

    def load(self, step: int) -> Snapshot:
        """The snapshot of one step."""
        if self._latest is not None and self._latest[0] == step:
            return decode(self._latest[1])
        problem = "is not there"
        for path, other in self._files():
            try:
                if other == step:
                    return self._read(path, step)
            except FileNotFoundError:
                continue
            except Damaged as damage:
                problem = f"cannot be used: '{path}' {damage}"
        choice = listed([str(other) for other in self.steps()]) or "none"
        raise StateError(f"The checkpoint of step {step} {problem}. Choose one of the others: {choice}.")

    def steps(self) -> list[int]:
        """All steps that can be loaded, in order; each file is read once and then again only if it was changed."""
        return sorted({step for path, step in self._files() if self._is_whole(path, step)})

    def _files(self) -> Iterator[tuple[Path, int]]:
        """All files that should be checkpoints, newest step first, plain before packed."""
        found = [(step, folder) for folder in (self.archive, self.directory) for step in _steps_in(folder)]
        for step, folder in sorted(found, key=lambda item: (item[0], item[1] == self.directory), reverse=True):
            yield folder / _name(step), step

    def _is_whole(self, path: Path, step: int) -> bool:
        try:
            if self._whole.get(path) != _signature(path):
                self._read(path, step)
                self._remember(path)
        except (Damaged, OSError):
            return False
        return True

    def _read(self, path: Path, step: int) -> Snapshot:
        """The snapshot in a file, Damaged, or FileNotFoundError; those of older versions do not say whose they are."""
        snapshot = decode(_content(path))
        if snapshot.step != step:
            raise Damaged(f"holds step {snapshot.step}, not the one that its name says")
        whose = snapshot.meta.get(RUN, self.of)
        if self.of and whose != self.of:
            raise Damaged(f"is one of the run {whose}, not of {self.of}")
        return snapshot

    def _remember(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            self._whole[path] = _signature(path)


def spread(steps: Iterable[int], newest: int) -> set[int]:
    """Those to keep: the oldest for each power of two of the distance to the newest."""
    oldest: dict[int, int] = {}
    for step in sorted(steps, reverse=True):
        oldest[(newest - step).bit_length()] = step
    return set(oldest.values())


# ------------------------------------------------------------------ files


def _name(step: int) -> str:
    return f"step-{step:012d}.ckpt"


def _steps_in(folder: Path) -> list[int]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return [int(match[1]) for name in os.listdir(folder) if (match := FILE.fullmatch(name))]
    return []


def _is_of_other_format(path: Path) -> bool:
    try:
        _content(path)
    except OtherFormat:
        return True
    except (Damaged, OSError):
        return False
    return False


def _signature(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _content(path: Path) -> bytes:
    """The bytes of a file that begins as a checkpoint does; Damaged or OtherFormat if it does not."""
    try:
        with path.open("rb") as file:
            start = file.read(START)
            try:
                check_start(memoryview(start))  # before the rest: a foreign file may be of any size
            except OtherFormat:
                if fits_otherwise(start + file.read()):
                    raise Damaged(
                        "is damaged: its checksum fits the format of this Shoal, not the one it names"
                    ) from None
                raise
            return start + file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(f"could not be read: {error.strerror}") from error


def _write(path: Path, data: bytearray) -> None:
    """The whole file or nothing, safe from a loss of power: content first, then the name, then the folder."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent.parent)
    descriptor, temporary = _temporary(path)
    try:
        try:
            write_at(descriptor, memoryview(data), 0)
            os.fsync(descriptor)
            put_in_place(temporary, path)
        finally:
            os.close(descriptor)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _temporary(path: Path) -> tuple[int, Path]:
    """A new file beside `path`, locked for as long as it is open, so that others see that it is in use."""
    while True:
        temporary = path.with_name(f".{path.name}-{os.urandom(4).hex()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, temporary
        os.close(descriptor)  # taken for a leftover between its making and its lock


def _remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of processes that are gone: the kernel has let go of their locks."""
    with contextlib.suppress(OSError):
        for name in [name for name in os.listdir(folder) if TEMPORARY.fullmatch(name)]:
            with contextlib.suppress(OSError), alone_with(folder / name) as alone:
                if alone:
                    os.unlink(folder / name)


def _no_room(path: Path, error: OSError) -> ResourceError:
    if is_full(error):
        return DiskFull(
            f"The disk is full: there is no room for the checkpoint '{path}'. The one before is untouched. "
            "Free some space, or set SHOAL_HOME to a folder on a larger disk."
        )
    return ResourceError(
        f"The checkpoint '{path}' could not be written: {error.strerror}. The one before is untouched. "
        "Check the folder and its permissions."
    )
