"""A model as one HTML page for a person: no script, nothing from elsewhere, every text of the model escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from config import RunConfig
from exports.base import linear_form
from model_file import SavedModel
from printing import short

SHOWN = 60  # coefficients in the picture; the table has all
WIDTH, ROW, LABEL = 760, 20, 240  # of the picture, in pixels
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733 }
table { border-collapse: collapse; margin: .5rem 0 } td, th { padding: .15rem .8rem .15rem 0; text-align: left }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums } h2 { margin-top: 2rem; font-size: 1.1rem }
th { border-bottom: 1px solid #c5ced6 } td { overflow-wrap: anywhere; vertical-align: top }
svg text { font: 12px system-ui, sans-serif; fill: #1c2733 } p.small { color: #5a6875 }
"""


def write_report(model: SavedModel, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(page(model).encode())


def page(model: SavedModel) -> str:
    found = model.contents
    title = f"{found['model']} model of {found['target']}"
    parts = [
        f"<h1>{escape(title)}</h1>", _summary(model), _notes(found.get("warnings", ())),
        "<h2>Scores</h2>", _scores(found),
        "<h2>Coefficients</h2>", _picture(bars(found)), _coefficients(found),
        "<h2>Columns</h2>", _columns(model),
        "<h2>Certificate</h2>", _certificate(found),
        "<h2>Where it came from</h2>", _lineage(found),
    ]  # fmt: skip
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Numbers to the right, as short as in the tables of the command line; all else is text."""
    right = [not any(isinstance(row[i], str) for row in rows) for i in range(len(head))]

    def line(tag: str, cells: Sequence[Any]) -> str:
        parts, mark = zip(right, cells, strict=True), " class='n'"
        made = (f"<{tag}{mark * numbers}>{escape(short(cell))}</{tag}>" for numbers, cell in parts)
        return f"<tr>{''.join(made)}</tr>"

    return "<table>" + "\n".join([line("th", head), *(line("td", row) for row in rows)]) + "</table>"


def _summary(model: SavedModel) -> str:
    found, data = model.contents, model.contents.get("data", {})
    left_out = found.get("rows_dropped", {})
    dropped = ", ".join(f"{count:,} left out ({reason.replace('_', ' ')})" for reason, count in left_out.items())
    alpha = "" if found.get("alpha") is None else f"; alpha {short(found['alpha'])}"
    text = (
        f"{data.get('file', 'a table')}: {data.get('rows', 0):,} rows{', ' + dropped if dropped else ''}; "
        f"{len(model.numbers)} columns of numbers, {len(model.texts)} of levels, {len(model.coef)} coefficients{alpha}."
    )
    return f"<p>{escape(text)}</p>"


def _notes(notes: Iterable[str]) -> str:
    return "".join(f"<p class='small'>Note: {escape(note)}</p>" for note in notes)


def _scores(found: Mapping[str, Any]) -> str:
    keys = ("rows", "r2", "adjusted_r2", "rmse", "mae")
    rows = [
        (part, *(found[part].get(k) for k in keys)) for part in ("train", "test") if found.get(part, {}).get("rows")
    ]
    return _table(("", "rows", "R2", "adjusted R2", "RMSE", "MAE"), rows)


# ------------------------------------------------------------------ coefficients


class Bar(NamedTuple):
    """A coefficient for a column of spread 1, with its interval where one is known."""

    name: str
    value: float
    low: float
    high: float


def bars(found: Mapping[str, Any]) -> list[Bar]:
    """The largest first; an interval is scaled by what its coefficient is scaled by."""
    estimates = (found.get("inference") or {}).get("coefficients", {})
    made = []
    for name, value in found["coefficients_standardized"].items():
        plain, estimate = found["coefficients"][name], estimates.get(name)
        known = estimate is not None and plain and estimate["low"] is not None and estimate["high"] is not None
        low, high = (estimate["low"] * value / plain, estimate["high"] * value / plain) if known else (value, value)
        made.append(Bar(name, value, low, high))
    return sorted(made, key=lambda bar: -abs(bar.value))[:SHOWN]


def _picture(shown: Sequence[Bar]) -> str:
    if not shown:
        return ""
    low = min(0.0, *(bar.low for bar in shown))
    high = max(0.0, *(bar.high for bar in shown))
    scale = (WIDTH - LABEL - 20) / ((high - low) or 1.0)

    def x(value: float) -> str:
        return f"{LABEL + 10 + (value - low) * scale:.1f}"

    height = ROW * len(shown) + 10
    lines = [f"<line x1='{x(0)}' x2='{x(0)}' y1='0' y2='{height}' stroke='#9aa7b2'/>"]
    for i, bar in enumerate(shown):
        y = ROW * i + ROW // 2 + 5
        name = bar.name if len(bar.name) <= 34 else bar.name[:33] + "…"
        lines.append(
            f"<text x='{LABEL}' y='{y + 4}' text-anchor='end'>{escape(name)}</text>"
            f"<line x1='{x(bar.low)}' x2='{x(bar.high)}' y1='{y}' y2='{y}' stroke='#5b8db8' stroke-width='3'/>"
            f"<circle cx='{x(bar.value)}' cy='{y}' r='4' fill='#1f4e79'/>"
        )
    said = "Change of the prediction for one standard deviation more of the column"
    said += "; lines are confidence intervals." if any(bar.low < bar.high for bar in shown) else "."
    svg = f"<svg role='img' width='{WIDTH}' height='{height}'><title>{said}</title>{''.join(lines)}</svg>"
    return f"{svg}<p class='small'>{said}</p>"


def _coefficients(found: Mapping[str, Any]) -> str:
    inference = found.get("inference") or {}
    estimates = inference.get("coefficients", {})
    keys = ("std_error", "t", "p_value", "low", "high") if inference else ()
    standardized = found["coefficients_standardized"]
    first = inference.get("intercept") or {}
    rows: list[tuple[Any, ...]] = [("(intercept)", found["intercept"], None, *map(first.get, keys))]
    for name, value in found["coefficients"].items():
        rows.append((name, value, standardized.get(name), *map((estimates.get(name) or {}).get, keys)))
    head = ("column", "coefficient", "standardized", "std. error", "t", "p", "low", "high")
    return _table(head[: 3 + len(keys)], rows)


# ------------------------------------------------------------------ the rest


def _columns(model: SavedModel) -> str:
    form = linear_form(model)
    rows = [(c.name, "numbers", f"{short(c.fill)} stands in for a missing one") for c in form.numbers]
    rows += [(c.name, "levels", ", ".join(c.levels)) for c in form.texts]
    return _table(("column", "holds", ""), rows)


def _certificate(found: Mapping[str, Any]) -> str:
    certificate = found.get("certificate") or {}
    if not certificate:
        return "<p>There is none in the model file.</p>"
    text = (
        f"{certificate['kind'].replace('_', ' ')} {short(certificate['value'])}, relative "
        f"{short(certificate['relative'])}, computed from the {certificate['rests_on']}: how far the answer can be "
        "from the optimum."
    )
    return f"<p>{escape(text)}</p>"


def _lineage(found: Mapping[str, Any]) -> str:
    """The data, and the knobs that were not left as they are."""
    usual = RunConfig().as_dict()
    config = found.get("config", {})
    rows = [("content of the data", found.get("data", {}).get("content", ""))]
    rows += [(name, str(value)) for name, value in config.items() if name not in usual or value != usual[name]]
    return _table(("what", "value"), rows)
