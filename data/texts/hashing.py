"""A hash of texts that never changes: MurmurHash3 (x86, 32 bits, seed 0) of UTF-8, as scikit-learn's hashing has it.

The column of a text among 2^bits is the absolute value of the hash, taken as a signed number, modulo their number; no
sign is applied. Words are lower-case runs of two or more letters, digits and underscores.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shoal.data.texts.many import packed

WORD = re.compile(r"(?u)\b\w\w+\b")
_C1, _C2, _M, _N = (np.uint32(c) for c in (0xCC9E2D51, 0x1B873593, 5, 0xE6546B64))
HashColumns = npt.NDArray[np.int64]


def words_of(text: str) -> list[str]:
    return WORD.findall(text.lower())


def buckets_of(texts: Sequence[str], words: bool, bits: int) -> tuple[HashColumns, HashColumns]:
    """The columns of each text one after the other, and before them where those of each begin, and the last end: one a
    text or, with `words`, one a word, as often as it comes."""
    if not words:
        return np.arange(len(texts) + 1), _buckets(texts, bits)
    known: dict[str, int] = {}
    counts, places = np.zeros(len(texts) + 1, np.int64), list[int]()
    for i, text in enumerate(texts):
        own = [known.setdefault(word, len(known)) for word in words_of(text)]
        places += own
        counts[i + 1] = len(own)
    return np.cumsum(counts), _buckets(list(known), bits)[np.array(places, np.int64)]


def _buckets(texts: Sequence[str], bits: int) -> HashColumns:
    signed = murmur3(texts).view(np.int32).astype(np.int64)
    return np.abs(signed) % (1 << bits)


def murmur3(texts: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Of each text: four bytes of all of them at a time."""
    data, ends = packed(texts)
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64) if len(ends) else ends
    lengths = ends - starts
    padded = np.concatenate((data, np.zeros(8, np.uint8)))
    found = np.zeros(len(ends), np.uint32)
    order = np.argsort(-lengths, kind="stable")  # the longest first: those that go on are always the first ones
    begin, length = starts[order], lengths[order]
    h = found[order]
    blocks = length // 4
    with np.errstate(over="ignore"):
        for k in range(int(blocks.max(initial=0))):
            n = int(np.searchsorted(-blocks, -k, side="left"))
            h[:n] = _rotated(h[:n] ^ _mixed(_word(padded, begin[:n] + 4 * k)), 13) * _M + _N
        rest = (length - 4 * blocks).astype(np.uint32)
        tail = _word(padded, begin + 4 * blocks) & ((np.uint32(1) << (np.uint32(8) * rest)) - np.uint32(1))
        h ^= _mixed(tail)  # 0 where nothing is left
        h ^= length.astype(np.uint32)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    found[order] = h
    return found


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The four bytes from each place on, the first one lowest."""
    word = np.zeros(len(at), np.uint32)
    for byte in range(4):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _mixed(k: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    return _rotated(k * _C1, 15) * _C2


def _rotated(k: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return np.asarray((k << np.uint32(bits)) | (k >> np.uint32(32 - bits)), np.uint32)
