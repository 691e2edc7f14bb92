"""Frozen dataclasses from and to the plain values of JSON: names and types are checked once; nothing about fits.

A field without a default must be there. Names that a class does not know are left alone: a later program wrote them.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")
KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


class Malformed(ValueError):
    """What was read is not what it should be; the text names the place, for a sentence that names the file."""


def read(kind: type[T], values: Any, place: str = "") -> T:
    """An object of a dataclass from the values that `plain` made of one."""
    _expect(dict, values, place)
    hints, given = _hints(kind), {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        at = f"{place}.{field.name}" if place else field.name
        if field.name in values:
            given[field.name] = _value(hints[field.name], values[field.name], at)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise Malformed(f"'{at}' is missing")
    return kind(**given)


def plain(value: Any) -> Any:
    """What JSON can hold: objects for dataclasses, in the order of their fields, and lists for tuples."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


_known: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _known:
        _known[kind] = typing.get_type_hints(kind)
    return _known[kind]


def _value(hint: Any, value: Any, place: str) -> Any:
    if hint is Any:
        return value
    if isinstance(hint, types.UnionType):
        return (
            None if value is None else _value(next(h for h in hint.__args__ if h is not types.NoneType), value, place)
        )
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if kind is tuple:
        _expect(list, value, place)
        return tuple(_value(inner[0], one, f"{place}[{i}]") for i, one in enumerate(value))
    if kind is dict:
        _expect(dict, value, place)
        return {key: _value(inner[1], one, f"{place}.{key}") for key, one in value.items()}
    if dataclasses.is_dataclass(hint):
        return read(typing.cast("type[Any]", hint), value, place)
    _expect(hint, value, place)
    return value


def _expect(kind: type, value: Any, place: str) -> None:
    accepted = {float: (int, float), list: (list, tuple), dict: (Mapping,)}.get(kind, (kind,))
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise Malformed(f"'{place}' should be {KINDS[kind]}" if place else f"it should be {KINDS[kind]}")
