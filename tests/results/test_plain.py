"""Types from the values of JSON: what is read is what was written, and what is not of its kind is named by its place."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from shoal.results.plain import Malformed, plain, read


@dataclass(frozen=True)
class Leaf:
    name: str
    size: float | None = None


@dataclass(frozen=True)
class Tree:
    rows: int
    leaves: tuple[Leaf, ...] = ()
    pairs: tuple[tuple[str, int], ...] = ()
    by_name: dict[str, Leaf] = field(default_factory=dict)
    end: float | str | None = None
    sure: bool = True
    anything: Any = None


WHOLE = Tree(3, (Leaf("a", 1), Leaf("b")), (("x", 1), ("y", 2)), {"c": Leaf("c", 0.5)}, "2021-05-03", False, [1, {}])


def test_what_was_written_is_read() -> None:
    assert read(Tree, json.loads(json.dumps(plain(WHOLE)))) == WHOLE
    assert read(Tree, {"rows": 1, "of a later version": 2}) == Tree(1)
    assert read(Tree, {"rows": 1, "end": 2.5}).end == 2.5


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "'rows' is missing"),
        ([], "it should be an object"),
        ({"rows": 1.5}, "'rows' should be a whole number"),
        ({"rows": True}, "'rows' should be a whole number"),
        ({"rows": 1, "sure": 1}, "'sure' should be true or false"),
        ({"rows": 1, "leaves": [{"name": "a"}, {"name": 2}]}, r"'leaves\[1\].name' should be a text"),
        ({"rows": 1, "pairs": [["x", 1], ["y"]]}, r"'pairs\[1\]' should be a list of 2"),
        ({"rows": 1, "pairs": [["x", "1"]]}, r"'pairs\[0\]\[1\]' should be a whole number"),
        ({"rows": 1, "by_name": {"c": {"name": "c", "size": "big"}}}, "'by_name.c.size' should be a number"),
        ({"rows": 1, "end": [1]}, "'end' should be a text"),
    ],
)
def test_what_is_not_of_its_kind_is_named_by_its_place(values: Any, said: str) -> None:
    with pytest.raises(Malformed, match=f"^{said}$"):
        read(Tree, values)
    with pytest.raises(Malformed, match=r"^'outer[.' ]"):
        read(Tree, values, "outer")
