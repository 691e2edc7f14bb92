"""A snapshot of a run as the bytes of a file, and back; where such files are and how many is in `checkpoints`.

A file holds one snapshot and needs nothing else to be read. There is no pickle in it, so that reading runs no code:

    8 bytes    "SHOALCK" and the version of this format, 1
    8 bytes    length of the header, unsigned, little-endian
    header     JSON in UTF-8: step, meta, packed ("" or "zlib"), arrays: [[name, type, shape], ...]
    payload    the arrays in that order, little-endian, row by row, one right after the other; packed as a whole
    32 bytes   blake2b (256 bits) of all bytes before
"""

from __future__ import annotations

import json
import math
import re
import zlib
from dataclasses import field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.lazy.classes import dataclass

MAGIC, VERSION = b"SHOALCK", b"1"
START, DIGEST = 16, 32  # bytes before the header and after the payload
PACKING = 1  # zlib's quickest level: the digits of weights hardly pack by any, zeros pack well by all
SAMPLE, WORTH = 1 << 16, 0.9  # bytes of an array that are tried, and the share that packing has to bring them to
NUMBERS = re.compile(r"[<|](b1|[iu][1248]|f[248]|c(8|16))")  # types that are the same on every machine


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A run at one step. `meta` is JSON (tuples come back as lists), `arrays` are of numbers or truth values."""

    step: int
    meta: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)


class Damaged(Exception):
    """A file is not a whole checkpoint; the text says what is wrong with it, as the end of a sentence."""


class OtherFormat(Damaged):
    """A checkpoint of another version of Shoal, which is nobody's to judge or to remove here."""


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
    check_start(view[:START])
    if len(view) < START + DIGEST or blake2b(view[:-DIGEST], digest_size=DIGEST).digest() != view[-DIGEST:]:
        raise Damaged("is cut off or damaged: its checksum does not fit")
    try:
        end = START + int.from_bytes(view[8:START], "little")
        header = json.loads(bytes(view[START:end]))
        arrays = _arrays(header["arrays"], view[end:-DIGEST], header["packed"])
        return Snapshot(int(header["step"]), dict(header["meta"]), arrays)
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise Damaged(f"has a checksum that fits but is not written as it should be ({error})") from error


def check_start(start: memoryview) -> None:
    if not len(start):
        raise Damaged("is empty")
    if start[: len(MAGIC)] != MAGIC:
        raise Damaged("is not a checkpoint: it begins with other bytes")
    if start[len(MAGIC) : len(MAGIC) + 1] != VERSION:
        found = bytes(start[len(MAGIC) : len(MAGIC) + 1]).decode("ascii", "backslashreplace")
        raise OtherFormat(
            f"is of format {found}, where this Shoal reads format {VERSION.decode()}: another version wrote it, or it "
            "is damaged"
        )


def fits_otherwise(data: bytes) -> bool:
    """Whether a file is whole but for the number of its format: that byte was damaged, no other version wrote it."""
    ours = blake2b(MAGIC + VERSION, digest_size=DIGEST)
    ours.update(data[len(MAGIC) + 1 : -DIGEST])
    return ours.digest() == data[-DIGEST:]


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
