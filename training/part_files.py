"""Checkpoints whose parameters lie on several shards: each shard writes what it has into a file of its own, and they
are read back as one snapshot; files as such are in `checkpoint_files`, and which shards there are in `parameters`.

The checkpoint itself names its parts with their checksums and is written last: without it, parts mean nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.lazy.classes import dataclass
from shoal.parameters.shards import ShardedParameters
from shoal.parameters.stepping import StepMemory
from shoal.passes.board import COPIES
from shoal.training.checkpoint_files import content, no_room, part_name, write_whole
from shoal.training.snapshots import DIGEST, Damaged, Snapshot, decode, encode
from shoal.worker import Worker

PARTS, WIDTH = "part_files", "part_width"  # in a snapshot's meta: [name, checksum] of each, and numbers of a vector
STRETCHES = "stretches"  # in a part's meta: where its numbers belong


@dataclass(frozen=True)
class SavePart:
    """The request to write stretches of the weights, and of what the rule remembers, into a file; its checksum."""

    memory: StepMemory
    stretches: NDArray[np.int64]
    row: int
    side: int
    path: str
    step: int

    def answer(self, worker: Worker) -> str:
        taken = {"weights": worker.array(self.memory.weights)[self.row]}
        taken |= {f"rule.{name}": worker.array(shared)[self.side] for name, shared in self.memory.memory}
        arrays = {name: self._stretched(array) for name, array in taken.items()}
        data = encode(Snapshot(self.step, {STRETCHES: self.stretches.tolist()}, arrays))
        path = Path(self.path)
        try:
            write_whole(path, data)
        except OSError as error:
            raise no_room(path, error) from error
        return bytes(data[-DIGEST:]).hex()

    def _stretched(self, array: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([array[begin:end] for begin, end in self.stretches] or [array[:0]])


def save_parts(parameters: ShardedParameters, folder: Path, step: int) -> dict[str, Any]:
    """What the checkpoint is to know of its parts, which are written when this returns; nothing without shards."""

    token = os.urandom(4).hex()

    def request(shard: int, memory: StepMemory, stretches: NDArray[np.int64], side: int) -> SavePart:
        return SavePart(memory, stretches, step % COPIES, side, str(folder / part_name(step, shard, token)), step)

    reports = parameters.ask_each(request)
    if not reports:
        return {}
    parts = [[part_name(step, shard, token), digest] for shard, digest in reports.items()]
    return {PARTS: parts, WIDTH: len(parameters.w)}


def composed(snapshot: Snapshot, folder: Path) -> Snapshot:
    """The whole snapshot, from the parts that it names; Damaged where one of them is not what it was."""
    if STRETCHES in snapshot.meta:
        raise Damaged("is a part of one, which one parameter shard wrote")
    if PARTS not in snapshot.meta:
        return snapshot
    try:
        arrays = _arrays(snapshot.meta, folder)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise Damaged(f"has parts that are not written as they should be ({error})") from error
    meta = {name: value for name, value in snapshot.meta.items() if name not in (PARTS, WIDTH)}
    return replace(snapshot, meta=meta, arrays={**snapshot.arrays, **arrays})


def _arrays(meta: Mapping[str, Any], folder: Path) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    found = 0
    for name, digest in meta[PARTS]:
        part = _part(folder / Path(name).name, digest)
        begin = 0
        for first, last in part.meta[STRETCHES]:
            size = last - first
            for key, values in part.arrays.items():
                whole = arrays.setdefault(key, np.zeros(int(meta[WIDTH]), values.dtype))
                whole[first:last] = values[begin : begin + size]
            begin += size
        found += begin
    if found != meta[WIDTH]:
        raise ValueError(f"{found} numbers where {meta[WIDTH]} are announced")
    return arrays


def _part(path: Path, digest: str) -> Snapshot:
    try:
        data = content(path)
    except FileNotFoundError:
        raise Damaged(f"lacks its part '{path.name}'") from None
    if bytes(data[-DIGEST:]).hex() != digest:
        raise Damaged(f"has another part '{path.name}' than the one it was written with")
    try:
        return decode(data)
    except Damaged as damage:
        raise Damaged(f"has a part '{path.name}' that {damage}") from None
