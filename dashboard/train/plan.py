"""What more machines would bring for the run at hand: seconds over nodes, asked for by a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.waiting import answered, watch
from shoal.settings.config import RunConfig
from shoal.settings.meaning import PLANNED
from shoal.settings.values import page_config
from shoal.settings.when import LOSSES, NETWORK
from shoal.words import duration, plural

NODES = (1, 2, 4, 8, 16, 32, 64)
NETWORKS = {  # as a person writes them for `shoal plan`: bandwidth, latency one way
    "10Gbit,0.5ms": "fast: 10 Gbit/s, 0.5 ms", "1Gbit,2ms": "usual: 1 Gbit/s, 2 ms",
    "50Mbit,20ms": "slow: 50 Mbit/s, 20 ms",
}  # fmt: skip
COLOURS = ("#808080", "#0072b2", "#d55e00", "#009e73", "#cc79a7")
QUIET = {"displayModeBar": False}


def show(config: RunConfig, prefix: str) -> None:
    """Folded away: it takes seconds of all cores, so it begins when somebody asks for it."""
    if config.model in (*LOSSES, NETWORK) or not config.target:
        return
    with st.expander("What more machines would bring", icon=":material/lan:"):
        network = st.selectbox("Network", list(NETWORKS), format_func=NETWORKS.__getitem__, key=f"{prefix}~network")
        wanted = _question(config), network
        if st.button("Plan it", icon=":material/query_stats:", key=f"{prefix}~plan"):
            st.session_state[f"{prefix}~planned"] = wanted
        if st.session_state.get(f"{prefix}~planned") != wanted:
            line("Rehearsed on a virtual clock, with what this machine was measured to take. It takes some seconds.")
            return
        run = answered("plan", wanted[0], {"network": network, "nodes": list(NODES)})
        if run.is_active:
            watch(run, "Plan")
        elif run.result is None:
            notice("error", wording.told(run.error) if run.error else "It was not finished.", "There is no plan")
        else:
            _answer(run.result)


def _question(config: RunConfig) -> RunConfig:
    """The config without what makes no difference to a plan: it is rehearsed once for all of those."""
    return page_config(config.file, {knob: getattr(config, knob) for knob in PLANNED})


def _answer(found: Mapping[str, Any]) -> None:
    st.plotly_chart(plan_chart(found["ways"]), key="plot:plan", config=QUIET, alt=describe_plan(found))
    for one in found["best"]:
        enough = plural(one["nodes"], "node")
        limit = one["limit_said"] or "more still help"
        line(f"{one['way']}: {duration(one['total'])} on {enough}. {limit[:1].upper()}{limit[1:]}.")
    sample = found["sample"]
    said = "the table itself" if sample["whole"] else f"{sample['rows']:,} rows in its place"
    line(
        f"Predicted, not measured: rehearsed with {said}; one worker a node, starting machines not included. "
        "`shoal plan` tells more."
    )


def plan_chart(ways: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Seconds from the file to the optimum over nodes, a line for each way; both axes in doublings."""
    figure = go.Figure()
    for colour, name in zip(COLOURS, dict.fromkeys(way["way"] for way in ways), strict=False):
        those = [way for way in ways if way["way"] == name]
        figure.add_scatter(
            x=[way["nodes"] for way in those], y=[way["total"] for way in those], mode="lines+markers", name=name,
            line={"color": colour, "width": 2}, marker={"size": 5},
            hovertemplate="%{x} nodes: %{y:.3g} s<extra>" + str(name) + "</extra>",
        )  # fmt: skip
    nodes = sorted({way["nodes"] for way in ways})
    figure.update_layout(
        height=280, margin={"l": 8, "r": 8, "t": 8, "b": 8}, dragmode=False, showlegend=True,
        legend={"orientation": "h", "y": -0.3, "x": 0},
        xaxis={"title": {"text": "Nodes"}, "type": "log", "tickvals": nodes, "ticktext": list(map(str, nodes)),
               "automargin": True},
        yaxis={"title": {"text": "Seconds"}, "type": "log", "automargin": True, "nticks": 5},
    )  # fmt: skip
    return figure


def describe_plan(found: Mapping[str, Any]) -> str:
    parts = []
    for one in found["best"]:
        first = next(way for way in found["ways"] if way["way"] == one["way"])
        parts.append(
            f"{one['way']} from {first['total']:.3g} s on {plural(first['nodes'], 'node')} to {one['total']:.3g} s on "
            f"{plural(one['nodes'], 'node')}"
        )
    return f"Seconds from the file to the optimum over nodes: {'; '.join(parts)}."
