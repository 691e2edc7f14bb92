"""The charts of a report, as pure functions: numbers in, SVG and the words below it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from shoal.charts import description
from shoal.charts.description import Bars, Chart, Curve, Dots, Guide
from shoal.charts.effects import Coefficient, describe
from shoal.report.evidence import WeightPath
from shoal.report.svg import RIGHT, WIDTH, Plot, PlotAxis, drawing, element, fitting, sparkline, text
from shoal.results.answers.diagnosis import Diagnosis
from shoal.results.answers.table import ColumnLook
from shoal.whatif.curve import CrossValidation
from shoal.words import short, term_shown

LINES = 60  # of a path, the largest; more would be a grey field
NAMED = 8  # of them with a colour and a name
ROW, NAMES = 22, 190  # of the picture of coefficients: a line's height, and the room for its name, in pixels
RANKS = 200  # points of the normal plot


def coefficient_chart(shown: Sequence[Coefficient], target: str) -> str:
    """A row each: the coefficient as a dot, its interval as a line."""
    if not shown:
        return ""
    ends = [(c.value if c.low is None else c.low, c.value if c.high is None else c.high) for c in shown]
    axis = PlotAxis.around([0.0, *(end for both in ends for end in both)], "", 0.05)
    height = ROW * len(shown) + 30

    def across(value: float) -> float:
        return NAMES + axis.share(value) * (WIDTH - NAMES - RIGHT)

    parts = []
    for value, words in axis.ticks(6):
        parts.append(element("line", x1=across(value), x2=across(value), y1=4, y2=height - 24, class_="grid"))
        parts.append(text(words, across(value), height - 8, "tick", "middle"))
    parts.append(element("line", x1=across(0), x2=across(0), y1=4, y2=height - 24, class_="zero"))
    for i, (c, (low, high)) in enumerate(zip(shown, ends, strict=True)):
        y, side = ROW * i + ROW / 2 + 4, "train" if c.value >= 0 else "test"
        parts.append(text(fitting(c.name, NAMES - 12), NAMES - 8, y + 4, "name", "end"))
        parts.append(element("line", x1=across(low), x2=across(high), y1=y, y2=y, class_=f"interval {side}"))
        parts.append(element("path", d=f"M{across(c.value):.1f} {y:.1f}h0", class_=f"dot {side}"))
    return drawing(parts, describe(list(shown), target), WIDTH, height)


# ------------------------------------------------------------------ penalties


def path_chart(path: WeightPath, marks: Mapping[str, float]) -> tuple[str, list[tuple[str, str]], int]:
    """Coefficients against alpha; the names of the coloured lines with their class, and how many lines are drawn."""
    size = np.abs(path.weights).max(axis=0)
    at_chosen = np.abs(path.weights[path.chosen]) if path.chosen is not None else size
    order = np.lexsort((-size, -at_chosen))
    drawn = [int(j) for j in order if size[j] > 0][:LINES]
    plot = Plot(
        PlotAxis.powers(path.alphas.tolist(), "penalty strength alpha"),
        PlotAxis.around([0.0, *path.weights[:, drawn].ravel().tolist()], "coefficient per standard deviation"),
    )
    plot.level(0.0, "zero")
    alphas = path.alphas.tolist()
    for place, j in reversed(list(enumerate(drawn))):  # the named ones come last, on top
        points = zip(alphas, path.weights[:, j].tolist(), strict=True)
        plot.line(points, f"c{place}" if place < NAMED else "faint")
    _mark(plot, marks)
    names = [(term_shown(path.names[j]), f"c{place}") for place, j in enumerate(drawn[:NAMED])]
    alt = f"Coefficients of {len(drawn)} columns at penalties from alpha {short(alphas[-1])} to {short(alphas[0])}"
    return plot.svg(alt), names, len(drawn)


def validation_chart(found: CrossValidation, marks: Mapping[str, float], measure: str = "mean squared error") -> str:
    """The mean error over folds at each alpha, with a standard error up and down; `measure` is what errors are."""
    mean, error, alphas = found.mean, found.standard_error, found.alphas.tolist()
    ends = np.concatenate((mean - error, mean + error))
    plot = Plot(PlotAxis.powers(alphas, "penalty strength alpha"), PlotAxis.around(ends.tolist(), measure))
    plot.spans(alphas, (mean - error).tolist(), (mean + error).tolist(), "interval blue")
    plot.line(zip(alphas, mean.tolist(), strict=True), "blue")
    plot.dots([(alphas[found.best], float(mean[found.best]))], "train")
    _mark(plot, marks)
    alt = f"Cross-validated {measure} against alpha; smallest, {short(float(mean[found.best]))}, at alpha "
    return plot.svg(alt + short(alphas[found.best]))


def _mark(plot: Plot, marks: Mapping[str, float]) -> None:
    for row, alpha in enumerate(dict.fromkeys(marks.values())):
        words = ", ".join(name for name, at in marks.items() if at == alpha)
        plot.upright(alpha, "mark" if row == 0 else "mark dashed", words, row)


# ------------------------------------------------------------------ residuals


def drawn(chart: Chart) -> str:
    """A described chart; a density has no place here, where the dots of its sample are."""
    plot = Plot(_axis(chart.x), _axis(chart.y))
    under: Sequence[float] = ()
    for each in chart.series:
        if isinstance(each, Guide):
            _guide(plot, each, chart)
        elif isinstance(each, Dots):
            plot.dots(zip(each.x, each.y, strict=True), f"many {each.part}")
        elif isinstance(each, Curve):
            below, above = ([y + sign * more for y, more in zip(each.y, each.spread, strict=True)] for sign in (-1, 1))
            plot.spans(each.x, below, above, "interval blue")
            plot.line(zip(each.x, each.y, strict=True), "blue")
        elif isinstance(each, Bars):
            plot.bars(each.edges, each.counts, each.part, under)
            under = [a + b for a, b in zip(under, each.counts, strict=True)] if under else each.counts
    return plot.svg(chart.alt)


def _axis(axis: description.Axis) -> PlotAxis:
    title = f"{axis.what} {axis.of}".strip()
    return PlotAxis.around([axis.low, axis.high], title) if axis.room else PlotAxis(axis.low, axis.high, title)


def _guide(plot: Plot, guide: Guide, chart: Chart) -> None:
    if guide.where == "level":
        plot.level(0.0, "mark dashed")
    elif guide.where == "upright":
        plot.upright(0.0, "mark dashed")
    else:
        plot.line([(end, end) for end in (chart.x.low, chart.x.high)], "mark dashed")


def normal_chart(found: Diagnosis) -> str:
    """Residuals in order against what a normal distribution would have in their place."""
    residual = np.sort(np.array(found.sample.residual))
    n = len(residual)
    ranks = np.unique(np.linspace(0, n - 1, min(n, RANKS)).round().astype(int))
    normal = [NormalDist().inv_cdf((int(rank) + 0.5) / n) for rank in ranks]
    values = residual[ranks].tolist()
    plot = Plot(PlotAxis.around(normal, "place in a normal distribution (standard deviations)"),
                PlotAxis.around(values, "residual"))  # fmt: skip
    mean, spread = float(residual.mean()), float(residual.std())
    ends = (
        [max(plot.x.low, (plot.y.low - mean) / spread), min(plot.x.high, (plot.y.high - mean) / spread)]
        if spread
        else []
    )
    plot.line([(end, min(max(mean + spread * end, plot.y.low), plot.y.high)) for end in ends], "mark dashed")
    plot.dots(zip(normal, values, strict=True), "train")
    return plot.svg(f"Residuals in order against a normal distribution, {len(ranks)} of {n:,} rows")


# ------------------------------------------------------------------ columns


def spread_of(column: ColumnLook) -> str:
    """A column's small histogram, or how often each of its most frequent levels comes."""
    counts = column.histogram or [count for _, count in column.frequent or ()]
    return sparkline(counts, f"How the values of {column.name} spread") if len(counts) > 1 else ""
