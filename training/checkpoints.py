"""Checkpoints: snapshots of a run that survive kills, full disks and damaged files, and become fewer with age.

What does not belong here: what a snapshot means, and when one is due.

A file holds one snapshot and needs nothing else to be read. There is no pickle in it, so that reading runs no code:

    8 bytes    "SHOALCK" and the version of this format, 1
    8 bytes    length of the header, unsigned, little-endian
    header     JSON in UTF-8: step, meta, packed ("" or "zlib"), arrays: [[name, type, shape], ...]
    payload    the arrays in that order, little-endian, row by row, one right after the other; packed as a whole
    32 bytes   blake2b (256 bits) of all bytes before

Folder:  step-000000001200.ckpt          the newest `keep`, as they are
         archive/step-000000000400.ckpt  older ones: packed if that helps, and the fewer the older
         .step-000000001300.ckpt-*.tmp   being written, or left behind by a process that was killed

Of the older ones, one is kept for each power of two of the distance to the newest: at most log2(steps) + 1 in all. It
is the oldest of its kind, because a newer one would be replaced before it could grow old; so the first always stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ConfigError, DiskFull, ResourceError, StateError
from shoal.home import alone_with
from shoal.utils import is_full, sync_folder, write_at
from shoal.words import listed

MAGIC, VERSION = b"SHOALCK", b"1"
START, DIGEST = 16, 32  # bytes before the header and after the payload
PACKING = 1  # zlib's quickest level: the digits of weights hardly pack by any, zeros pack well by all
SAMPLE, WORTH = 1 << 16, 0.9  # bytes of an array that are tried, and the share that packing has to bring them to
FILE = re.compile(r"step-(\d{12,})\.ckpt")
TEMPORARY = re.compile(r"\.step-\d{12,}\.ckpt-.+\.tmp")
NUMBERS = re.compile(r"[<|](b1|[iu][1248]|f[248]|c(8|16))")  # types that are the same on every machine


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run at one step. `meta` is JSON (tuples come back as lists), `arrays` are of numbers or truth values."""

    step: int
    meta: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)


class Damaged(Exception):
    """A file is not a whole checkpoint; the text says what is wrong with it, as the end of a sentence."""


def to_stderr(text: str) -> None:
    print(f"shoal: {text}", file=sys.stderr)


