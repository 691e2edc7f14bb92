"""Whose account somebody has whom the provider vouches for: theirs by its subject, else by e-mail, else a new one.

An account is bound to its subject at the first login: an address that is later given to somebody else does not give
them the account. Accounts of other names are bound by an admin (`shoal people link NAME ADDRESS`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Mapping

from shoal.errors import DiskFull, NotAllowed, StateError, TrainingError
from shoal.people import accounts
from shoal.people.oidc.id_token import VouchedPerson
from shoal.people.oidc.settings import OidcSettings
from shoal.people.records import LINKED, NAME, REMOVED, TeamMember, entry

PROVIDER = "the OpenID provider"

log = logging.getLogger("shoal")


def admitted(arrival: VouchedPerson, settings: OidcSettings, origin: str) -> TeamMember:
    """Their account, with this login in the log; NotAllowed where they may not come in, which is in the log too.

    On a full disk those come in who were here before, as by a password: the server's log has it.
    """
    try:
        return _admitted(arrival, settings, origin)
    except DiskFull as error:
        found = _theirs(arrival, accounts.by_name())
        if found is None or not found.is_active or found.subject != arrival.subject:
            raise
        log.warning("A login could not be written down: %s", error)
        return found
    except NotAllowed:
        with contextlib.suppress(TrainingError):  # nothing is done, so nothing has to be written down
            accounts.note("login refused", arrival.email or arrival.subject, PROVIDER, origin)
        raise


def _admitted(arrival: VouchedPerson, settings: OidcSettings, origin: str) -> TeamMember:
    with accounts.changing() as (store, known):
        if all(account.state == REMOVED for account in known.values()):
            raise NotAllowed("Expected the account of an admin before others come in, but there is none yet.")
        found = _theirs(arrival, known)
        if found is None:
            found = _new(arrival, settings)
            store.note(entry(PROVIDER, "person added", f"{found.name} ({found.role})", origin))
        if not found.is_active:
            raise NotAllowed("Your account here is disabled or was removed. Ask an admin of this dashboard.")
        now = dataclasses.replace(found, subject=arrival.subject, seen=time.time())
        store.put(now)
        store.note(entry(now.name, "logged in", f"by {PROVIDER}", origin))
    return now


def _theirs(arrival: VouchedPerson, known: Mapping[str, TeamMember]) -> TeamMember | None:
    same = [account for account in known.values() if account.subject == arrival.subject]
    if there := [account for account in same if account.state != REMOVED]:
        return there[0]
    if not arrival.email:
        raise NotAllowed(
            "Expected the provider to say that your e-mail address was verified, but it does not. Ask whoever runs it."
        )
    linked = next((one for one in known.values() if one.subject == LINKED + arrival.email), None)
    if linked is None and same:
        return same[0]  # somebody who was removed stays out, unless an admin has linked another account to them
    found = linked or known.get(arrival.email)
    if found is not None and found.subject not in ("", LINKED + arrival.email):
        raise NotAllowed(
            "The account of your e-mail address belongs to somebody else at the provider, or to your earlier account "
            "there. Ask an admin of this dashboard to link it anew."
        )
    return found


def _new(arrival: VouchedPerson, settings: OidcSettings) -> TeamMember:
    domain = arrival.email.rpartition("@")[2]
    if domain not in settings.domains:
        raise NotAllowed("You have no account here. Ask an admin of this dashboard for one.")
    if not NAME.fullmatch(arrival.email):
        raise NotAllowed(
            "Your e-mail address cannot be the name of an account (expected up to 64 letters a to z, digits and "
            ". _ @ + -). Ask an admin of this dashboard for an account that is linked to it."
        )
    return TeamMember(arrival.email, settings.role, created=time.time())


def link(name: str, email: str) -> TeamMember:
    """Let whoever has this e-mail address at the provider log in to an account; by admins."""
    wanted = email.strip().lower()
    if not email.isascii() or wanted.count("@") != 1 or not all(wanted.split("@")) or len(wanted) > 254:
        raise StateError(f"Expected an e-mail address such as ada@example.org, got '{email[:80]}'. Write it so.")
    for one in accounts.everybody():
        if one.name != name.strip().lower() and one.subject == LINKED + wanted:
            raise StateError(f"Expected an address that nobody is linked to, but '{one.name}' is. Nothing was changed.")
    return accounts.give_subject(name, LINKED + wanted)
