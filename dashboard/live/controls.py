"""What a person can do to a gradient run: the buttons that its state has a use for, and what became of a click."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.tables.sources import table_of
from shoal.errors import StateError, TrainingError
from shoal.people.deeds import why_not
from shoal.people.rights import SERVICE, Verb
from shoal.runs import commands, launch
from shoal.runs.documents import RESUMABLE
from shoal.runs.folder import ACTIVE
from shoal.runs.launch import Run
from shoal.settings.config import COMPRESSIONS, RunConfig
from shoal.settings.text import from_yaml
from shoal.settings.values import said_on_page
from shoal.settings.when import is_penalised

SETTLED = 1.5  # seconds to wait for what became of a command; it is on the timeline in any case
LOOK = 1.0  # seconds between two looks for the first workers
WIDTH = 320  # pixels of what pops up: it fits a phone
FORK_KNOBS = ("learning_rate", "alpha", "epochs", "tolerance")
ON_ITS_OWN = (
    "This run is one process, so there is no worker to add, remove or break. "
    "To have workers that come and go, start a run with worker processes."
)
HARM = {
    "kill": ("Kill", "Its process ends at once. The loss is noticed within moments, its work goes to the others, "
             "and a new process takes its place."),
    "hang": ("Hang", "It stops answering but stays. It is given up when its time is over, its work goes to the "
             "others, and a new process takes its place."),
    "slow": ("Slow down", "Its computing takes four times as long. Others wait for it, or get ahead of it, depending "
             "on how the run is synchronised; the curve of rows a second shows it."),
}  # fmt: skip


def bar(run: Run, state: str, config: Mapping[str, Any]) -> None:
    """The buttons that make sense now, in one line, and what became of the last one."""
    held = why_not(Verb.CHANGE, run.directory)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="controls"):
        if held and state in ACTIVE:
            line(held)
        elif state in ("running", "paused"):
            _while_it_trains(run, state, config)
        elif state in ("queued", "preparing"):
            _stop(run, "It has not begun to train, so there will be no model.")
        elif state == "stopping":
            st.button("Stopping", icon=":material/stop:", disabled=True, help="It ends when the work in hand is done.")
        else:
            _after_it_ended(run, state, config, held)
    _outcome(run)


# ------------------------------------------------------------------ a run that trains


def _while_it_trains(run: Run, state: str, config: Mapping[str, Any]) -> None:
    if state == "running":
        _button(run, "Pause", "pause", "pause", "Workers finish what they have in hand and wait; nothing is lost.")
    else:
        _button(run, "Resume", "play_arrow", "resume", "Continue from here.", kind="primary")
    _button(run, "Checkpoint", "save", "checkpoint", "Save the run as it is now, to continue or fork from here.")
    with st.popover("Steer", icon=":material/tune:", help="Change settings while it trains."), _narrow():
        _steer(run, config)
    ranks, alone = _workers(run)
    with st.popover("Workers", icon=":material/group:", help="Add or remove workers."), _narrow():
        _staff(run, ranks, alone)
    with st.popover("Break it", icon=":material/bolt:", help="See how the run copes with a broken worker."), _narrow():
        break_it(run, ranks, alone)
    if not ranks:
        _until_workers_are_known(run)
    _stop(run, "It ends with the model it has by then, and can be resumed.")


def _narrow() -> Any:
    """Popovers are as wide as their widest line otherwise, and hide what one wants to watch."""
    return st.container(width=WIDTH)


def _button(run: Run, label: str, icon: str, command: str, help_: str, kind: Any = "secondary") -> None:
    # Not by callbacks: after a restart of the dashboard the first click begins a session, which knows of none yet.
    if st.button(label, icon=f":material/{icon}:", help=help_, type=kind, key=f"do:{command}"):
        send_now(run, label, command)


def _stop(run: Run, then: str) -> None:
    with st.popover("Stop", icon=":material/stop:"), _narrow():
        st.write(f"Stop this run? {then}")
        if st.button("Stop the run", type="primary", key="do:stop"):
            send_now(run, "Stop", "stop")


def _steer(run: Run, config: Mapping[str, Any]) -> None:
    st.caption("What you leave empty stays as it is. Changes take effect from the next round on.")
    with st.form("steer", border=False):
        rate = st.number_input(
            "Learning rate", min_value=0.0, value=None, format="%g", placeholder="as it is",
            help="The length of a step. Twice as long may be twice as quick, or go astray.", key="set:learning_rate",
        )  # fmt: skip
        auto = st.checkbox(
            "Back to the automatic learning rate", key="set:auto", help="From the curvature of the data."
        )
        values: dict[str, Any] = {"learning_rate": "auto" if auto else rate}
        if _has_alpha(config):
            values["alpha"] = st.number_input(
                "Penalty strength (alpha)", min_value=0.0, value=None, format="%g", placeholder="as it is",
                help="The model is another one from then on; the loss and the optimum jump.", key="set:alpha",
            )  # fmt: skip
        if config.get("mode") in ("ssp", "async"):
            values["staleness"] = st.number_input(
                "Maximum staleness (updates)", min_value=0, value=None, placeholder="as it is", key="set:staleness",
                help="How many updates a worker's weights may be behind before it has to wait.",
            )  # fmt: skip
        values["compression"] = st.selectbox(
            "Gradient compression", COMPRESSIONS, index=None, placeholder="as it is", key="set:compression",
            format_func=lambda choice: wording.choice_for("compression", choice), help=wording.help_for("compression"),
        )  # fmt: skip
        if st.form_submit_button("Apply", type="primary", key="do:set"):
            changes = {name: value for name, value in values.items() if value is not None}
            if changes:
                send_now(run, "Steer", "set", changes)


def _staff(run: Run, ranks: list[int], alone: bool) -> None:
    if alone:
        st.caption(ON_ITS_OWN)
    if st.button("Add a worker", icon=":material/person_add:", disabled=alone, key="do:add_worker"):
        send_now(run, "Add a worker", "add_worker")
    rank = _choose(ranks, "Worker to remove", "leaver", alone)
    if st.button(
        "Remove it", icon=":material/person_remove:", key="do:remove_worker", disabled=alone or len(ranks) < 2,
        help="The last worker cannot be removed. Pause or stop the run instead." if len(ranks) < 2
        else "It leaves when it has done what it is doing.",
    ):  # fmt: skip
        send_now(run, f"Remove worker {rank}", "remove_worker", {"rank": rank})


def break_it(run: Run, ranks: list[int], alone: bool) -> None:
    """`ranks` are those of the workers that are here."""
    st.caption(ON_ITS_OWN if alone else "No row is lost or counted twice, whatever you do here. Watch the timeline.")
    if ranks and (chosen := st.session_state.get("victim")) is not None:
        ranks = sorted({*ranks, chosen})  # also while it is away: the next deed is meant for it, not for another
    rank = _choose(ranks, "Worker", "victim", alone)
    for deed, (label, story) in HARM.items():
        if st.button(label, key=f"do:{deed}", disabled=alone or rank is None):
            send_now(run, f"{label} worker {rank}", f"{deed}_worker", {"rank": rank})
        st.caption(story)


def _choose(ranks: list[int], label: str, key: str, alone: bool) -> int | None:
    if not ranks:
        st.caption("No worker is here at this moment.")
        return None
    if st.session_state.get(key) not in ranks:
        st.session_state.pop(key, None)
    chosen: int | None = st.selectbox(
        label, ranks, index=len(ranks) - 1, format_func=lambda rank: f"Worker {rank}", key=key, disabled=alone
    )
    return chosen


def _workers(run: Run) -> tuple[list[int], bool]:
    """Who is here, and whether that is the run's own process."""
    try:
        with commands.metrics_of(run) as storage:
            here = storage.present_workers() if storage else []
    except TrainingError:
        return [], False
    return [sample.rank for sample in here], bool(here) and all(sample.pid == run.pid for sample in here)


