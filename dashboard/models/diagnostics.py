"""How a saved model predicts, drawn: predicted against actual and residuals. The passes are a process elsewhere."""

from __future__ import annotations

from typing import Any

import streamlit as st

from shoal.charts import residuals
from shoal.charts.description import Chart
from shoal.dashboard.models.charts import drawn
from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice, section
from shoal.dashboard.parts.waiting import answered, watch
from shoal.dashboard.tables.recent import known_tables
from shoal.errors import TrainingError
from shoal.files.parts import size_of, title
from shoal.fitting.model_file import own_data
from shoal.lazy.frames import pd
from shoal.library.saved_models import Version
from shoal.results.answers.diagnosis import Diagnosis
from shoal.results.answers.importance import ColumnWorth
from shoal.results.fit import FitScores
from shoal.results.model import ModelFile
from shoal.results.plain import Malformed
from shoal.runs.launch import Run, launch_job
from shoal.settings.limits import SMALL_FILE
from shoal.settings.values import page_config
from shoal.words import number, plural

OWN = ""
QUIET = {"displayModeBar": False}
MOST = 200  # columns in the table of what they are worth
DEVIANCE_NOTE = "Squares of deviance residuals sum to the deviance; the sign says on which side of it a row is."


def show(version: Version, model: ModelFile) -> None:
    if model.report.outcome and model.report.outcome.several:
        line("Rows of several classes are called right or wrong, which Calls above counts; there are no residuals.")
        return
    file = _file(version)
    own = file == OWN
    try:
        config = own_data(model.config) if own else page_config(file)
        arguments = {"model": str(version.model_path), "own_data": own}
        run = _job(config, arguments, version, own)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The plots could not be made")
        return
    if run is None:
        return
    if run.is_active:
        watch(run, "Going over the rows")
    elif (result := run.result) is not None:
        try:
            _plots(Diagnosis.from_dict(result))
        except Malformed:  # an answer of another version of the program
            launch_job("diagnose", config, arguments, anew=True)
            st.rerun()
    else:
        notice("error", wording.told(run.error), "The plots could not be made")
        if st.button("Try again", key="diagnose:again"):
            launch_job("diagnose", config, arguments, anew=True)
            st.rerun()


def _file(version: Version) -> str:
    """The file to look at: the model's own, or a table that pages know."""
    names = {OWN: f"{version.file} (trained on this)", **{str(t.path): t.title for t in known_tables()}}
    chosen = st.selectbox(
        "Rows of", list(names), format_func=names.__getitem__, key=f"diagnose:{version.label}", width=360,
        help="The file that the model was trained on, or another one that has the target: how does it do there?",
    )  # fmt: skip
    return str(chosen)


def _job(config: Any, arguments: dict[str, Any], version: Version, own: bool) -> Run | None:
    """Started by itself for small files; a large one is read when somebody asks for it."""
    size, key = size_of(config.file), f"diagnose:go:{version.label}:{config.file}"
    if size > SMALL_FILE and not st.session_state.get(key):
        line(f"This goes over all rows of {title(config.file)} ({size / 1e6:,.0f} MB) once or twice.")
        if not st.button("Make the plots", type="primary", icon=":material/scatter_plot:", key=f"{key}:button"):
            return None
        st.session_state[key] = True
    return answered("diagnose", config, arguments)


# ------------------------------------------------------------------ what came out


def _plots(found: Diagnosis) -> None:
    _summary(found)
    left, right = st.columns(2, gap="large")
    with left:
        if found.loss:
            _calibration(found)
        else:
            section("Predicted against actual")
            _draw(residuals.predicted(found), "plot:predicted")
            line(_predicted_note(found))
    with right:
        section("Residuals against predicted")
        _draw(residuals.residuals(found), "plot:residuals")
        line(f"{_points_note(found)} {DEVIANCE_NOTE if found.loss else residuals.curvature(found)}")
    left, right = st.columns(2, gap="large")
    with left:
        section("Residual sizes")
        _draw(residuals.histogram(found), "plot:histogram")
        line(_histogram_note(found))
    with right:
        section("Largest residuals")
        _largest(found)
    if found.importance:
        _importance(found.importance)


def _calibration(found: Diagnosis) -> None:
    section("Said against came")
    _draw(residuals.calibration(found), "plot:said")
    line(residuals.curvature(found))


def _importance(found: ColumnWorth) -> None:
    """What each column is worth, by the rise of the deviance without what it says of a row."""
    section("What columns are worth")
    rises = found.rises
    table = pd.DataFrame({"Column": [*rises], "Rise of the mean deviance": [*rises.values()],
                          "In percent": [100 * share for share in found.shares().values()]})  # fmt: skip
    numbers = {"Rise of the mean deviance": st.column_config.NumberColumn(format="%.4g"),
               "In percent": st.column_config.NumberColumn(format="%.1f")}  # fmt: skip
    st.dataframe(table.head(MOST), hide_index=True, column_config=numbers)
    line(f"{found.meaning} Mean deviance with all columns: {number(found.error)}, on {found.part} rows.")


def _draw(chart: Chart, key: str) -> None:
    st.plotly_chart(drawn(chart), key=key, config=QUIET, alt=chart.alt)


def _summary(found: Diagnosis) -> None:
    parts = []
    for part, name in residuals.names_of(found).items():
        scores: FitScores = getattr(found, part)
        if scores.rows and found.classes:
            parts.append(f"{name}: {scores.rows:,}, Brier score {number((scores.rmse or 0.0) ** 2)}")
        elif scores.rows:
            parts.append(
                f"{name}: {scores.rows:,}, R² {number(scores.r2)}, RMSE {number(scores.rmse)}, MAE {number(scores.mae)}"
            )
    if found.rows_left_out:
        parts.append(f"{plural(found.rows_left_out, 'row')} left out: no target, or they could not be used")
    if found.unseen_levels:
        parts.append(f"{plural(found.unseen_levels, 'row')} with a name that the model was not trained with")
    line("\n".join(parts))


def _points_note(found: Diagnosis) -> str:
    if not found.is_sampled:
        return "Every row is a point."
    return f"The {len(found.sample.row):,} points are a fair sample of {found.rows:,} rows."


def _predicted_note(found: Diagnosis) -> str:
    if not found.is_sampled:
        return "Every row is a point; on the dashed line the prediction is right."
    points, rows = len(found.sample.row), found.rows
    return f"The blue shade counts all {rows:,} rows; the {points:,} points are a fair sample of them."


def _histogram_note(found: Diagnosis) -> str:
    at = found.at
    rest = f" {plural(found.beyond, 'row')} lie further out." if found.beyond else ""
    return (
        f"Half of the residuals lie between {number(at[0.25])} and {number(at[0.75])}, nine in ten between "
        f"{number(at[0.05])} and {number(at[0.95])}; the median is {number(at[0.5])}.{rest}"
    )


def _largest(found: Diagnosis) -> None:
    largest, names = found.largest, residuals.names_of(found)
    pairs = list(zip(largest.actual, largest.predicted, strict=True))
    table = pd.DataFrame(
        {
            "Row": largest.row,
            "Actual": [a for a, _ in pairs],
            "Predicted": [p for _, p in pairs],
            "Residual": largest.residual,
            **({"Kind": [names["test" if t else "train"] for t in largest.test]} if found.test.rows else {}),
        }
    )
    numbers = {name: st.column_config.NumberColumn(format="%.5g") for name in ("Actual", "Predicted", "Residual")}
    st.dataframe(table, hide_index=True, column_config=numbers, height=318)
    st.caption("Rows are counted from 0, as in files of predictions.")
