"""The Tune page: a table's study, made by a process of its own, and the panel that asks it every what-if.

/tune?data=...&study=JSON      how it is prepared and tested; the rest of the address is the panel's (`tune_state`)
"""

from __future__ import annotations

import contextlib
import json
import zlib
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.waiting import answered, watch
from shoal.dashboard.tables import at_hand, filled, guidance
from shoal.dashboard.tables.needed import looked_at, nothing_there, offer_tables
from shoal.dashboard.tables.sources import Asked
from shoal.dashboard.tune import studies
from shoal.dashboard.tune.form import StudyChoice, apply_study, study_form
from shoal.dashboard.tune.keeping import kept
from shoal.dashboard.tune.losses import LINEAR, kind_of_model, loss_view
from shoal.dashboard.tune.panel import tune_panel
from shoal.dashboard.tune.rows import is_for_rows, rows_view, sparse_view
from shoal.dashboard.tune.state import PARTS, TuneState, run_config
from shoal.errors import StateError, TrainingError
from shoal.results.answers.table import TableLook
from shoal.runs.launch import Run, launch, launch_job
from shoal.settings.when import MODELS

REMADE = "tune:remade"  # in the session: the study that was made again because it could not be read


def show() -> None:
    found = at_hand.opened("tune")
    if found is not None:
        _study_view(found)
    elif "data" in st.query_params:
        nothing_there("The address names a table that is not on this machine; it may have been removed.")
    else:
        _empty_view()


def _empty_view() -> None:
    st.title("Tune a model", anchor=False)
    st.caption(
        "Move the penalty, leave columns out, predict another one: the answer follows at once. "
        "The table is read only once for all of it."
    )
    offer_tables()


def _study_view(found: Asked) -> None:
    at_hand.header("tune", found, f"Tune on {found.table.title}")
    filled.say_lost(found.table.key, filled.TUNE)
    result = looked_at(found)
    if result is None:
        return
    if result.sparse:
        sparse_view(found, result, result.sparse)
        return
    choice = study_form(found, result)
    model = LINEAR if choice is None else kind_of_model(found, result)
    if choice is not None and model != LINEAR:
        guidance.show(
            found, partial(_switch_on, choice, result.rows), model=model, indicators=choice.knobs.get("indicators")
        )
        loss_view(found, choice, model)
    elif choice is not None and is_for_rows(result, choice, found):
        rows_view(found, choice)
    elif choice is not None:
        _begin(found, choice)
        chosen = {"model": "ridge", "indicators": choice.knobs.get("indicators")}  # or another one with a penalty
        guidance.show(found, partial(_switch_on, choice, result.rows), **chosen)
        _tune(found, result, choice)


def _switch_on(choice: StudyChoice, rows: int, knob: str) -> None:
    """Another study of a table with so many rows, with a switch of its preparation on; fit for callbacks."""
    apply_study(replace(choice, knobs={**choice.knobs, knob: True}).text(rows))


def _begin(found: Asked, choice: StudyChoice) -> None:
    """Let the sums be made while columns are looked at; `_tune` waits for them, and says why there are none."""
    with contextlib.suppress(TrainingError, OSError):
        launch_job("study", choice.config(found), _arguments(choice))


def _tune(found: Asked, result: TableLook, choice: StudyChoice) -> None:
    try:
        study = _made(found, choice)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "This cannot be tuned")
        return
    if study.is_active:
        watch(study, "Summing the folds")
        return
    if study.result is None:
        notice("error", wording.told(study.error), "This cannot be tuned")
        if st.button("Try again", key="tune:again", icon=":material/refresh:"):
            _again(found, choice)
        return
    try:
        open_ = studies.opened(study.directory.name)
    except StateError as error:
        _make_good(found, choice, study, error)
        return
    if st.session_state.get(REMADE) == study.directory.name:
        notice("warning", "The sums of this table were damaged on the disk and have been made again.", "Made again")
    try:
        _panel(found, result, study, open_)
    except TrainingError as error:
        notice("error", wording.told(error), "This cannot be tuned")


def _make_good(found: Asked, choice: StudyChoice, study: Run, error: StateError) -> None:
    """Sums that were damaged, or are of another version, are made again by themselves; twice in a row is an error."""
    if st.session_state.get(REMADE) == study.directory.name:
        notice("error", wording.told(error), "This cannot be tuned")
        if st.button("Try again", key="tune:again", icon=":material/refresh:"):
            _again(found, choice)
        return
    st.session_state[REMADE] = study.directory.name
    _again(found, choice)


def _again(found: Asked, choice: StudyChoice) -> None:
    try:
        _made(found, choice, anew=True)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "It was not started")
        return
    st.rerun()


def _made(found: Asked, choice: StudyChoice, anew: bool = False) -> Run:
    return answered("study", choice.config(found), _arguments(choice), anew)


def _arguments(choice: StudyChoice) -> dict[str, Any]:
    return {"folds": choice.folds, "fold_by": choice.fold_by}


def _panel(found: Asked, result: TableLook, study: Run, open_: studies.OpenStudy) -> None:
    whatif = open_.whatif
    order = list(result.named)
    numbers = [column.name for column in result.columns if column.type == "numeric"]
    columns = sorted(whatif.columns, key=order.index)
    targets = sorted(whatif.targets, key=order.index)
    elsewhere = [name for name in numbers if name in columns and name not in targets]
    for note in open_.study.notes:
        line(note)
    start = _start(found, columns, targets)
    key = f"{study.directory.name}-{zlib.crc32(json.dumps(found.read.get('exclude', [])).encode()):x}"
    dates = [name for name in columns if result.named[name].type == "datetime"]
    answer = tune_panel(study.directory.name, key, whatif.cells.base.target, columns, targets, elsewhere, dates, start)
    if answer.target:
        places.amend(target=str(answer.target), **dict.fromkeys(PARTS))
        st.rerun()
    if answer.train:
        _train(study, answer.train)


def _start(found: Asked, columns: list[str], targets: list[str]) -> TuneState:
    """From the address, as far as this study can follow it; columns that Data leaves out begin without a tick."""
    said = {part: st.query_params[part] for part in PARTS if part in st.query_params}
    try:
        state = TuneState.parse(said)
    except TrainingError:
        state, said = TuneState(), {}
    out = state.out if "out" in said else tuple(found.read.get("exclude", ()))
    return TuneState(
        predict=state.predict if state.predict in targets else "",
        out=tuple(name for name in out if name in columns),
        model=state.model if state.model in MODELS else TuneState.model,
        ratio=state.ratio,
        alpha=state.alpha,
    )


def _train(study: Run, said: dict[str, Any]) -> None:
    """An ordinary exact run with the model at hand, which keeps its error in cross-validation."""
    try:
        state = TuneState(
            str(said.get("predict", "")), tuple(map(str, said.get("out", ()))), str(said.get("model", "")),
            float(said.get("ratio", 0.5)), str(said.get("alpha", "")),
        )  # fmt: skip
        whatif = studies.opened(study.directory.name).whatif
        question, alpha = state.question(whatif), float(state.alpha)
        tuned = kept(whatif, question, alpha, str(said.get("chosen", "")))
        run = launch(run_config(study, state.settings(question, alpha)), tuned=tuned)
    except (TrainingError, OSError, ValueError, TypeError) as error:
        notice("error", wording.told(error), "The run was not started")
        return
    places.go("train", run=run.id)
