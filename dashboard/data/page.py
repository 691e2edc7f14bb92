"""The Data page: choose a table, see what the parser saw, say what to predict. Reading is a process elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from shoal.dashboard.data import chosen, following, gaps
from shoal.dashboard.data import options as reading
from shoal.dashboard.data.choose import choose_view
from shoal.dashboard.data.columns import column_table
from shoal.dashboard.data.sparse import sparse_report
from shoal.dashboard.forms import whose
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.picking import pick_column
from shoal.dashboard.parts.targets import (
    HELP,
    PLACEHOLDER,
    SUITED,
    offered_targets,
    suited_model,
    why_not,
    why_not_tuned,
)
from shoal.dashboard.parts.waiting import watch
from shoal.dashboard.parts.wording import LABELS, help_for
from shoal.dashboard.tables import at_hand, choices, generation, recent, uploads
from shoal.dashboard.tables.needed import Inspection, inspection, nothing_there
from shoal.dashboard.tables.samples import generated
from shoal.dashboard.tables.sources import Asked
from shoal.files.parts import size_of
from shoal.results.answers.table import TableLook
from shoal.results.target import TargetLook
from shoal.settings.when import LOSSES, MODELS
from shoal.words import MODELS as MODEL_NAMES
from shoal.words import file_size, plural

TUNE = "Find the strength of the penalty by cross-validation, and see what each column is worth."


def show() -> None:
    chooses = "choose" in st.query_params or places.was_here()  # where Back leads to no table, one is chosen
    if "data" not in st.query_params and chooses:
        choose_view()
    elif found := at_hand.opened("data"):
        _table_view(found)
    elif "data" not in st.query_params:
        choose_view()
    elif sample := generated(st.query_params["data"]):
        generation.unmade_view(sample)
    else:
        nothing_there("The address names a table that is not on this machine; it may have been removed.")


# ------------------------------------------------------------------ the look at the file


def inspected(look: Inspection) -> TableLook | None:
    """What was found, or the wait for it, or why there is nothing."""
    if look.goes_on:
        watch(look.run, "Reading the file")
    elif look.table is None:
        notice("error", wording.told(look.run.error), "This file could not be read")
    return look.table


# ------------------------------------------------------------------ one table


def _table_view(found: Asked) -> None:
    head, body = st.container(), st.container()  # first of all, so that the options below keep their place
    names = following.look_at_names(found)
    reading.follow_late(found, names.table)
    look = inspection(found.inspection) if names.table else names
    with body:
        result = inspected(look)
        if result and result.sparse:
            sparse_report(found, result, result.sparse)
        elif result:
            _report(found, result)
        elif look.has_failed:
            _way_out(found)
    with head:
        _header(found, result)
    hopeless = look.has_failed or (result is not None and not offered_targets(result))
    reading.reading_options(found, open_=hopeless)


def _header(found: Asked, result: TableLook | None) -> None:
    at_hand.header("data", found, found.table.title)
    if uploads.key_of(found.table.path):
        whose.sharing(found.table.path)
    parts = [file_size(size_of(str(found.table.path)))]
    if result:
        parts = [plural(result.rows, "row"), plural(result.width, "column"), *parts]
    line(" · ".join(parts))
    if why := choices.damage(found.table.key):
        text = (
            f"{why} The table is read as if nothing had been chosen. Choose again how to read it and what to predict."
        )
        notice("warning", text, "What was chosen for this table cannot be read")
    chosen.show(found)
    following.say_lost(found)
    if sample := found.table.sample:
        st.caption(f"{sample.about} {sample.source}. Licence: {sample.licence}.")


def _way_out(found: Asked) -> None:
    st.caption(
        "Correct the file and upload it again, or set under Reading options how it is written."
        if not found.read
        else "Other reading options may help; or go back to those that were detected."
    )


def _report(found: Asked, result: TableLook) -> None:
    if not found.table.is_bundled:
        recent.remember(found.table.key, result.rows, len(result.columns))
    reading.sheet_choice(found, result)
    gaps.offered(found, result)  # what mends rows, before those that need it
    reading.bad_rows(found, result.bad_rows)
    guessed = result.dialect["encoding"] if "encoding" not in found.read else "utf-8"
    _notes(result.notes, guessed)
    known = result.rows and found.target in result.named
    target = found.target if known else None
    _action(found, result, target)
    st.header("Columns", anchor=False)
    column_table(found, _with_leaks(found, result) if target else result, target)
    if found.table.sample:
        generation.truth(found.table.sample)
    st.header("First rows", anchor=False)
    line(reading.summary(result))
    reading.preview(result)


def _notes(notes: Sequence[str], guessed: str) -> None:
    """One is read at once; several would push what to predict below the fold. A guessed encoding is in sight: where it
    is wrong, it is the cause of what is odd below."""
    if len(notes) == 1:
        notice("info", notes[0])
    elif notes:
        guess = f" (as {guessed}, a guess)" if not guessed.startswith("utf") else ""
        with st.expander(f"{len(notes)} notes on how the file is read{guess}", icon=":material/info:"):
            for note in notes:
                line(note)


# ------------------------------------------------------------------ what to predict


def _action(found: Asked, result: TableLook, target: str | None) -> None:
    """The column to predict, and on to training."""
    if not result.rows:
        notice("warning", "There are no rows below the header, so there is nothing to learn from. Choose another file.")
        return
    if not offered_targets(result):
        notice(
            "warning",
            "There is no column of numbers, or of few texts, to predict. If one of numbers should be, set it "
            "to number in the table below, or check the delimiter and the decimal mark under Reading options.",
            "Nothing to predict yet",
        )
        return
    why = why_not(result, target, suited_model(result, target) or MODELS[0]) if target else ""
    untuned = why_not_tuned(result, target) if target else ""
    with st.container(border=True):
        below: list[str] = []  # of many columns: within the row it would push the buttons a line down
        with st.container(horizontal=True, vertical_alignment="bottom"):
            _target_picker(found, offered_targets(result), target, below.append)
            train = ":material/model_training:"
            if st.button("Train a model", type="primary", icon=train, disabled=not target or bool(why), key="train"):
                places.go("train", **found.address)
            held = not target or bool(untuned)
            if st.button("Tune", icon=":material/tune:", disabled=held, key="tune", help=untuned or TUNE):
                places.go("tune", **found.address)
        for words in filter(None, (*below, why or untuned)):
            line(words)
        if target:
            _proposal(found, target)


def _proposal(found: Asked, target: str) -> None:
    """What the values of the column speak for, as soon as they were looked at, and one click to take it."""
    table = inspection(found.guidance).table
    look = (table and table.target) or TargetLook("", "", "")
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        line(look.why)
        for model in (look.model, *look.others):
            name, key = MODEL_NAMES.get(model, model), "suited" if model == look.model else f"suited:{model}"
            if model in LOSSES and st.button(f"Train a {name} model", icon=":material/recommend:", key=key):
                places.go("train", **{SUITED: model}, **found.address)


def _target_picker(found: Asked, targets: list[str], target: str | None, tell: Callable[[str], None]) -> None:
    pick_column(
        LABELS["target"],
        targets,
        target,
        f"{found.table.key}:target",
        partial(choices.predict, found),
        tell,
        placeholder=PLACEHOLDER,
        help=f"{help_for('target')} {HELP}",
    )


def _with_leaks(found: Asked, result: TableLook) -> TableLook:
    """The same with columns flagged that give the target away, as soon as that is known."""
    look = inspection(found.guidance)
    if look.goes_on:
        watch(look.run, "Looking for columns that give the target away")
    return look.table or result
