"""The coefficients of a fit, with intervals by resamples of its rows where no formula gives any: beside a penalty on
another loss than squares. The fits to resamples are a process elsewhere, when somebody asks for them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import streamlit as st

from shoal.dashboard.parts import results, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.tuning import RESAMPLED
from shoal.dashboard.parts.waiting import answered, watch
from shoal.errors import TrainingError
from shoal.results.answers.explanation import ModelExplanation, ResampledIntervals
from shoal.results.fit import FitReport
from shoal.results.plain import Malformed
from shoal.results.tuned import FormulaInterval, FormulaIntervals
from shoal.runs.launch import Run, job_before
from shoal.settings.values import page_config
from shoal.settings.when import RESAMPLED_LOSSES
from shoal.words import listed

USUAL = 500  # resamples that are drawn where rows and columns allow it
OFTEN, SELDOM = 0.95, 0.5  # shares of the resamples


def coefficients(report: FitReport, model: Path, file: str, download: str) -> None:
    """As `results.coefficients`, and below it the way to intervals, where that is the only one."""
    if not is_resampled(report) or not file:
        results.coefficients(report, download)
        return
    key = f"resamples:{model}"
    run = _job(model, file, anew=False) if st.session_state.get(key) else _before(model, file)
    found = _explained(run)
    drawn = found.bootstrap if found else None
    results.coefficients(with_resamples(report, drawn), download)
    if drawn:
        line(kept(drawn))
    elif run and run.is_active:
        watch(run, "Fitting the model to resamples of its rows")
    else:
        _offer(run, found, key, model, file)


def is_resampled(report: FitReport) -> bool:
    """Whether coefficients are pulled toward 0 by a penalty of ours beside a loss that resamples are fitted with."""
    outcome = report.outcome
    ours = outcome is not None and outcome.loss in RESAMPLED_LOSSES and outcome.shrink != "none"
    return ours and not report.network and not report.penalty


def with_resamples(report: FitReport, found: ResampledIntervals | None) -> FitReport:
    """With these intervals where a formula's would be."""
    if found is None:
        return report
    ends = {name: FormulaInterval(one["estimate"], one["low"], one["high"]) for name, one in found.coefficients.items()}
    fewer = "" if found.resamples >= USUAL else f" of {USUAL}, as many as so many rows and columns allow"
    meaning = f"{found.resamples:,} resamples{fewer}. {found.meaning}"
    return replace(report, intervals=(FormulaIntervals(RESAMPLED, found.confidence, meaning, ends),))


def kept(found: ResampledIntervals) -> str:
    """Of a model that leaves columns out: which ones hardly any resample does without, and which most do."""
    if found.selection is None:
        return ""
    shares = {name: one["selected"] or 0.0 for name, one in found.selection.columns.items()}
    often, seldom = [n for n, s in shares.items() if s >= OFTEN], [n for n, s in shares.items() if s < SELDOM]
    parts = [(f"In at least {OFTEN:.0%} of the resamples", often), (f"In fewer than {SELDOM:.0%}", seldom)]
    return " ".join(f"{when} a weight is left to {listed(names)}." for when, names in parts if names)


def _job(model: Path, file: str, anew: bool) -> Run | None:
    try:
        return answered("explain", page_config(file), {"model": str(model)}, anew)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The rows were not resampled")
        return None


def _before(model: Path, file: str) -> Run | None:
    """What somebody has asked for already; nothing is said of one that failed, or that this person may not see."""
    try:
        return job_before("explain", page_config(file), {"model": str(model)})
    except (TrainingError, OSError):
        return None


def _explained(run: Run | None) -> ModelExplanation | None:
    try:
        return ModelExplanation.from_dict(run.result) if run and run.result is not None else None
    except (Malformed, KeyError):  # an answer of another version of the program
        return None


def _offer(run: Run | None, found: ModelExplanation | None, key: str, model: Path, file: str) -> None:
    """The button, and why there are no intervals where it was pressed before."""
    if found:
        notice("info", " ".join(found.notes), "There are no intervals by resamples")
        return
    if run:
        notice("error", wording.told(run.error), "The rows were not resampled")
    line(f"Beside a penalty no formula gives intervals: the model can be fitted anew to {USUAL} resamples of its rows.")
    if st.button("Intervals by resamples", icon=":material/casino:", key=f"{key}:button"):
        st.session_state[key] = True
        if run:
            _job(model, file, anew=True)
        st.rerun()
