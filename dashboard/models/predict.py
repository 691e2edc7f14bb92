"""Predictions with a saved model: one row from a form, at once; or a whole file, by a process elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from shoal.dashboard.parts import charts, places, wording
from shoal.dashboard.parts.literal import harmless, label, line, notice
from shoal.dashboard.parts.waiting import watch
from shoal.dashboard.tables import uploads
from shoal.dashboard.tables.known import known_tables
from shoal.dashboard.tables.sources import Table, find_table
from shoal.dashboard.tables.upload_box import upload_box
from shoal.data.terms import MISSING_LEVEL
from shoal.errors import TrainingError
from shoal.fitting.model_file import SavedModel, load_model
from shoal.library.saved_models import Version
from shoal.results.fit import PredictionInterval
from shoal.runs.launch import Run, launch_job
from shoal.settings.values import page_config
from shoal.solve.conformal import FROM_BEFORE
from shoal.tasks.explain_row import Explained, Value, explain, typical_row
from shoal.words import number, plural

ASKED = 24  # columns in the form; the others keep their usual value
STEPS = 12  # columns in the waterfall
SMALL_DOWNLOAD = 4 << 20  # bytes up to which a file goes through the page
NO_VALUE, OTHER = "(no value)", "(another name, which the model does not know)"
FIRST_COLUMNS = 6
SUMMED = 1_000  # columns that a sum is told of one by one
LEVEL = 0.9  # of the intervals that are shown


def show(version: Version) -> None:
    try:
        model = load_model(version.model_path)
    except TrainingError as error:
        notice("error", wording.told(error), "This model cannot predict")
        return
    way = st.segmented_control(
        "Predict", ["One row", "A file"], default="A file" if "rows" in st.query_params else "One row", required=True,
        key="predict:way",
        label_visibility="collapsed",
    )  # fmt: skip
    if way == "One row":
        _one_row(version, model)
    else:
        _file(version, model)


# ------------------------------------------------------------------ one row


def _one_row(version: Version, model: SavedModel) -> None:
    left, right = st.columns([4, 5], gap="large")
    with left:
        row = _form(version, model)
    with right:
        found = explain(model, row)
        _answer(found, model)
        _contributions(found, model.target)


def asked_columns(model: SavedModel) -> list[str]:
    """In the order of the file; where there are many, those that matter most."""
    columns = list(dict.fromkeys([*model.encoding.columns, *model.encoding.known]))
    if len(columns) <= ASKED:
        return columns
    effect = dict.fromkeys(columns, 0.0)
    weights = model.report.coefficients_standardized
    for term in model.encoding.terms:
        for column in term.columns:
            effect[column] = max(effect[column], abs(weights.get(term.name) or 0.0))
    chosen = set(sorted(columns, key=lambda name: -effect[name])[:ASKED])
    return [name for name in columns if name in chosen]


def _form(version: Version, model: SavedModel) -> dict[str, Value]:
    usual, asked = typical_row(model.encoding), asked_columns(model)
    row = dict(usual)
    rest = len(usual) - len(asked)
    if rest > 0:
        line(f"The {ASKED} columns that matter most; {plural(rest, 'other')} keep their usual value.")
    slots = st.columns(2)
    for place, name in enumerate(asked):
        with slots[place % 2]:
            key = f"row:{version.label}:{name}"
            known = model.encoding.known.get(name)
            row[name] = _number(name, usual[name], key) if known is None else _name(name, known, key)
    st.button("Back to the usual values", icon=":material/restart_alt:", on_click=_reset, args=(version,))
    return row


def _number(name: str, usual: Value, key: str) -> float | None:
    """A number that can be taken away, which one that comes as the widget's own default cannot."""
    st.session_state.setdefault(key, float(usual or 0.0))
    given: float | None = st.number_input(
        label(name), value=None, step=None, format="%g", key=key, placeholder="missing",
        help="Starts at its usual value among the training rows. Empty: missing, and the usual value stands in.",
    )  # fmt: skip
    return given


def _name(name: str, known: tuple[str, ...], key: str) -> str | None:
    """A known name; None for no value, and a text that no file has for a name that is not known."""
    texts = [level for level in known if level != MISSING_LEVEL]
    chosen = st.selectbox(
        label(name), range(len(texts) + 2), format_func=[*texts, NO_VALUE, OTHER].__getitem__, key=key,
        help="The names that the training rows had.",
    )  # fmt: skip
    if chosen < len(texts):
        return texts[chosen]
    return None if chosen == len(texts) else "\0"


def _reset(version: Version) -> None:
    for key in [key for key in st.session_state if str(key).startswith(f"row:{version.label}:")]:
        del st.session_state[key]


def _answer(found: Explained, model: SavedModel) -> None:
    st.metric(label(f"Predicted {model.target}"), number(found.prediction, 6), border=True)
    line(interval_words(found.prediction, model.report.prediction_interval))
    for part in found.parts:
        if part.unseen:
            line(f"{part.column}: the model was not trained with this value; it adds nothing to the prediction.")
        elif part.filled:
            line(f"{part.column}: no value; the usual one stands in.")


def interval_words(prediction: float, said: PredictionInterval | None) -> str:
    """How far off a prediction is likely to be, from the rows kept for testing; or why that is not known."""
    if said is None:
        return FROM_BEFORE
    width = said.half_widths.get(str(LEVEL))
    if width is None:
        return str(said.note)
    return (
        f"Nine in ten new rows like the {plural(said.rows, 'test row')} lie within {number(width)} of their "
        f"prediction: here from {number(prediction - width, 6)} to {number(prediction + width, 6)}."
    )


