"""The table at hand: the one that this tab showed last. The menu opens every page with it, and one control changes it.

The address stays the truth: a page that is opened without a table gets one in its address. What was chosen for a
table is kept elsewhere, see `choices`.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any
from urllib.parse import unquote

import streamlit as st

from shoal.dashboard.parts import places
from shoal.dashboard.parts.literal import heading, label
from shoal.dashboard.tables import filled
from shoal.dashboard.tables.choices import address_of
from shoal.dashboard.tables.sources import Asked, asked, find_table, table_of
from shoal.dashboard.tables.uploads import AT_HAND
from shoal.lazy.classes import dataclass

HAND = "table:at-hand"  # in the session
ADDRESS = "address"  # in what is kept of a page: the parts that are its own
OF_TABLE = ("data", "read", "target")  # parts of an address; the rest is a page's own


@dataclass
class _Hand:
    """A table as it was shown, what was kept with it then, and what else the addresses of pages said of it."""

    address: dict[str, str]
    kept: dict[str, str]
    pages: dict[str, dict[str, str]] = field(default_factory=dict)
    handed: dict[str, dict[str, str]] = field(default_factory=dict)  # by another page, for when this one is opened

    @property
    def key(self) -> str:
        return self.address["data"]

    @property
    def now(self) -> dict[str, str]:
        """As it was shown, unless another tab has chosen something for the table since then."""
        kept = address_of(self.key)
        return self.address if kept == self.kept else kept


def opened(page: str) -> Asked | None:
    """The table of the address; where it names none, the one at hand, which the address names from then on."""
    if "data" not in st.query_params and (hand := _hand()):
        places.stay(**{**hand.pages.get(page, {}), **hand.handed.get(page, {}), **hand.now})
    _recall(page)
    found = asked()
    if found is not None:
        known = _hand() or _taken(found.address)
        if known.key != found.table.key:
            known = _taken(found.address)
        if new := {k: text for k, text in known.handed.pop(page, {}).items() if k not in st.query_params}:
            places.amend(**new)
        said = st.query_params.to_dict()
        known.pages[page] = {part: value for part, value in said.items() if part not in OF_TABLE}
        st.session_state[HAND] = replace(known, address=found.address, kept=address_of(found.table.key))
        if page == filled.TUNE:
            parts = known.pages[page]
            filled.keep(found.table.key, page, {"target": found.target, ADDRESS: parts} if parts else {})
    return found


def _recall(page: str) -> None:
    """Where an address that was typed or kept names a table and no more, what was chosen for it is in the address too:
    the next choice would else take the place of all others. Back to an address from before a choice undoes it."""
    address, hand = st.query_params.to_dict(), st.session_state.get(HAND)
    key = address.get("data", "")
    if "like" in address or find_table(key) is None:
        return
    chosen = {} if hand and hand.key == key else address_of(key)
    kept = {part: value for part, value in chosen.items() if part not in address}
    if page == filled.TUNE and address.keys() <= set(OF_TABLE) and not places.was_here():
        kept |= _tuned(key, {**kept, **address}.get("target"))
    if kept:
        places.amend(**kept)


def _tuned(key: str, target: str | None) -> dict[str, str]:
    """What the address of Tune said of the table last; of another column to predict only how it was prepared."""
    last = filled.kept(key, filled.TUNE)
    table = find_table(key)
    same = last.get("target") == (target or (table and table.target))
    return {part: text for part, text in last.get(ADDRESS, {}).items() if same or part == "study"}


def said_of(page: str, part: str) -> str:
    """A part of the address with which the menu would open a page; empty for none."""
    hand: _Hand | None = st.session_state.get(HAND)
    return {**hand.pages.get(page, {}), **hand.handed.get(page, {})}.get(part, "") if hand else ""


def hand_over(page: str, part: str, text: str) -> None:
    """Let another page of the table at hand have this in its address when it is next opened; fit for callbacks."""
    if hand := st.session_state.get(HAND):
        hand.handed.setdefault(page, {})[part] = text


def take_up(file: str) -> None:
    """Make the table behind a run or a search the one at hand, if pages may open it; what is at hand stays as it is."""
    table, hand = table_of(file), _hand()
    if table and not (hand and hand.key == table.key):
        st.session_state[HAND] = _taken(address_of(table.key))


def _taken(address: dict[str, str]) -> _Hand:
    return _Hand(address, address_of(address["data"]))


def _hand() -> _Hand | None:
    """What is at hand, if it is still on this machine."""
    hand: _Hand | None = st.session_state.get(HAND) or _from_before()
    if hand and find_table(hand.key) is None:
        st.session_state[HAND] = None
        name = hand.key.rpartition("/")[2]
        st.toast(label(f"'{name}' is not on this machine any more. Choose another table."), icon=":material/info:")
        return None
    return hand


def _from_before() -> _Hand | None:
    """What was at hand in this tab when the dashboard was started again under it: the browser has kept its name."""
    key = "" if HAND in st.session_state else unquote(said_by_browser())
    return _taken(address_of(key)) if key and find_table(key) else None


def said_by_browser() -> str:
    return st.context.headers.get(AT_HAND) or ""


def header(page: str, found: Asked, title: str) -> None:
    """The heading of a page about a table, with the control that changes which one it is: the same on every page."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        heading(title)
        other_data(page)


def other_data(page: str) -> None:
    """To the choice of a table, from any page; Back leads to this one again."""
    how: dict[str, Any] = {"label": "Other data", "icon": ":material/arrow_back:", "key": "new", "width": "content"}
    if page == "data":  # a page cannot be left for itself
        st.button(**how, on_click=places.stay, kwargs=places.CHOOSE)
    elif st.button(**how):
        places.go("data", **places.CHOOSE)
