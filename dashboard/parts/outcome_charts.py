"""How a model tells yes from no, or classes apart, as Plotly figures. No Streamlit, no files."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from shoal.results.outcome import CalibrationBin, ThresholdCurve
from shoal.results.thresholds import calls_at
from shoal.words import shortened

FIELDS = 15  # classes up to which numbers are written into the fields
LINE, GUIDE = "#0b8378", "#808080"
PLAIN = "<extra></extra>"  # no name of the line beside what is hovered at


def roc_chart(curve: ThresholdCurve, threshold: float) -> go.Figure:
    """The share of yes rows that are found against the share of no rows that are called yes."""
    found = [0.0, *(hits / max(curve.yes, 1) for hits in curve.hits[::-1]), 1.0]
    called = [0.0, *(alarms / max(curve.no, 1) for alarms in curve.alarms[::-1]), 1.0]
    now = calls_at(curve, threshold)
    figure = go.Figure([
        _diagonal(),
        go.Scatter(x=called, y=found, mode="lines", line={"color": LINE, "width": 2},
                   hovertemplate="no rows called yes %{x:.1%}<br>yes rows found %{y:.1%}<extra></extra>"),
        _point(now.alarms / max(curve.no, 1), now.recall),
    ])  # fmt: skip
    return _square(figure, "No rows called yes", "Yes rows found")


def precision_chart(curve: ThresholdCurve, threshold: float) -> go.Figure:
    """The share of calls that are right against the share of yes rows that are found; dotted: calling every row yes."""
    found = [hits / max(curve.yes, 1) for hits in curve.hits]
    right = [hits / max(hits + alarms, 1) for hits, alarms in zip(curve.hits, curve.alarms, strict=True)]
    now, share = calls_at(curve, threshold), curve.yes / max(curve.yes + curve.no, 1)
    figure = go.Figure([
        _guide([0, 1], [share, share]),
        go.Scatter(x=found, y=right, mode="lines", line={"color": LINE, "width": 2}, customdata=curve.thresholds,
                   hovertemplate="from %{customdata:.3f} on<br>yes found %{x:.1%}<br>calls right %{y:.1%}" + PLAIN),
        _point(now.recall, now.precision),
    ])  # fmt: skip
    return _square(figure, "Yes rows found", "Calls that are right")


def gains_chart(curve: ThresholdCurve, threshold: float) -> go.Figure:
    """The share of yes rows among those with the highest probabilities; dotted: rows in any order, and in the best."""
    rows = max(curve.yes + curve.no, 1)
    called = [0.0, *((h + a) / rows for h, a in zip(curve.hits[::-1], curve.alarms[::-1], strict=True)), 1.0]
    found = [0.0, *(hits / max(curve.yes, 1) for hits in curve.hits[::-1]), 1.0]
    lift = [y / x if x else None for x, y in zip(called, found, strict=True)]
    now = calls_at(curve, threshold)
    figure = go.Figure([
        _diagonal(),
        _guide([0, curve.yes / rows, 1], [0, 1, 1]),
        go.Scatter(x=called, y=found, mode="lines", line={"color": LINE, "width": 2}, customdata=lift,
                   hovertemplate="first %{x:.1%} of rows<br>yes rows found %{y:.1%}<br>lift %{customdata:.2f}" + PLAIN),
        _point((now.hits + now.alarms) / rows, now.recall),
    ])  # fmt: skip
    return _square(figure, "Rows, highest probability first", "Yes rows found")


def lift_at(curve: ThresholdCurve, share: float) -> float | None:
    """How many times as many yes rows are among this share of rows with the highest probabilities as among all.

    Rows between two kept thresholds count as if yes and no were mixed evenly, as those of one probability are.
    """
    wanted = share * (curve.yes + curve.no)
    if not curve.yes or not wanted:
        return None
    points = [(0, 0), *((h + a, h) for h, a in zip(curve.hits[::-1], curve.alarms[::-1], strict=True))]
    for (before, fewer), (called, hits) in itertools.pairwise(points):
        if called >= wanted:
            found = fewer + (hits - fewer) * (wanted - before) / (called - before)
            return found / wanted / (curve.yes / (curve.yes + curve.no))
    return None


def calibration_chart(bins: tuple[CalibrationBin, ...]) -> go.Figure:
    """What was said of tenths of the rows, and what came, with 95 % intervals; on the line it is honest."""
    above = [one.high - one.actual for one in bins]
    below = [one.actual - one.low for one in bins]
    figure = go.Figure([
        _diagonal(),
        go.Scatter(x=[one.predicted for one in bins], y=[one.actual for one in bins], mode="markers",
                   marker={"color": LINE, "size": 9},
                   error_y={"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": GUIDE},
                   hovertext=[f"{one.rows:,} rows" for one in bins],
                   hovertemplate="said %{x:.1%}, came %{y:.1%}<br>%{hovertext}<extra></extra>"),
    ])  # fmt: skip
    return _square(figure, "Probability that was said", "Share that was yes")


def confusion_chart(classes: Sequence[str], calls: Sequence[Sequence[int]]) -> go.Figure:
    """What rows of each class are called: the share in colour, the number in the field; right calls are on the
    diagonal."""
    shares = [[count / (sum(line) or 1) for count in line] for line in calls]
    names = [shortened(name, 24) for name in classes]
    places = list(range(len(names)))
    figure = go.Figure(
        go.Heatmap(
            z=shares, x=places, y=places, zmin=0.0, zmax=1.0, colorscale=[[0.0, "rgba(11,131,120,0)"], [1.0, LINE]],
            text=calls, texttemplate="%{text:,}" if len(names) <= FIELDS else "", showscale=False, xgap=1, ygap=1,
            customdata=[[(is_, called) for called in classes] for is_ in classes],
            hovertemplate="is %{customdata[0]}, called %{customdata[1]}<br>%{text:,} rows, %{z:.1%}<extra></extra>",
        )
    )  # fmt: skip
    bare = {"showgrid": False, "zeroline": False}
    axis: dict[str, Any] = {"tickvals": places, "ticktext": names, "automargin": True, **bare}
    return figure.update_layout(
        height=min(720, 160 + 40 * len(names)), margin={"l": 8, "r": 8, "t": 8, "b": 8}, dragmode=False,
        xaxis={**axis, "title": {"text": "Called"}},
        yaxis={**axis, "title": {"text": "Is"}, "autorange": "reversed"},
    )  # fmt: skip


def _diagonal() -> go.Scatter:
    return _guide([0, 1], [0, 1])


def _guide(x: list[float], y: list[float]) -> go.Scatter:
    return go.Scatter(x=x, y=y, mode="lines", line={"color": GUIDE, "dash": "dot", "width": 1}, hoverinfo="skip")


def _point(x: float | None, y: float | None) -> go.Scatter:
    """Where the chosen threshold lies; nowhere, if nothing is called yes."""
    there = x is not None and y is not None
    return go.Scatter(
        x=[x] if there else [], y=[y] if there else [], mode="markers", marker={"color": LINE, "size": 11},
        hoverinfo="skip",
    )  # fmt: skip


def _square(figure: go.Figure, x: str, y: str) -> go.Figure:
    axis: dict[str, Any] = {"range": [-0.02, 1.02], "tickformat": ".0%", "nticks": 6, "automargin": True}
    return figure.update_layout(
        height=380, margin={"l": 8, "r": 8, "t": 8, "b": 8}, showlegend=False, dragmode=False,
        xaxis={**axis, "title": {"text": x}}, yaxis={**axis, "title": {"text": y}},
    )  # fmt: skip
