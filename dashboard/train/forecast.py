"""The card beside the form: what the run will need, what speaks against it, and the button that starts it."""

from __future__ import annotations

import streamlit as st

from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.wording import SOLVERS
from shoal.errors import TrainingError
from shoal.results.answers.table import ColumnLook
from shoal.runs import slots, tickets
from shoal.runs.forecast import Forecast, readable
from shoal.settings.config import RunConfig
from shoal.settings.limits import MB
from shoal.settings.when import CLASSES
from shoal.words import MODELS, plural

TITLES = {
    "refused": "This cannot be solved exactly here",
    "memory": "Too little memory",
    "disk": "Too little disk",
    "tight": "It will just fit",
}


def show_forecast(found: Forecast, target: ColumnLook | None) -> None:
    """Memory and disk, and what to do where there is too little."""
    line(_size(found, target))
    left, right = st.columns(2)
    left.metric("Memory", readable(found.memory), help=_memory_help(found))
    right.metric("Disk", readable(found.disk) if found.disk >= MB else "0 MB", help=_disk_help(found))
    if found.state == "fine":
        line(found.room)
    else:
        kind = "error" if found.state == "refused" else "warning"
        notice(kind, f"{found.verdict} {found.advice}", TITLES[found.state])


def _size(found: Forecast, target: ColumnLook | None) -> str:
    """Of what is fitted: a row without the target is no use, and several classes have weights of their own."""
    shape, config = found.shape, found.config
    without = f" ({target.missing:,} of them without '{target.name}')" if target and target.missing else ""
    each = f" for each of {target.distinct} classes" if target and config.model == CLASSES else ""
    return (
        f"{MODELS[config.model]}, {SOLVERS[config.solver].lower()}: {plural(shape.rows, 'row')}{without}, "
        f"{plural(shape.design, 'weight')} to fit{each}"
    )


def _memory_help(found: Forecast) -> str:
    parts = found.parts
    return (
        f"An estimate for all processes together: the programs {readable(parts['programs'])}, "
        f"solving {readable(parts['solving'])}, rows in memory {readable(parts['rows'])}."
    )


def _disk_help(found: Forecast) -> str:
    blocks = f"The table itself is on disk already ({readable(found.parts['blocks'])})."
    if found.config.solver == "exact":
        return f"{blocks} An exact fit needs no more."
    return f"{blocks} Gradient steps keep a shuffled copy of the rows; half of this is free again once it is made."


def show_queue(config: RunConfig) -> bool:
    """Say so if the run will have to wait for others; whether it will."""
    if config.solver != "gradient":
        return False
    try:
        (total, free), need, ahead = tickets.room(), slots.slots_for(config), len(tickets.in_line())
    except TrainingError as error:  # a queue that nobody can read
        notice("error", error.message, "The queue cannot be read")
        return False
    if not total:
        line("It will wait: no run host of the team is up. Start one with: shoal run-host")
        return True
    if not ahead and free >= need:
        return False
    who = f"{plural(ahead, 'run')} ahead of it" if ahead else f"{plural(need, 'core')}, of which {free} free"
    line(f"It will wait in the queue: {who}. It then starts automatically.")
    return True