@st.fragment(run_every=LOOK)
def _until_workers_are_known(run: Run) -> None:
    """Their first samples come a moment after the run begins to train; the menus are drawn again with them."""
    if _workers(run)[0]:
        st.rerun()


# ------------------------------------------------------------------ a run that has ended


def _after_it_ended(run: Run, state: str, config: Mapping[str, Any], held: str) -> None:
    """`held` says why whoever looks may not change it."""
    if state in RESUMABLE:
        help_ = held or "Continue from its newest checkpoint; its curves continue too."
        how: dict[str, Any] = {"icon": ":material/play_arrow:", "type": "primary", "key": "do:resume", "help": help_}
        if st.button("Resume", disabled=bool(held), **how):
            _attempt(run, "Resume", lambda: launch.resume(run))
            st.rerun()
    if run.checkpoints_path.is_dir():
        new = why_not(Verb.START, SERVICE)
        told = new or "A new run from one of its checkpoints."
        with st.popover("Fork", icon=":material/call_split:", help=told, disabled=bool(new)), _narrow():
            _fork_form(run, config)
    change_settings(run, config)


def change_settings(run: Run, config: Mapping[str, Any]) -> None:
    table = table_of(config.get("file", ""))
    if table and st.button(
        "Change settings", icon=":material/tune:", key="change", help="A new run on this table, with other settings."
    ):
        places.go("train", data=table.key, like=run.id)


