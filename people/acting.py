"""Who acts in this thread or request; whoever takes a request in says so, and everybody below asks here.

The gate binds the person of a request, which threads that work for it inherit. Pages are drawn by threads of their own:
for those the server names a function that finds the person of the page. The command line says which user types.
Everywhere else (Python, detached processes, a dashboard without accounts) it is whoever has the machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from shoal.lazy.classes import dataclass
from shoal.people.person import MACHINE, Person


@dataclass(frozen=True)
class Acting:
    """Somebody, and from where they came."""

    person: Person
    origin: str = ""


_bound: ContextVar[Acting | None] = ContextVar("acting", default=None)


class _Pages:
    """Finds who looks at the page that this thread draws; None for a thread that draws none."""

    find: Callable[[], Acting | None] | None = None


def pages_are_of(find: Callable[[], Acting | None]) -> None:
    _Pages.find = find


@contextlib.contextmanager
def as_person(person: Person, origin: str = "") -> Iterator[None]:
    token = _bound.set(Acting(person, origin))
    try:
        yield
    finally:
        _bound.reset(token)


def acting() -> Acting:
    if (bound := _bound.get()) is not None:
        return bound
    found = _Pages.find() if _Pages.find is not None else None
    return found or Acting(MACHINE)


def person() -> Person:
    return acting().person


def said(otherwise: str) -> str:
    """Whoever acts, for a history that people read; `otherwise` where people are not told apart."""
    now = person()
    return otherwise if now == MACHINE or now.types_commands else now.said
