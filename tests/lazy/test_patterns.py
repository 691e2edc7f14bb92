"""Patterns that are compiled late match as those that are compiled at once."""

from __future__ import annotations

import re

import pytest

from shoal.lazy.patterns import pattern


def test_it_has_the_methods_and_attributes_of_a_compiled_one() -> None:
    late, now = pattern(r"(?P<word>[a-z]+)\s*", re.IGNORECASE), re.compile(r"(?P<word>[a-z]+)\s*", re.IGNORECASE)
    for _ in ("first", "again"):
        assert late.findall("One two") == now.findall("One two")
        assert late.sub("-", "a b") == now.sub("-", "a b")
    assert (late.pattern, late.flags, late.groupindex) == (now.pattern, now.flags, now.groupindex)
    found = late.fullmatch("ABC")
    assert found is not None
    assert found["word"] == "ABC"
    assert pattern(rb"\d+").search(b"a12") is not None


def test_it_is_compiled_by_the_first_who_uses_it() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error):
        wrong.match("")
    with pytest.raises(AttributeError, match="matches"):
        pattern("a").matches  # noqa: B018 - it is the access that is tried
