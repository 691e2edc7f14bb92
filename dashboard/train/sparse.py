"""The form of a fit to sparse rows: the few knobs that such rows have; those of tables of cells are in `page`."""

from __future__ import annotations

from typing import Any

import streamlit as st

from shoal.dashboard.forms import settings_tabs
from shoal.dashboard.forms.handed import STUDY, knobs_of
from shoal.dashboard.forms.knob_widgets import Draft, KnobWidgets, default_values, filled_in
from shoal.dashboard.forms.model_form import first_draft
from shoal.dashboard.parts import places, waiting, widget_values, wording
from shoal.dashboard.parts.literal import line
from shoal.dashboard.tables import filled
from shoal.dashboard.tables.sources import Asked
from shoal.dashboard.train.forecast import show_queue
from shoal.errors import ConfigError
from shoal.results.answers.table import SparseLook, TableLook
from shoal.runs.launch import Run
from shoal.settings.config import RunConfig
from shoal.settings.meaning import has_effect
from shoal.settings.values import page_config, set_by_pages
from shoal.settings.when import MODELS
from shoal.words import plural

STEPS = (
    "mode", "workers", "epochs", "batch_size", "local_steps", "staleness", "step_rule", "learning_rate", "compression",
)  # fmt: skip
ASKED = ("model", "shrink", "alpha", "l1_ratio", "positive", "test_every", "standardize", "intercept", "solver", *STEPS)
USUAL_MODEL = "lasso"  # of very many columns it keeps the few that matter
LINEAR = "Least squares, no penalty; where columns depend on one another, the smallest weights that fit best."
YES_NO = "logistic"
PENALTIES = ("ridge", "lasso", "elasticnet")  # of a yes/no model: without one, very many columns tell all rows apart
WITHOUT = (
    "Sparse rows are fitted on this machine. Models of counts and of classes, and choices of single columns, are for "
    "tables of cells."
)
PUSHES = (
    "Workers push the coordinates that their rows touch, each with its place; the penalty is the server's. The "
    "distance is that to the exact fit of the same rows."
)


def sparse_form(found: Asked, result: TableLook, look: SparseLook, like: Run | None, drafts: dict[str, Draft]) -> None:
    name = f"{found.table.key}:{like.id if like else ''}"
    begun = _first(result.rows, like)
    if name not in drafts:
        drafts[name] = {**begun, **filled.kept(name, filled.TRAIN).get(filled.DRAFT, {})}
    draft = drafts[name]
    about = f"{plural(result.rows, 'sparse row')}, {plural(look.columns, 'column')} with a value"
    with st.container(horizontal=True, vertical_alignment="center", key="train-about"):
        st.caption(about, width="content")
        places.link("data", "See the data", icon=":material/table_view:", **found.address)
        places.link("tune", "Tune the penalty", icon=":material/tune:", **found.address)
    left, right = st.columns([7, 3], gap="large")
    with left, st.container(key="train-form"), st.container(border=True):
        st.header("The model of the label", anchor=False)
        _ask(f"train:{name}", draft)
        line(WITHOUT)
    with right, st.container(key="train-card"), st.container(border=True):
        st.header("Before you start", anchor=False)
        _card(found, result, draft)
    own = filled_in(draft, begun)
    filled.keep(name, filled.TRAIN, {filled.DRAFT: own} if own else {})


def _first(rows: int, like: Run | None) -> Draft:
    """As an earlier run had it, or as the Tune page hands it over, or as usual."""
    said: dict[str, Any] = set_by_pages(like.config) if like else knobs_of(st.query_params.get(STUDY, "{}")) or {}
    return {
        **({} if like else {"model": USUAL_MODEL, **first_draft(rows)}),
        **{knob: said[knob] for knob in ASKED if knob in said},
    }


def _ask(prefix: str, draft: Draft) -> None:
    widgets = KnobWidgets(prefix, draft, [])
    first, second, third = st.columns(3)
    with first:
        widgets.ask("model", only=(*MODELS, YES_NO))
    yes_no = draft["model"] == YES_NO
    if yes_no and draft.get("shrink") not in PENALTIES:
        draft["shrink"] = PENALTIES[0]
    for slot, knob in ((second, "alpha"), (third, "l1_ratio")):
        if has_effect(knob, {**default_values(), **draft}):
            with slot:
                widgets.ask(knob)
    st.caption(wording.ABOUT_MODELS[draft["model"]] if draft["model"] != "linear" else LINEAR)
    first, second, third = st.columns(3)
    with first:
        widgets.ask("test_every", help="Rows whose number this divides are kept for testing; 0 for none.")
    if yes_no:
        with second:
            widgets.ask("shrink", only=PENALTIES)
        with third:
            widgets.ask("positive")
    with st.container(horizontal=True, gap="medium"):
        widgets.ask("standardize")
        widgets.ask("intercept")
    if yes_no:
        draft["solver"] = "exact"
    else:
        _ask_solver(widgets, draft)


def _ask_solver(widgets: KnobWidgets, draft: Draft) -> None:
    key = widgets.key("solver")
    widget_values.begin(key, widgets.value("solver"))
    draft["solver"] = st.radio(
        wording.label_for("solver"), list(wording.SOLVERS), key=key, format_func=wording.SOLVERS.__getitem__,
        horizontal=True, label_visibility="collapsed",
    )  # fmt: skip
    if draft["solver"] != "gradient":
        return
    st.caption(wording.ABOUT_MODES[widgets.ask("mode", side_by_side=True)])
    values = {**default_values(), **draft}
    shown = [knob for knob in STEPS[1:] if has_effect(knob, values)]
    for first in range(0, len(shown), 3):
        for slot, knob in zip(st.columns(3), shown[first : first + 3], strict=False):
            with slot:
                widgets.ask(knob)
    st.caption(PUSHES)


def _card(found: Asked, result: TableLook, draft: Draft) -> None:
    try:
        config = _config(found, result, draft)
    except ConfigError as error:
        line(wording.told(error))
        return
    if config.alpha is None and config.model == YES_NO:
        line("Alpha is 1 unless you name one: of a yes/no model of sparse rows it is not chosen by cross-validation.")
    elif config.alpha is None and config.model != "linear":
        line("Alpha is chosen by cross-validation first, which takes seconds to a few minutes.")
    line("The fit holds the values of all training rows in memory, about 60 bytes each.")
    show_queue(config)
    settings_tabs.show_command(config)
    label = "Fit" if config.solver == "exact" else "Start training"
    if st.button(label, type="primary", icon=":material/play_arrow:", width="stretch", key="start"):
        waiting.start(config)


def _config(found: Asked, result: TableLook, draft: Draft) -> RunConfig:
    values = {**default_values(), **draft}
    said = {knob: draft[knob] for knob in ASKED if knob in draft and has_effect(knob, values)}
    return page_config(found.table.path, {**said, "target": result.columns[0].name})
