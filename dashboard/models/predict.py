"""Predictions with a saved model for a whole file, by a process elsewhere; one row at once is in `one_row`."""

from __future__ import annotations

import csv
from itertools import islice
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.models.one_row import LEVEL, one_row
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import harmless, label, line, notice, section
from shoal.dashboard.parts.outcomes import chosen_threshold
from shoal.dashboard.parts.waiting import asleep, watch
from shoal.dashboard.tables import choices, uploads
from shoal.dashboard.tables.recent import known_tables
from shoal.dashboard.tables.sources import Table, find_table, read_from
from shoal.dashboard.tables.upload_box import upload_box
from shoal.errors import TrainingError
from shoal.files.table_style import Rewriting
from shoal.fitting.model_file import SavedModel, load_model
from shoal.lazy.frames import pd
from shoal.library.saved_models import Version
from shoal.results.answers.predictions import FilePredictions, RowsShown
from shoal.results.outcome import Outcome
from shoal.runs.launch import Run, launch, launch_job
from shoal.settings.config import DIALECT
from shoal.settings.values import page_config, set_by_pages
from shoal.tasks.kept_columns import IDS
from shoal.words import list_items, plural, shortened

LEAVE_OUT = "exclude"  # the knob
SMALL_DOWNLOAD = 4 << 20  # bytes up to which a file goes through the page
FIRST_COLUMNS = 6
INTERVALS = (
    "With the ends of 90 % intervals",
    "Two more columns, lower and upper: nine in ten new rows like the test rows lie between them.",
)
SETS = (
    "With sets that hold 90 %",
    "One more column: the likelier value, or both where that is not sure enough. Nine in ten new rows like the test "
    "rows have a value that is in their set.",
)
LIKE_TABLE = (
    "With the delimiter, decimal mark and encoding of the table: the spreadsheet that it came from opens it as is."
)
NAMED = 12  # columns that a table has to have


def show(version: Version) -> None:
    try:
        model = load_model(version.own_model)
    except TrainingError as error:
        notice("error", wording.told(error), "This model cannot predict")
        return
    way = st.segmented_control(
        "Predict", ["One row", "A file"], default="A file" if "rows" in st.query_params else "One row", required=True,
        key="predict:way",
        label_visibility="collapsed",
    )  # fmt: skip
    if way == "A file":
        _file(version, model)
        return
    try:
        one_row(version, model)
    except TrainingError as error:  # a step of a plug-in that is not installed here
        notice("error", wording.told(error), "This model cannot predict")


# ------------------------------------------------------------------ a file


def _file(version: Version, model: SavedModel) -> None:
    needed = [*model.numbers, *model.texts]
    names = [shortened(name, 40) for name in needed[:NAMED]]
    more = f" and {plural(len(needed) - NAMED, 'more column')}" if len(needed) > NAMED else ""
    line(f"A table with these columns, in any order; other columns are ignored: {', '.join(names)}{more}.")
    came = upload_box("Drop a CSV file to predict", key=f"predict:upload:{version.label}")
    if came:
        places.amend(rows=came)
    table = _chosen_table()
    if table:
        _predictions(version, table, model, _wanted_interval(version, model))


def _wanted_interval(version: Version, model: SavedModel) -> float | None:
    """Whether the ends of intervals are wanted too, where the model knows them."""
    said = model.report.prediction_interval
    if said is None or said.half_widths.get(str(LEVEL)) is None:
        return None
    classes = bool(model.outcome and model.outcome.classes)
    words = SETS if classes else INTERVALS
    wanted = st.toggle(words[0], key=f"predict:interval:{version.label}", help=words[1])
    return LEVEL if wanted else None


