"""Files of sparse rows as blocks of compressed rows on disk: read once by all workers, found again, mapped.

A column is called `x` and its index as the file has it; the label is what is predicted. What is fitted is in `fit`.
"""

from __future__ import annotations

import dataclasses
import functools
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.coordinator import Coordinator
from shoal.data.cache import Cache, digest
from shoal.data.files import Identity, file_format, open_plain, read_sample
from shoal.data.formats.containers import PACKED
from shoal.data.formats.pairs import has_pairs
from shoal.data.splits import Split
from shoal.errors import DamagedFile, DataError, StateError
from shoal.files import sealed
from shoal.files.checksums import mapped, write_whole
from shoal.files.locks import hold
from shoal.files.parts import absolute, parts_of, title
from shoal.files.remote import place, remote_file
from shoal.home import MANIFEST
from shoal.kernels.pairs_kernel import ALL_READ, NOT_RISING, ReadRows, read_pairs
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.settings.limits import BLOCK_BYTES, ROW_BYTES
from shoal.utils import disk_errors
from shoal.worker import Worker

FORMAT = 1  # of blocks; another number means another cache key
FOLDER = "sparse-"  # of the cache
HEAD = 4096  # bytes in which sparse rows have a colon
LABEL = "label"
SHOWN = 60  # bytes of a row that is none


def column_name(index: int) -> str:
    return f"x{index}"


def is_sparse(config: RunConfig) -> bool:
    """Whether the file has sparse rows; who says what is between cells means a table of cells."""
    if config.delimiter is not None or not config.file:
        return False
    paths = parts_of(config.file)
    if len(paths) != 1 or not paths[0].is_file():
        return False
    remote = remote_file(paths[0])
    return _has_pairs(paths[0]) if remote is None or not remote.stat().mark else _has_pairs_there(remote.stamped)


@functools.lru_cache(maxsize=256)
def _has_pairs_there(stamped: str) -> bool:
    """One look at each state of what is behind an address: its bytes are fetched for it."""
    return _has_pairs(place(stamped))


def _has_pairs(path: Path) -> bool:
    kind = file_format(path)
    if kind not in ("csv", *PACKED):  # how the text of a sheet or a plug-in is written is agreed on
        return False
    if kind == "csv":
        with path.open("rb") as file:
            if b":" not in file.read(HEAD):
                return False
    sample, at_end = read_sample(path)
    return has_pairs(sample if at_end else sample[: sample.rfind(b"\n") + 1])


# ------------------------------------------------------------------ blocks


@dataclass(frozen=True)
class SparseBlock:
    """What a block's file holds: labels and ends of its rows, values and their indices, one after the other."""

    rows: int
    values: int
    checksum: int

    @property
    def size(self) -> int:
        return 16 * self.rows + 12 * self.values


class SparseRange(NamedTuple):
    """The rows that begin in some bytes of a file."""

    path: str
    start: int
    stop: int

    def read(self) -> ReadRows:
        """Up to the first that is none; places are those of the file."""
        with open(self.path, "rb") as file:
            file.seek(max(self.start - 1, 0))
            text = file.read(self.stop - max(self.start - 1, 0))
            skipped = 0
            if self.start:  # a row that began before belongs to the range before
                skipped = text.find(b"\n") + 1 or len(text)
            while not text.endswith(b"\n") and (more := file.readline(ROW_BYTES)):
                text += more
                if len(more) == ROW_BYTES and not more.endswith(b"\n"):
                    raise DataError(f"A row of '{Path(self.path).name}' is longer than {ROW_BYTES >> 20} MB.")
        begin = max(self.start - 1, 0) + skipped
        found = read_pairs(text[skipped:], self.stop - begin)
        return found._replace(position=begin + found.position)


def ranges_of(path: Path) -> list[SparseRange]:
    """By the file only, never by the number of workers."""
    size = path.stat().st_size
    return [SparseRange(str(path), at, min(at + BLOCK_BYTES, size)) for at in range(0, size, BLOCK_BYTES)]


class Bad(NamedTuple):
    """Where a row is that is none, and why."""

    position: int
    said: int


@dataclass(frozen=True)
class MakeBlock:
    """Read a range and write it as a block."""

    range: SparseRange
    target: str

    def answer(self, worker: Worker) -> tuple[SparseBlock, int] | Bad:
        """The block and its greatest index."""
        found = self.range.read()
        if found.said != ALL_READ:
            return Bad(found.position, found.said)
        with disk_errors():
            seal = write_whole(self.target, (found.labels, found.ends, found.values, found.indices))
        return SparseBlock(len(found.labels), len(found.values), seal.checksum), found.greatest


def bad_row(path: Path, bad: Bad) -> DataError:
    """In words, with its line: those before are counted only now."""
    line, left = 1, bad.position
    with path.open("rb") as file:
        while left and (piece := file.read(min(left, 1 << 20))):
            line, left = line + piece.count(b"\n"), left - len(piece)
        shown = file.readline(SHOWN + 1).rstrip(b"\r\n").decode("utf-8", "replace")
    why = "indices that rise from left to right" if bad.said == NOT_RISING else "label index:value index:value ..."
    more = " ..." if len(shown) > SHOWN else ""
    return DataError(f"Line {line:,} of '{path.name}': expected {why}, got '{shown[:SHOWN]}{more}'. Correct the file.")


