"""Where the parameters of one flat vector lie: pieces of its named parts, placed on parameter shards by consistent
hashing; what a shard does with its pieces, and which shards live, is not known here.

A part is cut into pieces that depend on the vector alone, never on the number of shards: whoever sums something piece
by piece, in their order, has the same bits wherever the pieces lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.steps.hash_ring import Ring

LEAST, MOST = 8_192, 65_536  # numbers of a piece: calls take longer than fewer, and more leave the cache
PIECES = 256  # about, of a large vector: shares of two shards then differ by some 10 %
POINTS = 512  # places of a shard on the ring: more than of workers, whose loads a bound evens out


class ParameterPiece(NamedTuple):
    """The numbers `begin` to `end` of the flat vector, which lie on one shard."""

    name: str
    begin: int
    end: int


def pieces_of(parts: Iterable[tuple[str, int]]) -> tuple[ParameterPiece, ...]:
    """All pieces of a vector, from the names and sizes of its parts; they follow one another as the parts do."""
    known = list(parts)
    most = min(max(-(-sum(size for _, size in known) // PIECES), LEAST), MOST)
    found: list[ParameterPiece] = []
    begin = 0
    for name, size in known:
        for offset in range(0, size, most):
            found.append(ParameterPiece(f"{name}[{offset}]", begin + offset, begin + min(offset + most, size)))
        begin += size
    return tuple(found)


class Placement:
    """The shards of one vector, and the pieces that each has; a shard of weight 2 has about twice the share."""

    def __init__(self, pieces: Sequence[ParameterPiece]) -> None:
        self.pieces = tuple(pieces)
        self._ring = Ring(points=POINTS)

    @property
    def shards(self) -> tuple[int, ...]:
        return self._ring.ranks

    def add(self, shard: int, weight: float = 1.0) -> None:
        """A shard joins, and takes its share from all others; nothing changes if it is there already."""
        self._ring.add(shard, weight)

    def remove(self, shard: int) -> None:
        """A shard is gone; what it had is spread over the others."""
        self._ring.remove(shard)

    def assigned(self) -> dict[int, tuple[int, ...]]:
        """The numbers of the pieces of every shard, rising; no key at all without a shard."""
        found: dict[int, list[int]] = {shard: [] for shard in self.shards}
        if found:
            for number, piece in enumerate(self.pieces):
                found[self._ring.owner_of(piece.name)].append(number)
        return {shard: tuple(owned) for shard, owned in found.items()}

    def sizes(self) -> dict[int, int]:
        """How many numbers of the vector lie on each shard."""
        return {shard: self._size(owned) for shard, owned in self.assigned().items()}

    def _size(self, owned: Sequence[int]) -> int:
        return sum(self.pieces[number].end - self.pieces[number].begin for number in owned)


def moved(before: Mapping[int, Sequence[int]], after: Mapping[int, Sequence[int]]) -> set[int]:
    """The pieces that lie on another shard than before."""
    owner = {number: shard for shard, owned in before.items() for number in owned}
    return {number for shard, owned in after.items() for number in owned if owner.get(number) != shard}
