"""`dataclass` as Python has it, for what we use of it, without compiling anything at import; no new kind of class.

Python 3.11 compiles six functions for every frozen data class, which takes 0.4 ms where it has five fields; this takes
0.03 ms. A small fit imports more than two hundred, and that was a third of its time. Here `__init__`, whose speed
matters, is compiled when the first object is made, and the other methods are the same few functions for all classes.
Type checkers see Python's own. `slots`, `order` and `InitVar` are not known, because nothing of ours has them.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, kw_only=False):
        """With or without arguments, as `@dataclass` and `@dataclass(frozen=True)`."""

        def make(cls):
            return _made(cls, frozen, eq, kw_only)

        return make if cls is None else make(cls)


def _made(cls: type[Any], frozen: bool, eq: bool, kw_only: bool) -> type[Any]:
    cls.__doc__ = cls.__doc__ or cls.__name__  # else Python works out a signature to put there
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)  # its fields: compiles nothing
    own = vars(cls)
    methods: dict[str, Any] = {"__init__": _Init(cls, frozen), "__repr__": _repr}
    if eq:
        methods |= _comparing(cls, frozen)
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and own[name] is None):  # None: Python's mark beside an own `__eq__`
            setattr(cls, name, method)
    return cls


class _Init:
    """Stands for `__init__` until somebody asks for it."""

    def __init__(self, cls: type[Any], frozen: bool) -> None:
        self.cls, self.frozen = cls, frozen

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        """Threads that come at the same time each compile the same: whoever is last puts it in its place."""
        made = _compiled(self.cls, self.frozen)
        setattr(self.cls, "__init__", made)  # noqa: B010 - a name that mypy will not have assigned
        return made.__get__(instance, owner)


def _compiled(cls: type[Any], frozen: bool) -> Any:
    """`__init__` as Python writes it, which would compile what refuses changes along with it."""
    fields = sorted((one for one in dataclasses.fields(cls) if one.init), key=lambda one: one.kw_only is True)
    known: dict[str, Any] = {"FACTORY": FACTORY, "set_": object.__setattr__}
    arguments, lines = ["self"], []
    for one in fields:
        name = value = one.name
        if one.kw_only and "*" not in arguments:
            arguments.append("*")
        if one.default_factory is not dataclasses.MISSING:
            known[f"make_{name}"] = one.default_factory
            arguments.append(f"{name}=FACTORY")
            value = f"make_{name}() if {name} is FACTORY else {name}"
        elif one.default is not dataclasses.MISSING:
            known[f"default_{name}"] = one.default
            arguments.append(f"{name}=default_{name}")
        else:
            arguments.append(name)
        lines.append(f"set_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    for one in dataclasses.fields(cls):
        if not one.init and one.default_factory is not dataclasses.MISSING:
            known[f"make_{one.name}"] = one.default_factory
            lines.append(f"set_(self, {one.name!r}, make_{one.name}())")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n  ".join([f" def __init__({', '.join(arguments)}):", *(lines or ["pass"])])
    home = vars(sys.modules[cls.__module__])  # where readers of annotations look for their names
    space: dict[str, Any] = {}
    exec(f"def make({', '.join(known)}):\n{body}\n return __init__", home, space)
    made = space["make"](**known)
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {one.name: one.type for one in fields} | {"return": None}
    return made


class _Factory:
    """The default of a field that is made anew for each object."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Factory()


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse(self: object, name: str, *value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change '{name}' of a {type(self).__name__}: make another one")


def _comparing(cls: type[Any], frozen: bool) -> dict[str, Any]:
    """By the values of the fields, in their order; what can be changed has no hash."""
    values = _values([one.name for one in dataclasses.fields(cls) if one.compare])

    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed if frozen else None}


def _values(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)  # `attrgetter` of one gives no tuple
