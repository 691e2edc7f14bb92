"""The result of a run, part by part; what each part shows is in `parts.results` and `trust`."""

from __future__ import annotations

import streamlit as st

from shoal.dashboard.fits import resamples, trust
from shoal.dashboard.parts import results, tuning
from shoal.results.fit import FitReport
from shoal.runs.launch import Run


def show_result(run: Run, report: FitReport) -> None:
    """All about a run that has a result, finished or stopped."""
    results.headline(report)
    trust.warned(report, run)
    results.scores(report)
    left, right = st.columns([5, 3], gap="large")
    with left:
        resamples.coefficients(report, run.model_path, str(run.config.get("file", "")), f"coefficients-{run.id}.csv")
    with right:
        results.saved_model(run, report)
        trust.trust(report)
        tuning.tuning(report)
        results.training(report)
        results.rows(report)
        results.filled(report)
        results.timings(run)
        results.downloads(run)
