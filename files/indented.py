"""JSON with a line for each value, as `json.dumps(value, indent=1)` writes it, in a fraction of the time: that encoder
is in Python, and a model of a million columns has five million lines. What documents mean is not known here."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any

_SCALARS = frozenset({str, float, int, bool, type(None)})


def indented(value: Any, ascii: bool = True, level: int = 0) -> str:
    """The text of a plain value that stands `level` deep in another."""
    if isinstance(value, dict) and value:
        if _are_scalars(value.values()):
            return _opened(_encoder(level + 1, ascii).encode(value), level)
        named = (f"{_key(key, ascii)}: {indented(one, ascii, level + 1)}" for key, one in value.items())
        return _joined(named, "{}", level)
    if isinstance(value, list | tuple) and value:
        if _are_scalars(value):
            return _opened(_encoder(level + 1, ascii).encode(value), level)
        if _are_flat(value):
            return _opened(_of_flat(value, ascii, level + 1), level)
        return _joined((indented(one, ascii, level + 1) for one in value), "[]", level)
    return json.dumps(value, ensure_ascii=ascii)


def _are_scalars(values: Iterable[Any]) -> bool:
    return set(map(type, values)) <= _SCALARS


def _are_flat(values: Iterable[Any]) -> bool:
    """Whether all are objects of plain values, and none is empty."""
    return all(type(one) is dict and one and _are_scalars(one.values()) for one in values)


def _of_flat(values: Any, ascii: bool, level: int) -> str:
    """A list of flat objects at once. Its texts have no line break, which JSON writes as two other characters: so where
    an object ends, a line ends and the next begins, is no part of any."""
    inner, outer = "\n" + " " * (level + 1), "\n" + " " * level
    text = _encoder(level + 1, ascii).encode(values)
    body = text[2:-2].replace(f"}},{inner}{{", f"{outer}}},{outer}{{{inner}")
    return f"[{{{inner}{body}{outer}}}]"


def _opened(text: str, level: int) -> str:
    """The brackets of what was written in one go, on lines of their own."""
    return f"{text[0]}\n{' ' * (level + 1)}{text[1:-1]}\n{' ' * level}{text[-1]}"


def _joined(parts: Iterable[str], brackets: str, level: int) -> str:
    inner = "\n" + " " * (level + 1)
    return f"{brackets[0]}{inner}{f',{inner}'.join(parts)}\n{' ' * level}{brackets[1]}"


def _key(key: Any, ascii: bool) -> str:
    """As an encoder has it, which takes numbers and truth values for names too."""
    return json.dumps({key: 0}, ensure_ascii=ascii)[1:-4]


@functools.cache
def _encoder(level: int, ascii: bool) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=ascii, separators=(",\n" + " " * level, ": "))
