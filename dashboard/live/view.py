"""One run, by its address: live while it goes on, then its result; what can be done to it is in `controls`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from shoal.dashboard.fits.result import show_result
from shoal.dashboard.forms import whose
from shoal.dashboard.live import controls
from shoal.dashboard.live import panels as live_run
from shoal.dashboard.live.network import show_network
from shoal.dashboard.parts import results, wording
from shoal.dashboard.parts.literal import heading, line, notice
from shoal.dashboard.parts.states import state_of
from shoal.dashboard.parts.waiting import until_resumed, watch
from shoal.dashboard.tables import at_hand
from shoal.dashboard.tables.needed import nothing_there
from shoal.dashboard.tables.sources import table_of
from shoal.errors import Reason, Standing, StateError, TrainingError
from shoal.files.parts import title
from shoal.library import notes
from shoal.people.deeds import why_not
from shoal.people.rights import Verb
from shoal.runs.folder import ACTIVE
from shoal.runs.launch import Run, find_run
from shoal.words import model_title

WAYS_ON = {
    "stopped": "Resume continues from the newest checkpoint; Fork begins a new run from one of them.",
    "failed": "Correct the cause and resume it from its newest checkpoint, or start again with other settings.",
    "interrupted": "Resume continues from the newest checkpoint; nothing that was saved is lost.",
}


def show(run_id: str) -> None:
    run = find_run(run_id)
    if run is None:
        nothing_there("The address names a run that is not on this machine; it may have been removed.")
        return
    config = run.config
    if "file" not in config:
        nothing_there(f"The run {run.id} is {state_of(run.state).word.lower()}. {wording.told(run.standing)}")
        return
    at_hand.take_up(config["file"])
    state = run.state
    _head(run, state, config)
    if run.is_gradient:
        _gradient(run, state, config)
    else:
        _exact(run, state, config)


def _head(run: Run, state: str, config: Mapping[str, Any]) -> None:
    table = table_of(config["file"])
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="run-head"):
        about = notes.read(run)
        heading(about.name or model_title(config["model"], config["target"]))
        known = state_of(state)
        st.badge(known.word, icon=known.symbol, color=known.badge)
        _naming(run, about)
        whose.sharing(run.directory)
    name = table.title if table else title(config["file"])
    what = f"{model_title(config['model'], config['target'])} · " if about.name else ""
    line(f"{what}{results.subtitle(dict(config), name)} · run {run.id}{_lineage(run)}")


def _naming(run: Run, about: notes.About) -> None:
    held = why_not(Verb.CHANGE, run.directory)
    told = held or "Call this run by a name of your own."
    with st.popover("Name", icon=":material/edit:", type="tertiary", help=told, disabled=bool(held)):
        name = st.text_input("Name of the run", about.name, max_chars=notes.LONGEST_NAME, key=f"name:{run.id}")
        if st.button("Save name", type="primary", key="name:save"):
            try:
                notes.give_name(run, name)
            except (TrainingError, OSError) as error:
                notice("error", wording.told(error))
                return
            st.rerun()


def _lineage(run: Run) -> str:
    origin = run.job.get("forked_from")
    return f" · forked from {origin.get('run')}, round {origin.get('step')}" if isinstance(origin, dict) else ""


# ------------------------------------------------------------------ exact fits


def _exact(run: Run, state: str, config: Mapping[str, Any]) -> None:
    if state in ACTIVE:
        watch(run, "Fitting")
        st.caption("The fit runs in a process of its own. Close this tab if you like; this address finds it again.")
        return
    with st.container(horizontal=True, key="controls"):
        controls.change_settings(run, config)
    if run.result:
        _result(run)
    else:
        notice("error", wording.told(run.error), "This fit did not finish")


def _result(run: Run) -> None:
    try:
        report = run.report
    except StateError as error:
        notice("error", wording.told(error), "The result cannot be read")
        return
    if report and report.network and not report.network.hidden:  # a module that came from Python
        show_network(run, report, report.network)
    elif report:
        show_result(run, report)


# ------------------------------------------------------------------ gradient runs


def _gradient(run: Run, state: str, config: Mapping[str, Any]) -> None:
    active = state in ACTIVE
    if not active:
        until_resumed(run)
        _ending(run.standing)
    controls.bar(run, state, config)
    if not active and run.result:
        tab_result, tab_training = st.tabs(["Result", "Training"])
        with tab_result:
            _result(run)
        with tab_training:
            live_run.tiles(run, state, config, active)
            live_run.panels(run, state, config, active)
        return
    if state == "queued":
        _waiting(run.standing)
    elif state == "paused":
        notice("info", f"{_sentence(run.standing)} Workers keep their place until you resume it.", "Paused")
    live_run.tiles(run, state, config, active)
    live_run.panels(run, state, config, active)


def _waiting(standing: Standing) -> None:
    """Why it does not run just now: its turn has not come, or it was killed and rests before it goes on."""
    if standing.reason == Reason.KILLED:
        saved = "Nothing that was saved is lost: it begins with its newest checkpoint, even when this tab is closed."
        notice("warning", f"{_sentence(standing)} {saved}", "Its process was killed")
    else:
        notice(
            "info", "Gradient runs take turns. It starts automatically, even when this tab is closed.", "In the queue"
        )


def _ending(standing: Standing) -> None:
    state, text = standing.state, _sentence(standing)
    if state == "finished":
        notice("success", text, "Finished")
    elif state == "stopped":
        notice("info", f"{text} {WAYS_ON[state]}", "Stopped")
    elif state in WAYS_ON:
        notice("error", f"{text} {WAYS_ON[state]}", state_of(state).word)


def _sentence(standing: Standing) -> str:
    text = wording.told(standing)
    return text if not text else f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")
