"""What a page needs before its form: a table, and what is in it. Each says so itself where it has none."""

from __future__ import annotations

import time
from pathlib import Path

import streamlit as st

from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.waiting import answered, watch
from shoal.dashboard.tables import recent
from shoal.dashboard.tables.choices import address_of
from shoal.dashboard.tables.samples import SAMPLES
from shoal.dashboard.tables.sources import Asked, find_table
from shoal.lazy.classes import dataclass
from shoal.results.answers.table import TableLook
from shoal.results.plain import Malformed
from shoal.runs.documents import LARGE, Mark
from shoal.runs.launch import Run
from shoal.settings.config import RunConfig
from shoal.words import plural

RECENT = 5
KEPT = 3  # looks at very many columns: a page has one that is quick, one with advice, and perhaps one of names
IDLE = 60.0  # seconds

_kept: dict[Path, tuple[Mark, float, TableLook]] = {}  # of all tabs; with when it was last asked for


def offer_tables() -> None:
    """The tables that were used lately, else samples; each is then the one of this page."""
    known = [(seen, table) for seen in recent.recent() if (table := find_table(seen.key))][:RECENT]
    with st.container(border=True):
        st.header("Tables you used lately" if known else "No table yet", anchor=False)
        for seen, table in known:
            left, right = st.columns([4, 1], vertical_alignment="center")
            size = f" · {plural(seen.rows, 'row')}" if seen.rows is not None else ""
            with left:
                line(f"{table.title}{size}")
            with right:
                _use("Use it", table.key, ":material/arrow_forward:")
        if not known:
            st.write("Upload a file on the Data page, or begin with a sample.")
            with st.container(horizontal=True):
                for sample in SAMPLES.values():
                    _use(sample.title, sample.key, ":material/dataset:")
        places.link("data", "Choose data", icon=":material/table_view:", **places.CHOOSE)


def _use(label: str, key: str, icon: str) -> None:
    """A button, since a link from a page to itself would leave the browser's address as it was."""
    st.button(label, key=f"use:{key}", icon=icon, type="tertiary", on_click=places.stay, kwargs=address_of(key))


@dataclass(frozen=True)
class Inspection:
    """The look at a table, and what it saw: None while it goes on, and where it came to nothing.

    Whether it goes on was asked once: one that ends while a page is drawn would else have failed without a reason.
    """

    run: Run
    goes_on: bool
    table: TableLook | None

    @property
    def has_failed(self) -> bool:
        return self.table is None and not self.goes_on


def inspection(config: RunConfig) -> Inspection:
    """What is in a file, asked for unless somebody did so before; an answer of another version is asked for anew."""
    run = answered("inspect", config)
    goes_on = run.is_active
    try:
        return Inspection(run, goes_on, None if goes_on else _seen_by(run))
    except Malformed:
        return Inspection(answered("inspect", config, anew=True), True, None)


def _seen_by(run: Run) -> TableLook | None:
    """A look at very many columns is kept for a while: a page asks for it several times whenever it is drawn."""
    mark, (known, _, table) = run.result_mark, _kept.get(run.directory, (None, 0.0, None))
    if mark is None or mark != known:
        result = run.result
        table = None if result is None else TableLook.from_dict(result)
    if table is not None and mark is not None and mark.size >= LARGE:
        _kept.pop(run.directory, None)
        _kept[run.directory] = (mark, time.monotonic(), table)
        for directory in list(_kept)[:-KEPT]:
            _kept.pop(directory, None)
    return table


def forget_idle(seconds: float = IDLE) -> None:
    """Let go of what no page has asked for in that time."""
    for directory, (_, asked, _) in list(_kept.items()):
        if time.monotonic() - asked >= seconds:
            _kept.pop(directory, None)


def looked_at(found: Asked, without_sparse: str = "") -> TableLook | None:
    """What is in the table; None while that is not known, or where there is nothing to predict, which is said. A page
    that has no way for sparse rows says what it would need them for."""
    look = inspection(found.inspection)
    if look.goes_on:
        watch(look.run, "Reading the file")
        return None
    if look.table is None:
        notice("error", wording.told(look.run.error), "This file could not be read")
        places.link("data", "Correct it on the Data page", icon=":material/table_view:", **found.address)
        return None
    if look.table.sparse and without_sparse:
        notice("info", f"This file has sparse rows. {without_sparse}", "Not for sparse rows")
        places.link("train", "Train a model", icon=":material/model_training:", **found.address)
        return None
    if not any(column.type == "numeric" for column in look.table.columns):
        notice("warning", "There is no column of numbers to predict. Check how the file is read, on the Data page.")
        return None
    return look.table


def nothing_there(text: str) -> None:
    st.title("Nothing here", anchor=False)
    notice("warning", text)
    if st.button("Start with new data", key="new"):
        places.go("data", **places.CHOOSE)
