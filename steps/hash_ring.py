"""Who owns what, by consistent hashing: shards of rows with bounded loads, anything else by its name; who is alive is
not known here.

Every rank has POINTS places on a circle of 64-bit numbers, every shard has one. A shard goes to the first rank found
clockwise from its place that has room (Mirrokni, Thorup and Zadimoghaddam 2016, "Consistent hashing with bounded
loads"). Room is tighter than in the paper: with V shards on N ranks each gets V // N, and V % N of them one more, so
that nobody waits at a barrier for a rank that has twice the work. A plain ring may split 16 shards on 2 ranks 12 : 4.
A join or leave then moves somewhat more shards than it must: 5 to 50 % with 8 or more shards a rank.

What is owned by its name (`owner_of`) goes to the first rank clockwise, room or not: then a join or leave moves what
the rank gains or had, and nothing else. A rank of weight 2 has twice the places, and so about twice as much.

The assignment depends on the set of ranks alone, not on the order in which they came and went.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterable, Iterator
from hashlib import blake2b

POINTS = 100  # places of a rank on the circle: the shares of a plain ring then differ by about 10 %


class Ring:
    """Ranks on a circle, each with `points` places times its weight."""

    def __init__(self, ranks: Iterable[int] = (), points: int = POINTS) -> None:
        self._each = points
        self._points: list[tuple[int, int]] = []  # (place, rank), sorted
        self._ranks: set[int] = set()
        for rank in ranks:
            self.add(rank)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(self._ranks))

    def add(self, rank: int, weight: float = 1.0) -> None:
        """A rank joins; nothing changes if it is there already."""
        if rank not in self._ranks:
            self._ranks.add(rank)
            for i in range(max(1, round(weight * self._each))):
                insort(self._points, (_place(f"rank {rank} {i}"), rank))

    def remove(self, rank: int) -> None:
        """A rank leaves; nothing changes if it is not there."""
        if rank in self._ranks:
            self._ranks.remove(rank)
            self._points = [point for point in self._points if point[1] != rank]

    def assign(self, shards: int) -> dict[int, list[int]]:
        """The shards 0 .. shards - 1 of every rank, in rising order; no key at all without a rank."""
        found: dict[int, list[int]] = {rank: [] for rank in self.ranks}
        if not found:
            return found
        low, longer = divmod(shards, len(found))
        for place, shard in sorted((_place(f"shard {shard}"), shard) for shard in range(shards)):
            rank = next(r for r in self._clockwise(place) if len(found[r]) < low + (longer > 0))
            found[rank].append(shard)
            longer -= len(found[rank]) > low
        return {rank: sorted(owned) for rank, owned in found.items()}

    def owner(self, shard: int, shards: int) -> int:
        """The rank that `assign` gives this shard, one of `shards`."""
        return next(rank for rank, owned in self.assign(shards).items() if shard in owned)

    def owner_of(self, name: str) -> int:
        """The first rank clockwise from the place of a name; there has to be one."""
        return self._points[bisect(self._points, (_place(name), -1)) % len(self._points)][1]

    def _clockwise(self, place: int) -> Iterator[int]:
        """Ranks in the order of their points from a place on, once round the circle."""
        start = bisect(self._points, (place, -1))
        for i in range(len(self._points)):
            yield self._points[(start + i) % len(self._points)][1]


def _place(name: str) -> int:
    """A 64-bit number that is the same in every process: Python's own hash of a text is not."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")