def _contributions(found: Explained, target: str) -> None:
    st.markdown("##### Why this much")
    chart, table = st.tabs(["Against a typical row", "As a sum"])
    with chart:
        _waterfall(found, target)
    with table:
        _sum(found)


def _waterfall(found: Explained, target: str) -> None:
    steps = sorted(((p.column, p.against_typical) for p in found.parts if p.against_typical), key=lambda s: -abs(s[1]))
    if not steps:
        line("This is a typical row. Change a value to see what it adds.")
        return
    if len(steps) > STEPS:
        steps = [*steps[:STEPS], ("all other columns", sum(value for _, value in steps[STEPS:]))]
    figure = charts.contribution_chart(steps, found.typical, found.prediction, target, "A typical row")
    alt = charts.describe_contributions(steps, found.typical, found.prediction, target)
    st.plotly_chart(figure, key="plot:contributions", config={"displayModeBar": False}, alt=alt)


def _sum(found: Explained) -> None:
    parts = sorted(found.parts, key=lambda part: -abs(part.adds))[:SUMMED] if len(found.parts) > SUMMED else found.parts
    rows = [("(intercept)", "", found.intercept), *((p.column, _said(p.value), p.adds) for p in parts)]
    if rest := len(found.parts) - len(parts):
        added = sum(part.adds for part in found.parts) - sum(part.adds for part in parts)
        rows.append((f"{plural(rest, 'other column')}", "", added))
    table = pd.DataFrame(rows, columns=["Column", "Value", "Adds"])
    st.dataframe(
        table, hide_index=True, column_config={"Adds": st.column_config.NumberColumn(format="%.6g")},
        height="content" if len(table) < 14 else 480,
    )  # fmt: skip
    line(f"The sum is the prediction: {number(found.prediction, 8)}.")


def _said(value: Value | tuple[Value, Value]) -> str:
    if isinstance(value, tuple):
        return " × ".join(map(_said, value))
    if value is None:
        return "no value"
    return "another name" if value == "\0" else str(value) if isinstance(value, str) else f"{value:g}"


# ------------------------------------------------------------------ a file


def _file(version: Version, model: SavedModel) -> None:
    needed = [*model.numbers, *model.texts]
    line(f"A table with these columns, in any order; other columns are ignored: {', '.join(needed[:40])}"
         f"{f' and {len(needed) - 40} more' if len(needed) > 40 else ''}.")  # fmt: skip
    came = upload_box("Drop a CSV file to predict", key=f"predict:upload:{version.label}")
    if came:
        places.amend(rows=came)
    table = _chosen_table()
    if table:
        _predictions(version, table, _wanted_interval(version, model))


def _wanted_interval(version: Version, model: SavedModel) -> float | None:
    """Whether the ends of intervals are wanted too, where the model knows them."""
    said = model.report.prediction_interval
    if said is None or said.half_widths.get(str(LEVEL)) is None:
        return None
    wanted = st.toggle(
        "With the ends of 90 % intervals", key=f"predict:interval:{version.label}",
        help="Two more columns, lower and upper: nine in ten new rows like the test rows lie between them.",
    )  # fmt: skip
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


def _predictions(version: Version, table: Table, interval: float | None) -> None:
    config = page_config(table.path)
    arguments: dict[str, Any] = {"model": str(version.model_path)} | ({"interval": interval} if interval else {})
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
        _predicted(run, result, version, table)
    else:
        notice("error", wording.told(run.error), "This table could not be predicted")
        if st.button("Try again", key="predict:again"):
            launch_job("predict", config, arguments, anew=True)
            st.rerun()


def _predicted(run: Run, result: dict[str, Any], version: Version, table: Table) -> None:
    notice("success", f"{plural(result['rows'], 'prediction')} of {result['target']} for {table.title}.", "Done")
    if result["warnings"]:
        notice("warning", "\n".join(result["warnings"]), "What to know")
    _download(run, version, table)
    st.markdown("##### First rows")
    st.dataframe(preview_table(run.directory / "predictions.csv", result), hide_index=True, placeholder="")


def _download(run: Run, version: Version, table: Table) -> None:
    path = run.directory / "predictions.csv"
    name = f"predictions-{version.name}-v{version.number}-{uploads.safe_name(table.path.stem)}.csv"
    try:
        size = path.stat().st_size
        if size <= SMALL_DOWNLOAD:
            st.download_button(
                "Predictions as CSV", path.read_bytes(), name, "text/csv", icon=":material/download:",
                on_click="ignore", type="primary",
            )  # fmt: skip
            return
    except OSError:
        notice("warning", "The file of predictions is gone. Predict again.")
        return
    st.link_button(
        f"Predictions as CSV ({size / 1e6:,.0f} MB)", f"api/predictions/{run.id}", icon=":material/download:",
        type="primary",
    )  # fmt: skip


def preview_table(path: Path, result: dict[str, Any]) -> pd.DataFrame:
    """The first predictions beside the first columns of their rows, as texts of the file."""
    shown = result.get("preview") or {"columns": [], "rows": []}
    predictions = first_predictions(path, len(shown["rows"]))
    columns = {harmless(name): place for place, name in enumerate(shown["columns"][:FIRST_COLUMNS])}
    table = {name: [row[place] for row in shown["rows"]] for name, place in columns.items()}
    return pd.DataFrame({"Row": range(len(predictions)), "Prediction": predictions, **{
        name: values[: len(predictions)] for name, values in table.items()
    }})  # fmt: skip


def first_predictions(path: Path, count: int) -> list[float | None]:
    found: list[float | None] = []
    try:
        with path.open() as file:
            next(file, None)
            for _, text in zip(range(count), file, strict=False):
                value = text.rstrip("\n").split(",")[1]
                found.append(float(value) if value else None)
    except OSError:
        return []
    return found
