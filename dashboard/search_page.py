"""The Search page: the form of a search on a table, one search by its address, and the list of earlier ones."""

from __future__ import annotations

import time

import streamlit as st

from dashboard import places, recent, search_view, wording
from dashboard.data_page import inspection, nothing_there
from dashboard.literal import heading, label, line, notice
from dashboard.live_words import STATES
from dashboard.search_form import SearchForm
from dashboard.sources import Asked, asked, find_table
from dashboard.waiting import watch
from search_folder import Search, list_searches

RECENT, EARLIER = 5, 20
ABOUT = (
    "Tries settings of gradient runs (when gradients are applied, batches, step rules, schedules, compression) and "
    "finds those that come to the exact optimum soonest."
)
STYLE = """<style>
[data-testid="stColumn"]:has(> * .st-key-search-card) { align-self: flex-start; position: sticky; top: 4.5rem; }
@media (max-width: 640px) { [data-testid="stColumn"]:has(> * .st-key-search-card) { position: static; } }
</style>"""


def show() -> None:
    places.arrived()
    if search_id := st.query_params.get("id"):
        search_view.show(search_id)
        _earlier(but=search_id)
        return
    found = asked()
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
    known = [(seen, table) for seen in recent.recent() if (table := find_table(seen.key))][:RECENT]
    with st.container(border=True):
        st.subheader("Tables you used lately" if known else "No table yet", anchor=False)
        for seen, table in known:
            left, right = st.columns([4, 1], vertical_alignment="center")
            size = f" · {wording.plural(seen.rows, 'row')}" if seen.rows is not None else ""
            with left:
                line(f"{table.title}{size}")
            with right:
                places.link("search", "Use it", icon=":material/arrow_forward:", data=table.key)
        if not known:
            st.write("Upload a file or try a sample on the Data page first.")
        places.link("data", "Choose data", icon=":material/table_view:")


def _form_view(found: Asked) -> None:
    st.html(STYLE)
    heading(f"Search for settings on {found.table.title}")
    st.caption(ABOUT)
    run = inspection(found)
    if run.is_active:
        watch(run, "Reading the file")
        return
    result = run.result
    if result is None:
        notice("error", wording.for_page(run.error or "The answer is gone."), "This file could not be read")
        places.link("data", "Mend it on the Data page", icon=":material/table_view:", **found.address)
        return
    if not any(column["type"] == "numeric" for column in result["columns"]):
        notice("warning", "There is no column of numbers to predict. Check how the file is read, on the Data page.")
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
    st.subheader("Other searches" if but else "Earlier searches", anchor=False)
    with st.container(border=True, key="searches"):
        for search in searches[:EARLIER]:
            _entry(search)
        if len(searches) > EARLIER:
            line(f"and {len(searches) - EARLIER:,} before these; shoal search --list shows all")


def _entry(search: Search) -> None:
    account, state = search.account, search.standing[0]
    left, right = st.columns([3, 4], vertical_alignment="center")
    with left:
        places.link("search", label(search.title), icon=":material/manage_search:", id=search.id)
    with right:
        best = f" · best: {account.best.cause.rstrip('.')}" if account.best else ""
        when = wording.ago(time.time() - search.made)
        line(f"{STATES.get(state, state)} · {wording.plural(account.done, 'trial')}{best} · {when}")
