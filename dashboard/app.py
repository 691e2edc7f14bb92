"""The script behind every page: page set-up and navigation; each page is a module of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.data import page as data_page
from shoal.dashboard.forms import whose
from shoal.dashboard.http.access import PEOPLE
from shoal.dashboard.models import page as models_page
from shoal.dashboard.parts import places, widget_values
from shoal.dashboard.parts.literal import notice
from shoal.dashboard.people import page as people_page
from shoal.dashboard.runs import page as runs_page
from shoal.dashboard.search import page as search_page
from shoal.dashboard.system import page as system_page
from shoal.dashboard.train import page as train_page
from shoal.dashboard.tune import page as tune_page
from shoal.people import acting
from shoal.people.person import Person
from shoal.people.rights import SERVICE, Verb, may

PICTURES = Path(__file__).parent  # our own: Streamlit's icons for a tab come from another server
VIEWS = {
    "data": data_page.show,
    "train": train_page.show,
    "tune": tune_page.show,
    "search": search_page.show,
    "runs": runs_page.show,
    "models": models_page.show,
    "system": system_page.show,
    "people": people_page.show,
}
NEEDS = {
    **dict.fromkeys(("data", "train", "tune", "search", "runs", "models"), Verb.SEE),  # what is started there asks more
    "system": Verb.ADMINISTER,
    "people": Verb.SEE,  # one's own account; the rest of it is for admins
}


def _page(name: str, person: Person) -> Any:
    """One that somebody may not see is not in the menu, and says so at its address."""
    if may(person, NEEDS[name], SERVICE):
        return places.page(name, VIEWS[name])
    return places.page(name, _for_admins, hidden=True)


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
    pages = [_page(name, person) for name in VIEWS if name != "people" or PEOPLE.are_there]
    chosen = st.navigation(pages, position="top")
    whose.who_is_in()
    places.entered(chosen.url_path or "data")
    with widget_values.drawing():
        chosen.run()


main()
