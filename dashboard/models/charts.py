"""Charts of how a model predicts as Plotly figures; what is in them is described in `shoal.charts`."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from shoal.charts.description import Axis, Bars, Chart, Curve, Density, Dots, Guide
from shoal.dashboard.parts.charts import DOWN, UP, WHISKER, axis_text

POINT = {"train": 5, "test": 6}  # pixels
SYMBOL = {"train": "circle", "test": "diamond"}
COLOUR = {"train": UP, "test": DOWN}
BLUE = "#3987c9"
DENSITY = [[0, "rgba(57,135,201,0)"], [0.0001, "rgba(57,135,201,0.14)"], [1, "rgba(57,135,201,0.95)"]]
HEIGHT = 380
MANY = 500  # points that are drawn smaller and lighter
THIN = {"color": WHISKER, "width": 1.5, "dash": "dash"}


def drawn(chart: Chart) -> go.Figure:
    figure = go.Figure()
    many = sum(len(each.x) for each in chart.series if isinstance(each, Dots)) > MANY
    for each in sorted(chart.series, key=lambda each: isinstance(each, Guide)):  # guides last in the legend
        if isinstance(each, Guide):
            _guide(figure, each, chart)
        else:
            figure.add_trace(_dots(each, many) if isinstance(each, Dots) else _trace(each))
    if any(isinstance(each, Bars) for each in chart.series):
        figure.update_layout(barmode="stack", bargap=0.03, legend_traceorder="normal")
    figure.update_layout(
        height=HEIGHT,
        margin={"l": 8, "r": 12, "t": 8, "b": 8},
        xaxis=_axis(chart.x),
        yaxis=_axis(chart.y),
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hovermode="closest",
        dragmode=False,
    )
    return figure


def _axis(axis: Axis) -> dict[str, Any]:
    title = f"{axis.what} {axis_text(axis.of)}" if axis.of else axis.what
    return {"title": {"text": title}, "automargin": True, "nticks": 7, "zeroline": False}


def _guide(figure: go.Figure, guide: Guide, chart: Chart) -> None:
    if guide.where == "level":
        figure.add_hline(0, line=THIN)
    elif guide.where == "upright":
        figure.add_vline(0, line=THIN)
    else:
        ends = [chart.x.low, chart.x.high]
        figure.add_trace(go.Scatter(x=ends, y=ends, mode="lines", line=THIN, name=guide.name, hoverinfo="skip"))


def _dots(dots: Dots, many: bool) -> go.Scatter:
    return go.Scatter(
        x=dots.x,
        y=dots.y,
        mode="markers",
        name=dots.name,
        marker={
            "color": COLOUR[dots.part],
            "size": POINT[dots.part] - (1 if many else 0),
            "symbol": SYMBOL[dots.part],
            "opacity": 0.55 if many else 0.8,
        },
        customdata=dots.rows,
        hovertemplate=f"row %{{customdata:,}}<br>predicted %{{x:.5g}}<br>{dots.what} %{{y:.5g}}<extra></extra>",
    )


def _trace(series: Curve | Bars | Density) -> Any:
    if isinstance(series, Curve):
        return go.Scatter(
            x=series.x,
            y=series.y,
            error_y={"array": series.spread, "thickness": 1.2, "width": 3},
            mode="lines+markers",
            line={"color": BLUE, "width": 2},
            marker={"size": 6},
            name=series.name,
            hovertemplate="mean residual %{y:.4g}<br>near %{x:.4g}<extra></extra>",
        )
    middles = [(a + b) / 2 for a, b in pairwise(series.edges)]
    if isinstance(series, Bars):
        return go.Bar(
            x=middles,
            y=series.counts,
            width=series.edges[1] - series.edges[0],
            name=series.name,
            marker={"color": COLOUR[series.part]},
            hovertemplate="%{y:,} rows near %{x:.4g}<extra></extra>",
        )
    return go.Heatmap(  # all rows, counted: darker where there are more
        x=middles,
        y=middles,
        z=[[math.log1p(count) for count in row] for row in series.counts],
        customdata=series.counts,
        colorscale=DENSITY,
        showscale=False,
        name=series.name,
        hovertemplate="%{customdata:,} rows<br>predicted near %{x:.4g}<br>actual near %{y:.4g}<extra></extra>",
    )
