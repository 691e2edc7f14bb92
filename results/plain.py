"""Frozen dataclasses from and to the plain values of JSON: names and types are checked once; nothing about fits.

A field without a default must be there. Names that a class does not know are left alone: a later program wrote them.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache, partial
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

_Reader = Callable[[Any], Any]  # from a plain value to what a field holds


class Malformed(ValueError):
    """What was read is not what it should be; the text names the place, for a sentence that names the file."""

    def __init__(self, problem: str, place: str = "") -> None:
        super().__init__(f"'{place}' {problem}" if place else problem)
        self.problem, self.place = problem, place

    def inside(self, outer: str) -> Malformed:
        """The same, seen from one place further out."""
        between = "" if not self.place or self.place.startswith("[") else "."
        return Malformed(self.problem, f"{outer}{between}{self.place}")


def read(kind: type[T], values: Any, place: str = "") -> T:
    """An object of a dataclass from the values that `plain` made of one."""
    try:
        made: T = _reader(typing.cast(Any, kind))(values)
    except Malformed as error:
        found = error.inside(place) if place else error
        raise (found if found.place else Malformed(f"it {found.problem}")) from None
    return made


_SCALARS = frozenset({str, float, int, bool, type(None)})


def plain(value: Any) -> Any:
    """What JSON can hold: objects for dataclasses, in the order of their fields, and lists for tuples."""
    kind: Any = type(value)
    if kind in _SCALARS:  # nearly all of a long model file
        return value
    if kind is dict and set(map(type, value.values())) <= _SCALARS:
        return dict(value)
    if (names := _names(kind)) is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """Of the fields of a dataclass; None for every other type."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


# ------------------------------------------------------------------ readers, made once for each type


@cache
def _reader(hint: Any) -> _Reader:
    """Made once: a table of a hundred thousand columns has two million fields."""
    if hint is Any:
        return _as_it_is
    if isinstance(hint, types.UnionType):
        return partial(_any_of, [_reader(one) for one in hint.__args__ if one is not types.NoneType])
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if kind is tuple:
        same = inner[-1] is Ellipsis
        return partial(_many, _reader(inner[0])) if same else partial(_each, [_reader(one) for one in inner])
    if kind is dict:
        return partial(_named, _reader(inner[1]))
    if dataclasses.is_dataclass(hint):
        return partial(_object, typing.cast("type[Any]", hint), _fields(typing.cast("type[Any]", hint)))
    accepted = {float: (int, float)}.get(hint, (hint,))
    return partial(_scalar, hint, accepted)


def _fields(kind: type[Any]) -> list[tuple[str, _Reader, bool]]:
    """Name, reader, and whether it must be there. A class that holds itself is read when that comes."""
    hints = typing.get_type_hints(kind)
    return [
        (field.name, _reader(hints[field.name]),
         field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)
        for field in dataclasses.fields(kind)
    ]  # fmt: skip


def _as_it_is(value: Any) -> Any:
    return value


def _scalar(kind: type, accepted: tuple[type, ...], value: Any) -> Any:
    if type(value) in accepted or (isinstance(value, accepted) and not isinstance(value, bool)):
        return value
    raise Malformed(f"should be {KINDS[kind]}")


def _any_of(readers: list[_Reader], value: Any) -> Any:
    """Of several kinds, or nothing; what is wrong is said by the last of them."""
    if value is None:
        return None
    for reader in readers[:-1]:
        try:
            return reader(value)
        except Malformed:
            continue
    return readers[-1](value)


def _many(reader: _Reader, value: Any) -> tuple[Any, ...]:
    _expect(list, (list, tuple), value)
    try:
        return tuple(map(reader, value))
    except Malformed:
        return tuple(_placed(reader, one, f"[{i}]") for i, one in enumerate(value))  # once more, for the place


def _each(readers: list[_Reader], value: Any) -> tuple[Any, ...]:
    _expect(list, (list, tuple), value)
    if len(value) != len(readers):
        raise Malformed(f"should be a list of {len(readers)}")
    return tuple(_placed(reader, one, f"[{i}]") for i, (reader, one) in enumerate(zip(readers, value, strict=True)))


def _named(reader: _Reader, value: Any) -> dict[str, Any]:
    if reader is _as_it_is and type(value) is dict:  # a term of a design, of which there may be a million
        return dict(value)
    _expect(dict, (Mapping,), value)
    if reader is _as_it_is:
        return dict(value)
    if isinstance(reader, partial) and reader.func is _scalar and {*map(type, value.values())} <= {*reader.args[1]}:
        return dict(value)  # all at once: these are the coefficients of a model, a million of them at times
    return {key: _placed(reader, one, str(key)) for key, one in value.items()}


def _object(kind: type[T], fields: list[tuple[str, _Reader, bool]], values: Any) -> T:
    _expect(dict, (Mapping,), values)
    given = {}
    for name, reader, needed in fields:
        if name in values:
            given[name] = _placed(reader, values[name], name)
        elif needed:
            raise Malformed("is missing", name)
    return kind(**given)


def _placed(reader: _Reader, value: Any, place: str) -> Any:
    try:
        return reader(value)
    except Malformed as error:
        raise error.inside(place) from None


def _expect(kind: type, accepted: tuple[type, ...], value: Any) -> None:
    if not isinstance(value, accepted):
        raise Malformed(f"should be {KINDS[kind]}")
