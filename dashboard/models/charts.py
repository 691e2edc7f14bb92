"""Charts of how a model predicts, as pure functions of a diagnosis: a figure and its text alternative."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from shoal.dashboard.parts.charts import DOWN, UP, WHISKER, axis_text

Found = dict[str, Any]
POINT = {"train": 5, "test": 6}  # pixels
SYMBOL = {"train": "circle", "test": "diamond"}
COLOUR = {"train": UP, "test": DOWN}
DENSITY = [[0, "rgba(57,135,201,0)"], [0.0001, "rgba(57,135,201,0.14)"], [1, "rgba(57,135,201,0.95)"]]
HEIGHT = 380


def names_of(found: Found) -> dict[str, str]:
    """What the two kinds of rows are called; another file's rows are all of one kind."""
    return {"train": "Training rows" if found["own_data"] else "Rows of the file", "test": "Test rows"}


def is_sampled(found: Found) -> bool:
    return len(found["sample"]["row"]) < int(found["rows"])


def predicted_chart(found: Found) -> go.Figure:
    """Predicted against actual, with the diagonal on which a perfect model would put every row."""
    figure = go.Figure()
    if is_sampled(found):
        figure.add_trace(_density(found))
    for part, x, y, row in _points(found, residuals=False):
        figure.add_trace(_scatter(found, part, x, y, row, "actual"))
    ends = _ends(found)
    figure.add_trace(
        go.Scatter(x=ends, y=ends, mode="lines", line=_thin("dash"), name="Perfect prediction", hoverinfo="skip")
    )
    target = axis_text(found["target"])
    return _laid_out(figure, f"Predicted {target}", f"Actual {target}")


def residual_chart(found: Found) -> go.Figure:
    """Residuals against predictions, with their mean over all rows by bins of the prediction."""
    figure = go.Figure()
    for part, x, y, row in _points(found, residuals=True):
        figure.add_trace(_scatter(found, part, x, y, row, "residual"))
    figure.add_hline(0, line=_thin("dash"))
    curve = found["curve"]
    figure.add_trace(
        go.Scatter(
            x=[c["predicted"] for c in curve],
            y=[c["residual"] for c in curve],
            error_y={"array": [2 * c["standard_error"] for c in curve], "thickness": 1.2, "width": 3},
            mode="lines+markers",
            line={"color": "#3987c9", "width": 2},
            marker={"size": 6},
            name="Mean of all rows",
            hovertemplate="mean residual %{y:.4g}<br>near %{x:.4g}<extra></extra>",
        )
    )
    target = axis_text(found["target"])
    return _laid_out(figure, f"Predicted {target}", "Residual (actual − predicted)")


def histogram_chart(found: Found) -> go.Figure:
    """How often residuals of each size come, training and test rows stacked."""
    histogram, names = found["histogram"], names_of(found)
    edges = histogram["edges"]
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    figure = go.Figure()
    for part in ("train", "test"):
        if any(histogram[part]):
            figure.add_trace(
                go.Bar(
                    x=middles,
                    y=histogram[part],
                    width=edges[1] - edges[0],
                    name=names[part],
                    marker={"color": COLOUR[part]},
                    hovertemplate="%{y:,} rows near %{x:.4g}<extra></extra>",
                )
            )
    figure.add_vline(0, line=_thin("dash"))
    figure.update_layout(barmode="stack", bargap=0.03, legend_traceorder="normal")
    return _laid_out(figure, "Residual (actual − predicted)", "Rows")


def _points(found: Found, residuals: bool) -> list[tuple[str, list[float], list[float], list[int]]]:
    sample = found["sample"]
    parts = []
    for part, wanted in (("train", False), ("test", True)):
        chosen = [i for i, test in enumerate(sample["test"]) if test is wanted]
        if chosen:
            x = [sample["predicted"][i] for i in chosen]
            actual = [sample["actual"][i] for i in chosen]
            y = [a - p for a, p in zip(actual, x, strict=True)] if residuals else actual
            parts.append((part, x, y, [sample["row"][i] for i in chosen]))
    return parts


