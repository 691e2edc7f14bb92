"""The charts of a report, as pure functions: numbers in, SVG and the words below it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from shoal.report.evidence import PenaltyPath
from shoal.report.svg import RIGHT, WIDTH, Axis, Plot, drawing, element, shortened, sparkline, text
from shoal.whatif.curve import CrossValidation
from shoal.words import short

SHOWN = 40  # coefficients in the picture; the table has all
LINES = 60  # of a path, the largest; more would be a grey field
NAMED = 8  # of them with a colour and a name
ROW, NAMES = 22, 168  # of the picture of coefficients: a line's height, and the room for its name, in pixels
RANKS = 200  # points of the normal plot
Found = Mapping[str, Any]


class Bar(NamedTuple):
    """A coefficient for a column of spread 1, with its interval where one is known."""

    name: str
    value: float
    low: float
    high: float


def bars(
    coefficients: Mapping[str, float], standardized: Mapping[str, float], estimates: Mapping[str, Any]
) -> list[Bar]:
    """The largest first; an interval is scaled by what its coefficient is scaled by."""
    made = []
    for name, value in standardized.items():
        estimate, plain = estimates.get(name) or {}, coefficients[name]
        low, high = estimate.get("low"), estimate.get("high")
        if not plain or low is None or high is None:
            made.append(Bar(name, value, value, value))
        else:
            made.append(Bar(name, value, low * value / plain, high * value / plain))
    return sorted(made, key=lambda bar: -abs(bar.value))[:SHOWN]


def coefficient_chart(shown: Sequence[Bar], target: str) -> str:
    """A row each: the coefficient as a dot, its interval as a line."""
    if not shown:
        return ""
    axis = Axis.around([0.0, *(end for bar in shown for end in (bar.low, bar.high))], "", 0.05)
    height = ROW * len(shown) + 30

    def across(value: float) -> float:
        return NAMES + axis.share(value) * (WIDTH - NAMES - RIGHT)

    parts = []
    for value, words in axis.ticks(6):
        parts.append(element("line", x1=across(value), x2=across(value), y1=4, y2=height - 24, class_="grid"))
        parts.append(text(words, across(value), height - 8, "tick", "middle"))
    parts.append(element("line", x1=across(0), x2=across(0), y1=4, y2=height - 24, class_="zero"))
    for i, bar in enumerate(shown):
        y, side = ROW * i + ROW / 2 + 4, "train" if bar.value >= 0 else "test"
        parts.append(text(shortened(bar.name, 24), NAMES - 8, y + 4, "name", "end"))
        parts.append(element("line", x1=across(bar.low), x2=across(bar.high), y1=y, y2=y, class_=f"interval {side}"))
        parts.append(element("path", d=f"M{across(bar.value):.1f} {y:.1f}h0", class_=f"dot {side}"))
    largest = ", ".join(f"{bar.name} {short(bar.value)}" for bar in shown[:5])
    return drawing(parts, f"Coefficients for {target} per standard deviation; the largest: {largest}", WIDTH, height)


# ------------------------------------------------------------------ penalties


def path_chart(path: PenaltyPath, marks: Mapping[str, float]) -> tuple[str, list[tuple[str, str]], int]:
    """Coefficients against alpha; the names of the coloured lines with their class, and how many lines are drawn."""
    size = np.abs(path.weights).max(axis=0)
    at_chosen = np.abs(path.weights[path.chosen]) if path.chosen is not None else size
    order = np.lexsort((-size, -at_chosen))
    drawn = [int(j) for j in order if size[j] > 0][:LINES]
    plot = Plot(
        Axis.powers(path.alphas.tolist(), "penalty strength alpha"),
        Axis.around([0.0, *path.weights[:, drawn].ravel().tolist()], "coefficient per standard deviation"),
    )
    plot.level(0.0, "zero")
    alphas = path.alphas.tolist()
    for place, j in reversed(list(enumerate(drawn))):  # the named ones come last, on top
        points = zip(alphas, path.weights[:, j].tolist(), strict=True)
        plot.line(points, f"c{place}" if place < NAMED else "faint")
    _mark(plot, marks)
    names = [(path.names[j], f"c{place}") for place, j in enumerate(drawn[:NAMED])]
    alt = f"Coefficients of {len(drawn)} columns at penalties from alpha {short(alphas[-1])} to {short(alphas[0])}"
    return plot.svg(alt), names, len(drawn)


def validation_chart(found: CrossValidation, marks: Mapping[str, float]) -> str:
    """The mean error over folds at each alpha, with a standard error up and down."""
    mean, error, alphas = found.mean, found.standard_error, found.alphas.tolist()
    ends = np.concatenate((mean - error, mean + error))
    plot = Plot(Axis.powers(alphas, "penalty strength alpha"), Axis.around(ends.tolist(), "mean squared error"))
    plot.spans(alphas, (mean - error).tolist(), (mean + error).tolist(), "interval blue")
    plot.line(zip(alphas, mean.tolist(), strict=True), "blue")
    plot.dots([(alphas[found.best], float(mean[found.best]))], "train")
    _mark(plot, marks)
    alt = f"Cross-validated mean squared error against alpha; smallest, {short(float(mean[found.best]))}, at alpha "
    return plot.svg(alt + short(alphas[found.best]))


def _mark(plot: Plot, marks: Mapping[str, float]) -> None:
    for row, alpha in enumerate(dict.fromkeys(marks.values())):
        words = ", ".join(name for name, at in marks.items() if at == alpha)
        plot.upright(alpha, "mark" if row == 0 else "mark dashed", words, row)


# ------------------------------------------------------------------ residuals


def predicted_chart(found: Found) -> str:
    """Observed against predicted, with the diagonal on which a perfect model would put every row."""
    ends = _ends(found)
    plot = Plot(Axis.around(ends, f"predicted {found['target']}"), Axis.around(ends, f"observed {found['target']}"))
    plot.line([(end, end) for end in ends], "mark dashed")
    for part, points in _points(found, "actual").items():
        plot.dots(points, f"many {part}")
    return plot.svg(f"Observed against predicted {found['target']} for {len(found['sample']['row']):,} rows")


def residual_chart(found: Found) -> str:
    """Residuals against predicted, with their mean in bins of the prediction."""
    histogram, low, high = found["histogram"]["edges"], found["low"], found["high"]
    across = _ends(found) if _sampled(found) else [low["predicted"], high["predicted"]]
    plot = Plot(Axis.around(across, f"predicted {found['target']}"), Axis.around(histogram, "residual"))
    plot.level(0.0, "mark dashed")
    for part, points in _points(found, "residual").items():
        plot.dots(points, f"many {part}")
    curve = found["curve"]
    x, y = [c["predicted"] for c in curve], [c["residual"] for c in curve]
    spread = [2 * c["standard_error"] for c in curve]
    below, above = ([a + sign * b for a, b in zip(y, spread, strict=True)] for sign in (-1, 1))
    plot.spans(x, below, above, "interval blue")
    plot.line(zip(x, y, strict=True), "blue")
    return plot.svg(f"Residuals against predicted {found['target']}, and their mean in {len(curve)} bins")


def histogram_chart(found: Found) -> str:
    counted = found["histogram"]
    edges, train, test = counted["edges"], counted["train"], counted["test"]
    most = max(a + b for a, b in zip(train, test, strict=True))
    plot = Plot(Axis(edges[0], edges[-1], "residual"), Axis(0.0, 1.06 * max(1, most), "rows"))
    plot.bars(edges, train, "train")
    plot.bars(edges, test, "test", under=train)
    plot.upright(0.0, "mark dashed")
    return plot.svg(f"Histogram of the residuals of {found['rows']:,} rows in {len(train)} bins")


def normal_chart(found: Found) -> str:
    """Residuals in order against what a normal distribution would have in their place."""
    sample = found["sample"]
    residual = np.sort(np.array(sample["actual"]) - np.array(sample["predicted"]))
    n = len(residual)
    ranks = np.unique(np.linspace(0, n - 1, min(n, RANKS)).round().astype(int))
    normal = [NormalDist().inv_cdf((int(rank) + 0.5) / n) for rank in ranks]
    values = residual[ranks].tolist()
    plot = Plot(Axis.around(normal, "place in a normal distribution (standard deviations)"),
                Axis.around(values, "residual"))  # fmt: skip
    mean, spread = float(residual.mean()), float(residual.std())
    ends = (
        [max(plot.x.low, (plot.y.low - mean) / spread), min(plot.x.high, (plot.y.high - mean) / spread)]
        if spread
        else []
    )
    plot.line([(end, min(max(mean + spread * end, plot.y.low), plot.y.high)) for end in ends], "mark dashed")
    plot.dots(zip(normal, values, strict=True), "train")
    return plot.svg(f"Residuals in order against a normal distribution, {len(ranks)} of {n:,} rows")


def _points(found: Found, what: str) -> dict[str, list[tuple[float, float]]]:
    """Of training and test rows; test rows come last, on top."""
    parts: dict[str, list[tuple[float, float]]] = {"train": [], "test": []}
    sample = found["sample"]
    for actual, predicted, test in zip(sample["actual"], sample["predicted"], sample["test"], strict=True):
        parts["test" if test else "train"].append((predicted, actual if what == "actual" else actual - predicted))
    return parts


def _sampled(found: Found) -> bool:
    return len(found["sample"]["row"]) < int(found["rows"])


def _ends(found: Found) -> list[float]:
    if _sampled(found):
        edges = found["grid"]["edges"]
        return [edges[0], edges[-1]]
    low, high = found["low"], found["high"]
    return [min(low["actual"], low["predicted"]), max(high["actual"], high["predicted"])]


# ------------------------------------------------------------------ columns


def spread_of(column: Found) -> str:
    """A column's small histogram, or how often each of its most frequent levels comes."""
    counts = column.get("histogram") or [count for _, count in column.get("frequent") or []]
    return sparkline(counts, f"How the values of {column['name']} spread") if len(counts) > 1 else ""
