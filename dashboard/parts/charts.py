"""Bars of coefficients and of what they add to a prediction, as Plotly figures. No Streamlit, no files."""

from __future__ import annotations

import html
import textwrap
from typing import Any

import plotly.graph_objects as go

from shoal.charts.effects import Coefficient, not_zero
from shoal.words import shortened

UP, DOWN = "#0b8378", "#d55e00"  # told apart with any kind of colour vision; the direction says it as well
WHISKER = "#808080"  # stands out on white and on black
WRAP = 24  # characters of a name in a line
LINE, GAP = 15, 16  # pixels of a line of a name, and around each bar


def coefficient_chart(coefficients: list[Coefficient], target: str, per: str = "sd") -> go.Figure:
    """Horizontal bars, the largest on top, whiskers for intervals; long names are in full where the mouse rests."""
    bars = not_zero(coefficients)[::-1]
    labels = [_two_lines(c.name) for c in bars]
    figure = go.Figure(
        go.Bar(
            x=[c.value for c in bars],
            y=list(range(len(bars))),
            orientation="h",
            marker={"color": [UP if c.value > 0 else DOWN for c in bars], "cornerradius": 3},
            error_x=_whiskers(bars),
            hovertext=[_hover(c) for c in bars],
            hoverinfo="text",
        )
    )
    unit = "one standard deviation" if per == "sd" else "one unit"
    figure.update_layout(
        height=90 + _room(labels),
        margin={"l": 8, "r": 16, "t": 8, "b": 70},
        xaxis={
            "title": {"text": f"Change in {axis_text(target)}<br>for {unit} more"},
            "zeroline": True,
            "zerolinewidth": 1.5,
            "zerolinecolor": WHISKER,
            "nticks": 6,
            "automargin": True,
        },
        yaxis={"tickvals": list(range(len(bars))), "ticktext": labels, "automargin": True, "showgrid": False},
        bargap=0.35,
        dragmode=False,
        showlegend=False,
    )
    return figure


def contribution_chart(
    steps: list[tuple[str, float]], start: float, end: float, target: str, from_what: str
) -> go.Figure:
    """A waterfall from a typical row to this one: what each column adds, the largest first."""
    labels = [from_what, *(_two_lines(name) for name, _ in steps), "Prediction"]
    figure = go.Figure(
        go.Waterfall(
            orientation="h",
            y=list(range(len(labels))),
            x=[start, *(value for _, value in steps), end],
            measure=["absolute", *["relative"] * len(steps), "total"],
            increasing={"marker": {"color": UP}},
            decreasing={"marker": {"color": DOWN}},
            totals={"marker": {"color": WHISKER}},
            connector={"line": {"color": WHISKER, "width": 1, "dash": "dot"}},
            text=[f"{start:.5g}", *(f"{value:+.4g}" for _, value in steps), f"{end:.5g}"],
            textposition="outside",
            hoverinfo="text",
        )
    )
    low, high = _waterfall_range(start, [value for _, value in steps])
    figure.update_layout(
        height=70 + _room(labels),
        margin={"l": 8, "r": 16, "t": 8, "b": 48},
        xaxis={"title": {"text": axis_text(target)}, "range": [low, high], "nticks": 6, "automargin": True},
        yaxis={
            "tickvals": list(range(len(labels))), "ticktext": labels, "automargin": True, "showgrid": False,
            "autorange": "reversed",
        },
        bargap=0.35,
        dragmode=False,
        showlegend=False,
    )  # fmt: skip
    return figure


def _room(labels: list[str]) -> int:
    """Pixels for all bars: each has the same, so the label with the most lines decides."""
    return len(labels) * (LINE * max((label.count("<br>") + 1 for label in labels), default=1) + GAP)


def _waterfall_range(start: float, steps: list[float]) -> tuple[float, float]:
    """Wide enough for all sums on the way and the figures beside them; far from zero, zero is not in it."""
    sums = [start]
    for step in steps:
        sums.append(sums[-1] + step)
    low, high = min(sums), max(sums)
    room = (high - low) * 0.25 or abs(start) * 0.05 or 1.0
    return low - room, high + room


def describe_contributions(steps: list[tuple[str, float]], start: float, end: float, target: str) -> str:
    parts = [f"{name} {'raises' if value > 0 else 'lowers'} it by {abs(value):.4g}" for name, value in steps]
    changes = ", ".join(parts) if parts else "no column changes it"
    return f"Waterfall chart of {target}: a typical row has {start:.5g}; {changes}; the prediction is {end:.5g}."


def axis_text(name: str, most: int = 60) -> str:
    """A name from a file as the title of an axis: short, and none of it markup."""
    return _label(shortened(name, 40), most)


def _whiskers(bars: list[Coefficient]) -> dict[str, Any] | None:
    if not any(c.low is not None for c in bars):
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [0 if c.high is None else c.high - c.value for c in bars],
        "arrayminus": [0 if c.low is None else c.value - c.low for c in bars],
        "color": WHISKER,
        "thickness": 1.5,
        "width": 4,
    }


def _two_lines(name: str) -> str:
    """A name beside its bar; one that is too long is cut in the middle, which is where its lines meet."""
    label = _label(name)
    if label.count("<br>") < 2:
        return label
    cut = shortened(name, 2 * WRAP)
    return "<br>".join(html.escape(line, quote=False) for line in (cut[:WRAP], cut[WRAP:]))


def _label(name: str, width: int = WRAP) -> str:
    """A name over as many lines as it needs; Plotly knows some HTML, so the name's own must not count as such."""
    lines = textwrap.wrap(name, width, break_on_hyphens=False, drop_whitespace=False) or [" "]
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def _hover(c: Coefficient) -> str:
    interval = "" if c.low is None or c.high is None else f"<br>interval {c.low:.5g} to {c.high:.5g}"
    return f"{_label(c.name, 60)}<br>{c.value:.6g}{interval}"
