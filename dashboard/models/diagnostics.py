"""How a saved model predicts, drawn: predicted against actual and residuals. The passes are a process elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from shoal.charts import residuals
from shoal.charts.description import Chart
from shoal.dashboard.models.charts import drawn
from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.waiting import answered, watch
from shoal.dashboard.tables.known import known_tables
from shoal.errors import TrainingError
from shoal.fitting.model_file import own_data
from shoal.library.saved_models import Version
from shoal.results.model import ModelFile
from shoal.runs.launch import Run, launch_job
from shoal.settings.limits import SMALL_FILE
from shoal.settings.values import page_config
from shoal.words import number, plural

OWN = ""
QUIET = {"displayModeBar": False}


def show(version: Version, model: ModelFile) -> None:
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
    elif result := run.result:
        _plots(result)
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
    path = Path(config.file)
    key = f"diagnose:go:{version.label}:{path}"
    if path.is_file() and path.stat().st_size > SMALL_FILE and not st.session_state.get(key):
        line(f"This goes over all rows of {path.name} ({path.stat().st_size / 1e6:,.0f} MB) once or twice.")
        if not st.button("Make the plots", type="primary", icon=":material/scatter_plot:", key=f"{key}:button"):
            return None
        st.session_state[key] = True
    return answered("diagnose", config, arguments)


# ------------------------------------------------------------------ what came out


def _plots(found: dict[str, Any]) -> None:
    _summary(found)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("##### Predicted against actual")
        _draw(residuals.predicted(found), "plot:predicted")
        line(_predicted_note(found))
    with right:
        st.markdown("##### Residuals against predicted")
        _draw(residuals.residuals(found), "plot:residuals")
        line(residuals.curvature(found))
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("##### Residual sizes")
        _draw(residuals.histogram(found), "plot:histogram")
        line(_histogram_note(found))
    with right:
        st.markdown("##### Largest residuals")
        _largest(found)


def _draw(chart: Chart, key: str) -> None:
    st.plotly_chart(drawn(chart), key=key, config=QUIET, alt=chart.alt)


def _summary(found: dict[str, Any]) -> None:
    parts = []
    for part, name in residuals.names_of(found).items():
        scores = found[part]
        if scores["rows"]:
            parts.append(
                f"{name}: {scores['rows']:,}, R² {number(scores['r2'])}, RMSE {number(scores['rmse'])}, "
                f"MAE {number(scores['mae'])}"
            )
    if found["rows_left_out"]:
        parts.append(f"{plural(found['rows_left_out'], 'row')} left out: no target, or they could not be used")
    if found["unseen_levels"]:
        parts.append(f"{plural(found['unseen_levels'], 'row')} with a name that the model was not trained with")
    line("\n".join(parts))


def _predicted_note(found: dict[str, Any]) -> str:
    if not residuals.is_sampled(found):
        return "Every row is a point; on the dashed line the prediction is right."
    points, rows = len(found["sample"]["row"]), found["rows"]
    return f"The blue shade counts all {rows:,} rows; the {points:,} points are a fair sample of them."


def _histogram_note(found: dict[str, Any]) -> str:
    at = residuals.quantiles_of(found)
    beyond = found["rows"] - sum(found["histogram"]["train"]) - sum(found["histogram"]["test"])
    rest = f" {plural(beyond, 'row')} lie further out." if beyond else ""
    return (
        f"Half of the residuals lie between {number(at[0.25])} and {number(at[0.75])}, nine in ten between "
        f"{number(at[0.05])} and {number(at[0.95])}; the median is {number(at[0.5])}.{rest}"
    )


def _largest(found: dict[str, Any]) -> None:
    largest, names = found["largest"], residuals.names_of(found)
    pairs = list(zip(largest["actual"], largest["predicted"], strict=True))
    table = pd.DataFrame(
        {
            "Row": largest["row"],
            "Actual": [a for a, _ in pairs],
            "Predicted": [p for _, p in pairs],
            "Residual": [a - p for a, p in pairs],
            **({"Kind": [names["test" if t else "train"] for t in largest["test"]]} if found["test"]["rows"] else {}),
        }
    )
    numbers = {name: st.column_config.NumberColumn(format="%.5g") for name in ("Actual", "Predicted", "Residual")}
    st.dataframe(table, hide_index=True, column_config=numbers, height=318)
    st.caption("Rows are counted from 0, as in files of predictions.")
