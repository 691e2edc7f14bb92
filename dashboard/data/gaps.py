"""Words among numbers, and numbers that may stand for none: offered as missing, each with one click."""

from __future__ import annotations

from typing import Any

import streamlit as st

from shoal.dashboard.data.options import read_otherwise
from shoal.dashboard.parts.literal import line
from shoal.dashboard.tables.sources import Asked
from shoal.words import number, plural

TREAT = "Treat as missing"


def offered(found: Asked, result: dict[str, Any]) -> None:
    """One line a column with its button; one for all words where several columns have some."""
    words = {column["name"]: column["words"] for column in result["columns"] if column.get("words")}
    codes = {column["name"]: column["codes"] for column in result["columns"] if column.get("codes")}
    if not words and not codes:
        return
    with st.container(border=True):
        for name, pairs in words.items():
            told = ", ".join(f"'{word}' ({plural(count, 'row')})" for word, count in pairs)
            _offer(
                found, f"'{name}' holds numbers but for words: {told}.", [word for word, _ in pairs], f"words:{name}"
            )
        for name, pairs in codes.items():
            for value, count in pairs:
                said = f"'{name}' is {number(value, 6)} in {plural(count, 'row')}, far from its other values."
                _offer(found, said, [f"{name}={value:g}"], f"code:{name}:{value:g}")
        if len(words) > 1:
            every = list(dict.fromkeys(word for pairs in words.values() for word, _ in pairs))
            _button(found, "Treat all these words as missing", every, "words", "primary")


def _offer(found: Asked, said: str, texts: list[str], key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        line(said)
        _button(found, TREAT, texts, key, "secondary")


def _button(found: Asked, label: str, texts: list[str], key: str, kind: Any) -> None:
    st.button(label, key=f"gaps:{key}", type=kind, width="content", on_click=_treat, args=(found, texts))


def _treat(found: Asked, texts: list[str]) -> None:
    now = list(dict.fromkeys([*found.read.get("also_missing", []), *texts]))
    read_otherwise(found, {**found.read, "also_missing": now})
