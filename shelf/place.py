"""Which shelf it is: the home's own, or that of the team where SHOAL_DATABASE names a database; decided here."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from shoal.database.address import is_set
from shoal.database.plain_errors import DatabaseAway
from shoal.shelf.base import ModelShelf
from shoal.shelf.file_shelf import FileShelf
from shoal.words import listed, plural

T = TypeVar("T")
REST = 1.0  # seconds between two tries


def shelf() -> ModelShelf:
    if not is_set():
        return FileShelf()
    from shoal.database.connections import database
    from shoal.shelf.postgres_shelf import PostgresShelf

    return PostgresShelf(database())


def not_moved() -> str:
    """Which models a home has that its team does not see, in a sentence; empty where there are none."""
    if not is_set() or not (names := sorted(model.name for model in FileShelf().look())):
        return ""
    return (
        f"{plural(len(names), 'model')} of this home {'is' if len(names) == 1 else 'are'} not in the team's database "
        f"({listed(names, 3)}). Move: shoal models move."
    )


def is_shared() -> bool:
    """Whether models are those of a team, and not of this home alone."""
    return is_set()


def patiently(action: Callable[[], T], seconds: float, say: Callable[[DatabaseAway], None]) -> T:
    """What an action gives: while the team's database is away, it is tried again for some seconds. It is said once."""
    until, said = time.monotonic() + seconds, False
    while True:
        try:
            return action()
        except DatabaseAway as error:
            if time.monotonic() > until:
                raise
            if not said:
                say(error)
            said = True
        time.sleep(REST)
