"""Whose things are, on pages: who is in, who has a run or a model, whether others see it; nothing without accounts."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import streamlit as st

from shoal.dashboard.http.access import PEOPLE
from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import notice
from shoal.errors import TrainingError
from shoal.people import acting, deeds
from shoal.people.belongings import thing_at
from shoal.people.rights import Thing, Verb, may
from shoal.words import listed

T = TypeVar("T")


def who_is_in() -> None:
    """A line at the top of every page, with the way out."""
    if not PEOPLE.are_there:
        return
    person = acting.person()
    st.html(
        f'<div class="shoal-line" style="text-align: right"><strong>{html.escape(person.name)}</strong>, '
        f'{html.escape(person.role)} · <a href="./logout" target="_self">Log out</a></div>'
    )


def in_words(thing: Thing) -> str:
    """Empty where there is nothing to say."""
    if not PEOPLE.are_there:
        return ""
    if not thing.owners:
        return "seen by admins only" if thing.private else "everybody's"
    mine = acting.person().name
    names = ["yours" if name == mine else f"{name}'s" for name in sorted(thing.owners)]
    return f"{listed(names)}, {'private' if thing.private else 'shared'}"


def sharing(path: Path) -> None:
    """Whose this is, and a button for those who may say who sees it."""
    if not PEOPLE.are_there:
        return
    thing = thing_at(path)
    label = "Private" if thing.private else "Shared"
    icon = ":material/lock:" if thing.private else ":material/group:"
    with st.popover(label, icon=icon, type="tertiary", help="Who sees this."):
        st.markdown(f"This {thing.kind} is **{in_words(thing)}**.")
        if not thing.owners or not may(acting.person(), Verb.CHANGE, thing):
            return
        word = "Share with everybody here" if thing.private else "Make it private"
        if st.button(word, type="primary", key=f"share:{thing.said}"):
            try:
                deeds.share(path, not thing.private)
            except (TrainingError, OSError) as error:
                notice("error", wording.told(error))
                return
            st.rerun()


def only_mine(found: Sequence[T], path_of: Callable[[T], Path]) -> list[T]:
    """All of them, or, where somebody asks for it, their own."""
    if not PEOPLE.are_there or not st.toggle("Only mine", key=f"whose:mine:{path_of.__qualname__}"):
        return list(found)
    name = acting.person().name
    return [one for one in found if name in thing_at(path_of(one)).owners]
