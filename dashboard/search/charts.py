"""Charts of a search as pure functions: trials in, a figure and its text alternative out. No Streamlit, no files."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from shoal.dashboard.parts.charts import DOWN, UP
from shoal.dashboard.parts.wording import LABELS
from shoal.search.plan import Account, SearchPlan, Trial
from shoal.search.space import KNOBS, Choices, Range, Space, in_words, value_text

QUIET = "#808080"
# From the best to the last: light to dark on white as on black would vanish at one end, so blue over grey to orange.
SCALE = ("#0072b2", "#3d8fb8", "#7fa9b8", "#a9a9a2", "#c79a63", "#d97e2b", "#d55e00")
SYMBOLS = {"reached": "circle", "short": "circle-open", "pruned": "x-thin-open", "diverged": "triangle-up-open"}
NAMES = {"reached": "reached it", "short": "fell short", "pruned": "given up", "diverged": "diverged"}
ROW = 58  # pixels of one knob in the chart of all settings
WRAP = 15  # characters of a name in a line
UNUSED = -0.06  # where a trial is that has no such knob
MOST_LINES = 150
SECONDS = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 3)]  # marks of the axis


def scored(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.is_done and trial.score is not None]


# ------------------------------------------------------------------ history


def history_chart(trials: Sequence[Trial], plan: SearchPlan) -> go.Figure:
    """The score of every trial, and the best so far; under the line are those that reached the goal."""
    found, figure = scored(trials), go.Figure()
    for state, name in NAMES.items():
        those = [t for t in found if t.state == state]
        if those:
            figure.add_scatter(
                x=[t.number for t in those], y=[t.score for t in those], mode="markers", name=name,
                marker={
                    "symbol": SYMBOLS[state], "size": 10, "color": UP if state in ("reached", "short") else QUIET,
                    "line": {"width": 2},
                },
                hovertext=[_hover(t) for t in those], hoverinfo="text",
            )  # fmt: skip
    best = _best_so_far(found)
    if best:
        figure.add_scatter(
            x=[at for at, _ in best], y=[score for _, score in best], mode="lines", name="best so far",
            line={"color": DOWN, "width": 2, "shape": "hv"}, hoverinfo="skip",
        )  # fmt: skip
    figure.add_hline(y=plan.seconds, line={"color": QUIET, "width": 1, "dash": "dot"})
    figure.update_layout(
        height=340, margin={"l": 8, "r": 8, "t": 8, "b": 8}, dragmode=False,
        legend={"orientation": "h", "y": -0.25, "x": 0},
        xaxis={"title": {"text": "Trial"}, "automargin": True, "dtick": -(-len(found) // 8) or 1},
        yaxis={"title": {"text": "Score in seconds"}, "type": "log", "automargin": True, "nticks": 6},
    )  # fmt: skip
    return figure


def _best_so_far(found: Sequence[Trial]) -> list[tuple[int, float]]:
    best, steps = math.inf, []
    for trial in found:
        if trial.state in ("reached", "short") and trial.score is not None and trial.score < best:
            best = trial.score
            steps.append((trial.number, best))
    return [*steps, (found[-1].number, best)] if steps else []


def describe_history(trials: Sequence[Trial], plan: SearchPlan) -> str:
    found = scored(trials)
    counts = ", ".join(f"{n} {NAMES[s]}" for s in NAMES if (n := sum(t.state == s for t in found)))
    steps = _best_so_far(found)
    best = f" The best score so far went from {steps[0][1]:.3g} to {steps[-1][1]:.3g} s." if steps else ""
    return f"Score of {len(found)} trials, lower is better, up to {plan.seconds:g} is in time: {counts}.{best}"


# ------------------------------------------------------------------ on the way


def course_chart(account: Account, plan: SearchPlan) -> go.Figure:
    """Distance to the optimum over the seconds of training, one line a trial, the best one on top."""
    figure, best = go.Figure(), account.best
    drawn = [t for t in account.trials if t.is_done and t.points][-MOST_LINES:]
    drawn.sort(key=lambda t: best is not None and t.number == best.number)
    for trial in drawn:
        is_best = best is not None and trial.number == best.number
        given_up = trial.state in ("pruned", "diverged")
        figure.add_scatter(
            x=[max(at, 1e-3) for at, _ in trial.points], y=[distance for _, distance in trial.points], mode="lines",
            line={
                "color": DOWN if is_best else QUIET if given_up else UP, "width": 3 if is_best else 1.2,
                "dash": "dot" if given_up else "solid",
            },
            opacity=1.0 if is_best else 0.55, hovertemplate=f"{_hover(trial)}<extra></extra>", name=str(trial.number),
        )  # fmt: skip
    figure.add_hline(y=plan.reach, line={"color": QUIET, "width": 1, "dash": "dot"})
    figure.update_layout(
        height=340, margin={"l": 8, "r": 8, "t": 8, "b": 8}, showlegend=False, dragmode=False,
        xaxis={
            "title": {"text": "Seconds of training"}, "type": "log", "automargin": True, "tickvals": SECONDS,
            "ticktext": [f"{at:g}" for at in SECONDS],
        },
        yaxis={"type": "log", "exponentformat": "power", "automargin": True, "nticks": 6},
    )  # fmt: skip
    return figure


def describe_courses(account: Account, plan: SearchPlan) -> str:
    drawn, best = [t for t in account.trials if t.is_done and t.points], account.best
    there = f" The best, trial {best.number}, is at {best.distance:.2g} after {best.seconds:.3g} s." if best else ""
    return f"Distance to the optimum of {len(drawn)} trials over seconds of training, to reach {plan.reach:g}.{there}"


# ------------------------------------------------------------------ importance


def importance_chart(importance: Mapping[str, float]) -> go.Figure:
    bars = sorted(importance.items(), key=lambda pair: pair[1])
    figure = go.Figure(
        go.Bar(
            x=[share for _, share in bars],
            y=[LABELS[knob] for knob, _ in bars],
            orientation="h",
            marker={"color": UP, "cornerradius": 3},
            text=[f"{share:.0%}" for _, share in bars],
            textposition="outside",
            cliponaxis=False,
            hoverinfo="skip",
        )
    )
    figure.update_layout(
        height=70 + 36 * len(bars), margin={"l": 8, "r": 48, "t": 8, "b": 8}, dragmode=False, bargap=0.35,
        xaxis={"tickformat": ".0%", "rangemode": "tozero", "automargin": True, "nticks": 5},
        yaxis={"automargin": True, "showgrid": False},
    )  # fmt: skip
    return figure


def describe_importance(importance: Mapping[str, float]) -> str:
    ranked = sorted(importance.items(), key=lambda pair: -pair[1])
    return "Which knobs decide: " + ", ".join(f"{LABELS[knob]} {share:.0%}" for knob, share in ranked) + "."


# ------------------------------------------------------------------ all settings at once


def parallel_chart(trials: Sequence[Trial], space: Space) -> go.Figure:
    """Parallel coordinates, one row a knob: a line leads through the values of one trial. Lying down, so that names
    have room on a phone as well. The colour is the rank, the best trials are drawn last."""
    found = sorted(scored(trials), key=lambda t: t.score or 0.0)[:MOST_LINES]
    knobs = [knob for knob in space if any(knob in t.knobs for t in found)]
    figure = go.Figure()
    for knob, row in zip(knobs, range(len(knobs)), strict=True):
        _axis(figure, knob, row, space[knob], found)
    for rank in reversed(range(len(found))):
        trial = found[rank]
        share = rank / max(1, len(found) - 1)
        figure.add_scatter(
            x=[_place(trial, knob, space[knob], found) for knob in knobs], y=[-row for row in range(len(knobs))],
            mode="lines+markers", marker={"size": 5},
            line={"color": SCALE[round(share * (len(SCALE) - 1))], "width": 4 if rank == 0 else 1.5},
            opacity=1.0 if rank < 3 else 0.6, hovertext=_hover(trial), hoverinfo="text",
        )  # fmt: skip
    figure.update_layout(
        height=40 + ROW * max(1, len(knobs)), margin={"l": 8, "r": 8, "t": 8, "b": 8}, showlegend=False,
        dragmode=False,
        xaxis={"visible": False, "range": [-0.1, 1.08], "fixedrange": True},
        yaxis={
            "tickvals": [-row for row in range(len(knobs))], "ticktext": [_wrapped(LABELS[knob]) for knob in knobs],
            "range": [-len(knobs) + 0.4, 0.4], "fixedrange": True, "showgrid": False, "zeroline": False,
            "automargin": True, "ticks": "",
        },
    )  # fmt: skip
    return figure


def _wrapped(text: str) -> str:
    return "<br>".join(html.escape(part) for part in textwrap.wrap(text, WRAP))


def _axis(figure: go.Figure, knob: str, row: int, domain: Choices | Range, found: Sequence[Trial]) -> None:
    """The line of one knob, with its values below."""
    figure.add_shape(type="line", x0=0, x1=1, y0=-row, y1=-row, line={"color": QUIET, "width": 1}, layer="below")
    marks = list(_marks(knob, domain))
    if any(knob not in trial.knobs for trial in found):
        marks.append((UNUSED, "–"))
    for at, text in marks:
        figure.add_annotation(
            x=at, y=-row, yshift=-14, text=html.escape(text), showarrow=False, font={"size": 11, "color": QUIET}
        )


def _marks(knob: str, domain: Choices | Range) -> list[tuple[float, str]]:
    if isinstance(domain, Choices):
        last = max(1, len(domain.values) - 1)
        return [(i / last, value_text(knob, value)) for i, value in enumerate(domain.values)]
    middle = math.sqrt(domain.low * domain.high) if domain.log else (domain.low + domain.high) / 2
    return [(0.0, f"{domain.low:g}"), (0.5, f"{middle:.2g}"), (1.0, f"{domain.high:g}")]


def _place(trial: Trial, knob: str, domain: Choices | Range, found: Sequence[Trial]) -> float:
    if knob not in trial.knobs:
        return UNUSED
    value = trial.knobs[knob]
    if isinstance(domain, Choices):
        among = sorted(t.number for t in found if t.knobs.get(knob) == value)
        aside = among.index(trial.number) / (len(among) - 1) - 0.5 if len(among) > 1 else 0.0
        spread = 0.03 * aside  # lines beside one another
        return domain.values.index(value) / max(1, len(domain.values) - 1) + spread
    low, high, at = (
        (math.log(v) for v in (domain.low, domain.high, value)) if domain.log else (domain.low, domain.high, value)
    )
    return (at - low) / (high - low)


def describe_parallel(trials: Sequence[Trial]) -> str:
    found = sorted(scored(trials), key=lambda t: t.score or 0.0)
    best = "; ".join(f"trial {t.number}: {in_words(t.knobs)}" for t in found[:3])
    return f"Settings of {len(found)} trials, one row a knob, coloured by rank. The best are {best}."


def _hover(trial: Trial) -> str:
    """What a trial was; plug-ins have names of their own, so none of it is markup."""
    knobs = "<br>".join(
        html.escape(f"{LABELS[knob]}: {value_text(knob, trial.knobs[knob])}") for knob in KNOBS if knob in trial.knobs
    )
    return f"<b>Trial {trial.number}</b>: {html.escape(trial.cause)}<br>{knobs}"


def rows(trials: Sequence[Trial], space: Space) -> dict[str, list[Any]]:
    """The table of trials, the best first; a column for each knob that any trial has."""
    order = {"running": 0, "reached": 1, "short": 2, "pruned": 3, "diverged": 4, "failed": 5}
    ranked = sorted(trials, key=lambda t: (order.get(t.state, 6), t.score if t.score is not None else 0.0, t.number))
    words = {**NAMES, "running": "running", "failed": "failed"}
    table: dict[str, list[Any]] = {
        "Trial": [t.number for t in ranked],
        "Outcome": [words.get(t.state, t.state) + (" (your own)" if t.own else "") for t in ranked],
        "Seconds": [round(t.seconds, 3) for t in ranked],
        "Distance": [None if t.distance is None else f"{t.distance:.1e}" for t in ranked],
        "Passes": [round(t.passes, 2) for t in ranked],
    }
    for knob in space:
        if any(knob in t.knobs for t in ranked):
            table[LABELS[knob]] = [value_text(knob, t.knobs[knob]) if knob in t.knobs else None for t in ranked]
    return {**table, "What happened": [t.cause for t in ranked], "Run": [t.run for t in ranked]}
