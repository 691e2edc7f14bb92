"""Tokens for programs: who may use the API, with which scope and until when; HTTP is in `dashboard.http.gate`.

A token is shown once, when it is made. SHOAL_HOME/tokens.json has its SHA-256 (a token is 256 random bits, so that no
slow hash is needed), its name, scope and times. A file that is damaged lets nobody in.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from shoal.errors import ConfigError, DamagedFile, NotAllowed, StateError
from shoal.files import sealed
from shoal.files.locks import one_at_a_time
from shoal.home import by_beginning, tokens_file
from shoal.lazy.classes import dataclass
from shoal.people import accounts, acting
from shoal.people.person import ADMIN, EDITOR, ROLES, VIEWER, Person, lesser
from shoal.people.records import TeamMember
from shoal.people.rights import SERVICE, Verb, may
from shoal.utils import identity_of

PREFIX = "shoal_"
ROLE_OF = {"read": VIEWER, "write": EDITOR, "admin": ADMIN}  # what a scope lets a program do at most
SCOPES = tuple(ROLE_OF)
DAY = 86_400.0
LONGEST_DAYS, USUAL_DAYS = 3650.0, 90.0
LONGEST_NAME = 80  # characters
NOTED = 60.0  # seconds between two notes of when a token was last used
_FILE = "tokens"


@dataclass(frozen=True)
class AccessToken:
    """As it is kept: enough to know one, not to make one."""

    id: str
    name: str
    scope: str
    digest: str
    created: float
    expires: float
    used: float = 0.0  # when it was last used, to a minute; 0 for never
    person: str = ""  # for whom it acts; of nobody where there were no accounts, or the machine made it

    @property
    def writes(self) -> bool:
        return self.scope != "read"

    def acts_for(self, people: Mapping[str, TeamMember]) -> Person | None:
        """Whom a program with it is, among these accounts; None where that person cannot log in any more."""
        role, by = ROLE_OF[self.scope], f"token {self.name}"
        if not self.person:
            return Person("", role, by=by)
        owner = people.get(self.person)
        if owner is None or not owner.is_active:
            return None
        return Person(owner.name, lesser(role, owner.role), owner.private, by)

    def standing(self, people: Mapping[str, TeamMember]) -> str:
        """Why it is no longer good, for a list; empty while it is."""
        if self.is_over():
            return "over"
        return "" if self.acts_for(people) else f"{self.person} cannot log in"

    def is_over(self, now: float | None = None) -> bool:
        return self.expires <= (time.time() if now is None else now)


def create(name: str, scope: str = "read", days: float = USUAL_DAYS, person: str = "") -> tuple[str, AccessToken]:
    """The token itself, which nobody can read again, and what is kept of it; `person` is for whom it acts."""
    plain = name.strip()
    if not plain or len(plain) > LONGEST_NAME or not plain.isprintable():
        raise ConfigError(f"Expected a name of 1 to {LONGEST_NAME} letters for a token, got '{name[:100]}'.")
    if scope not in SCOPES:
        raise ConfigError(f"Expected one of the scopes {', '.join(SCOPES)}, got '{scope}'. Choose one of them.")
    _check_own(person)
    _check_person(person, scope)
    if not 0 < days <= LONGEST_DAYS:
        raise ConfigError(f"Expected a token to be good for up to {LONGEST_DAYS:g} days, got {days:g}. Choose fewer.")
    text, now = PREFIX + secrets.token_urlsafe(32), time.time()
    made = AccessToken(secrets.token_hex(4), plain, scope, _digest(text), now, now + days * DAY, person=person)
    accounts.note("token made", f"{made.id} {plain} ({scope}) {person}".strip())  # or, if that fails, it is not made
    with _changing():
        _write([*tokens(), made])
    return text, made


def _check_own(person: str) -> None:
    """Admins make and end all tokens, others their own."""
    now = acting.person()
    if not may(now, Verb.ADMINISTER, SERVICE) and (not person or now.name != person or now.rank < 0):
        raise NotAllowed("Expected a token of your own, got one for somebody else. Ask an admin.")


def _check_person(name: str, scope: str) -> None:
    """A token acts for somebody who can log in, and promises no more than they may do."""
    if not name:
        return
    account = accounts.named(name)
    role = account.role
    if not account.is_active:
        raise StateError(f"Expected somebody who can log in, but the account of {name} is {account.state}.")
    if ROLES.index(ROLE_OF[scope]) > ROLES.index(role):
        fits = [known for known, needed in ROLE_OF.items() if ROLES.index(needed) <= ROLES.index(role)]
        raise ConfigError(
            f"Expected a scope that {name}, who is {role}, may have ({', '.join(fits)}), got {scope}. Choose another."
        )


def tokens() -> list[AccessToken]:
    """All, the oldest first; StateError if they cannot be read."""
    path = tokens_file()
    try:
        found = sealed.read(path, _FILE)
        return [AccessToken(**entry) for entry in found["tokens"]]
    except FileNotFoundError:
        return []
    except (OSError, DamagedFile, KeyError, TypeError) as error:
        why = error.message if isinstance(error, DamagedFile) else str(error)
        raise StateError(f"The tokens in '{path}' cannot be read. {why} Remove the file and make them anew.") from None


def revoke(which: str) -> AccessToken:
    """By its id, a beginning of it, or its name where only one has it."""
    with _changing():
        known = tokens()
        named = [token for token in known if token.name == which]
        found = named[0] if len(named) == 1 else by_beginning(which, {token.id: token for token in known}, "token")
        if found is None:
            raise StateError(f"Expected the id or name of a token, got '{which}'. See them with: shoal token list.")
        _check_own(found.person)
        _write([token for token in known if token.id != found.id])
    accounts.note("token ended", f"{found.id} {found.name} {found.person}".strip())
    return found


class KnownTokens:
    """What a server knows of tokens: the file as it was last seen, so that a request costs a look at its times."""

    def __init__(self) -> None:
        self._seen: tuple[Path, tuple[int, ...]] | None = None
        self._known: dict[str, AccessToken] = {}
        self._noted: dict[str, float] = {}

    def admits(self, text: str) -> AccessToken | None:
        """The token, if it is one of ours and still good."""
        if not text.startswith(PREFIX):
            return None
        path = tokens_file()
        mark = (path, identity_of(path))
        if self._seen != mark:
            try:
                self._known = {token.digest: token for token in tokens()}
            except StateError:
                self._known = {}  # never open because of a damaged file
            self._seen = mark
        found = self._known.get(_digest(text))
        return None if found is None or found.is_over() else found

    def note_use(self, token: AccessToken) -> None:
        """Say when it was last used, once a minute; nothing depends on it."""
        now = time.time()
        if now - max(token.used, self._noted.get(token.id, 0.0)) < NOTED:
            return
        self._noted[token.id] = now
        with contextlib.suppress(OSError, StateError), _changing():
            known = tokens()
            _write([dataclasses.replace(one, used=now) if one.id == token.id else one for one in known])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _changing() -> contextlib.AbstractContextManager[None]:
    return one_at_a_time(tokens_file().with_suffix(".lock"))


def _write(known: list[AccessToken]) -> None:
    sealed.write(tokens_file(), {"tokens": [dataclasses.asdict(token) for token in known]}, _FILE)
