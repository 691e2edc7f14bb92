"""Tokens on the People page: one's own, for admins all; what a token is worth is in `library.tokens`."""

from __future__ import annotations

import time

import streamlit as st

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice
from shoal.errors import TrainingError
from shoal.library import tokens
from shoal.people import accounts
from shoal.people.person import ROLES, Person
from shoal.people.rights import SERVICE, Verb, may

MADE = "people:token"


def show(person: Person) -> None:
    st.header("Tokens for programs", anchor=False)
    line("A program with a token does in your name what its scope allows, and never more than you may.")
    if made := st.session_state.pop(MADE, None):
        notice("success", "Copy it now: it is shown only this once.", "The token is made")
        st.code(made, language=None)
    try:
        known = tokens.tokens()
    except TrainingError as error:
        notice("error", wording.told(error))
        return
    all_of_them = may(person, Verb.ADMINISTER, SERVICE)
    shown = [one for one in known if all_of_them or (person.name and one.person == person.name)]
    if shown:
        _table(shown)
        _end(shown)
    _make(person)


def _table(shown: list[tokens.AccessToken]) -> None:
    people = accounts.by_name()
    st.dataframe(
        {"Name": [one.name for one in shown], "Person": [one.person or "nobody" for one in shown],
         "Scope": [one.scope for one in shown],
         "Good until": [_day(one.expires) + (f" ({why})" if (why := one.standing(people)) else "") for one in shown],
         "Last used": [_day(one.used) if one.used else "never" for one in shown]},
        hide_index=True,
    )  # fmt: skip


def _end(shown: list[tokens.AccessToken]) -> None:
    names = {one.id: f"{one.name} ({one.id})" for one in shown}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("End a token", list(names), format_func=names.__getitem__, key="people:ends")
        if st.button("End it", key="people:end") and chosen is not None:
            try:
                tokens.revoke(chosen)
            except (TrainingError, OSError) as error:
                notice("error", wording.told(error))
                return
            st.rerun()


def _make(person: Person) -> None:
    scopes = [scope for scope, role in tokens.ROLE_OF.items() if ROLES.index(role) <= person.rank]
    with st.form("people:make"):
        st.markdown("**A new token**")
        name = st.text_input("What it is for", max_chars=tokens.LONGEST_NAME)
        scope = st.selectbox("Scope", scopes)
        days = st.number_input("Days until it ends", 1, int(tokens.LONGEST_DAYS), int(tokens.USUAL_DAYS))
        if st.form_submit_button("Make it"):
            try:
                st.session_state[MADE] = tokens.create(name, scope, float(days), person.name)[0]
            except (TrainingError, OSError) as error:
                notice("error", wording.told(error))
                return
            st.rerun()


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
