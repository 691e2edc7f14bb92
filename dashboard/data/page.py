"""The Data page: choose a table, see what the parser saw, say what to predict. Reading is a process elsewhere."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.data import gaps
from shoal.dashboard.data import options as reading
from shoal.dashboard.data.choose import choose_view
from shoal.dashboard.data.columns import column_table
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import heading, line, notice
from shoal.dashboard.parts.picking import pick_column
from shoal.dashboard.parts.waiting import answered, watch
from shoal.dashboard.parts.wording import LABELS, help_for
from shoal.dashboard.tables import choices, generation, recent
from shoal.dashboard.tables.needed import inspection, nothing_there
from shoal.dashboard.tables.samples import generated
from shoal.dashboard.tables.sources import Asked, asked
from shoal.runs.launch import Run
from shoal.words import file_size, listed, plural

TUNE = "Find the strength of the penalty by cross-validation, and see what each column is worth."


def show() -> None:
    if "data" not in st.query_params:
        choose_view()
    elif found := asked():
        _table_view(found)
    elif sample := generated(st.query_params["data"]):
        generation.unmade_view(sample)
    else:
        nothing_there("The address names a table that is not on this machine; it may have been removed.")


# ------------------------------------------------------------------ the look at the file


def inspected(run: Run) -> dict[str, Any] | None:
    """What was found, or the wait for it, or why there is nothing."""
    if run.is_active:
        watch(run, "Reading the file")
        return None
    result = run.result
    if result is None:
        notice("error", wording.told(run.error), "This file could not be read")
    return result


# ------------------------------------------------------------------ one table


def _table_view(found: Asked) -> None:
    head, body = st.container(), st.container()  # first of all, so that the options below keep their place
    run = inspection(found)
    failed = not run.is_active and run.result is None
    with body:
        result = inspected(run)
        if result:
            _report(found, result)
        elif failed:
            _way_out(found)
    with head:
        _header(found, result)
    hopeless = failed or (result is not None and not _numbers(result))
    reading.reading_options(found, open_=hopeless)


def _header(found: Asked, result: dict[str, Any] | None) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        heading(found.table.title)
        st.button("Other data", icon=":material/arrow_back:", on_click=places.stay, key="new", width="content")
    parts = [file_size(found.table.path.stat().st_size)]
    if result:
        parts = [plural(result["rows"], "row"), plural(len(result["columns"]), "column"), *parts]
    line(" · ".join(parts))
    _choices(found)
    if sample := found.table.sample:
        st.caption(f"{sample.about} {sample.source}. Licence: {sample.licence}.")


def _way_out(found: Asked) -> None:
    st.caption(
        "Correct the file and upload it again, or set under Reading options how it is written."
        if not found.read
        else "Other reading options may help; or go back to those that were detected."
    )


def _choices(found: Asked) -> None:
    """What was chosen of how the table is read, and the way back to what was detected."""
    if not found.read:
        return
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        line(f"Chosen for this table: {', '.join(_chosen(*one) for one in found.read.items())}.")
        forget = partial(reading.read_otherwise, found, {})
        st.button("Forget all choices", icon=":material/undo:", key="forget", on_click=forget)


def _chosen(knob: str, value: Any) -> str:
    text = listed([str(one) for one in value], 5) if isinstance(value, (list, tuple)) else str(value)
    return f"{LABELS.get(knob, knob).lower()} {text}"


def _numbers(result: dict[str, Any]) -> list[str]:
    return [column["name"] for column in result["columns"] if column["type"] == "numeric"]


def _report(found: Asked, result: dict[str, Any]) -> None:
    if not found.table.is_bundled:
        recent.remember(found.table.key, result["rows"], len(result["columns"]))
    reading.bad_rows(result["bad_rows"])
    for note in result["notes"]:
        notice("info", note)
    gaps.offered(found, result)
    target = found.target if found.target in _numbers(result) and result["rows"] else None
    _action(found, result, target)
    st.subheader("Columns", anchor=False)
    column_table(found, _with_leaks(found, result) if target else result, target)
    if found.table.sample:
        generation.truth(found.table.sample)
    st.subheader("First rows", anchor=False)
    line(reading.summary(result))
    reading.preview(result)


# ------------------------------------------------------------------ what to predict


def _action(found: Asked, result: dict[str, Any], target: str | None) -> None:
    """The column to predict, and on to training."""
    numbers = _numbers(result)
    if not result["rows"]:
        notice("warning", "There are no rows below the header, so there is nothing to learn from. Choose another file.")
        return
    if not numbers:
        notice(
            "warning",
            "There is no column of numbers to predict. If one should be, set it to number in the table below, "
            "or check the delimiter and the decimal mark under Reading options.",
            "Nothing to predict yet",
        )
        return
    with st.container(border=True), st.container(horizontal=True, vertical_alignment="bottom"):
        _target_picker(found, numbers, target)
        if st.button(
            "Train a model", type="primary", icon=":material/model_training:", disabled=target is None, key="train"
        ):
            places.go("train", **found.address)
        if st.button("Tune", icon=":material/tune:", disabled=target is None, key="tune", help=TUNE):
            places.go("tune", **found.address)


def _target_picker(found: Asked, numbers: list[str], target: str | None) -> None:
    pick_column(
        LABELS["target"],
        numbers,
        target,
        f"{found.table.key}:target",
        partial(choices.predict, found),
        placeholder="Choose a column of numbers",
        help=f"{help_for('target')} Only columns of numbers can be predicted.",
    )


def _with_leaks(found: Asked, result: dict[str, Any]) -> dict[str, Any]:
    """The same with columns flagged that give the target away, as soon as that is known."""
    run = answered("inspect", found.leak_check)
    if run.is_active:
        watch(run, "Looking for columns that give the target away")
    return run.result or result
