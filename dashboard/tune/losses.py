"""Tuning a yes/no model, or one of counts, positive numbers or quantiles: the curve over alpha, made by a process of
its own that sweeps the rows, and the model at each of its points; what linear models are asked is in `panel`.

/tune?data=...&loss=logistic&shrink=elasticnet&ratio=0.5      the kind of model and its penalty
/tune?data=...&loss=quantile&quantile=0.9      a number of its own
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from shoal.dashboard.parts import places, widget_values, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.targets import suited_model
from shoal.dashboard.parts.tuning import folds_told
from shoal.dashboard.parts.waiting import answered, asleep, watch
from shoal.dashboard.tables.sources import Asked
from shoal.dashboard.tune.form import LOSS, StudyChoice
from shoal.errors import TrainingError
from shoal.lazy.frames import pd
from shoal.results.answers.table import TableLook
from shoal.results.tuned import BEST, BY_HAND, ONE_SE, CrossValidated
from shoal.runs.launch import Run, launch
from shoal.settings.config import RunConfig
from shoal.settings.when import LOSSES
from shoal.words import number, plural, short, term_shown

SHRINK, RATIO = "shrink", "ratio"  # in the address
LINEAR = "linear"
KINDS = {
    LINEAR: "Linear, ridge, lasso, elastic net",
    **{name: wording.choice_for("model", name) for name in LOSSES},
}
SHRINKS = ("lasso", "ridge", "elasticnet")
OWN_NUMBERS = {"quantile": ("quantile", 0.01, 0.99, 0.05), "huber": ("huber_epsilon", 1.0, 10.0, 0.05)}  # range, step
OF_WHAT = {"kkt": "the gradient at zero", "duality_gap": "the loss at zero"}
Kept = Callable[[dict[str, Any], int], CrossValidated]
DRAWN = 20  # weights whose course is drawn: the largest


def kind_of_model(found: Asked, result: TableLook) -> str:
    """What the address says, or what the target asks for; a person may choose another where several will do."""
    only = suited_model(result, found.target)
    if only:
        return only
    said = st.query_params.get(LOSS, LINEAR)
    said = said if said in KINDS else LINEAR
    chosen = st.selectbox(
        "Kind of model", list(KINDS), list(KINDS).index(said), format_func=KINDS.__getitem__, key="tune:loss",
        help="Logistic for yes or no, Poisson for counts, gamma or lognormal for positive skewed numbers, Huber where "
        "some rows are far off, quantile for a bound that a share of the rows lies below.",
    )  # fmt: skip
    if chosen != said:
        places.amend(**{LOSS: None if chosen == LINEAR else chosen})
        st.rerun()
    return str(chosen)


def loss_view(found: Asked, choice: StudyChoice, model: str) -> None:
    """The penalty, then the curve as soon as it is there."""
    shrink, ratio = _penalty()
    own = _own_number(model)
    try:
        usual = _config(found, choice, model, shrink, ratio)
        config = dataclasses.replace(
            usual, quantile=own.get("quantile", usual.quantile),
            huber_epsilon=own.get("huber_epsilon", usual.huber_epsilon),
        )  # fmt: skip
        job = answered("curve", config, {"folds": choice.folds, "fold_by": choice.folds_for(model)})
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "This cannot be tuned")
        return
    if job.is_active:
        watch(job, "Cross-validating, all penalties and folds in each sweep")
    elif job.result is None:
        notice("error", wording.told(job.error), "This cannot be tuned")
    else:
        curve_view(job, job.result, config, _kept)


def _penalty() -> tuple[str, float]:
    said = st.query_params.get(SHRINK, SHRINKS[0])
    said = said if said in SHRINKS else SHRINKS[0]
    left, right = st.columns(2)
    with left:
        shrink = st.selectbox(
            wording.label_for("shrink"), SHRINKS, SHRINKS.index(said),
            format_func=lambda name: wording.choice_for("shrink", name), key="tune:shrink",
        )  # fmt: skip
    ratio = said_ratio()
    if shrink == "elasticnet":
        with right:
            ratio = st.number_input(wording.label_for("l1_ratio"), 0.0, 1.0, ratio, 0.05, key="tune:l1_ratio")
    wanted = {SHRINK: str(shrink), RATIO: f"{ratio:g}" if shrink == "elasticnet" else None}
    if any(st.query_params.get(part) != text for part, text in wanted.items()):
        places.amend(**wanted)
    return str(shrink), float(ratio)


def said_ratio() -> float:
    """The mixing ratio of the address; the usual one where there is none that can be."""
    try:
        said = float(st.query_params.get(RATIO, RunConfig.l1_ratio))
    except ValueError:
        return RunConfig.l1_ratio
    return said if 0 <= said <= 1 else RunConfig.l1_ratio


def _own_number(model: str) -> dict[str, Any]:
    """Of a loss that has one, such as which quantile; in the address."""
    if model not in OWN_NUMBERS:
        return {}
    knob, low, high, step = OWN_NUMBERS[model]
    usual = {"quantile": RunConfig.quantile, "huber_epsilon": RunConfig.huber_epsilon}[knob]
    try:
        said = min(max(float(st.query_params.get(knob, usual)), low), high)
    except ValueError:
        said = usual
    chosen = float(st.number_input(
        wording.label_for(knob), low, high, said, step, key=f"tune:{knob}", help=wording.help_for(knob)
    ))  # fmt: skip
    if chosen != said:
        places.amend(**{knob: f"{chosen:g}"})
    return {knob: chosen}


def _config(found: Asked, choice: StudyChoice, model: str, shrink: str, ratio: float) -> RunConfig:
    config = choice.config(found)
    out = tuple(name for name in found.read.get("exclude", ()) if name != found.target)
    return dataclasses.replace(config, model=model, shrink=shrink, l1_ratio=ratio, exclude=out)


# ------------------------------------------------------------------ what was found


def curve_view(job: Run, curve: dict[str, Any], config: RunConfig, kept: Kept) -> None:
    """The curve and the model at each of its points; `kept` is what a model that is trained there keeps of it."""
    alphas, key = curve["alphas"], f"tune:point:{job.directory.name}"
    marks = {which: alphas.index(curve[which]) for which in (BEST, ONE_SE)}
    widget_values.begin(key, marks[BEST])
    if notes := curve["warnings"]:
        with st.expander(f"{plural(len(notes), 'note')} on how it was read"):
            for note in notes:
                line(note)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for which, name in ((BEST, "Best"), (ONE_SE, "1-SE")):
            st.button(name, key=f"tune:{which}", on_click=_choose, args=(key, marks[which]))
        place = st.select_slider(
            wording.label_for("alpha"), range(len(alphas)), key=key, format_func=lambda i: short(alphas[i]),
            help="The points of the path that were worked out; every one is exact.",
        )  # fmt: skip
    _numbers(curve, int(place))
    chart, path, table = st.tabs(["Error", "Path", "Coefficients"])
    with chart:
        alt = f"{curve['measure']} in cross-validation against alpha, lowest at {short(curve[BEST])}"
        st.plotly_chart(_error_chart(curve, int(place)), key="plot:error", config={"displayModeBar": False}, alt=alt)
    with path:
        alt = "standardised coefficients against alpha"
        st.plotly_chart(_path_chart(curve, int(place)), key="plot:path", config={"displayModeBar": False}, alt=alt)
    with table:
        if (shown := len(curve["names"])) < (count := curve["columns"]):
            line(f"The {shown} columns with the largest weights on the path, of {count:,}; a trained model has all.")
        st.dataframe(coefficients_at(curve, int(place)), hide_index=True)
    if st.button("Train this model", type="primary", key="tune:train", icon=":material/model_training:", **asleep()):
        _train(config, curve, int(place), kept(curve, int(place)))


def _choose(key: str, place: int) -> None:
    st.session_state[key] = place


def _numbers(curve: dict[str, Any], place: int) -> None:
    kept, count = curve["n_features_kept"][place], curve.get("columns", len(curve["names"]))
    name = str(curve["measure"]).capitalize()
    cards = [
        (f"{name}, cross-validated", f"{number(curve['cv_mean'][place])} ± {number(curve['cv_se'][place])}"),
        ("Weights other than 0", f"{kept} of {count}"),
        ("Best alpha", short(curve[BEST])),
        ("1-SE alpha", short(curve[ONE_SE])),
    ]
    with st.container(horizontal=True, gap="small", key="tune-numbers"):
        for label, value in cards:
            st.metric(label, value, border=True)
    certificate, sweeps = curve["certificate"], ""
    if "sweeps" in curve:
        sweeps = f" in {curve['sweeps']} sweeps over the rows"
    line(
        f"{folds_told(curve['folds'], curve['fold_by'])}, {curve['rows']:,} training rows, {len(curve['alphas'])} "
        f"penalties{sweeps}; no point is further from its optimum than {certificate['relative']:.0e} of "
        f"{OF_WHAT.get(certificate['kind'], '')}, measured on the rows."
    )


def _error_chart(curve: dict[str, Any], place: int) -> go.Figure:
    errors = {"type": "data", "array": curve["cv_se"], "thickness": 1, "width": 0}
    figure = go.Figure(go.Scatter(x=curve["alphas"], y=curve["cv_mean"], error_y=errors, mode="lines+markers"))
    for which, name, anchor in ((BEST, "Best", "left"), (ONE_SE, "1-SE", "right")):  # on the sides that are theirs
        figure.add_vline(x=curve[which], line_dash="dot")
        figure.add_annotation(
            x=math.log10(curve[which]), y=1, yref="paper", text=name, showarrow=False, xanchor=anchor, yanchor="bottom"
        )  # a text on such an axis has its place as a logarithm
    return _laid_out(figure, curve, place, str(curve["measure"]))


def _path_chart(curve: dict[str, Any], place: int) -> go.Figure:
    weights = pd.DataFrame(curve["weights"], columns=curve["names"])
    largest = weights.abs().max().sort_values(ascending=False).index[:DRAWN]
    lines = [go.Scatter(x=curve["alphas"], y=weights[name], name=term_shown(name), mode="lines") for name in largest]
    return _laid_out(go.Figure(lines), curve, place, "standardised coefficient")


def _laid_out(figure: go.Figure, curve: dict[str, Any], place: int, what: str) -> go.Figure:
    figure.add_vline(x=curve["alphas"][place])
    figure.update_xaxes(type="log", title="alpha", autorange="reversed")
    figure.update_yaxes(title=what)
    return figure.update_layout(height=360, margin={"l": 10, "r": 10, "t": 30, "b": 10})


def coefficients_at(curve: dict[str, Any], place: int) -> pd.DataFrame:
    """At one point of the path, those with the largest weights first."""
    table = pd.DataFrame({
        "Weight of": list(map(term_shown, curve["names"])), "Coefficient": curve["coef"][place],
        "Standardised": curve["weights"][place],
    })  # fmt: skip
    return table.sort_values("Standardised", key=abs, ascending=False, kind="stable")


def _kept(curve: dict[str, Any], place: int) -> CrossValidated:
    alpha = float(curve["alphas"][place])
    chosen = next((which for which in (BEST, ONE_SE) if curve[which] == alpha), BY_HAND)
    return CrossValidated(
        curve["folds"], curve["fold_by"], chosen, se=curve["cv_se"][place], alphas=len(curve["alphas"]),
        best=curve[BEST], one_se=curve[ONE_SE], measure=curve["measure"], deviance=curve["cv_mean"][place],
    )  # fmt: skip


def _train(config: RunConfig, curve: dict[str, Any], place: int, kept: CrossValidated) -> None:
    """An ordinary exact run at this alpha, which keeps its error in cross-validation."""
    try:
        run = launch(dataclasses.replace(config, alpha=float(curve["alphas"][place])), tuned=kept)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The run was not started")
        return
    places.go("train", run=run.id)
