"""The lines of a document are those of Python's own encoder, whatever it holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.files.indented import indented

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_the_text_is_that_of_json(value: Any) -> None:
    assert indented(value) == json.dumps(value, indent=1)
    assert indented(value, ascii=False) == json.dumps(value, indent=1, ensure_ascii=False)


@pytest.mark.parametrize(
    "value",
    [
        [{"a": "},\n   {", "b": 1}, {"a": '"},{"', "c": "\u2028"}],
        {"terms": [{"type": "number", "column": "x"}, {"type": "number", "column": "{"}], "more": [[1, 2], [3]]},
        [{"a": 1}, {}, {"b": [1]}],
        {1: "whole", 2.5: [True, None]},
        (1, (2, 3)),
    ],
)
def test_texts_that_look_like_the_end_of_an_object_are_no_end(value: Any) -> None:
    assert indented(value) == json.dumps(value, indent=1)
