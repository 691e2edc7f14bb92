"""What the command line prints: tables, JSON, a fit; what to print is decided by the commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from shoal.words import short

SHOWN = 40  # coefficients in a table


def print_json(found: dict[str, Any]) -> None:
    """As UTF-8 where the output takes it, else with escapes: valid JSON either way."""
    text = json.dumps(found, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = json.dumps(found)
    print(text)


def clear_line() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> None:
    widths = [max(len(str(row[i])) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        print("  ".join(cells).rstrip())


# ------------------------------------------------------------------ a fit


def show_fit(found: dict[str, Any]) -> None:
    alpha = "" if found["alpha"] is None else f", alpha = {found['alpha']:g}"
    kind = f"linear model of {found['target']}, penalty {found['penalty']}" if found.get("penalty") else None
    print((kind or f"{found['model']} model of {found['target']}") + alpha)
    inference = found["inference"]
    head: tuple[str, ...] = ("column", "coefficient", "standardized")
    rows: list[tuple[str, ...]] = [("(intercept)", short(found["intercept"]), "")]
    if inference:
        head += ("std. error", "t", "p", "low", "high")
        rows[0] += _worth(inference["intercept"])
    standardized = found["coefficients_standardized"]
    shown = set(sorted(standardized, key=lambda name: -abs(standardized[name]))[:SHOWN])
    for name in filter(shown.__contains__, standardized):
        row: tuple[str, ...] = (name, short(found["coefficients"][name]), short(standardized[name]))
        rows.append(row + (_worth(inference["coefficients"][name]) if inference else ()))
    table(head, rows, right=set(range(1, len(head))))
    if len(shown) < len(standardized):
        print(f"(the {SHOWN} largest of {len(standardized)}, standardized; --json or --out gives all)")
    print()
    scores = [
        (
            part,
            f"{found[part]['rows']:,}",
            *(short(found[part][k]) for k in ("r2", "adjusted_r2", "rmse", "mae")),
        )
        for part in ("train", "test")
        if found[part]["rows"]
    ]
    table(("", "rows", "R2", "adjusted R2", "RMSE", "MAE"), scores, right={1, 2, 3, 4, 5})
    width = (found.get("prediction_interval") or {"half_widths": {}})["half_widths"].get("0.9")
    if width is not None:
        print(f"90 % of new rows like the test rows lie within ± {short(width)} of the prediction")
    certificate = found["certificate"]
    done = "in" if found.get("solver") == "gradient" else "read in"
    print(
        f"\n{certificate['kind'].replace('_', ' ')} {certificate['relative']:.1e} (relative), from the "
        f"{certificate['rests_on']}; {found['rows_read']:,} rows {done} "
        f"{found['timings']['total']:.2f} s"
    )
    for reason, count in found["rows_dropped"].items():
        print(f"left out: {count:,} rows ({reason.replace('_', ' ')})")
    for warning in found["warnings"]:
        print(f"note: {warning}")


def _worth(estimate: dict[str, Any] | None) -> tuple[str, ...]:
    keys = ("std_error", "t", "p_value", "low", "high")
    return tuple(short(estimate[k]) for k in keys) if estimate else ("",) * len(keys)
