"""Charts of how a model predicts, from a diagnosis: predicted against actual, residuals, and how often each size."""

from __future__ import annotations

from shoal.charts.description import Axis, Bars, Chart, Curve, Density, Dots, Guide, RowsOf
from shoal.results.answers.diagnosis import Diagnosis

PARTS: tuple[RowsOf, RowsOf] = ("train", "test")
RESIDUAL = "Residual (actual − predicted)"
DEVIANCE = "Deviance residual"


def names_of(found: Diagnosis) -> dict[RowsOf, str]:
    """What the two kinds of rows are called; another file's rows are all of one kind."""
    return {"train": "Training rows" if found.own_data else "Rows of the file", "test": "Test rows"}


def axis_of(found: Diagnosis) -> str:
    """What residuals are: by how much, or, of another loss than squares, those whose squares sum to the deviance."""
    return DEVIANCE if found.loss else RESIDUAL


# ------------------------------------------------------------------ the charts


def calibration(found: Diagnosis) -> Chart:
    """What was predicted on average in bins of the prediction, and what came, with twice its standard error."""
    curve = found.curve
    said, came = [c.predicted for c in curve], [c.predicted + c.residual for c in curve]
    spread = [2 * c.standard_error for c in curve]
    low, high = min(*said, *came), max(*said, *came)
    return Chart(
        Axis("Predicted", found.target, low, high),
        Axis("Actual, on average", found.target, low, high),
        (Guide("diagonal", "As predicted"), Curve("Mean of all rows", said, came, spread)),
        f"Mean of {found.target} in bins of the prediction against the prediction. {curvature(found)}",
    )


def predicted(found: Diagnosis) -> Chart:
    """Predicted against actual, with the diagonal on which a perfect model would put every row."""
    low, high = _ends(found)
    density = [_density(found)] if found.is_sampled else []
    return Chart(
        Axis("Predicted", found.target, low, high),
        Axis("Actual", found.target, low, high),
        (*density, Guide("diagonal", "Perfect prediction"), *_dots(found, "actual")),
        _describe_predicted(found),
    )


def residuals(found: Diagnosis) -> Chart:
    """Residuals against predictions, with their mean over all rows by bins of the prediction."""
    low, high = _ends(found) if found.is_sampled else (found.low.predicted, found.high.predicted)
    edges, curve = found.histogram.edges, found.curve
    means = Curve(
        "Mean of all rows",
        [c.predicted for c in curve],
        [c.residual for c in curve],
        [2 * c.standard_error for c in curve],
    )
    return Chart(
        Axis("Predicted", found.target, low, high),
        Axis(axis_of(found), "", edges[0], edges[-1]),
        (Guide("level"), *_dots(found, "residual"), *([] if found.loss else [means])),
        f"Scatter chart of residuals against predicted {found.target}. {curvature(found)}",
    )


def histogram(found: Diagnosis) -> Chart:
    """How often residuals of each size come, training and test rows stacked."""
    counted, names = found.histogram, names_of(found)
    edges = counted.edges
    most = max(a + b for a, b in zip(counted.train, counted.test, strict=True))
    bars = [Bars(part, names[part], edges, counts) for part in PARTS if any(counts := getattr(counted, part))]
    return Chart(
        Axis(axis_of(found), "", edges[0], edges[-1], room=False),
        Axis("Rows", "", 0.0, 1.06 * max(1, most), room=False),
        (*bars, Guide("upright")),
        _describe_histogram(found),
    )


def _dots(found: Diagnosis, what: str) -> list[Dots]:
    """Of training and test rows; test rows come last, on top."""
    sample, names = found.sample, names_of(found)
    parts = []
    for part in PARTS:
        chosen = [i for i, test in enumerate(sample.test) if test is (part == "test")]
        if chosen:
            upright = sample.residual if what == "residual" else sample.actual
            x, y = ([values[i] for i in chosen] for values in (sample.predicted, upright))
            parts.append(Dots(part, names[part], x, y, [sample.row[i] for i in chosen], what))
    return parts


def _density(found: Diagnosis) -> Density:
    grid = found.grid
    counts = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(grid.train, grid.test, strict=True)]
    return Density("All rows", grid.edges, counts)


def _ends(found: Diagnosis) -> tuple[float, float]:
    if found.is_sampled:
        edges = found.grid.edges
        return edges[0], edges[-1]
    low, high = found.low, found.high
    return min(low.actual, low.predicted), max(high.actual, high.predicted)


# ------------------------------------------------------------------ for those who do not see them


def _describe_predicted(found: Diagnosis) -> str:
    scored = ((getattr(found, part).r2, name) for part, name in names_of(found).items())
    parts = ", ".join(f"{name}: R² {r2:.4g}" for r2, name in scored if r2 is not None)
    return (
        f"Scatter chart of predicted against actual {found.target} for {found.rows:,} rows"
        f"{f' ({parts})' if parts else ''}. Points on the diagonal are predicted without error."
    )


def _describe_histogram(found: Diagnosis) -> str:
    at = found.at
    return (
        f"Histogram of the residuals of {found.rows:,} rows: half lie between {at[0.25]:.4g} and {at[0.75]:.4g}, "
        f"nine in ten between {at[0.05]:.4g} and {at[0.95]:.4g}."
    )


def curvature(found: Diagnosis) -> str:
    """Whether the mean residual stays near zero along the prediction, in plain words."""
    away = [c for c in found.curve if abs(c.residual) > 3 * c.standard_error and c.rows > 1]
    if len(away) < max(2, len(found.curve) // 5):
        return "The mean residual stays near zero for small and large predictions alike: no bend to speak of."
    worst = max(away, key=lambda c: abs(c.residual))
    side = "above" if worst.residual > 0 else "below"
    return (
        f"The mean residual leaves zero in {len(away)} of {len(found.curve)} bins: near a prediction of "
        f"{worst.predicted:.4g} the truth is {abs(worst.residual):.4g} {side} it on average. "
        f"{'The model' if found.loss else 'A straight line'} misses something there."
    )
