"""What the command line prints: tables, JSON, a fit; what to print is decided by the commands."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from shoal.data.notation.words import told
from shoal.files.output import Output
from shoal.words import (
    compared,
    from_optimum,
    limits_told,
    line_told,
    list_text,
    listed,
    plural,
    seen,
    short,
    shortened,
    term_shown,
    totals_told,
    way_for,
)

if TYPE_CHECKING:
    from shoal.results.answers.predictions import FilePredictions
    from shoal.results.answers.table import ColumnLook, TableLook
    from shoal.results.fit import Estimate, FitReport
    from shoal.results.outcome import Outcome

OF_FILES, WIDEST = ("column", "target", "file"), 48  # what is cut in the middle: all rows would be as wide
SHOWN, CALLED = 40, 8  # coefficients in a table, classes side by side
MANY_WORDS, LOST = 5, 10  # columns with words that have a line each, rows without a prediction that are listed


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
        steer("\r\x1b[2K")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> None:
    rows = [[shortened(c, WIDEST) if head[i] in OF_FILES else c for i, c in enumerate(row)] for row in rows]
    widths = [max(len(str(row[i])) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        print("  ".join(cells).rstrip())


# ------------------------------------------------------------------ a fit


def show_fit(report: FitReport) -> None:
    from shoal.results.sentences import filled, left_out, three_sentences

    alpha = "" if report.alpha is None else f", alpha = {report.alpha:g}{_how_chosen(report)}"
    kind = f"linear model of {report.target}, penalty {report.penalty}" if report.penalty else None
    shrunk = f", {report.outcome.shrink} penalty" if report.outcome and report.alpha is not None else ""
    print((kind or f"{report.model} model of {report.target}") + shrunk + alpha)
    if report.network:
        _show_network(report)
        return
    for sentence in filter(None, (*three_sentences(report), left_out(report), filled(report))):
        print(sentence)
    show_notes((*report.findings, *report.to_mind), "warning")
    print()
    _show_coefficients(report)
    if report.outcome:
        _show_outcome(report.outcome)
        if not report.outcome.classes:
            _show_interval(report)
    else:
        _show_scores(report)
    _show_own(report)
    _show_worth(report)
    for reason, count in report.rows_dropped.items():
        print(f"left out: {plural(count, 'row')} ({reason.replace('_', ' ')})")
    together = report.collinearity.sentences(report.condition) if report.collinearity else []
    show_notes((*together, *_distance(report), *report.routine))


def _distance(report: FitReport) -> tuple[str, ...]:
    """How far from its optimum a gradient run has ended, where that is among the warnings."""
    said = report.training.not_converged if report.training else ""
    return (said,) if said in report.warnings else ()


def _show_network(report: FitReport) -> None:
    found = report.network
    assert found is not None
    for sentence in found.sentences(report.target):
        print(sentence)
    print()
    if report.outcome:
        _show_outcome(report.outcome)
    elif found.hidden:
        _show_scores(report)
    else:
        table(("part", "parameters"), [(part.name, f"{part.size:,}") for part in found.parts], right={1})
    _show_own(report)
    _show_worth(report)
    for reason, count in report.rows_dropped.items():
        print(f"left out: {plural(count, 'row')} ({reason.replace('_', ' ')})")
    show_notes((*report.findings, *report.warnings))


def _show_scores(report: FitReport) -> None:
    parts = {"train": report.train, "test": report.test}
    scores = [
        (name, f"{part.rows:,}", *map(short, (part.r2, part.adjusted_r2, part.rmse, part.mae)))
        for name, part in parts.items()
        if part.rows
    ]
    table(("", "rows", "R2", "adjusted R2", "RMSE", "MAE"), scores, right={1, 2, 3, 4, 5})
    _show_interval(report)


def _show_interval(report: FitReport) -> None:
    from shoal.results.sentences import bands_told, usual_range

    for said in filter(None, (usual_range(report, 6), bands_told(report, 6))):
        print(said.removesuffix("."))


def _how_chosen(report: FitReport) -> str:
    found = report.cross_validation
    error, name = (found.deviance, found.measure) if found and found.measure else (found and found.rmse, "RMSE")
    if found is None or error is None:
        return ""
    return f" (by cross-validation: {found.folds} folds by {found.fold_by}, {name} {short(error)} there)"


def show_notes(notes: Iterable[object], word: str = "note") -> None:
    for note in notes:
        print(f"{word}: {note}")


def _show_outcome(outcome: Outcome) -> None:
    """Scores of another loss, each beside that of a model that knows nothing but the training rows' mean."""
    from shoal.results.outcome import SCORE_NAMES

    parts = {name: part for name, part in (("train", outcome.train), ("test", outcome.test)) if part.rows}
    rows = [
        (label, *(short(part.scores.get(key)) for part in parts.values()),
         *(short(part.baseline.get(key)) for part in parts.values()))
        for key, label in SCORE_NAMES.items() if any(key in part.scores for part in parts.values())
    ]  # fmt: skip
    head = (*(f"{name}, {part.rows:,} rows" for name, part in parts.items()), *(f"baseline, {n}" for n in parts))
    table(("", *head), rows, right=set(range(1, 1 + len(head))))
    if outcome.several:
        _show_confusion(outcome)
    elif outcome.classes:
        no, yes = outcome.classes
        count = dict(zip(outcome.classes, outcome.class_rows, strict=True))
        print(f"'{yes}' in {count[yes]:,} training rows, '{no}' in {count[no]:,}; said to be '{yes}' from 0.5 on")
    if outcome.parameters:
        said = ", ".join(f"{name} {short(value)}" for name, value in outcome.shown_parameters.items())
        print(f"{said}; baseline: always predicting {outcome.constant} of the training rows")
    if outcome.log_likelihood is not None:
        beside = "" if outcome.aic is None else f", AIC {short(outcome.aic)}"
        print(f"log likelihood {short(outcome.log_likelihood)}, deviance {short(outcome.deviance)}{beside}")


