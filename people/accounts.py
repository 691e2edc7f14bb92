"""What can be done with accounts: add, change, remove, by admins; how one logs in is at the gate.

There is always an admin among the people who can log in, or else nobody at all: then the dashboard is as it was before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.errors import NotAllowed, Remedy, ResourceError, StateError
from shoal.people import passwords, place
from shoal.people.acting import acting
from shoal.people.person import ADMIN
from shoal.people.records import (
    ACTIVE,
    DISABLED,
    REMOVED,
    AuditEntry,
    PeopleStore,
    TeamMember,
    checked_name,
    checked_role,
    entry,
)
from shoal.people.rights import SERVICE, Verb, may


def there_are_any() -> bool:
    """Whether somebody has an account; what cannot be read or reached counts as one, so that nothing is open for it."""
    try:
        return bool(everybody())
    except (StateError, ResourceError):
        return True


def everybody() -> list[TeamMember]:
    """All who have an account, in the order of their names."""
    if not place.is_begun():
        return []
    with place.opened() as store:
        found = [account for account in store.people() if account.state != REMOVED]
    place.seen(bool(found))
    return found


def by_name() -> dict[str, TeamMember]:
    return {account.name: account for account in everybody()}


def named(name: str) -> TeamMember:
    wanted = name.strip().lower()
    for account in everybody():
        if account.name == wanted:
            return account
    raise StateError(
        f"Expected the name of somebody with an account, got '{name[:80]}'.", Remedy.run("See them", "people", "list")
    )


# ------------------------------------------------------------------ changes


def add(name: str, password: str | None, role: str, private: bool = False) -> TeamMember:
    """Without a password somebody comes by the team's OpenID provider alone, if the name is their e-mail address."""
    _admins_only()
    kept = "" if password is None else passwords.hashed(password)
    new = TeamMember(checked_name(name), checked_role(role), kept, private=private)
    with changing() as (store, known):
        if not known:
            place.check_moved()
        if (before := known.get(new.name)) is not None:
            what = "has an account already" if before.state != REMOVED else "was somebody's, whose things still say so"
            raise StateError(f"Expected a name that is free, but '{new.name}' {what}. Choose another.")
        if role != ADMIN and not any(account.state != REMOVED for account in known.values()):
            raise StateError(
                f"Expected the first account to be an admin's, got the role {role}: from then on nobody else may say "
                "who is who.", Remedy.run("Begin with one", "people", "add", new.name, "--role", ADMIN),
            )  # fmt: skip
        made = dataclasses.replace(new, created=time.time())
        store.put(made)
        _note(store, "person added", f"{made.name} ({role})")
    place.seen(anybody=True)
    return made


def give_role(name: str, role: str) -> TeamMember:
    _admins_only()
    return _changed(name, f"role {checked_role(role)}", role=role)


def disable(name: str) -> TeamMember:
    """Their sessions and tokens end at once; what they made stays."""
    _admins_only()
    return _changed(name, "person disabled", state=DISABLED)


def enable(name: str) -> TeamMember:
    _admins_only()
    return _changed(name, "person enabled", state=ACTIVE)


def set_password(name: str, password: str) -> TeamMember:
    """All their sessions end."""
    _admins_only(name)
    return _changed(name, "password set", password=passwords.hashed(password))


def give_subject(name: str, subject: str) -> TeamMember:
    """Who they are to the team's OpenID provider from now on. All their sessions end."""
    _admins_only()
    return _changed(name, f"linked to {subject}", subject=subject)


def begin_private(name: str, private: bool) -> TeamMember:
    """How what they make from now on begins."""
    _admins_only(name)
    return _changed(name, "begins private" if private else "begins shared", private=private)


def remove(name: str) -> TeamMember:
    """The name is not given again: runs and models still say it. The last account of all may go."""
    _admins_only()
    gone = _changed(name, "person removed", state=REMOVED, password="")
    with place.opened() as store:
        if all(account.state == REMOVED for account in store.people()):
            place.forget()
    return gone


def logged_in(account: TeamMember, password: str, origin: str) -> None:
    """Note when somebody came; a hash of another time is made anew while the password is at hand."""
    anew = {"password": passwords.hashed(password)} if passwords.is_outdated(account.password) else {}
    with changing() as (store, known):
        if (now := known.get(account.name)) is not None and now.password == account.password:
            store.put(_with(now, {"seen": time.time(), **anew}))
        store.note(entry(account.name, "logged in", "", origin))


def _admins_only(but: str = "") -> None:
    """NotAllowed for everybody else; `but` somebody about their own account."""
    now = acting().person
    if not may(now, Verb.ADMINISTER, SERVICE) and (not but or now.name != but.strip().lower() or now.rank < 0):
        raise NotAllowed(f"Expected an admin for this, got {now.role or 'a stranger'}. Ask one of them.")


def _changed(name: str, deed: str, **changes: Any) -> TeamMember:
    with changing() as (store, known):
        before = known.get(name.strip().lower())
        if before is None or before.state == REMOVED:
            raise StateError(
                f"Expected the name of somebody with an account, got '{name[:80]}'.",
                Remedy.run("See them", "people", "list"),
            )
        after = _with(before, changes)
        _keep_an_admin({**known, after.name: after})
        store.put(after)
        _note(store, deed, after.name)
    return after


def _with(account: TeamMember, changes: Mapping[str, Any]) -> TeamMember:
    return dataclasses.replace(account, **changes)


def _keep_an_admin(after: dict[str, TeamMember]) -> None:
    left = [account for account in after.values() if account.state != REMOVED]
    if left and not any(account.is_active and account.role == ADMIN for account in left):
        raise StateError(
            "Expected an admin who can log in to be left, but this would leave none. Make somebody else an admin first."
        )


@contextlib.contextmanager
def changing() -> Iterator[tuple[PeopleStore, dict[str, TeamMember]]]:
    """One change at a time: each looks at all accounts first. It is in the log, or it is not made."""
    with place.opened() as store, store.changes():
        yield store, {account.name: account for account in store.people()}


# ------------------------------------------------------------------ the log of deeds


def note(deed: str, thing: str = "", who: str | None = None, origin: str | None = None) -> None:
    """Write down what somebody does; nothing where there are no accounts."""
    if not there_are_any():
        return
    with place.opened() as store:
        now = acting()
        store.note(entry(who or now.person.said, deed, thing, now.origin if origin is None else origin))


def audit(limit: int = 100, before: int | None = None) -> list[AuditEntry]:
    _admins_only()
    if not place.is_begun():
        return []
    with place.opened() as store:
        return store.entries(limit, before)


def first_broken() -> int | None:
    if not place.is_begun():
        return None
    with place.opened() as store:
        return store.first_broken()


def _note(store: PeopleStore, deed: str, thing: str) -> None:
    now = acting()
    store.note(entry(now.person.said, deed, thing, now.origin))
