"""Where accounts are kept: a file of the home, or the team's database where SHOAL_DATABASE names one; decided here.

A home whose accounts are in a database remembers so in a file. Without it, a variable that is not set, or that names
another database, would open a dashboard for which people have to log in; with it, nobody is let in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator

from shoal.database.address import VARIABLE, address, is_set
from shoal.errors import ConfigError, Remedy, StateError
from shoal.home import make_folder, people_elsewhere_file, people_file
from shoal.people.records import REMOVED, PeopleStore
from shoal.people.sqlite_people import SqlitePeople, mark_of
from shoal.utils import write_atomically

MOVED = ".moved"  # after the name of a file whose accounts are in a database now


def is_begun() -> bool:
    """Whether there may be somebody: without a look into a file or database."""
    return is_set() or people_file().exists() or people_elsewhere_file().exists()


@contextlib.contextmanager
def opened() -> Iterator[PeopleStore]:
    store = _database_store() if is_set() else _file_store()
    try:
        yield store
    finally:
        store.close()


def _database_store() -> PeopleStore:
    from shoal.database.connections import database
    from shoal.people.postgres_people import PostgresPeople

    return PostgresPeople(database())


def _file_store() -> PeopleStore:
    if people_elsewhere_file().exists():
        raise StateError(
            f"The accounts of this home are in a team's database, but {VARIABLE} is not set here. Set it, and try "
            "again."
        )
    return SqlitePeople(people_file())


def where() -> Hashable:
    """Which place it is; as cheap as a look at the environment."""
    try:
        return address() or people_file()
    except ConfigError:  # which is told by whoever tries to open it
        return VARIABLE


def may_wait() -> bool:
    """Whether a look may have to wait for another machine."""
    return is_set()


def mark() -> Hashable:
    """Another one after every change of people, and of what the home says about them."""
    local = people_elsewhere_file().exists(), people_file().exists()
    if is_set():
        with opened() as store:
            return store.mark(), local
    return mark_of(people_file()), local


# ------------------------------------------------------------------ what a home remembers


def seen(anybody: bool) -> None:
    """After a look at a database: remember that there is somebody; StateError where there should be, and is nobody."""
    if not is_set():
        return
    reminder = people_elsewhere_file()
    if anybody:
        if not reminder.exists():
            _remember()
    elif reminder.exists():
        raise StateError(
            f"Expected the accounts of this home in the database that {VARIABLE} names, but it has none. Name the "
            f"right one; or, if nobody is to have an account any more, remove '{reminder}'.",
            Remedy.run("Or begin anew", "people", "add", "NAME", "--role", "admin"),
        )
    else:
        check_moved()


def check_moved() -> None:
    """StateError where the home's own file has accounts, which the database has not."""
    if is_set() and _anybody_in_file():
        raise StateError(
            f"The accounts of this home are in '{people_file()}', and {VARIABLE} names a database that has none.",
            Remedy.run("Move them there", "people", "move"),
        )


def _remember() -> None:
    with contextlib.suppress(OSError):  # a full disk: it is written at the next look
        make_folder(people_elsewhere_file().parent)
        write_atomically(people_elsewhere_file(), b"The accounts of this home are in the team's database.\n")


def forget() -> None:
    """The last account is gone, so the home is as it was before the first."""
    people_elsewhere_file().unlink(missing_ok=True)


def _anybody_in_file() -> bool:
    """Whether the home's own file has an account; one that cannot be read counts as one."""
    if not people_file().exists():
        return False
    try:
        with contextlib.closing(SqlitePeople(people_file())) as store:
            return any(account.state != REMOVED for account in store.people())
    except StateError:
        return True