def _show_confusion(outcome: Outcome) -> None:
    """Rows of each class, and what they are called."""
    which = "test" if outcome.test.rows else "training"
    print(f"\n{which} rows by what they are (lines) and what they are called (columns)")
    shown = outcome.classes[:CALLED]
    rows = [
        (name, *(f"{count:,}" for count in line[:CALLED]), f"{sum(line):,}")
        for name, line in zip(shown, outcome.confusion, strict=False)
    ]
    table(("", *shown, "rows"), rows, right=set(range(1, len(shown) + 2)))
    if len(shown) < len(outcome.classes):
        print(f"(the first {CALLED} of {len(outcome.classes)} classes; --json or --out gives all)")


def _show_coefficients(report: FitReport) -> None:
    from shoal.results.outcome import FACTORS, factor

    inference, standardized = report.inference, report.standardized
    head: tuple[str, ...] = ("column", "coefficient", "standardized")
    rows: list[tuple[str, ...]] = [("(intercept)", short(report.intercept), "")]
    if report.outcome and report.outcome.several:
        _show_class_coefficients(report, report.outcome)
        return
    if inference:
        letter = "z" if report.outcome and report.outcome.dispersion is None else "t"
        head += ("std. error", letter, "p", "low", "high")
        rows[0] += _estimate(inference.intercept)
    times = FACTORS.get(report.outcome.link) if report.outcome else None
    if times:
        own = (times, f"{times}, low", f"{times}, high") if inference else (times,)
        head, rows[0] = (*head, *own), (*rows[0], *("" for _ in own))
    shown = set(sorted(standardized, key=lambda name: -abs(standardized[name]))[:SHOWN])
    for name in filter(shown.__contains__, standardized):
        row: tuple[str, ...] = (report.shown(name), short(report.coefficients[name]), short(standardized[name]))
        found = inference.coefficients.get(name) if inference else None
        row += _estimate(found) if inference else ()
        row += (short(factor(report.coefficients[name])),) if times else ()
        if times and inference:
            row += (short(factor(found.low)), short(factor(found.high))) if found else ("", "")
        rows.append(row)
    table(head, rows, right=set(range(1, len(head))))
    if len(shown) < len(standardized):
        print(f"(the {SHOWN} largest of {len(standardized)}, standardized; --json or --out gives all)")
    if said := compared(report.references):
        print(said)
    print()


def _show_class_coefficients(report: FitReport, outcome: Outcome) -> None:
    """One line for each column, one column for each class; errors are in --json, --out and on the page."""
    shown = outcome.classes[:CALLED]
    from shoal.results.outcome import by_column

    found, sizes = (by_column(outcome.classes, values) for values in (report.coefficients, report.standardized))
    kept = set(sorted(sizes, key=lambda name: -max(map(abs, sizes[name])))[:SHOWN])
    rows = [("(intercept)", *map(short, outcome.intercepts[:CALLED]))]
    rows += [(term_shown(name), *map(short, values[:CALLED])) for name, values in found.items() if name in kept]
    table(("column", *shown), rows, right=set(range(1, len(shown) + 1)))
    if len(kept) < len(found):
        print(f"(the {SHOWN} largest of {len(found)}, standardized; --json or --out gives all)")
    if len(shown) < len(outcome.classes):
        print(f"(the first {CALLED} of {len(outcome.classes)} classes; --json or --out gives all)")
    if said := compared(report.references):
        print(said)
    print()


def _estimate(found: Estimate | None) -> tuple[str, ...]:
    return tuple(map(short, (found.std_error, found.t, found.p_value, found.low, found.high))) if found else ("",) * 5