class Checkpoints:
    """The checkpoints of one run, in one folder. One process saves; others may read at the same time."""

    def __init__(self, directory: Path, keep: int = 5, warn: Callable[[str], None] = to_stderr) -> None:
        if keep < 1:
            raise ConfigError(f"Expected keep_checkpoints to be at least 1, got {keep}. Give a number such as 5.")
        self.directory, self.archive = directory, directory / "archive"
        self.keep, self.warn = keep, warn
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
        data = encode(snapshot)
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
            _write(packed, encode(_read(plain, step), pack=True))
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
            path.unlink()

    # ---------------------------------------------------------------- load

    def newest(self) -> Snapshot | None:
        """The last snapshot that is whole: from memory, disk or archive; None if there is none."""
        if self._latest is not None:
            return decode(self._latest[1])
        skipped: list[str] = []
        found = None
        for path, step in self._files():
            try:
                found = _read(path, step)
            except FileNotFoundError:
                continue  # the process that saves has thinned it out meanwhile
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
                    return _read(path, step)
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
                _read(path, step)
                self._remember(path)
        except (Damaged, OSError):
            return False
        return True

    def _remember(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            self._whole[path] = _signature(path)


def spread(steps: Iterable[int], newest: int) -> set[int]:
    """Those to keep: the oldest for each power of two of the distance to the newest."""
    oldest: dict[int, int] = {}
    for step in sorted(steps, reverse=True):
        oldest[(newest - step).bit_length()] = step
    return set(oldest.values())


# ------------------------------------------------------------------ snapshot to bytes and back


def encode(snapshot: Snapshot, pack: bool = False) -> bytearray:
    """The bytes of a file, packed if that is wanted and makes it smaller."""
    arrays = {name: _portable(name, array) for name, array in snapshot.arrays.items()}
    payloads = [array.reshape(-1).view(np.uint8).data for array in arrays.values()]
    packer = zlib.compressobj(PACKING) if pack and _packs_well(payloads) else None
    table = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    header = {"step": int(snapshot.step), "meta": snapshot.meta, "packed": "zlib" if packer else "", "arrays": table}
    text = json.dumps(header, separators=(",", ":")).encode()
    data = bytearray(MAGIC + VERSION + len(text).to_bytes(8, "little") + text)
    for payload in payloads:
        data += packer.compress(payload) if packer else payload
    data += packer.flush() if packer else b""
    data += blake2b(data, digest_size=DIGEST).digest()
    return data


def _packs_well(payloads: list[memoryview]) -> bool:
    """By a piece of each array: to pack 20 MB of digits in vain takes most of a second, and the run would wait."""
    pieces = [payload[len(payload) // 2 :][:SAMPLE] for payload in payloads]
    return sum(len(zlib.compress(piece, PACKING)) for piece in pieces) < WORTH * sum(map(len, pieces))


def decode(data: bytes | bytearray | memoryview) -> Snapshot:
    """The snapshot in the bytes of a file, or Damaged; nothing is believed before the checksum fits."""
    view = memoryview(data)
    _check_start(view[:START])
    if len(view) < START + DIGEST or blake2b(view[:-DIGEST], digest_size=DIGEST).digest() != view[-DIGEST:]:
        raise Damaged("is cut off or damaged: its checksum does not fit")
    try:
        end = START + int.from_bytes(view[8:START], "little")
        header = json.loads(bytes(view[START:end]))
        arrays = _arrays(header["arrays"], view[end:-DIGEST], header["packed"])
        return Snapshot(int(header["step"]), dict(header["meta"]), arrays)
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise Damaged(f"has a checksum that fits but is not written as it should be ({error})") from error


def _check_start(start: memoryview) -> None:
    if not len(start):
        raise Damaged("is empty")
    if start[: len(MAGIC)] != MAGIC:
        raise Damaged("is not a checkpoint: it begins with other bytes")
    if start[len(MAGIC) : len(MAGIC) + 1] != VERSION:
        raise Damaged("is damaged, or was written by another version of Shoal")


def _arrays(table: list[tuple[str, str, list[int]]], payload: memoryview, packed: str) -> dict[str, NDArray[Any]]:
    if not all(NUMBERS.fullmatch(kind) and min(shape, default=0) >= 0 for _, kind, shape in table):
        raise ValueError("an array of another type or shape")
    sizes = [np.dtype(kind).itemsize * math.prod(shape) for _, kind, shape in table]
    if packed:
        unpacker = zlib.decompressobj()
        payload = memoryview(unpacker.decompress(payload, sum(sizes) + 1))
    if len(payload) != sum(sizes):
        raise ValueError(f"{len(payload)} bytes of arrays where {sum(sizes)} are announced")
    arrays, begin = {}, 0
    for (name, kind, shape), size in zip(table, sizes, strict=True):
        array = np.frombuffer(payload[begin : begin + size], np.dtype(kind)).reshape(shape)
        arrays[name] = array.astype(array.dtype.newbyteorder("="))  # a copy, so that it can be changed
        begin += size
    return arrays


def _portable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array in row order and little-endian."""
    made = np.asarray(array)
    made = np.asarray(made, made.dtype.newbyteorder("<"), order="C")
    if not NUMBERS.fullmatch(made.dtype.str):
        raise TypeError(f"Expected an array of numbers as '{name}', got one of {made.dtype}. Put it into meta.")
    return made


# ------------------------------------------------------------------ files


def _name(step: int) -> str:
    return f"step-{step:012d}.ckpt"


def _steps_in(folder: Path) -> list[int]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return [int(match[1]) for name in os.listdir(folder) if (match := FILE.fullmatch(name))]
    return []


def _signature(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _read(path: Path, step: int) -> Snapshot:
    """The snapshot in a file, Damaged, or FileNotFoundError."""
    try:
        with path.open("rb") as file:
            start = file.read(START)
            _check_start(memoryview(start))  # before the rest: a foreign file may be of any size
            snapshot = decode(start + file.read())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(f"could not be read: {error.strerror}") from error
    if snapshot.step != step:
        raise Damaged(f"holds step {snapshot.step}, not the one that its name says")
    return snapshot


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
            os.replace(temporary, path)
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