def _scatter(found: Found, part: str, x: list[float], y: list[float], row: list[int], what: str) -> go.Scatter:
    many = len(found["sample"]["row"]) > 500
    return go.Scatter(
        x=x,
        y=y,
        mode="markers",
        name=names_of(found)[part],
        marker={
            "color": COLOUR[part],
            "size": POINT[part] - (1 if many else 0),
            "symbol": SYMBOL[part],
            "opacity": 0.55 if many else 0.8,
        },
        customdata=row,
        hovertemplate=f"row %{{customdata:,}}<br>predicted %{{x:.5g}}<br>{what} %{{y:.5g}}<extra></extra>",
    )


def _density(found: Found) -> go.Heatmap:
    """All rows, counted: darker where there are more."""
    grid, edges = found["grid"], found["grid"]["edges"]
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    counts = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(grid["train"], grid["test"], strict=True)]
    return go.Heatmap(
        x=middles,
        y=middles,
        z=[[math.log1p(count) for count in row] for row in counts],
        customdata=counts,
        colorscale=DENSITY,
        showscale=False,
        name="All rows",
        hovertemplate="%{customdata:,} rows<br>predicted near %{x:.4g}<br>actual near %{y:.4g}<extra></extra>",
    )


def _ends(found: Found) -> list[float]:
    if is_sampled(found):
        edges = found["grid"]["edges"]
        return [edges[0], edges[-1]]
    return [
        min(found["low"]["actual"], found["low"]["predicted"]),
        max(found["high"]["actual"], found["high"]["predicted"]),
    ]


def _thin(dash: str) -> dict[str, Any]:
    return {"color": WHISKER, "width": 1.5, "dash": dash}


def _laid_out(figure: go.Figure, x: str, y: str) -> go.Figure:
    figure.update_layout(
        height=HEIGHT,
        margin={"l": 8, "r": 12, "t": 8, "b": 8},
        xaxis={"title": {"text": x}, "automargin": True, "nticks": 7, "zeroline": False},
        yaxis={"title": {"text": y}, "automargin": True, "nticks": 7, "zeroline": False},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hovermode="closest",
        dragmode=False,
    )
    return figure


# ------------------------------------------------------------------ for those who do not see them


def describe_predicted(found: Found) -> str:
    parts = ", ".join(f"{name}: R² {found[part]['r2']:.4g}" for part, name in _scored(found))
    return (
        f"Scatter chart of predicted against actual {found['target']} for {found['rows']:,} rows"
        f"{f' ({parts})' if parts else ''}. Points on the diagonal are predicted without error."
    )


def describe_residuals(found: Found) -> str:
    return f"Scatter chart of residuals against predicted {found['target']}. {curvature(found)}"


def describe_histogram(found: Found) -> str:
    at = quantiles_of(found)
    return (
        f"Histogram of the residuals of {found['rows']:,} rows: half lie between {at[0.25]:.4g} and {at[0.75]:.4g}, "
        f"nine in ten between {at[0.05]:.4g} and {at[0.95]:.4g}."
    )


def quantiles_of(found: Found) -> dict[float, float]:
    return {q["rank"]: q["value"] for q in found["quantiles"]}


def _scored(found: Found) -> list[tuple[str, str]]:
    return [(part, name) for part, name in names_of(found).items() if found[part]["r2"] is not None]


def curvature(found: Found) -> str:
    """Whether the mean residual stays near zero along the prediction, in plain words."""
    away = [c for c in found["curve"] if abs(c["residual"]) > 3 * c["standard_error"] and c["rows"] > 1]
    if len(away) < max(2, len(found["curve"]) // 5):
        return "The mean residual stays near zero for small and large predictions alike: no bend to speak of."
    worst = max(away, key=lambda c: abs(c["residual"]))
    side = "above" if worst["residual"] > 0 else "below"
    return (
        f"The mean residual leaves zero in {len(away)} of {len(found['curve'])} bins: near a prediction of "
        f"{worst['predicted']:.4g} the truth is {abs(worst['residual']):.4g} {side} it on average. "
        "A straight line misses something there."
    )
