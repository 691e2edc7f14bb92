"""What is to be minded of a fit, first and with what one click can do about it; what is routine is folded away."""

from __future__ import annotations

from functools import partial

import streamlit as st

from shoal.dashboard.parts import waiting, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.errors import TrainingError
from shoal.results.findings import Finding
from shoal.results.fit import FitReport, GradientTraining
from shoal.runs.launch import Run
from shoal.settings.config import RunConfig
from shoal.settings.values import page_config, set_by_pages
from shoal.words import certificate, plural, power_of_ten

OPEN = 3  # warnings that are not folded away
PENALTIES = ("model", "shrink")  # knobs whose remedy is another fit of the same table, at an alpha of its own
SWITCHES = {"indicators": "with gaps marked"}  # those that are switched on for another fit, and what it is called
AGAIN = "fit-again"


def warned(report: FitReport, run: Run | None = None, open_: int = OPEN) -> None:
    """Warnings right below what the fit came to, the gravest first; of a run, with a button that fits it again."""
    boxes = [partial(_finding, finding, run) for finding in report.findings]
    boxes += [partial(notice, "warning", text) for text in report.to_mind]
    for box in boxes[:open_]:
        box()
    if rest := boxes[open_:]:
        with st.expander(f"{plural(len(rest), 'more thing' if open_ else 'thing')} to mind", icon=":material/warning:"):
            for box in rest:
                box()


def _finding(finding: Finding, run: Run | None) -> None:
    again = _again(finding, run.config) if run is not None and finding.knob in (*PENALTIES, *SWITCHES) else None
    said = f"{finding.said} {wording.remedied(finding.remedy)}"
    notice("warning", said)
    if again is None:
        return
    how = SWITCHES.get(finding.knob) or wording.choice_for(finding.knob, finding.values[0])
    label = f"Fit again: {how}"
    usable = waiting.asleep("A new run; this one stays.")
    if st.button(label, key=f"{AGAIN}:{finding.kind}", icon=":material/replay:", **usable):
        waiting.start(again)


def _again(finding: Finding, config: dict[str, object]) -> RunConfig | None:
    """The settings of a run with what a finding advises; None where they can no longer be."""
    try:
        knobs = {finding.knob: finding.values[0], "alpha": None} if finding.values else {finding.knob: True}
        return page_config(str(config["file"]), {**set_by_pages(config), **knobs})
    except TrainingError:
        return None


def trust(report: FitReport) -> None:
    """How good the answer can be at best; how it came about is folded away."""
    if report.training and not report.network:  # whose optimum nobody knows
        title, kind, text = gradient_trust(report.training)
        notice(kind, text, title)
    elif report.outcome and report.outcome.separated:
        notice("warning", "Coefficients grow without end; what is shown is where that was seen.", "There is no optimum")
    elif found := report.certificate:
        exact = found.is_exact
        title = "This is the exact optimum" if exact else "This is close to the optimum, not at it"
        notice("success" if exact else "warning", certificate(found.kind, found.relative, found.rests_on), title)
    if report.collinearity and (said := report.collinearity.sentences(report.condition)):
        notice("info", " ".join(said), "Columns that go together")
    if report.routine:
        with st.expander(f"{plural(len(report.routine), 'note')} on how it was read and fitted"):
            for note in report.routine:
                line(note)


def gradient_trust(found: GradientTraining) -> tuple[str, str, str]:
    """Title, kind of box and text: how far from the optimum a gradient run has ended."""
    text = f"{_distance(found)} {_more_epochs(found)}".strip()
    if found.converged:
        return "It converged: this is the optimum for all practical purposes", "success", text
    return "It has not converged", "warning", text


def _distance(found: GradientTraining) -> str:
    away, coefficients_away = found.distance_to_optimum, found.coefficient_distance
    if away is None:
        slope = found.slope
        known = "" if slope is None else f" Its slope is {power_of_ten(slope)} of that at the start."
        return f"The exact optimum of this model is not known.{known}"
    if away == 0:
        return "The objective is at the exact optimum, to the last digit."
    parts = [f"The relative distance of the objective to its exact optimum is {power_of_ten(away)}"]
    if coefficients_away:
        parts.append(f"the coefficients differ by up to {power_of_ten(coefficients_away)} of the largest")
    return f"{'; '.join(parts)}."


def _more_epochs(found: GradientTraining) -> str:
    return "" if found.converged else "Allow more epochs, resume it, or use the exact solver."
