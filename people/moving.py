"""Accounts of a home's own file into the team's database, with their whole log; once, and by a person's command."""

from __future__ import annotations

import contextlib

from shoal.database.address import VARIABLE
from shoal.database.connections import database
from shoal.errors import StateError
from shoal.home import people_file
from shoal.people import place
from shoal.people.acting import acting
from shoal.people.deeds import check
from shoal.people.postgres_people import PostgresPeople
from shoal.people.records import REMOVED, entry
from shoal.people.rights import SERVICE, Verb
from shoal.people.sqlite_people import SqlitePeople
from shoal.utils import disk_errors


def move() -> tuple[int, int]:
    """How many accounts and entries of the log were moved. All are, or none; the file is kept under another name."""
    check(Verb.ADMINISTER, SERVICE, "accounts moved")
    file = people_file()
    if not file.exists():
        raise StateError(f"Expected accounts in '{file}' to move, but there is no such file. Nothing was changed.")
    store, now = PostgresPeople(database()), acting()
    with contextlib.closing(SqlitePeople(file)) as before, before.changes():  # nobody adds to it meanwhile
        people, entries = before.people(), before.entries(2**62)[::-1]
        with store.changes():
            store.take_over(people, entries)
            store.note(entry(now.person.said, "accounts moved", f"from people.sqlite to {VARIABLE}", now.origin))
        place.seen(any(one.state != REMOVED for one in people))
        with disk_errors("the file of accounts"):
            file.rename(file.with_name(file.name + place.MOVED))
    return sum(one.state != REMOVED for one in people), len(entries)