def _chosen_table() -> Table | None:
    """The table in the address, or the one that is chosen from those that are known."""
    tables = {table.key: table for table in known_tables()}
    asked = st.query_params.get("rows", "")
    found = tables.get(asked) or find_table(asked)
    if found:
        tables[found.key] = found
    st.selectbox(
        "Or choose a table", list(tables), format_func=lambda k: tables[k].title,
        placeholder="Samples and earlier uploads", width=420,
        help="Samples, and tables that were uploaded or looked at lately.",
        **places.chooses("predict:table", found.key if found else None, lambda chosen: places.amend(rows=chosen)),
    )  # fmt: skip
    return found


def _reading(table: Table) -> dict[str, Any]:
    """How a person said that the table is written; what to leave out and the like is the model's own."""
    chosen = read_from(choices.address_of(table.key).get("read", "{}"))
    return {knob: value for knob, value in chosen.items() if knob in DIALECT}


def _predictions(version: Version, table: Table, model: SavedModel, interval: float | None) -> None:
    config = page_config(table.path, _reading(table))
    chosen = st.session_state.get(_keep_key(version, table), [IDS])
    arguments: dict[str, Any] = {"model": str(version.model_path), "keep": chosen}
    arguments |= {"interval": interval} if interval else {}
    arguments |= {"threshold": chosen_threshold()} if model.outcome and model.outcome.yes else {}
    try:
        run = launch_job("predict", config, arguments)
        if run.state == "interrupted":
            run = launch_job("predict", config, arguments, anew=True)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The predictions could not be made")
        return
    if run.is_active:
        watch(run, "Predicting")
    elif result := run.result:
        _predicted(run, FilePredictions.from_dict(result), version, table, model.outcome)
    else:
        notice("error", wording.told(run.error), "This table could not be predicted")
        with st.container(horizontal=True):
            _offer_without(run, version)
            if st.button("Try again", key="predict:again"):
                launch_job("predict", config, arguments, anew=True)
                st.rerun()


def _offer_without(job: Run, version: Version) -> None:
    """Another fit without the columns that the file lacks, while the run of this one is there."""
    remedies = job.error.remedies if job.error else ()
    lacks = [name for each in remedies if each.name == LEAVE_OUT for name in list_items(each.arguments[0])]
    if not lacks or version.run is None:
        return
    what = f"'{shortened(lacks[0], 24)}'" if len(lacks) == 1 else plural(len(lacks), "column")
    if not st.button(label(f"Fit again without {what}"), key="predict:without", icon=":material/replay:", **asleep()):
        return
    before = version.run.config
    try:
        left = [*before.get(LEAVE_OUT, ()), *lacks]
        run = launch(page_config(str(before["file"]), {**set_by_pages(before), LEAVE_OUT: left}))
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The run was not started")
        return
    places.go("train", run=run.id)


def _predicted(run: Run, result: FilePredictions, version: Version, table: Table, outcome: Outcome | None) -> None:
    made = result.predicted
    if result.doubts:
        notice("warning", "\n".join(result.doubts), "These predictions do not hold")
    notice("success", f"{plural(made, 'prediction')} of {result.target} for {table.title}.", "Done")
    if outcome and outcome.yes:
        line(f"Called '{outcome.yes}' from a probability of {result.threshold:g} on: the slider under Calls.")
    if result.warnings:
        notice("warning", "\n".join(result.warnings), "What to know")
    if result.not_predicted:
        with st.expander(f"{plural(result.bad_rows, 'row')} without a prediction"):
            names = {"file": "File", "line": "Line", "row": "Row", "problem": "Why"}
            lost = pd.DataFrame([row.as_dict() for row in result.not_predicted]).rename(columns=names)
            st.dataframe(lost, hide_index=True, alt="Lines of the file without a prediction, and why")
    _columns_beside(result, version, table)
    _download(run, version, table, result)
    section("First rows")
    st.dataframe(preview_table(run.directory / "predictions.csv", result, outcome), hide_index=True, placeholder="")


def _keep_key(version: Version, table: Table) -> str:
    return f"predict:kept:{version.label}:{table.key}"


