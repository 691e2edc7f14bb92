"""Tuning where columns are too many for sums of all pairs, and for sparse rows: the curve, made by a process of its own
from the rows, drawn while it comes; what-ifs about single columns, which sums answer, are in `panel`.

/tune?data=...&model=ridge&ratio=0.5&study=JSON      the model and its mixing ratio; folds and what is kept for testing
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from shoal.dashboard.forms.handed import STUDY
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.waiting import answered, estimate, on_the_way
from shoal.dashboard.tables.sources import Asked
from shoal.dashboard.tune.form import StudyChoice, apply_study
from shoal.dashboard.tune.losses import RATIO, curve_view, said_ratio
from shoal.errors import TrainingError
from shoal.results.answers.table import SparseLook, TableLook
from shoal.results.tuned import BEST, BY_HAND, ONE_SE, CrossValidated
from shoal.runs.documents import read_so_far
from shoal.runs.forecast import TableShape
from shoal.runs.launch import Run
from shoal.settings.config import RunConfig
from shoal.settings.limits import solved_from_rows
from shoal.settings.strength import CHOSEN
from shoal.settings.values import page_config
from shoal.utils import available_memory
from shoal.words import number, plural, short

MODEL = "model"  # in the address, as the panel has it
PANEL = 1000  # columns up to which sums of all pairs answer what-ifs in time
WAYS = {"hash": "hash", "row": "row number"}
ABOUT = (
    "There are too many columns for sliders that answer at once: the curve is worked out from the rows themselves, for "
    "one model at a time."
)


def is_for_rows(result: TableLook, choice: StudyChoice, found: Asked) -> bool:
    """Whether a table is too wide for what sums of all pairs answer, and its rows are few enough to be held."""
    config = choice.config(found)
    shape = TableShape.of(result, config, 0)
    return (
        shape.base > PANEL and not config.weights and solved_from_rows(shape.rows, shape.base, True, available_memory())
    )


def rows_view(found: Asked, choice: StudyChoice) -> None:
    """Of a wide table of cells, prepared as the form says."""
    line(ABOUT)
    out = tuple(name for name in found.read.get("exclude", ()) if name != found.target)
    _view(dataclasses.replace(choice.config(found), exclude=out), choice)


def sparse_view(found: Asked, result: TableLook, look: SparseLook) -> None:
    """Of sparse rows, which have fewer choices."""
    choice = _sparse_choice(result.rows)
    with st.container(horizontal=True, vertical_alignment="center"):
        size = f"{plural(result.rows, 'sparse row')}, {plural(look.columns, 'column')} with a value"
        st.caption(size, width="content")
        places.link("data", "See the data", icon=":material/table_view:", **found.address)
        places.link("train", "Train without tuning", icon=":material/model_training:", **found.address)
    line(_summary(choice))
    with st.expander("How it is tested and prepared", icon=":material/tune:"):
        _sparse_preparation(found, choice, result.rows)
    values = {**choice.knobs, "target": result.columns[0].name}
    _view(page_config(found.table.path, values), choice, look.columns)


def _summary(choice: StudyChoice) -> str:
    every = choice.knobs.get("test_every")
    return " · ".join([
        f"{choice.folds} folds by {WAYS[choice.fold_by]}",
        "columns standardised" if choice.knobs.get("standardize", True) else "columns as they are",
        *([f"one row in {every} kept for testing"] if every else []),
    ])  # fmt: skip


def _sparse_choice(rows: int) -> StudyChoice:
    """What the address says, as far as sparse rows have a way for it."""
    try:
        choice = StudyChoice.parse(st.query_params.get(STUDY, "{}"), rows)
    except TrainingError:
        choice = StudyChoice.usual(rows)
    knobs = {knob: value for knob, value in choice.knobs.items() if knob in ("test_every", "standardize", "intercept")}
    return StudyChoice(choice.folds, choice.fold_by if choice.fold_by in WAYS else "hash", knobs)


def _sparse_preparation(found: Asked, choice: StudyChoice, rows: int) -> None:
    usual = RunConfig()
    with st.form(f"tune:{found.table.key}:sparse", border=False):
        left, middle, right = st.columns(3)
        folds = left.number_input("Folds", 2, 1000, choice.folds, help="The model is fitted that often.")
        way = left.selectbox("Folds by", list(WAYS), list(WAYS).index(choice.fold_by), format_func=WAYS.__getitem__)
        every = middle.number_input(
            wording.label_for("test_every"), 0, 1_000_000, int(choice.knobs.get("test_every", usual.test_every)),
            help="Rows whose number this divides are kept apart from folds; 0 for none.",
        )  # fmt: skip
        knobs: dict[str, Any] = {"test_every": int(every)}
        for knob in ("standardize", "intercept"):
            knobs[knob] = right.toggle(wording.label_for(knob), bool(choice.knobs.get(knob, getattr(usual, knob))))
        if st.form_submit_button("Apply", type="primary"):
            apply_study(StudyChoice(int(folds), str(way), knobs).text(rows))
            st.rerun()


# ------------------------------------------------------------------ the curve


def _view(prepared: RunConfig, choice: StudyChoice, columns: int | None = None) -> None:
    """`columns`: how many there are, where an answer names only some."""
    model, ratio = _penalty()
    config = dataclasses.replace(prepared, model=model, l1_ratio=ratio)
    try:
        job = answered("curve", config, {"folds": choice.folds, "fold_by": choice.fold_by})
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "This cannot be tuned")
        return
    if job.is_active:
        on_the_way(job, _so_far)
    elif job.result is None:
        notice("error", wording.told(job.error), "This cannot be tuned")
        if st.button("Try again", key="tune:again", icon=":material/refresh:"):
            answered("curve", config, {"folds": choice.folds, "fold_by": choice.fold_by}, anew=True)
            st.rerun()
    else:
        curve_view(job, {**job.result, **({"columns": columns} if columns else {})}, config, _kept)


def _penalty() -> tuple[str, float]:
    said = st.query_params.get(MODEL, CHOSEN[1])
    said = said if said in CHOSEN else CHOSEN[1]
    left, right = st.columns(2)
    with left:
        model = st.selectbox(
            wording.label_for("model"), CHOSEN, CHOSEN.index(said), key="tune:model",
            format_func=lambda name: wording.choice_for("model", name), help=wording.ABOUT_MODELS[said],
        )  # fmt: skip
    ratio = said_ratio()
    if model == "elasticnet":
        with right:
            ratio = st.number_input(wording.label_for("l1_ratio"), 0.0, 1.0, ratio, 0.05, key="tune:ratio")
    wanted = {MODEL: str(model), RATIO: f"{ratio:g}" if model == "elasticnet" else None}
    if model != said or st.query_params.get(RATIO) != wanted[RATIO]:
        places.amend(**wanted)
    return str(model), float(ratio)


def _so_far(job: Run) -> None:
    """What a job has found while it goes on: words, and the curve from its strong end on."""
    stage, fraction = job.progress
    found = read_so_far(job.directory)
    if not found:
        line(f"{stage.capitalize()}, {fraction:.0%}{estimate(job, fraction)}")
        st.progress(min(1.0, max(0.0, fraction)))
        return
    known, points = len(found["alphas"]), found["points"]
    line(
        f"Cross-validating: {known} of {points} penalties in {_folds(found)}{estimate(job, fraction)}. "
        f"Lowest error so far {number(min(found['cv_mean']))}, at alpha {short(found[BEST])}."
    )
    st.progress(min(1.0, max(0.0, fraction)))
    errors = {"type": "data", "array": found["cv_se"], "thickness": 1, "width": 0}
    figure = go.Figure(go.Scatter(x=found["alphas"], y=found["cv_mean"], error_y=errors, mode="lines+markers"))
    ends = [math.log10(alpha) for alpha in found["all_alphas"]]
    figure.update_xaxes(type="log", title="alpha", range=ends)
    figure.update_yaxes(title="mean squared error")
    figure.update_layout(height=360, margin={"l": 10, "r": 10, "t": 30, "b": 10})
    alt = f"mean squared error in cross-validation against alpha, {known} of {points} penalties so far"
    st.plotly_chart(figure, key="plot:so-far", config={"displayModeBar": False}, alt=alt)


def _folds(found: dict[str, Any]) -> str:
    there, count = found["folds"], found["folds_in_all"]
    return f"all {count} folds" if there == count else f"{there} of {count} folds"


def _kept(curve: dict[str, Any], place: int) -> CrossValidated:
    """What a model that is trained at this point keeps of its error over the folds."""
    alpha, mse = float(curve["alphas"][place]), float(curve["cv_mean"][place])
    chosen = next((which for which in (BEST, ONE_SE) if curve[which] == alpha), BY_HAND)
    r2 = 1 - mse / curve["variance"] if curve["variance"] else None
    return CrossValidated(
        curve["folds"], curve["fold_by"], chosen, mse, curve["cv_se"][place], mse**0.5, r2, len(curve["alphas"]),
        curve[BEST], curve[ONE_SE],
    )  # fmt: skip
