"""Starting a process and waiting for it: a moment without a word, then a bar with what it does and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import streamlit as st

from shoal.dashboard.parts import places, widget_values, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.errors import TrainingError
from shoal.people.deeds import why_not
from shoal.people.rights import SERVICE, Verb
from shoal.runs import awaiting
from shoal.runs.launch import Run, launch, launch_job
from shoal.settings.config import RunConfig
from shoal.words import duration


class ButtonState(TypedDict):
    """What Streamlit's buttons take."""

    disabled: bool
    help: str | None


REFRESH = 0.4  # seconds between two looks at a run
SELDOM = 3.0  # of a run that has ended, which hardly ever goes on
SOON, LOOK = 1.5, 0.02  # seconds: an answer that comes so soon needs no bar, and nothing flickers


def start(config: RunConfig) -> None:
    """A run, and the way to its page; or why there is none."""
    try:
        run = launch(config)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The run was not started")
        return
    places.stay(run=run.id)
    st.rerun()


def asleep(otherwise: str | None = None) -> ButtonState:
    """For a button that starts something: asleep, with the reason, for whoever may not; else with its usual help."""
    refused = why_not(Verb.START, SERVICE)
    return {"disabled": bool(refused), "help": refused or otherwise}


def answered(task: str, config: RunConfig, arguments: Mapping[str, Any] | None = None, anew: bool = False) -> Run:
    """A job, started unless it was done before or is under way; waits a moment for a quick answer."""
    run = launch_job(task, config, arguments, anew)
    awaiting.renew(run.directory)
    if run.state == "interrupted":
        run = launch_job(task, config, arguments, anew=True)
    deadline = time.monotonic() + SOON
    while run.is_active and time.monotonic() < deadline:
        time.sleep(LOOK)
    return run


def watch(run: Run, what: str) -> None:
    """The bar of a run that goes on; the whole page is drawn again when it has ended. Who shows it waits for it."""
    _bar(run, what, places.asked_for())


@st.fragment(run_every=REFRESH)
def _bar(run: Run, what: str, address: dict[str, str]) -> None:
    if not run.is_active:
        if places.is_asked_for(address):
            widget_values.draw_anew()
        return  # a bar at its end would say that it goes on
    awaiting.renew(run.directory)  # a browser that is closed or elsewhere does not ask, and a job ends for want of it
    stage, fraction = run.progress
    with st.container(border=True):
        line(f"{what}: {stage}, {fraction:.0%}{estimate(run, fraction)}")
        st.progress(min(1.0, max(0.0, fraction)))


def until_resumed(run: Run) -> None:
    """Nothing to see; the whole page is drawn again when the run goes on: somebody may resume it in another tab."""
    _ended(run, places.asked_for())


@st.fragment(run_every=SELDOM)
def _ended(run: Run, address: dict[str, str]) -> None:
    if run.is_active and places.is_asked_for(address):
        widget_values.draw_anew()


def on_the_way(run: Run, show: Callable[[Run], None]) -> None:
    """The same with what there is so far, which `show` draws each time."""
    _shown(run, show, places.asked_for())


@st.fragment(run_every=REFRESH)
def _shown(run: Run, show: Callable[[Run], None], address: dict[str, str]) -> None:
    if not run.is_active:
        if places.is_asked_for(address):
            widget_values.draw_anew()
        return
    awaiting.renew(run.directory)
    with st.container(border=True):
        show(run)


def estimate(run: Run, fraction: float) -> str:
    """How long this stage may still take, once enough of it is done to tell."""
    since = run.started_at
    if since is None or not 0.05 < fraction < 1:
        return ""
    left = (time.time() - since) * (1 - fraction) / fraction
    return f", about {duration(left)} left" if left >= 1 else ""