def _has_alpha(config: Mapping[str, Any]) -> bool:
    return is_penalised({**RunConfig().as_dict(), **config})


def _fork_form(run: Run, config: Mapping[str, Any]) -> None:
    """Which checkpoint, and the few knobs that people change; all others by their names."""
    st.caption("A new run begins from a checkpoint of this one. What you leave empty stays as it is.")
    steps = _steps(run)
    if not steps:
        st.caption("There is no checkpoint yet.")
        return
    with st.form("fork", border=False):
        step = st.selectbox(
            "From the checkpoint of", steps, format_func=lambda s: f"round {s:,}", key="fork:step",
            help="Weights, and where in the data the run was, are as they were then.",
        )  # fmt: skip
        changes: dict[str, Any] = {}
        for knob in FORK_KNOBS:
            if knob == "alpha" and not _has_alpha(config):
                continue
            changes[knob] = st.number_input(
                wording.LABELS[knob], min_value=0.0, value=None, format="%g", key=f"fork:{knob}",
                placeholder=f"{config.get(knob) or 'automatic'}", help=wording.help_for(knob),
            )  # fmt: skip
        more = st.text_area(
            "Other settings, as YAML", key="fork:more", placeholder="mode: async\nstaleness: 8", height=90,
            help="One a line, by the names that the command line and configuration files use.",
        )  # fmt: skip
        if st.form_submit_button("Start the fork", type="primary", key="do:fork"):
            _fork(run, step, {name: value for name, value in changes.items() if value is not None}, more)


def _fork(run: Run, step: int, changes: dict[str, Any], more: str) -> None:
    made: list[Run] = []
    _attempt(run, "Fork", lambda: made.append(launch.fork(run, step, {**changes, **_written(run, more)})))
    if made:
        places.stay(run=made[0].id)
    st.rerun()


def _written(run: Run, text: str) -> dict[str, Any]:
    """What a person wrote; the fork reads the rows of its checkpoint, and its model is kept with it."""
    return said_on_page(from_yaml(text), str(run.config.get("file", "")))


def _steps(run: Run) -> list[int]:
    """The checkpoints to choose from, the newest first; whether one is whole is seen when it is read."""
    names = [path.stem for path in run.checkpoints_path.glob("**/step-*.ckpt")]
    return sorted({int(name.removeprefix("step-")) for name in names}, reverse=True)


# ------------------------------------------------------------------ what became of it


def send_now(run: Run, label: str, command: str, arguments: Mapping[str, Any] | None = None) -> None:
    """Send it, and draw the page anew for the state that follows."""
    send(run, label, command, arguments or {})
    st.rerun()


def send(run: Run, label: str, command: str, arguments: Mapping[str, Any]) -> None:
    """Leave a command and wait a moment for its outcome, which the page shows when it is drawn next."""

    def act() -> str:
        number = commands.post(run, command, arguments)
        settled = commands.wait_settled(run, number, SETTLED)
        if settled.outcome not in (None, "done"):
            raise StateError(str(settled.outcome))
        if settled.outcome is None:
            return "on its way; the timeline shows when it takes effect"
        return "done" if settled.round is None else f"done, in effect from round {settled.round:,}"

    _attempt(run, label, act)


def _attempt(run: Run, label: str, act: Callable[[], Any]) -> None:
    try:
        said, went_well = act(), True
    except (TrainingError, OSError) as error:
        said, went_well = wording.told(error), False
    text = said if isinstance(said, str) else "done"
    st.session_state[f"outcome:{run.id}"] = (label, text, went_well)


def _outcome(run: Run) -> None:
    found = st.session_state.pop(f"outcome:{run.id}", None)
    if found is None:
        return
    label, text, went_well = found
    if went_well:
        st.toast(f"{label}: {text}.", icon=":material/check:")
    else:
        notice("warning", text, f"{label}: not done")