def _show_own(report: FitReport) -> None:
    """What metrics of plug-ins say."""
    if report.own_metrics:
        print()
        rows = [(name, short(one.train), short(one.test), one.better) for name, one in report.own_metrics.items()]
        table(("metric", "train", "test", "better"), rows, right={1, 2})


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


def words_of_many(columns: Sequence[ColumnLook]) -> list[str]:
    """One line for words among numbers where more columns have some than a person reads lines of."""
    having = [column for column in columns if column.words]
    if len(having) <= MANY_WORDS:
        return []
    rows: dict[str, int] = {}
    for word, count in (pair for column in having for pair in column.words):
        rows[word] = rows.get(word, 0) + count
    names = listed([f"'{seen(column.name)}'" for column in having], 3)
    words = listed([f"'{word}' ({plural(count, 'time')})" for word, count in rows.items()], 8)
    return [
        f"{len(having):,} columns hold numbers or dates but for words: {names}. The words: {words}. If they mean that "
        f"there is no value: --also-missing {shlex.quote(list_text(rows))}"
    ]


def offers(column: ColumnLook, words_too: bool = True, some_lost: bool = False) -> list[str]:
    """What of a column, as `inspect` describes it, may be meant for missing, with its flag; a page has a click.
    `some_lost`: rows that cannot be read may have more of its codes."""
    name, found = column.name, []
    if words_too and (words := column.words):
        flag = shlex.quote(list_text(word for word, _ in words))
        lost = "These rows cannot be read. " if column.is_measured else "So it is read as text. "
        found.append(
            f"Column '{name}' holds {column.values_are} but for words: {told(words)}. {lost}"
            f"If they mean that there is no value: --also-missing {flag}"
        )
    if column.limits:
        lost = "These rows cannot be read" if column.is_measured else "So it is read as text"
        half = way_for(column.limits) == "half"
        flag, others = (f"{name}=half", "=limit or =missing") if half else (f"{name}=limit", "or =missing")
        found.append(
            f"Column {limits_told(name, column.limits)} {lost}. To read {'half of them, ' if half else ''}the limits "
            f"themselves, or none: --limits {shlex.quote(list_text([flag]))}, {others}"
        )
    if column.totals:
        found.append(totals_told(name, column.totals))
    least = "at least " if some_lost else ""
    for value, count in column.codes:
        flag = shlex.quote(list_text([f"{name}={value:.15g}"]))
        found.append(
            f"Column '{name}' is {value:.15g} in {least}{count:,} rows, far from its other values. "
            f"If that means that there is no value: --also-missing {flag}"
        )
    return found


def show_sparse(found: TableLook) -> None:
    """What is in a file of sparse rows."""
    look, label = found.sparse, found.columns[0]
    if look is None:
        return
    print(f"{found.file}: {found.rows:,} sparse rows (label index:value ...), {look.columns:,} columns with a value")
    print(
        f"{look.values:,} values: {look.share:.2%} of all rows times these columns; at most {look.most_in_row:,} in a "
        f"row; {look.empty_rows:,} rows have none; the last column is {look.last}"
    )
    print(f"label: {label.distinct:,} different numbers from {short(label.min)} to {short(label.max)}")
    rows = [(name, f"{count:,}", f"{count / found.rows:.2%}") for name, count in look.frequent]
    table(("most frequent", "rows", "share"), rows, right={1, 2})
    if target := found.target:
        way = f" It suits --model {target.model}, or ridge, lasso and elasticnet." if target.model else ""
        print(f"to predict: {target.why}{way}")


def show_predicted(found: FilePredictions) -> None:
    made, without = found.predicted, found.bad_rows
    beside = f"; {plural(without, 'row')} without one" if without else ""
    print(f"{plural(made, 'prediction')} of {found.target} written to {found.out}{beside}")
    show_notes(found.doubts, "warning")
    if found.kept:
        print(f"beside the columns {listed(found.kept, 8)}")
    if found.half_width is not None and found.several:
        least = short(max(0.0, 1 - found.half_width))
        print(f"with sets that hold {found.level}: the likeliest, and others from {least} on")
    elif found.half_width is not None and found.threshold is not None:
        most = short(found.half_width)
        print(f"with sets that hold {found.level}: both values where none has more than {most}")
    elif found.interval is not None:
        print(found.interval_told)
    if found.threshold is not None:
        print(f"called '{found.yes}' from a probability of {found.threshold:g} on; probabilities are of '{found.yes}'")
    show_notes(found.warnings)
    if lost := found.not_predicted:
        print("without a prediction:")
        for entry in lost[:LOST]:
            print(f"  {line_told(entry.as_dict())}")
        if without > LOST:
            print(f"  ... and {without - LOST:,} more (--json lists up to {len(lost):,})")
