"""Pieces of a vector on shards: complete, in proportion, the same in every process, and nothing moves that need not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.steps.placement import LEAST, MOST, Placement, moved, pieces_of

PARTS = st.lists(st.tuples(st.text(max_size=8), st.integers(0, 400_000)), max_size=9)
SHARDS = st.sets(st.integers(0, 60), min_size=1, max_size=8)
LAYERS = [(f"layer{i}.weight", 150_000) for i in range(12)] + [(f"layer{i}.bias", 300) for i in range(12)]


def placed(shards: dict[int, float], parts: list[tuple[str, int]] = LAYERS) -> Placement:
    made = Placement(pieces_of(parts))
    for shard, weight in shards.items():
        made.add(shard, weight)
    return made


@settings(deadline=None, max_examples=60)
@given(PARTS)
def test_pieces_follow_one_another_within_their_parts(parts: list[tuple[str, int]]) -> None:
    pieces = pieces_of(parts)
    ends = [0, *(piece.end for piece in pieces)]
    assert [piece.begin for piece in pieces] == ends[:-1]
    assert ends[-1] == sum(size for _, size in parts)
    assert all(0 < piece.end - piece.begin <= MOST for piece in pieces)
    edge, edges = 0, {0}
    for _, size in parts:
        edge += size
        edges.add(edge)
    assert edges <= set(ends), "a piece of two parts"


def test_a_small_vector_is_one_piece() -> None:
    """So that what is summed piece by piece has the bits of one sum over all."""
    assert len(pieces_of([("coefficients", LEAST)])) == 1
    assert pieces_of([]) == ()


@settings(deadline=None, max_examples=40)
@given(PARTS, SHARDS)
def test_every_piece_lies_on_one_shard(parts: list[tuple[str, int]], shards: set[int]) -> None:
    found = placed(dict.fromkeys(shards, 1.0), parts)
    assigned = found.assigned()
    assert tuple(assigned) == found.shards == tuple(sorted(shards))
    assert sorted(number for owned in assigned.values() for number in owned) == list(range(len(found.pieces)))
    assert sum(found.sizes().values()) == sum(size for _, size in parts)


@settings(deadline=None, max_examples=40)
@given(SHARDS, st.integers(61, 99))
def test_a_shard_that_joins_or_leaves_moves_its_share_and_nothing_else(shards: set[int], other: int) -> None:
    found = placed(dict.fromkeys(shards, 1.0))
    before = found.assigned()
    found.add(other)
    after = found.assigned()
    assert moved(before, after) == set(after[other])
    found.remove(other)
    assert found.assigned() == before, "it left nothing behind"
    assert moved(after, before) == set(after[other])


@pytest.mark.parametrize(("count", "limit"), [(2, 1.15), (3, 1.2), (4, 1.25), (8, 1.4)])
def test_shares_are_about_even_and_a_join_moves_about_one_of_them(count: int, limit: float) -> None:
    """On average over twenty sets of shards: the largest share of all, and what moves."""
    total, largest, joins = 0, 0.0, 0
    for first in range(0, 20 * count, count):
        found = placed(dict.fromkeys(range(first, first + count), 1.0))
        sizes = found.sizes()
        total, largest = sum(sizes.values()), largest + max(sizes.values())
        before = found.assigned()
        found.add(1000 + first)
        joins += sum(found.pieces[n].end - found.pieces[n].begin for n in moved(before, found.assigned()))
    assert largest / 20 < limit * total / count
    assert 0.8 * total / (count + 1) < joins / 20 < 1.2 * total / (count + 1)


def test_a_heavier_shard_has_more() -> None:
    shares = []
    for first in range(0, 60, 3):
        sizes = placed({first: 1.0, first + 1: 1.0, first + 2: 2.0}).sizes()
        shares.append(sizes[first + 2] / sum(sizes.values()))
    assert 0.45 < sum(shares) / len(shares) < 0.55


def test_another_process_places_all_the_same() -> None:
    code = (
        "import json; from shoal.steps.placement import Placement, pieces_of\n"
        "made = Placement(pieces_of([('a', 300_000), ('b', 70_000)]))\n"
        "[made.add(shard) for shard in (3, 1, 2)]\n"
        "print(json.dumps([list(owned) for owned in made.assigned().values()]))"
    )
    found = placed({1: 1.0, 2: 1.0, 3: 1.0}, [("a", 300_000), ("b", 70_000)])
    for seed in ("0", "77"):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=120,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert json.loads(done.stdout) == [list(owned) for owned in found.assigned().values()]
