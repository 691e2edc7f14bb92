"""The first page: choose a table, see what is in it, fit a model in a process of its own, see the answer.

The address says which view it is: nothing chosen yet, `?data=KEY` (with `&like=RUN`: that run's settings), `?run=ID`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, cast

import streamlit as st

from config import config_from
from dashboard import reading, results, uploads, wording
from dashboard.literal import heading, line, notice
from dashboard.model_form import ModelForm
from dashboard.samples import SAMPLES, Sample
from dashboard.sources import Table, find_table, go, table_of
from errors import TrainingError
from run_store import Run, find_run, launch, launch_inspect

FILE_ENDINGS = ["csv", "tsv", "txt", "gz", "parquet"]
REFRESH = 0.3  # seconds between two looks at a run


def show() -> None:
    if run_id := st.query_params.get("run"):
        _run_view(run_id)
    elif key := st.query_params.get("data"):
        _data_view(key)
    else:
        _choose_view()


# ------------------------------------------------------------------ choose


def _choose_view() -> None:
    st.title("Fit a model to a table", anchor=False)
    st.caption("Linear, ridge, lasso or elastic net, solved exactly. The file stays on this machine.")
    st.file_uploader(
        "Drop a CSV file here",
        type=FILE_ENDINGS,
        key="upload",
        on_change=_take_upload,
        help="CSV, TSV, compressed CSV (.csv.gz) or Parquet.",
    )
    if problem := st.session_state.pop("problem", None):
        notice("error", problem, "The file was not taken")
    st.subheader("Or try a sample", anchor=False)
    for slot, sample in zip(st.columns(len(SAMPLES)), SAMPLES.values(), strict=True):
        with slot:
            _sample_card(sample)


def _sample_card(sample: Sample) -> None:
    with st.container(border=True):
        st.markdown(f"**{sample.title}**")
        st.write(sample.about)
        st.caption(f"{sample.source}. Licence: {sample.licence}.")
        st.button("Use this sample", key=f"sample:{sample.key}", on_click=go, kwargs={"data": sample.key})


def _take_upload() -> None:
    """Save the file once, when it comes, and go to it; the copy in memory is then given up."""
    upload = st.session_state.get("upload")
    if upload is None:
        return
    try:
        path = uploads.keep(cast(BinaryIO, upload), upload.name)
    except (TrainingError, OSError) as error:
        st.session_state["problem"] = str(error)
        return
    go(data=uploads.key_of(path) or "")


# ------------------------------------------------------------------ data and settings


def _data_view(key: str) -> None:
    table = find_table(key)
    if table is None:
        _nothing_there("The address names a table that is not on this machine; it may have been removed.")
        return
    _head(table.title, lambda: None)
    if table.sample:
        st.caption(f"{table.sample.source}. Licence: {table.sample.licence}.")
    like = find_run(st.query_params.get("like", ""))
    start = like.config if like and table_of(like.config.get("file", "")) == table else {}
    prefix = f"{key}:{like.id if like else ''}"
    seen = st.container()
    run, chosen = _inspection(table, prefix, start, open_=like is not None and like.state == "failed")
    with seen:
        st.subheader("What is in it", anchor=False)
        found = _inspected(run)
    if found:
        st.subheader("What to fit", anchor=False)
        _fit_form(table, found, chosen, start, prefix)


def _inspection(table: Table, prefix: str, start: dict[str, Any], open_: bool) -> tuple[Run, dict[str, Any]]:
    """The look at the file that these reading options ask for, started if nobody did so before."""
    columns = st.session_state.get(f"{table.key}:columns", [])
    failed = bool(st.session_state.get(f"{table.key}:failed"))
    chosen = reading.reading_options(prefix, columns, start, failed or open_)
    run = launch_inspect(config_from({"file": str(table.path), **chosen}))
    if run.state == "interrupted":
        run = launch_inspect(config_from({"file": str(table.path), **chosen}), anew=True)
    st.session_state[f"{table.key}:failed"] = run.state == "failed"
    if found := run.result:
        st.session_state[f"{table.key}:columns"] = [column["name"] for column in found["columns"]]
    return run, chosen


def _inspected(run: Run) -> dict[str, Any] | None:
    """What was found, or the wait for it, or why there is nothing."""
    if run.is_active:
        _watch(run, "Reading the file")
        return None
    found = run.result
    if found is None:
        notice("error", wording.for_page(run.error or "The answer is gone."), "This file could not be read")
        st.caption("Mend the file and upload it again, or change the reading options below.")
        return None
    reading.report(found)
    return found


def _fit_form(table: Table, found: dict[str, Any], chosen: dict[str, Any], start: dict[str, Any], prefix: str) -> None:
    form = ModelForm(prefix, found, start, table.target)
    if not form.numbers:
        notice(
            "warning",
            "There is no column of numbers to predict. Check the delimiter and the decimal mark under Reading options.",
        )
        return
    values = form.show()
    ready = values["target"] is not None
    pressed = st.button("Fit", type="primary", icon=":material/play_arrow:", disabled=not ready, key=f"{prefix}:fit")
    if not ready:
        st.caption("Choose the column to predict first.")
    if pressed:
        _launch({"file": str(table.path), **chosen, **values})


def _launch(values: dict[str, Any]) -> None:
    try:
        run = launch(config_from({knob: value for knob, value in values.items() if value is not None}))
    except (TrainingError, OSError) as error:
        notice("error", str(error), "The fit was not started")
        return
    go(run=run.id)
    st.rerun()


# ------------------------------------------------------------------ a run


def _run_view(run_id: str) -> None:
    run = find_run(run_id)
    if run is None:
        _nothing_there("The address names a run that is not on this machine; it may have been removed.")
        return
    config = run.config
    if "file" not in config:
        _nothing_there("The settings of this run are damaged and cannot be read. Start it again with new data.")
        return
    table = table_of(config["file"])
    _head(results.title(config), lambda: _change_button(run, table))
    line(results.subtitle(config, table.title if table else Path(config["file"]).name))
    if run.is_active:
        _watch(run, "Fitting")
        st.caption("The fit runs in a process of its own. Close this tab if you like; this address finds it again.")
    elif result := run.result:
        results.show_result(run, result)
    else:
        notice("error", wording.for_page(run.error or "The answer is gone."), "This fit did not finish")
        st.caption("Change the settings and try again.")


def _change_button(run: Run, table: Table | None) -> None:
    if table:
        place = {"data": table.key, "like": run.id}
        st.button("Change settings", icon=":material/tune:", on_click=go, kwargs=place, key="change")


@st.fragment(run_every=REFRESH)
def _watch(run: Run, what: str) -> None:
    """The bar of a run that goes on; the whole page is drawn again when it has ended."""
    if not run.is_active:
        st.rerun()
    stage, fraction = run.progress
    with st.container(border=True):
        line(f"{what}: {stage}, {fraction:.0%}")
        st.progress(min(1.0, max(0.0, fraction)))


# ------------------------------------------------------------------ shared


def _head(text: str, extra: Any) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(width="stretch"):
            heading(text)
        with st.container(horizontal=True, width="content"):
            extra()
            st.button("New data", icon=":material/add:", on_click=go, key="new")


def _nothing_there(text: str) -> None:
    st.title("Nothing here", anchor=False)
    notice("warning", text)
    st.button("Start with new data", on_click=go, key="new")