def _columns_beside(result: FilePredictions, version: Version, table: Table) -> None:
    """Which columns of the table stand beside the predictions; another choice predicts again."""
    key = _keep_key(version, table)
    names = list(dict.fromkeys([*(result.preview or RowsShown()).columns, *result.kept]))
    widget = f"{key}:{','.join(result.kept)}"

    def choose() -> None:
        st.session_state[key] = st.session_state[widget]

    st.multiselect(
        "Columns beside the prediction", names, default=list(result.kept), format_func=harmless, key=widget,
        on_change=choose, placeholder="None: rows have their numbers",
        help="Columns of the table that are written before each prediction. At first those that look like ids, or all.",
    )  # fmt: skip


def _download(run: Run, version: Version, table: Table, result: FilePredictions) -> None:
    path = run.directory / "predictions.csv"
    stem = f"predictions-{version.name}-v{version.number}-{uploads.safe_name(table.path.stem)}"
    name, name_like = f"{stem}.csv", f"{stem}-like-table.csv"
    style = result.table
    own = None if style.is_usual else style  # the marks of the table, which its spreadsheet expects
    try:
        size = path.stat().st_size
        small = size <= SMALL_DOWNLOAD
        usual = path.read_bytes() if small else b""
    except OSError:
        notice("warning", "The file of predictions is gone. Predict again.")
        return
    with st.container(horizontal=True):
        if small:
            st.download_button(
                "Predictions as CSV", usual, name, "text/csv", icon=":material/download:", on_click="ignore",
                type="primary",
            )  # fmt: skip
        else:
            st.link_button(
                f"Predictions as CSV ({size / 1e6:,.0f} MB)", f"api/predictions/{run.id}", icon=":material/download:",
                type="primary",
            )  # fmt: skip
        if own and small:
            st.download_button(
                f"Written like the table ({own})", Rewriting(own, result.made)(usual), name_like, "text/csv",
                icon=":material/table:", on_click="ignore", key="predict:like", help=LIKE_TABLE,
            )  # fmt: skip
        elif own:
            st.link_button(
                f"Written like the table ({own})", f"api/predictions/{run.id}?like=table", icon=":material/table:",
                help=LIKE_TABLE,
            )  # fmt: skip


def preview_table(path: Path, result: FilePredictions, outcome: Outcome | None = None) -> pd.DataFrame:
    """The first predictions beside the first columns of their rows, as texts of the file.

    Of a yes/no model the likelier value, and the probability of the yes.
    """
    shown = result.preview or RowsShown()
    said = first_predictions(path, len(shown.rows), result.made)
    columns = {harmless(name): place for place, name in enumerate(shown.columns[:FIRST_COLUMNS])}
    table = {name: [row[place] for row in shown.rows] for name, place in columns.items()}
    if outcome and outcome.classes:
        found: dict[str, list[Any]] = {
            "Prediction": [row[0] if outcome.numbers else harmless(row[0]) for row in said],
        }
        names = outcome.classes if outcome.several else (outcome.yes,)
        found |= {f"Probability of {name}": [_value(row[1 + at]) for row in said] for at, name in enumerate(names)}
        if said and len(said[0]) > 1 + len(names):
            found["Set"] = [harmless(row[1 + len(names)]) for row in said]
    else:
        names = ("Prediction", "Lower", "Upper")[: result.made]
        found = {name: [_value(row[at]) for row in said] for at, name in enumerate(names)}
    return pd.DataFrame({"Row": range(len(said)), **found, **{
        name: values[: len(said)] for name, values in table.items()
    }})  # fmt: skip


def _value(cell: str) -> float | None:
    """Empty where the row could not be read."""
    return float(cell) if cell else None


def first_predictions(path: Path, count: int, made: int) -> list[list[str]]:
    """The last `made` columns of the first rows: the prediction, then what belongs to it."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [cells[-made:] for cells in islice(csv.reader(file), 1, count + 1)]
    except OSError:
        return []
