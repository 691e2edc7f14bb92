"""The script behind every page: page set-up and navigation; each page is a module of its own."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.forms import whose
from shoal.dashboard.http.access import PEOPLE
from shoal.dashboard.parts import places, widget_values
from shoal.dashboard.parts.literal import notice
from shoal.people import acting
from shoal.people.person import Person
from shoal.people.rights import SERVICE, Verb, may

PICTURES = Path(__file__).parent  # our own: Streamlit's icons for a tab come from another server
PAGES = ("data", "train", "tune", "search", "runs", "models", "system", "people")  # in the order of the menu
NEEDS = {
    **dict.fromkeys(("data", "train", "tune", "search", "runs", "models"), Verb.SEE),  # what is started there asks more
    "system": Verb.ADMINISTER,
    "people": Verb.SEE,  # one's own account; the rest of it is for admins
}


def _page(name: str, person: Person) -> Any:
    """One that somebody may not see is not in the menu, and says so at its address."""
    if may(person, NEEDS[name], SERVICE):
        return places.page(name, functools.partial(_show, name))
    return places.page(name, _for_admins, hidden=True)


def _show(name: str) -> None:
    """Each is loaded with its first visit: all of them would be a fifth of the time of the first one."""
    importlib.import_module(f"shoal.dashboard.{name}.page").show()


def _for_admins() -> None:
    st.title("Not for you", anchor=False)
    notice("info", "This page is for admins. Ask one of them for what you need, or for another role.")


def main() -> None:
    st.set_page_config(page_title="Shoal", page_icon=PICTURES / "logo.svg", layout="wide")
    st.logo(PICTURES / "wordmark.svg", size="large")
    person = acting.person()
    if PEOPLE.are_there and not may(person, Verb.SEE, SERVICE):
        notice("info", "You are not logged in any more. Reload the page to log in.")
        return
    pages = [_page(name, person) for name in PAGES if name != "people" or PEOPLE.are_there]
    chosen = st.navigation(pages, position="top")
    whose.who_is_in()
    places.entered(chosen.url_path or "data")
    with widget_values.drawing():
        chosen.run()


main()
