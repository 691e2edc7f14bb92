"""Live panels as plain values: the scripts beside this draw whatever is described; what streams is said in `feed`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.parts.places import PLOTLY_ADDRESS
from shoal.dashboard.parts.scripts import joined

HERE = Path(__file__).parent
WAITING = "Waiting for the first round"
HEIGHT = 250  # pixels of a chart
FAINT = -1  # a colour a little off the background
AXES = [
    {"field": "round", "name": "Rounds", "title": "Round", "hover": ",d"},
    {"field": "epoch", "name": "Epochs", "title": "Epoch", "hover": ",.2f"},
    {"field": "seconds", "name": "Seconds", "title": "Seconds of training", "hover": ",.1f"},
]
SECONDS = AXES[2]

_component = st.components.v2.component(
    "shoal_live_plot",
    css=(HERE / "panels.css").read_text("utf-8"),
    js=joined(HERE, "stream", "panels", "charts", "spread", "lanes", "holders", "log", "view"),
    isolate_styles=False,  # Plotly puts its own style into the page's head
)

Panel = dict[str, Any]


def live_plot(run_id: str, state: str, panels: Sequence[Panel], *, key: str, live: bool, tells: bool = False) -> Any:
    """Draw panels from the stream of a run. With `tells` the page is drawn again when the run leaves this state.

    Its answer has `free`: the number of a slowed worker that a person wants freed, once.
    """
    return _component(
        key=key,
        data={
            "url": f"api/runs/{run_id}/stream",
            "plotly": PLOTLY_ADDRESS,
            "state": state,
            "panels": list(panels),
            "axes": AXES,
            "live": live,
            "tells": tells,
        },
        on_state_change=lambda: None,
        on_free_change=lambda: None,
    )


def series(field: str, name: str, color: int = 0, *, smooth: bool = False, stack: str = "") -> dict[str, Any]:
    """`color` is a place in the theme's palette or FAINT; `smooth` shows means over short stretches of time."""
    return {"field": field, "name": name, "color": color, "smooth": smooth, "stack": stack}


def chart(
    key: str, title: str, lines: Sequence[dict[str, Any]], *, hint: str = "", table: str = "rounds",
    unit: str = "number", log: bool = False, switch: bool = False, ticks: str = "", hover: str = ".5g",
    suffix: str = "", range: tuple[float, float] | None = None, from_zero: bool = False,
    unknown: str = "There is nothing to show.", height: int = HEIGHT, waiting: str = WAITING,
    each: str = "", optional: bool = False,
) -> Panel:  # fmt: skip
    """Curves over rounds or over host samples; `unknown` is said where none of the lines has a value, and an `optional`
    chart is not there then. With `each` there is a line for every column of the table, which are numbers of those."""
    return {
        "kind": "chart", "key": key, "title": title, "hint": hint, "series": list(lines), "table": table, "x": SECONDS,
        "by_rounds": table in ("rounds", "own"),
        "unit": unit, "log": log, "switch": switch, "ticks": ticks, "hover": hover, "suffix": suffix,
        "range": list(range) if range else None, "from_zero": from_zero, "unknown": unknown, "height": height,
        "waiting": waiting, "each": each, "optional": optional,
    }  # fmt: skip
