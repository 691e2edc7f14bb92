"""The People page: one's own account and tokens; for admins everybody's, and the log of who did what.

What may be changed by whom is decided below it, in `people`; the page shows the sentence where it is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import streamlit as st

from shoal.dashboard.http import access, provider_door
from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.people import tokens_part
from shoal.errors import ConfigError, TrainingError
from shoal.people import accounts, acting, passwords
from shoal.people.person import EDITOR, ROLES, Person
from shoal.people.records import ACTIVE, TeamMember
from shoal.people.rights import SERVICE, Verb, may

DONE = "people:done"
ENTRIES = 500  # of the log that are shown


def show() -> None:
    person = acting.person()
    st.title("People", anchor=False)
    if said := st.session_state.pop(DONE, None):
        st.toast(said, icon=":material/check:")
    if not may(person, Verb.ADMINISTER, SERVICE):
        _own(person)
        tokens_part.show(person)
        return
    own, everybody, tokens, log = st.tabs(["You", "Everybody", "Tokens", "Log"])
    with own:
        _own(person)
    with everybody:
        _everybody()
    with tokens:
        tokens_part.show(person)
    with log:
        _log()


def _tried(deed: Callable[[], object], said: str) -> None:
    """Done and said, or why not."""
    try:
        deed()
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error))
        return
    access.PEOPLE.look()  # the page is drawn again by what is so now
    st.session_state[DONE] = said
    st.rerun()


# ------------------------------------------------------------------ one's own account


def _own(person: Person) -> None:
    st.header(f"You are {person.name}, {person.role}", anchor=False)
    line({"viewer": "You see what is shared, and what is yours.",
          "editor": "You start runs, send files and keep models, and change what is yours.",
          "admin": "You see and change everything, and say who is who."}[person.role])  # fmt: skip
    private = st.toggle(
        "What I make is private", person.private, key="people:private",
        help="Runs, models and uploads begin so: seen by you and by admins. Each can be shared later.",
    )  # fmt: skip
    if private != person.private:
        _tried(lambda: accounts.begin_private(person.name, private), "Saved")
    known = access.PEOPLE.everybody().get(person.name)  # as the server last saw it: the database may be away
    if known is not None and not known.password:
        line("You log in by your organisation's own login, and have no password here.")
        return
    with st.form("people:password", border=True):
        st.markdown("**Another password**")
        before = st.text_input("Your password", type="password", autocomplete="current-password")
        after = st.text_input("New password", type="password", autocomplete="new-password")
        if st.form_submit_button("Change it"):
            _tried(lambda: _change_password(person.name, before, after), "Changed. Log in again with it.")


def _change_password(name: str, before: str, after: str) -> None:
    if not passwords.matches(before, accounts.named(name).password):
        raise ConfigError("Expected your password as it is now, got another one. Nothing was changed.")
    accounts.set_password(name, after)


# ------------------------------------------------------------------ everybody


def _everybody() -> None:
    try:
        known = accounts.everybody()
    except TrainingError as error:
        notice("error", wording.told(error))
        return
    st.dataframe(
        {"Name": [one.name for one in known], "Role": [one.role for one in known],
         "Account": [one.state for one in known], "Begins": ["private" if one.private else "shared" for one in known],
         "Since": [_day(one.created) for one in known],
         "Last login": [_day(one.seen) if one.seen else "never" for one in known]},
        hide_index=True,
    )  # fmt: skip
    change, new = st.columns(2)
    with change, st.container(border=True):
        _change({one.name: one for one in known})
    with new:
        _add()


def _change(known: dict[str, TeamMember]) -> None:
    st.markdown("**Change an account**")
    name = st.selectbox("Person", list(known), key="people:who")
    one = known[name]
    role = st.selectbox("Role", ROLES, ROLES.index(one.role), key=f"people:role:{name}")
    with st.container(horizontal=True):
        if st.button("Give this role", disabled=role == one.role, key="people:give"):
            _tried(lambda: accounts.give_role(name, role), f"{name} is {role} from now on")
        able, deed = ("Disable", accounts.disable) if one.state == ACTIVE else ("Enable", accounts.enable)
        if st.button(able, key="people:able"):
            _tried(lambda: deed(name), f"{able}d: {name}")
        with st.popover("Remove"):
            line("What they made stays, and their name is not given again. To keep them out for a while, disable them.")
            if st.button(f"Remove {name} for good", type="primary", key="people:remove"):
                _tried(lambda: accounts.remove(name), f"Removed: {name}")
    password = st.text_input("New password for them", type="password", key="people:anew", autocomplete="new-password")
    if st.button("Set it", disabled=not password, key="people:set"):
        _tried(lambda: accounts.set_password(name, password), f"{name} has a new password")


def _add() -> None:
    with st.form("people:add", clear_on_submit=False):
        st.markdown("**Add somebody**")
        name = st.text_input("Name", max_chars=64)
        role = st.selectbox("Role", ROLES, ROLES.index(EDITOR))
        told = "Without one they come by your organisation's login, if the name is their e-mail address."
        by_login = provider_door.button() != ""
        password = st.text_input(
            "First password", type="password", autocomplete="new-password", help=told if by_login else None
        )
        private = st.checkbox("What they make is private until they share it")
        if st.form_submit_button("Add", type="primary"):
            first = None if by_login and not password else password
            _tried(lambda: accounts.add(name, first, role, private), f"{name} can log in, as {role}")


# ------------------------------------------------------------------ the log of deeds


def _log() -> None:
    try:
        found, broken = accounts.audit(ENTRIES), accounts.first_broken()
    except TrainingError as error:
        notice("error", wording.told(error))
        return
    if broken is not None:
        notice("error", f"Entry {broken} is not what was written, or one before it is missing.", "The log was changed")
    else:
        line("Every entry is as it was written, and none is missing between the first and the newest.")
    wanted = st.text_input("Search", key="people:search", placeholder="A name, a deed or a thing").casefold().split()
    shown = [
        one for one in found if all(w in f"{one.who} {one.deed} {one.thing} {one.origin}".casefold() for w in wanted)
    ]
    st.dataframe(
        {"When": [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at)) for one in shown],
         "Who": [one.who for one in shown], "What": [one.deed for one in shown],
         "On what": [one.thing for one in shown], "From where": [one.origin for one in shown]},
        hide_index=True,
    )  # fmt: skip
    if len(found) == ENTRIES:
        line(f"These are the newest {ENTRIES:,}; all of them: shoal people audit --limit N")


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
