"""Our `dataclass` beside Python's own: the same classes made by both do the same."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
import threading
from dataclasses import field
from typing import Any, ClassVar, get_type_hints

import pytest

from shoal.lazy.classes import dataclass

OWN, PYTHONS = dataclass, dataclasses.dataclass


def classes(make: Any) -> dict[str, type[Any]]:
    """One of each kind that we have, made by either."""

    @make(frozen=True)
    class Point:
        """Of a plane."""

        x: float
        y: float = 0.0
        tags: dict[str, int] = field(default_factory=dict, compare=False)
        note: str = field(default="", repr=False, metadata={"help": "a note"})
        origin: ClassVar[str] = "here"

        @functools.cached_property
        def length(self) -> float:
            return (self.x**2 + self.y**2) ** 0.5

    @make(frozen=True)
    class Weighed(Point):
        weight: int = 1

        def __post_init__(self) -> None:
            object.__setattr__(self, "weight", abs(self.weight))

    @make
    class Open:
        """Can be changed."""

        one: list[int] = field(default_factory=list)
        counted: int = field(default=0, init=False)
        kept: list[int] = field(default_factory=list, init=False)
        later: int = field(init=False)

        def __post_init__(self) -> None:
            self.later = len(self.one)

    @make(frozen=True, kw_only=True)
    class Named:
        """By names alone."""

        first: int
        second: int = 2

    @make(frozen=True, eq=False)
    class Itself:
        """Is nothing but itself."""

        value: int = 0

    @make(frozen=True)
    class Empty:
        """Has nothing."""

    @make(frozen=True)
    class Judged:
        """Says itself what is the same."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.name.lower() == other.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

        def __repr__(self) -> str:
            return self.name.upper()

    return {one.__name__: one for one in (Point, Weighed, Open, Named, Itself, Empty, Judged)}


def seen(made: Any) -> Any:
    """What can be seen of an object, or of how making it failed."""
    try:
        one = made()
    except TypeError as error:
        return str(error).split("<locals>.")[-1]
    shown = repr(one).split("<locals>.")[-1]
    try:
        number = hash(one) if type(one).__name__ != "Itself" else "its own"
    except TypeError as error:
        number = str(error)
    return shown, number, dataclasses.astuple(one), type(one).__match_args__


CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Point", (1.0,), {}),
    ("Point", (1.0, 2.0), {"note": "a"}),
    ("Point", (), {"y": 1.0}),
    ("Point", (1.0, 2.0, {}, "", "much"), {}),
    ("Point", (1.0,), {"z": 3}),
    ("Weighed", (1.0,), {"weight": -3}),
    ("Open", (), {}),
    ("Open", ([1, 2],), {}),
    ("Named", (), {"first": 1}),
    ("Named", (1,), {}),
    ("Itself", (3,), {}),
    ("Empty", (), {}),
    ("Judged", ("Ann",), {}),
]


@pytest.mark.parametrize(("name", "values", "named"), CASES)
def test_objects_are_made_shown_and_hashed_as_by_python(
    name: str, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    own, pythons = classes(OWN)[name], classes(PYTHONS)[name]
    assert seen(lambda: own(*values, **named)) == seen(lambda: pythons(*values, **named))


@pytest.mark.parametrize("name", list(classes(OWN)))
def test_fields_and_signatures_are_those_of_python(name: str) -> None:
    own, pythons = classes(OWN)[name], classes(PYTHONS)[name]
    assert [repr(one) for one in dataclasses.fields(own)] == [repr(one) for one in dataclasses.fields(pythons)]
    assert str(inspect.signature(own)) == str(inspect.signature(pythons))
    defaults = [getattr(kind, "note", None) for kind in (own, pythons)]
    assert defaults[0] == defaults[1]


def test_what_is_equal() -> None:
    made = classes(OWN)
    point, weighed, opened, itself = made["Point"], made["Weighed"], made["Open"], made["Itself"]
    assert point(1.0, tags={"a": 1}) == point(1.0, tags={"b": 2})  # a field that is not compared
    assert point(1.0) != point(2.0)
    assert point(1.0) != weighed(1.0)
    assert point(1.0) != (1.0, 0.0, "")
    assert weighed(1.0, weight=-1) == weighed(1.0, weight=1)
    assert opened([1]) == opened([1])
    assert itself(1) != itself(1)
    assert len({point(1.0), point(1.0), point(2.0)}) == 2
    assert made["Judged"]("Ann") == made["Judged"]("ANN")
    assert made["Empty"]() == made["Empty"]()


def test_what_is_frozen_stays_and_what_is_open_may_change() -> None:
    made = classes(OWN)
    point = made["Point"](3.0, 4.0)
    for change in (lambda: setattr(point, "x", 1.0), lambda: setattr(point, "new", 1), lambda: delattr(point, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="of a Point"):
            change()
    assert point.length == 5.0  # kept beside the fields
    assert dataclasses.replace(point, x=0.0).length == 4.0
    opened = made["Open"]()
    opened.one, opened.later = [7], 1
    assert opened == made["Open"]([7])
    assert made["Open"]().one is not made["Open"]().one


def test_an_object_that_no_one_made_here_is_whole() -> None:
    """As messages of other processes are, which a pickle brings along without calling `__init__`."""
    point = classes(OWN)["Point"]
    came = object.__new__(point)
    vars(came).update(x=1.0, y=2.0, tags={}, note="n")
    assert repr(came).endswith("Point(x=1.0, y=2.0, tags={})")
    assert hash(came) == hash((1.0, 2.0, "n"))
    assert copy.deepcopy(came) == came
    with pytest.raises(dataclasses.FrozenInstanceError):
        came.x = 3.0
    assert not inspect.isfunction(vars(point)["__init__"])
    assert came == point(1.0, 2.0, note="n")


@dataclass(frozen=True)
class Sent:
    """Goes through a pickle."""

    text: str
    parts: tuple[int, ...] = ()


def test_objects_go_through_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", (1, 2)))) == Sent("a", (1, 2))


def test_a_loop_is_shown() -> None:
    opened = classes(OWN)["Open"]()
    opened.one = [opened]
    assert repr(opened).endswith("Open(one=[...], counted=0, kept=[], later=0)")


def test_a_base_may_be_called_by_its_heir() -> None:
    @dataclass
    class Base:
        """Has one."""

        a: int

    class Heir(Base):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(a)
            self.b = b

    heir = Heir(1, 2)
    assert (heir.a, heir.b) == (1, 2)
    assert Base(3).a == 3


def test_threads_may_make_the_first_objects_at_once() -> None:
    for _ in range(20):
        point = classes(OWN)["Point"]
        ready, made = threading.Barrier(4), []

        def make(point: Any = point, ready: threading.Barrier = ready, made: list[Any] = made) -> None:
            ready.wait()
            made.append(point(1.0, note="x"))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [point(1.0, note="x")] * 4


def test_nothing_is_compiled_before_the_first_object_is_made() -> None:
    made = classes(OWN)["Point"]
    assert not inspect.isfunction(vars(made)["__init__"])
    made(1.0)
    assert inspect.isfunction(vars(made)["__init__"])


@dataclass(frozen=True)
class Holder:
    """Has a field of a type that is named in this module."""

    case: Case


class Case:
    """Known here only."""


def test_annotations_are_names_of_the_module_of_the_class() -> None:
    assert get_type_hints(Holder.__init__) == {"case": Case, "return": type(None)}
    assert Holder.__init__.__module__ == Holder.__module__
