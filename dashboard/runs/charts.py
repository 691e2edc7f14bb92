"""Charts of several runs as pure functions: series in, a figure and its text alternative out. No Streamlit."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from shoal.dashboard.runs.differences import Side, Spread
from shoal.lazy.classes import dataclass
from shoal.metrics import Round
from shoal.words import shortened, term_shown

COLOURS = ("#0b8378", "#d55e00", "#3987c9", "#cc79a7", "#e69f00", "#8f6bb8")  # of the theme, the most unlike first
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")  # for those who do not see the colours
PATTERNS = ((1, 0), (9, 9), (3, 3), (9, 3, 3, 3), (15, 5), (15, 3, 3, 3))  # the same in pixels, drawn and left out
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "cross")
FLOOR = 1e-16  # the bottom of the axis of distances: doubles tell no more, and zero has no logarithm
MOST = 20  # coefficients in the chart
QUIET = "#808080"
AXES = {"time": "Seconds", "round": "Rounds", "epoch": "Epochs"}
AXIS_TITLES = {"round": "Round", "epoch": "Epoch", "time": "Seconds since the run began"}


@dataclass(frozen=True)
class RunCurve:
    """What is drawn over the course of a run."""

    key: str
    title: str
    about: str
    log: bool = False
    better: str = "lower"


CURVES = (
    RunCurve("loss", "Loss", "The objective with its penalty; lower is better."),
    RunCurve(
        "distance",
        "Distance to the optimum",
        "Share of the way that is left, on a log axis; lower is better.",
        log=True,
    ),
    RunCurve(
        "validation",
        "Score on test rows",
        "R², or the deviance explained, on rows kept for testing; 1 is perfect.",
        better="higher",
    ),
    RunCurve("rows_per_second", "Rows a second", "How fast rows were worked through.", better="higher"),
)

Series = Mapping[str, Sequence[Round]]  # by letter


def drawn(series: Series, curve: RunCurve) -> dict[str, list[Round]]:
    """Records that have this number, of runs that have any."""
    found = {letter: [r for r in rounds if _value(r, curve) is not None] for letter, rounds in series.items()}
    return {letter: rounds for letter, rounds in found.items() if rounds}


def _value(record: Round, curve: RunCurve) -> float | None:
    value = getattr(record, curve.key)
    if value is None or not math.isfinite(value):
        return None
    return max(float(value), FLOOR) if curve.log else float(value)


def _place(record: Round, axis: str) -> float:
    return {"round": record.round, "epoch": record.epoch, "time": record.seconds}[axis]


def curve_chart(series: Series, sides: Sequence[Side], curve: RunCurve, axis: str, log: bool = False) -> go.Figure:
    """One line a run, in its own colour and dashes; `log` is for those that have no log axis by themselves."""
    figure = go.Figure()
    found = drawn(series, curve)
    log = curve.log or (log and all((_value(r, curve) or 0) > 0 for rounds in found.values() for r in rounds))
    for i, side in enumerate(sides):
        rounds = found.get(side.letter)
        if rounds:
            figure.add_scatter(
                x=[_place(r, axis) for r in rounds], y=[_value(r, curve) for r in rounds], name=side.letter,
                mode="lines" if len(rounds) > 1 else "markers",
                line={"color": COLOURS[i], "dash": DASHES[i], "width": 2},
                hovertemplate=f"{side.letter}: %{{y:.4g}}<extra></extra>",
            )  # fmt: skip
    figure.update_layout(
        height=300, margin={"l": 8, "r": 8, "t": 8, "b": 8}, showlegend=False, hovermode="x unified",
        xaxis={"title": {"text": AXIS_TITLES[axis]}, "automargin": True, "nticks": 6},
        yaxis={"automargin": True, "nticks": 6, **({"type": "log", "exponentformat": "power"} if log else {})},
    )  # fmt: skip
    return figure


def describe_curve(series: Series, sides: Sequence[Side], curve: RunCurve) -> str:
    """The chart for those who do not see it."""
    found = drawn(series, curve)
    ends = [
        f"{side.letter} from {_value(found[side.letter][0], curve):.3g} to {_value(found[side.letter][-1], curve):.3g}"
        for side in sides
        if side.letter in found
    ]
    return f"{curve.title} of {len(ends)} runs, {curve.better} is better: {'; '.join(ends)}."


# ------------------------------------------------------------------ coefficients


def coefficient_chart(spreads: Sequence[Spread], sides: Sequence[Side]) -> go.Figure:
    """One row a column, the most different on top: a dot for each run, and a line from the least to the largest."""
    rows = list(spreads[:MOST])[::-1]
    figure = go.Figure()
    for y, spread in enumerate(rows):
        numbers = [value for value in spread.values if value is not None]
        figure.add_scatter(
            x=[min(numbers), max(numbers)],
            y=[y, y],
            mode="lines",
            line={"color": QUIET, "width": 1.5},
            hoverinfo="skip",
        )
    for i, side in enumerate(sides):
        there = [(y, spread.values[i]) for y, spread in enumerate(rows) if spread.values[i] is not None]
        figure.add_scatter(
            x=[value for _, value in there], y=[y for y, _ in there], mode="markers", name=side.letter,
            marker={"color": COLOURS[i], "symbol": SYMBOLS[i], "size": 10},
            hovertemplate=f"{side.letter}: %{{x:.6g}}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        height=110 + 30 * len(rows), margin={"l": 8, "r": 16, "t": 8, "b": 60}, showlegend=False, dragmode=False,
        xaxis={
            "title": {"text": "Change in the target for one standard deviation more"}, "zeroline": True,
            "zerolinecolor": QUIET, "automargin": True, "nticks": 6,
        },
        yaxis={
            "tickvals": list(range(len(rows))), "ticktext": [_label(term_shown(s.name)) for s in rows],
            "automargin": True,
        },
    )  # fmt: skip
    return figure


def describe_coefficients(spreads: Sequence[Spread], sides: Sequence[Side]) -> str:
    parts = []
    for spread in spreads[:5]:
        numbers = zip(sides, spread.values, strict=True)
        parts.append(
            f"{term_shown(spread.name)}: " + ", ".join(f"{s.letter} {v:.4g}" for s, v in numbers if v is not None)
        )
    return f"Coefficients that differ most between {len(sides)} runs. {'; '.join(parts)}."


def _label(name: str) -> str:
    """Plotly knows some HTML, so the name's own must not count as such."""
    return html.escape(shortened(name, 28), quote=False)


def swatch(place: int) -> str:
    """The CSS background that shows a run's line in a legend."""
    colour, steps, at = COLOURS[place], [], 0
    for i, length in enumerate(PATTERNS[place]):
        steps.append(f"{colour if i % 2 == 0 else 'transparent'} {at}px {at + length}px")
        at += length
    return f"repeating-linear-gradient(90deg, {', '.join(steps)})"