# ------------------------------------------------------------------ the table


class CompressedRows(NamedTuple):
    """Of one block: `ends` counts values up to the end of each row."""

    labels: Array
    ends: npt.NDArray[np.int64]
    values: Array
    indices: npt.NDArray[np.int32]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        return np.diff(self.ends, prepend=0)


def scores(ends: npt.NDArray[np.int64], indices: npt.NDArray[np.int32], values: Array, weights: Array) -> Array:
    """The sums of values times weights of each row; indices beyond the weights have none."""
    known = indices < len(weights)
    products = np.where(known, weights[np.where(known, indices, 0)], 0.0) * values
    rows = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    return np.asarray(np.bincount(rows, products, len(ends)), np.float64)


@dataclass(frozen=True)
class SparseTable:
    """All blocks of a file; `columns` is one more than its greatest index."""

    directory: str
    blocks: tuple[SparseBlock, ...]
    columns: int

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def values(self) -> int:
        return sum(block.values for block in self.blocks)

    @property
    def content(self) -> str:
        """A fingerprint."""
        return digest([asdict(block) for block in self.blocks])

    def parts(self) -> Iterator[CompressedRows]:
        for number, block in enumerate(self.blocks):
            data = mapped(block_path(self.directory, number), block.size, block.checksum)
            rows, values = block.rows, block.values
            ends = data[8 * rows : 16 * rows].view(np.int64)
            yield CompressedRows(
                data[: 8 * rows].view(np.float64), ends,
                data[16 * rows : 16 * rows + 8 * values].view(np.float64),
                data[16 * rows + 8 * values :].view(np.int32),
            )  # fmt: skip

    def firsts(self) -> Iterator[tuple[int, SparseBlock]]:
        """Blocks with the number of the first row of each."""
        first = 0
        for block in self.blocks:
            yield first, block
            first += block.rows

    def trained(self, split: Split) -> Iterator[tuple[CompressedRows, npt.NDArray[np.bool_]]]:
        """Blocks, and which of their rows are for training."""
        for (first, block), part in zip(self.firsts(), self.parts(), strict=True):
            yield part, ~split.is_test(np.arange(first, first + block.rows))


def block_path(directory: str, number: int) -> str:
    return str(Path(directory) / f"rows-{number:06d}.bin")


def open_table(coordinator: Coordinator, config: RunConfig) -> SparseTable:
    """The cached one if the file is what it was, else read now."""
    path, key, cache = parts_of(config.file)[0], _key(config), coordinator.cache
    if (found := _found(cache, cache.directory / key)) is not None:
        return found
    with cache.workshop() as workshop, disk_errors():
        folder = workshop / "rows"
        folder.mkdir()
        blocks, columns = _read(coordinator, plain_text(path, workshop), folder)
        if not sum(block.rows for block in blocks):
            raise DataError(f"'{title(config.file)}' has no rows. Choose a file with rows.")
        sealed.write(folder / MANIFEST, {"blocks": [asdict(b) for b in blocks], "columns": columns}, of=key)
        placed = _found(cache, cache.place(folder, key))
    if placed is None:
        raise StateError("The rows that were just read were removed. Try again.")
    return placed


def _key(config: RunConfig) -> str:
    identity = Identity.of(parts_of(config.file)[0])
    return f"{FOLDER}{digest([FORMAT, absolute(config.file), dataclasses.asdict(identity)])}"


def is_read(coordinator: Coordinator, config: RunConfig) -> bool:
    """Whether the file is there and still what it was when it was read."""
    try:
        return (coordinator.cache.directory / _key(config) / MANIFEST).exists()
    except (OSError, DataError):
        return False


def plain_text(path: Path, workshop: Path) -> Path:
    """The file, or its text where that is packed or behind an address."""
    if file_format(path) == "csv" and remote_file(path) is None:
        return path
    target = workshop / "text"
    with open_plain(path) as packed, target.open("wb") as out:
        shutil.copyfileobj(packed, out, 1 << 20)
    return target


def _read(coordinator: Coordinator, path: Path, folder: Path) -> tuple[list[SparseBlock], int]:
    blocks: list[SparseBlock] = []
    columns = 0
    requests = [MakeBlock(part, block_path(str(folder), i)) for i, part in enumerate(ranges_of(path))]
    for said in coordinator.swept("reading", requests):
        if isinstance(said, Bad):
            raise bad_row(path, said)
        block, greatest = said
        blocks.append(block)
        columns = max(columns, greatest + 1)
    return blocks, columns


def _found(cache: Cache, directory: Path) -> SparseTable | None:
    """The table in a folder, in use while the answer lives; a damaged one is removed, to be made anew."""
    try:
        raw: dict[str, Any] = sealed.read(directory / MANIFEST, of=directory.name)
    except OSError:
        return None
    except DamagedFile as error:
        cache.discard(error)
        return None
    table = SparseTable(str(directory), tuple(SparseBlock(**block) for block in raw["blocks"]), raw["columns"])
    return table if hold(directory / MANIFEST, table) else None
