"""Waiting for a process: a bar with what it does, how far it is and how long it may still take."""

from __future__ import annotations

import time

import streamlit as st

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line
from shoal.runs.launch import Run

REFRESH = 0.4  # seconds between two looks at a run


@st.fragment(run_every=REFRESH)
def watch(run: Run, what: str) -> None:
    """The bar of a run that goes on; the whole page is drawn again when it has ended."""
    if not run.is_active:
        st.rerun()
    stage, fraction = run.progress
    with st.container(border=True):
        line(f"{what}: {stage}, {fraction:.0%}{estimate(run, fraction)}")
        st.progress(min(1.0, max(0.0, fraction)))


def estimate(run: Run, fraction: float) -> str:
    """How long this stage may still take, once enough of it is done to tell."""
    since = run.started_at
    if since is None or not 0.05 < fraction < 1:
        return ""
    left = (time.time() - since) * (1 - fraction) / fraction
    return f", about {wording.duration(left)} left" if left >= 1 else ""
