"""What the command line prints: tables, JSON, a fit; what to print is decided by the commands."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from shoal.files.output import Output
from shoal.words import from_optimum, seen, short

if TYPE_CHECKING:
    from shoal.results.fit import Estimate, FitReport

SHOWN = 40  # coefficients in a table
CLEAR_LINE = "\r\x1b[2K"


def print_json(found: dict[str, Any]) -> None:
    """As UTF-8 where the output takes it, else with escapes: valid JSON either way."""
    text = json.dumps(found, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = json.dumps(found)
    print(text)


def said_beside(out: str | Path | None) -> contextlib.AbstractContextManager[Any]:
    """What is printed within goes to standard error where the output itself has gone to standard output."""
    taken = out is not None and Output(out).is_standard_output
    return contextlib.redirect_stdout(sys.stderr) if taken else contextlib.nullcontext()


class Literal:
    """A stream of text on which names and values from files are seen and never obeyed, see `words.seen`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(seen(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def literal_streams() -> Iterator[None]:
    """Everything that is printed within is text; `steer` alone commands the terminal."""
    out, err = sys.stdout, sys.stderr
    with contextlib.redirect_stdout(cast(TextIO, Literal(out))), contextlib.redirect_stderr(cast(TextIO, Literal(err))):
        yield


def steer(commands: str) -> None:
    """Commands for the terminal, from ourselves only."""
    stream = sys.stderr.stream if isinstance(sys.stderr, Literal) else sys.stderr
    stream.write(commands)
    stream.flush()


def clear_line() -> None:
    if sys.stderr.isatty():
        steer(CLEAR_LINE)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> None:
    widths = [max(len(str(row[i])) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        print("  ".join(cells).rstrip())


# ------------------------------------------------------------------ a fit


def show_fit(report: FitReport) -> None:
    alpha = "" if report.alpha is None else f", alpha = {report.alpha:g}"
    kind = f"linear model of {report.target}, penalty {report.penalty}" if report.penalty else None
    print((kind or f"{report.model} model of {report.target}") + alpha)
    _show_coefficients(report)
    parts = {"train": report.train, "test": report.test}
    scores = [
        (name, f"{part.rows:,}", *map(short, (part.r2, part.adjusted_r2, part.rmse, part.mae)))
        for name, part in parts.items()
        if part.rows
    ]
    table(("", "rows", "R2", "adjusted R2", "RMSE", "MAE"), scores, right={1, 2, 3, 4, 5})
    width = report.prediction_interval.half_widths.get("0.9") if report.prediction_interval else None
    if width is not None:
        print(f"90 % of new rows like the test rows lie within ± {short(width)} of the prediction")
    _show_worth(report)
    for reason, count in report.rows_dropped.items():
        print(f"left out: {count:,} rows ({reason.replace('_', ' ')})")
    for warning in report.warnings:
        print(f"note: {warning}")


def _show_coefficients(report: FitReport) -> None:
    inference, standardized = report.inference, report.standardized
    head: tuple[str, ...] = ("column", "coefficient", "standardized")
    rows: list[tuple[str, ...]] = [("(intercept)", short(report.intercept), "")]
    if inference:
        head += ("std. error", "t", "p", "low", "high")
        rows[0] += _estimate(inference.intercept)
    shown = set(sorted(standardized, key=lambda name: -abs(standardized[name]))[:SHOWN])
    for name in filter(shown.__contains__, standardized):
        row: tuple[str, ...] = (name, short(report.coefficients[name]), short(standardized[name]))
        rows.append(row + (_estimate(inference.coefficients.get(name)) if inference else ()))
    table(head, rows, right=set(range(1, len(head))))
    if len(shown) < len(standardized):
        print(f"(the {SHOWN} largest of {len(standardized)}, standardized; --json or --out gives all)")
    print()


def _estimate(found: Estimate | None) -> tuple[str, ...]:
    return tuple(map(short, (found.std_error, found.t, found.p_value, found.low, found.high))) if found else ("",) * 5


def _show_worth(report: FitReport) -> None:
    done = "in" if report.training else "read in"
    parts = [f"{report.rows_read:,} rows {done} {report.timings.get('total', 0.0):.2f} s"]
    if (found := report.certificate) and found.relative is not None:
        parts.insert(0, f"{found.kind.replace('_', ' ')} {found.relative:.1e} (relative), from the {found.rests_on}")
    print(f"\n{'; '.join(parts)}")


def show_solver(report: FitReport) -> None:
    """How a gradient run came to its answer."""
    found = report.training
    if not found:
        return
    distance = found.distance_to_optimum
    away = "" if distance is None else f", {from_optimum(distance)}"
    print(f"gradient steps, mode {found.mode}: {found.epochs:g} epochs, {found.rounds:,} rounds{away}")
    print(f"{found.ending.state}: {found.ending.cause}")
