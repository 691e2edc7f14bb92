"""The Search page: the form of a search on a table, one search by its address, and the list of earlier ones."""

from __future__ import annotations

import time

import streamlit as st

from shoal.dashboard.parts import places
from shoal.dashboard.parts.literal import label, line
from shoal.dashboard.search import view as search_view
from shoal.dashboard.search.form import SearchForm
from shoal.dashboard.tables import at_hand, filled
from shoal.dashboard.tables.needed import looked_at, nothing_there, offer_tables
from shoal.dashboard.tables.sources import Asked
from shoal.search.folder import Search, list_searches
from shoal.words import ago, plural

EARLIER = 20
ABOUT = (
    "Tries settings of gradient runs (when gradients are applied, batches, step rules, schedules, compression) and "
    "finds those that come to the exact optimum soonest."
)


def show() -> None:
    places.arrived()
    if search_id := st.query_params.get("id"):
        search_view.show(search_id)
        _earlier(but=search_id)
        return
    found = at_hand.opened("search")
    if found is not None:
        _form_view(found)
    elif "data" in st.query_params:
        nothing_there("The address names a table that is not on this machine; it may have been removed.")
        return
    else:
        _empty_view()
    _earlier()


def _empty_view() -> None:
    st.title("Search for settings", anchor=False)
    st.caption(ABOUT)
    offer_tables()


def _form_view(found: Asked) -> None:
    at_hand.header("search", found, f"Search for settings on {found.table.title}")
    filled.say_lost(found.table.key, filled.SEARCH)
    st.caption(ABOUT)
    result = looked_at(found, "Searches are of tables of cells: fit it exactly, or by gradient steps.")
    if result is None:
        return
    search = SearchForm(found, result).show()
    if search is not None:
        places.stay(id=search.id)
        st.rerun()


# ------------------------------------------------------------------ earlier searches


def _earlier(but: str = "") -> None:
    searches = [search for search in list_searches() if search.id != but]
    if not searches:
        return
    st.header("Other searches" if but else "Earlier searches", anchor=False)
    with st.container(border=True, key="searches"):
        for search in searches[:EARLIER]:
            _entry(search)
        if len(searches) > EARLIER:
            line(f"and {len(searches) - EARLIER:,} before these; shoal search --list shows all")


def _entry(search: Search) -> None:
    account, state = search.account, search.standing.state
    left, right = st.columns([3, 4], vertical_alignment="center")
    with left:
        places.link("search", label(search.title), icon=":material/manage_search:", id=search.id)
    with right:
        best = f" · best: {account.best.cause.rstrip('.')}" if account.best else ""
        when = ago(time.time() - search.made)
        line(f"{search_view.ended_as(state, account).word} · {plural(account.done, 'trial')}{best} · {when}")
