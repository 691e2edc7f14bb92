"""Blocks made again: each is a pure function of its source, so a machine that does not have one makes its own.

On a cluster without a shared disk a block is made on the node that parses it and stays there, under a name that tells
what it is until its data set has one; a node that is asked about a block it does not have reads those rows once more.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shoal.data.block_reader import BlockReport, Scratch, read_range, write_block
from shoal.data.dataset import Block, Dataset, Stretch, block_path
from shoal.data.files import Source, file_format
from shoal.data.parquet_reader import read_row_group
from shoal.data.recipes.sources import sources_of
from shoal.data.texts.levels import LevelTable
from shoal.errors import DamagedFile, DataError, ResourceError, SourceChanged, StateError, TrainingError
from shoal.files.checksums import damaged, mapped
from shoal.files.elsewhere import sees, staged_blocks
from shoal.files.remote import is_address, place
from shoal.home import MANIFEST, cache_directory, make_folder
from shoal.models import Array

TOLD = "told"  # in the folder of a data set that this machine was told of by another, under the same path perhaps


def at_hand(directory: Path) -> Dataset:
    """The data set in the folder or, on a machine that does not see it, in the own cache under the same name."""
    if sees(directory) and (directory / MANIFEST).exists():
        dataset = Dataset(directory)
        return refilled(dataset) if dataset.manifest.scattered or (directory / TOLD).exists() else dataset
    own = cache_directory() / directory.name
    if not (own / MANIFEST).exists():
        if own == directory:  # the cache of this machine, of which somebody took it away just now
            raise damaged(str(own / MANIFEST), "a file", "none")
        raise StateError(
            f"The machine {os.uname().nodename} does not see '{directory}' and was not told of it. Try again."
        )
    return refilled(Dataset(own))


def refilled(dataset: Dataset) -> Dataset:
    """The same, which makes blocks that it lacks when they are asked for."""
    dataset.make = functools.partial(make_block, dataset)
    return dataset


def where_to(target: str, name: str, source: Source) -> str:
    """The file to write a block to: the target, or one of this machine's own where that folder is not seen."""
    if not name or sees(os.path.dirname(target)):
        return target
    check_is_seen(source)
    make_folder(staged_blocks())
    return str(staged_blocks() / f"{name}.bin")


def check_is_seen(source: Source) -> None:
    """A machine of a cluster reads for itself."""
    if not is_address(source.path) and not os.path.exists(source.path):
        raise DataError(
            f"The machine {os.uname().nodename} does not see '{source.path}'. On a cluster without a shared disk, use "
            "a path that all of its machines see, or an address (https://..., s3://...), of a file that is neither "
            "packed nor in another encoding than UTF-8."
        )


# ------------------------------------------------------------------ making one again


def make_block(dataset: Dataset, block: Block) -> None:
    """Put the file of a block into the folder of its data set."""
    target = str(block_path(dataset.directory, block.index))
    if not block.origins:
        raise StateError(
            f"Block {block.index + 1} of '{dataset.manifest.source}' is not on this machine, and how it was made is "
            "not known any more. Clear the cache with `shoal clean`, then try again."
        )
    if len(block.origins) > 1:
        _join(dataset, block, target)
    elif not _taken(dataset, block, target):
        _read(dataset, block.origins[0], target, block.checksum)


def _taken(dataset: Dataset, block: Block, target: str) -> bool:
    """Whether it was made on this machine when the file was first read, and rightly: where its first row starts was
    guessed there."""
    staged = staged_blocks() / f"{block.origins[0].name}.bin"
    try:
        mapped(str(staged), dataset.size_of(block), block.checksum)
        os.replace(staged, target)
    except (DamagedFile, FileNotFoundError):
        return False
    return True


def _sources(dataset: Dataset, origin: Stretch) -> list[Source]:
    """The source, then others that the same rows may be read from."""
    known = sources_of(dataset)
    first = known.get(origin.source)
    alike = [
        s for s in known.values() if s != first and (first is None or (s.size, s.layout) == (first.size, first.layout))
    ]
    found = [first, *alike] if first else alike
    if not found:
        raise StateError(
            f"What '{dataset.manifest.source}' was read from is not known any more. Clear the cache with "
            "`shoal clean`, then try again."
        )
    return found


def _read(dataset: Dataset, origin: Stretch, target: str, expected: int | None = None) -> BlockReport:
    """Read a stretch of rows into a file; they have to be those that they were."""
    problem: TrainingError | None = None
    for source in _sources(dataset, origin):
        try:
            report = _read_from(source, origin, target)
        except (DataError, ResourceError) as error:
            problem = problem or error
            continue
        if expected is None or report.checksum == expected:
            return report
        problem = problem or changed(source.path)
        with contextlib.suppress(OSError):
            os.unlink(target)
    assert problem is not None
    raise problem


def _read_from(source: Source, origin: Stretch, target: str) -> BlockReport:
    check_is_seen(source)
    if file_format(place(source.path)) == "parquet":
        return read_row_group(source, origin.begin, target, 0)
    return read_range(source, origin.begin, origin.end, origin.first, target, 0, fresh())


def changed(path: str) -> SourceChanged:
    return SourceChanged(
        f"'{place(path).name}' is not what it was when it was first read: rows that were read again differ. "
        "Try again; it is read anew."
    )


def _join(dataset: Dataset, block: Block, target: str) -> None:
    """Several small blocks that are one: their rows in a row, their levels as those of the table."""
    numbers: list[Array] = []
    codes: list[list[npt.NDArray[np.int32]]] = []
    for piece, levels in _pieces(dataset, block.origins, target):
        columns = len(dataset.number_columns)
        rows = len(piece) // (8 * columns + 4 * len(levels)) if columns or levels else 0
        numbers.append(piece[: 8 * rows * columns].view(np.float64).reshape(rows, columns))
        own = piece[8 * rows * columns :].view(np.int32).reshape(len(levels), rows)
        codes.append([maps[one] for maps, one in zip(levels, own, strict=True)])
    together = [np.concatenate(parts) for parts in zip(*codes, strict=True)]
    rows = block.rows
    proof = write_block(target, np.concatenate(numbers), np.array(together, np.int32).reshape(len(together), rows))
    if proof.checksum != block.checksum:
        with contextlib.suppress(OSError):
            os.unlink(target)
        raise changed(dataset.manifest.source)


def _pieces(
    dataset: Dataset, origins: Sequence[Stretch], target: str
) -> Iterator[tuple[npt.NDArray[np.uint8], list[npt.NDArray[np.int32]]]]:
    """The bytes of each small block, read again, and for each column of texts the way to the table's codes."""
    places = [{level: i for i, level in enumerate(column.levels)} for column in dataset.level_columns]
    for origin in origins:
        own = f"{target}.{os.urandom(6).hex()}"
        try:
            report = _read(dataset, origin, own)
            maps = [LevelTable.codes_of(found, known) for found, known in zip(report.levels, places, strict=True)]
            yield np.fromfile(own, np.uint8), maps
        finally:
            with contextlib.suppress(OSError):
                os.unlink(own)


def fresh() -> Scratch:
    """Memory that is given back: blocks are seldom made again."""
    return lambda _, size: np.empty(size, np.uint8)
