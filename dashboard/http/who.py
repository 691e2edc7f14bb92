"""Who somebody is, by the session or token that a request or a page brings; what they may do is decided in `people`."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from shoal.dashboard.http import access
from shoal.dashboard.http.access import PEOPLE, Sessions
from shoal.dashboard.http.visit import Visit
from shoal.errors import TrainingError
from shoal.home import session_key_file
from shoal.library.tokens import KnownTokens
from shoal.people import accounts, passwords
from shoal.people.acting import Acting
from shoal.people.person import MACHINE, STRANGER, Person

log = logging.getLogger("shoal")


def of_visit(visit: Visit, sessions: Sessions, tokens: KnownTokens) -> Person | None:
    """Who asks; None for somebody who is not in. Without accounts all who are in have the machine."""
    if visit.bearer:
        token = tokens.admits(visit.bearer)
        return None if token is None else access.of_token(token)
    if PEOPLE.are_there:
        return _of_session(visit.cookie(sessions.cookie()), sessions)
    seal = access.seal()
    return MACHINE if seal is None or sessions.is_valid(visit.cookie(sessions.cookie()), seal) else None


def _of_session(token: str, sessions: Sessions) -> Person | None:
    found = sessions.member(token)
    return found.person if found is not None else None


def log_in(sessions: Sessions, name: str, password: str, origin: str) -> str:
    """A session for somebody with an account; empty where name or password is wrong, which takes as long.

    Empty too where the accounts are in a database that is away, which `PEOPLE.away` tells.
    """
    PEOPLE.look()  # nobody comes in by what was known a moment ago
    if PEOPLE.away:
        return ""
    wanted = name.strip().lower()
    found = PEOPLE.active(wanted)
    right = passwords.matches(password, found.password if found else "")
    if found is None or not right:
        # What was given as a name may be a password that somebody typed into the wrong field.
        written(accounts.note, "wrong password", wanted if wanted in PEOPLE.everybody() else "", "a stranger", origin)
        return ""
    written(accounts.logged_in, found, password, origin)
    PEOPLE.look()  # the hash may be another one now
    now = PEOPLE.active(wanted)
    return sessions.begin(access.seal_of(now), wanted) if now else ""


def written(note: Callable[..., None], *what: object) -> None:
    """Somebody comes or goes on a full disk too, where that cannot be written down: the server's log has it."""
    try:
        note(*what)
    except (TrainingError, OSError) as error:
        log.warning("A login or logout could not be written down: %s", error)


def of_page() -> Acting | None:
    """Who looks at the page that this thread draws; None where it draws none.

    Whoever logged out, or was disabled, while it is drawn is a stranger from then on.
    """
    if get_script_run_ctx(suppress_warning=True) is None:
        return None
    if not PEOPLE.are_there:
        return Acting(MACHINE)
    sessions = _sessions(session_key_file())
    person = _of_session(st.context.cookies.get(sessions.cookie(), ""), sessions)
    return Acting(person or STRANGER, st.context.ip_address or "this machine")


@functools.cache
def _sessions(path: Path) -> Sessions:
    return Sessions(access.signing_key())
