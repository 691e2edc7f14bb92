"""What machines of a cluster need of a module that is stored on another one: its document and tensors, the code of its
classes, and the shards of its rows; each is kept under the same name there."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shoal.data_pipeline import Shards, shard_path
from shoal.errors import EngineError
from shoal.files.checksums import checksum
from shoal.files.elsewhere import piece_of
from shoal.home import cache_directory, make_folder, modules_directory
from shoal.lazy.classes import dataclass
from shoal.networks.code import SCRIPT, Homes, stand_in
from shoal.networks.stored import CODE, START, module_folder
from shoal.utils import disk_errors
from shoal.worker import Worker

MOST_CODE = 4 << 20  # bytes of code that come along; what is larger is to be installed on all machines
PIECE = 8 << 20  # bytes of rows that are asked for at a time
PATIENCE = 120.0  # seconds for a piece
INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class KnowModule:
    """Put a stored module where this machine looks for it, unless it sees that of whoever asks."""

    file: str
    document: bytes
    start: bytes
    code: tuple[tuple[str, str, bytes], ...]  # the home that a description names, a file below it, its content

    def answer(self, worker: Worker) -> None:
        folder = module_folder(self.file)
        if folder != Path(self.file).parent:
            make_folder(folder)
            _write(folder / START, self.start)
            _write(folder / Path(self.file).name, self.document)  # last: who finds it finds all
        for number, home in enumerate(sorted({home for home, _, _ in self.code})):
            own = modules_directory() / Path(self.file).parent.name / CODE / str(number)
            for _, name, content in (one for one in self.code if one[0] == home):
                make_folder((own / name).parent)
                _write(own / name, content)
            stand_in(home, own)


def know_module(file: str, homes: Homes) -> KnowModule:
    """The request that tells of the module in a file, with the code of its own classes."""
    path = Path(file)
    code = tuple((home, name, content) for module, home in homes for name, content in _code(module, home))
    return KnowModule(file, path.read_bytes(), path.with_name(START).read_bytes(), code)


def _code(module: str, home: str) -> Iterator[tuple[str, bytes]]:
    """A script, or the module or whole package that a class is of; nothing of what is installed or large."""
    top = Path(home) / module.partition(".")[0]
    if not home or any(part in INSTALLED for part in Path(home).parts):
        return
    if module == SCRIPT:
        found = [Path(home)]
    elif top.is_dir():
        found = sorted(top.rglob("*.py"))
    else:
        found = [top.with_suffix(".py")]
    if sum(one.stat().st_size for one in found if one.is_file()) <= MOST_CODE:
        base = Path(home).parent if module == SCRIPT else Path(home)
        yield from ((str(one.relative_to(base)), one.read_bytes()) for one in found if one.is_file())


@dataclass(frozen=True)
class FetchShard:
    """Bring one shard from the machine of whoever asks to this one."""

    node: str
    path: str  # there
    size: int
    checksum: int

    def answer(self, worker: Worker) -> None:
        folder = cache_directory() / os.path.basename(os.path.dirname(self.path))
        make_folder(folder)
        target = folder / os.path.basename(self.path)
        unfinished = folder / f"{target.name}.{os.urandom(6).hex()}"
        found = 0
        try:
            with disk_errors(), unfinished.open("wb") as file:
                for offset in range(0, self.size, PIECE):
                    piece = self._piece(worker, offset)
                    found = checksum(piece, found)
                    file.write(piece.data)
            if found != self.checksum:
                raise EngineError(
                    f"Expected the shard '{target.name}' as it was dealt, but other bytes came. Try again."
                )
            os.replace(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)

    def _piece(self, worker: Worker, offset: int) -> npt.NDArray[np.uint8]:
        assert worker.ask_node is not None  # where there are several machines
        deadline = time.monotonic() + PATIENCE
        while True:
            found = worker.ask_node(self.node, piece_of, self.path, offset, min(PIECE, self.size - offset))
            if isinstance(found, np.ndarray):
                return found
            if time.monotonic() > deadline:
                raise EngineError(
                    "A machine of the cluster did not get its rows from the one that the run was started on within "
                    f"{PATIENCE:.0f} s. That one has to be a node of the cluster, by the same user, which sees "
                    f"'{os.path.dirname(self.path)}'."
                )
            time.sleep(1.0)


def fetches(shards: Shards, node: str) -> tuple[FetchShard, ...]:
    """What brings each shard to a machine that does not have it."""
    paths = [shard_path(shards.directory, shard) for shard in range(len(shards.rows))]
    return tuple(
        FetchShard(node, path, os.path.getsize(path), checksum)
        for path, checksum in zip(paths, shards.checksums, strict=True)
    )


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: another worker of this machine may write it at the same time. What is there as it should be
    stays; what was damaged since is made good."""
    with contextlib.suppress(OSError):
        if path.read_bytes() == content:
            return
    unfinished = path.with_name(f"{path.name}.{os.urandom(6).hex()}")
    with disk_errors():
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
