"""What is kept of people and their deeds, and the store behind it: one protocol, whatever the database."""

from __future__ import annotations

import hashlib
import json
import re
import time
import zlib
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from shoal.errors import ConfigError
from shoal.lazy.classes import dataclass
from shoal.people.person import ROLES, Person

ACTIVE, DISABLED, REMOVED = "active", "disabled", "removed"
STATES = (ACTIVE, DISABLED, REMOVED)
NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
FIELDS = ("name", "role", "password", "state", "private", "created", "seen", "subject")  # of an account, in rows
LINKED = "mailto:"  # in front of the address of somebody who is to come by the provider, and has not yet
FIRST = "0" * 64  # in the place of a seal before the first entry


@dataclass(frozen=True)
class TeamMember:
    """A person as the store has them. One that was removed keeps the name, which what they made still says."""

    name: str
    role: str
    password: str = ""  # its hash; empty for somebody who comes by the team's OpenID provider alone
    state: str = ACTIVE
    private: bool = False  # how what they make begins
    created: float = 0.0
    seen: float = 0.0  # when they last logged in; 0 for never
    subject: str = ""  # who they are to the team's OpenID provider (`people.oidc`)

    @property
    def is_active(self) -> bool:
        return self.state == ACTIVE

    @property
    def person(self) -> Person:
        return Person(self.name, self.role, self.private)


@dataclass(frozen=True)
class AuditEntry:
    """Who did what to which thing, when and from where. `seal` covers this entry and the one before it."""

    at: float
    who: str
    deed: str
    thing: str = ""
    origin: str = ""
    id: int = 0
    seal: str = ""

    def sealed_after(self, before: str) -> str:
        values = [before, repr(self.at), self.who, self.deed, self.thing, self.origin]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def entry(who: str, deed: str, thing: str = "", origin: str = "") -> AuditEntry:
    """Of texts that every database takes."""
    texts = (text.encode("utf-8", "replace").decode().replace("\0", "?") for text in (who, deed, thing, origin))
    who, deed, thing, origin = texts
    return AuditEntry(time.time(), who[:200], deed[:100], thing[:400], origin[:100])


class PeopleStore(Protocol):
    """Every change is whole when the call returns. StateError where what is kept cannot be read or proven."""

    def people(self) -> list[TeamMember]:
        """All, those who were removed too, in the order of their names."""
        ...

    def put(self, account: TeamMember) -> None:
        """Add somebody, or say anew what is kept of them."""
        ...

    def note(self, entry: AuditEntry) -> None:
        """Add to the log of deeds, which has no other change."""
        ...

    def entries(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """The newest first; `before` an id, those before it."""
        ...

    def first_broken(self) -> int | None:
        """The id of the first entry that is not what was written, or whose forerunner is missing; None if all are."""
        ...

    def mark(self) -> Hashable:
        """Another one after every change of people, whoever made it; cheap."""
        ...

    def changes(self) -> AbstractContextManager[None]:
        """What this thread changes inside is done together or not at all; nobody else changes anything meanwhile."""
        ...

    def close(self) -> None: ...


def values_of(account: TeamMember) -> list[Any]:
    """What is kept of an account, in the order of FIELDS, and what its checksum covers."""
    numbers = {"private": int(account.private), "created": float(account.created), "seen": float(account.seen)}
    return [numbers.get(name, getattr(account, name)) for name in FIELDS]


def checksum(values: Sequence[Any]) -> str:
    """Without a subject as it was before there were any: accounts of then stay proven."""
    *others, subject = values
    return f"{zlib.crc32(json.dumps(values if subject else others).encode()):08x}"


def member_of(row: Sequence[Any]) -> TeamMember | None:
    """Of a row, values with their checksum after them; None where the one is not that of the others."""
    *values, told = row
    known = dict(zip(FIELDS, values, strict=True))
    try:
        if told != checksum([int(value) if isinstance(value, bool) else value for value in values]):
            return None
    except TypeError:  # bytes in place of a text
        return None
    return TeamMember(**{**known, "private": bool(known["private"])})


def first_broken(entries: Sequence[AuditEntry]) -> int | None:
    """Of entries in the order in which they were made, from the first one on."""
    before, expected = FIRST, 1
    for one in entries:
        if one.id != expected or one.seal != one.sealed_after(before):
            return one.id
        before, expected = one.seal, one.id + 1
    return None


def checked_name(name: Any) -> str:
    found = str(name).strip().lower()
    if not NAME.fullmatch(found):
        raise ConfigError(
            "Expected a name of up to 64 letters a to z, digits and . _ @ + -, which begins with a letter or digit, "
            f"got '{str(name)[:80]}'. Choose another."
        )
    return found


def checked_role(role: str) -> str:
    if role not in ROLES:
        raise ConfigError(f"Expected one of the roles {', '.join(ROLES)}, got '{role[:40]}'. Choose one of them.")
    return role
