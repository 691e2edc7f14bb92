"""The result of a run that trained a module: its scores, its parts, and where it can be had."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from shoal.dashboard.fits import trust
from shoal.dashboard.parts import results
from shoal.dashboard.parts.literal import line, section
from shoal.lazy.frames import pd
from shoal.results.fit import FitReport
from shoal.results.network import NetworkReport
from shoal.runs.folder import Run
from shoal.words import number


def show_network(run: Run, report: FitReport, found: NetworkReport) -> None:
    _scores(found)
    trust.warned(report)
    left, right = st.columns([5, 3], gap="large")
    with left:
        _parts(found)
    with right:
        trust.trust(report)
        results.training(_without_penalty(report))
        results.rows(report)
        results.timings(run)
        section("Take it with you")
        line(f"In Python: shoal.module_run('{run.id}').module\nWeights: {run.directory / 'module.safetensors'}")


def _without_penalty(report: FitReport) -> FitReport:
    """What was in force at the end, but for the strength of a penalty that modules do not have."""
    training = report.training
    if training is None:
        return report
    kept = {knob: value for knob, value in training.in_force.items() if knob != "alpha"}
    return replace(report, training=replace(training, in_force=kept))


def _scores(found: NetworkReport) -> None:
    which, best, rest = "test rows" if found.test.rows else "training rows", found.honest, found.train
    cards = [(f"Loss, {which}", number(best.loss), f"The mean of {found.loss}; smaller is better.")]
    if best.score is not None:
        cards.insert(0, (f"{found.score_name}, {which}", number(best.score), "1 is perfect."))
    if found.test.rows and rest.score is not None:
        cards.append((f"{found.score_name}, training rows", number(rest.score), "On the rows it was trained on."))
    cards.append(("Parameters", f"{found.parameters:,}", "Numbers that were learnt."))
    line(" ".join(found.sentences()))
    with st.container(horizontal=True, gap="small", key="scores"):
        for label, value, help_ in cards:
            st.metric(label, value, help=help_, border=True)


def _parts(found: NetworkReport) -> None:
    st.header("Parts", anchor=False)
    table = pd.DataFrame({"Part": [p.name for p in found.parts], "Parameters": [p.size for p in found.parts]})
    st.dataframe(table, hide_index=True, height="content" if len(table) < 16 else 560, placeholder="")
