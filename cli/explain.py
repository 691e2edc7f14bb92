"""The command `shoal explain`: what the numbers of a saved model are worth, as tables with sentences, or as JSON."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shoal.cli.flags import Add, add_knobs
from shoal.cli.printing import clear_line, print_json, table
from shoal.settings.config import ON_CLUSTER
from shoal.words import compared, per_day, short, term_shown, width_words

if TYPE_CHECKING:
    from shoal.results.answers.explanation import CoefficientIntervals, ModelExplanation, ResampledIntervals
    from shoal.results.answers.importance import ColumnWorth
    from shoal.results.fit import PredictionInterval

SHOWN = 40  # rows of a table
PLACE = {"engine", *ON_CLUSTER, "workers"}  # where the rows are read again
WIDTH = 110  # of a sentence
TITLES = {
    "linear": "Least squares",
    "likelihood": "Maximum likelihood",
    "large_samples": "As of large samples",
    "ridge": "Ridge",
    "shrunk": "With the shrinkage of the penalty",
    "debiased": "With the shrinkage of the penalty removed",
    "desparsified": "With the shrinkage of the penalty removed",
}
SETS = "split conformal sets"  # as `solve.conformal` calls them, which loads NumPy
WORTH = ("estimate", "std_error", "low", "high")


def add_command(add: Add, progress: Callable[[bool], Any]) -> None:
    parser = add("explain", help="how certain a model's coefficients are: intervals, importance of columns")
    parser.add_argument("model", metavar="MODEL", help="a model file, or a saved model: NAME or NAME:VERSION")
    parser.add_argument(
        "--resamples", type=int, default=500, metavar="N", help="resamples of the bootstrap (default: %(default)s)"
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        metavar="LEVEL",
        help="confidence of the intervals (default: %(default)s)",
    )
    parser.add_argument("--alpha", type=float, metavar="A", help="another strength of the penalty than the model's")
    parser.add_argument(
        "--folds", type=int, default=10, metavar="K", help="folds of the cross-validation (default: %(default)s)"
    )
    parser.add_argument(
        "--fold-by", default="", metavar="WAY",
        help="row, hash, group:COLUMN or time:COLUMN; by row if not given, or by hash where the model has test rows",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="the seed of the resamples (default: %(default)s)")
    add_knobs(parser, PLACE)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=lambda chosen: _explain(chosen, progress))


def _explain(chosen: argparse.Namespace, progress: Callable[[bool], Any]) -> None:
    from shoal.cli.models import model_path
    from shoal.tasks.explain import ExplainRequest, explain_model

    question = ExplainRequest(
        chosen.resamples, chosen.confidence, chosen.alpha, chosen.folds, chosen.fold_by, chosen.seed
    )
    place = {knob: value for knob, value in vars(chosen).items() if knob in PLACE}
    found = explain_model(model_path(chosen.model), question, progress(chosen.json), place)
    clear_line()
    if chosen.json:
        print_json(found.as_dict())
    else:
        _show(found)


def _show(found: ModelExplanation) -> None:
    alpha = "" if found.alpha is None else f", alpha = {found.alpha:g}"
    ratio = "" if found.l1_ratio is None else f", l1_ratio = {found.l1_ratio:g}"
    print(f"{found.model} model of {found.target}{alpha}{ratio}: {found.rows:,} training rows")
    names = _largest(found)
    _show_coefficients(found, names)
    for one in found.intervals:
        _show_intervals(one, names)
    if found.bootstrap:
        _show_bootstrap(found.bootstrap, names)
    if found.importance:
        _show_importance(found.importance)
    if found.prediction_interval:
        _show_predictions(found.prediction_interval, len(found.intercepts) > 1)
    for note in found.notes:
        print(f"\nnote: {note}")


def _largest(found: ModelExplanation) -> list[str]:
    """The columns to show, in the order of the model: those that stand out most, where there are many."""
    coefficients = found.coefficients
    if len(coefficients) <= SHOWN or not found.intervals:
        return list(coefficients)[:SHOWN]
    worth = found.intervals[0].coefficients

    def stands_out(name: str) -> float:
        one = worth.get(name) or {}
        estimate, error = one.get("estimate"), one.get("std_error")
        return -abs(estimate / error) if estimate is not None and error else 0.0

    shown = set(sorted(coefficients, key=stands_out)[:SHOWN])
    return [name for name in coefficients if name in shown]


def _title(text: str) -> None:
    print(f"\n{text}")


def _say(text: str) -> None:
    print(textwrap.fill(text, WIDTH))


def _show_coefficients(found: ModelExplanation, names: list[str]) -> None:
    chosen = found.bootstrap.selection if found.bootstrap else None
    selection = chosen.columns if chosen else None
    head: tuple[str, ...] = ("column", "coefficient", *(("selected",) if selection else ()))
    rows: list[tuple[str, ...]] = [
        (name, short(value), *(("",) if selection else ())) for name, value in found.intercepts.items()
    ]
    for name in names:
        share = (f"{100 * (selection[name]['selected'] or 0.0):.0f} %",) if selection else ()
        rows.append((term_shown(name), short(found.coefficients[name]), *share))
    table(head, rows, right={1, 2})
    if len(names) < len(found.coefficients):
        print(f"({len(names)} of {len(found.coefficients)}; --json gives all)")
    for said in filter(None, (compared(found.references), per_day(found.dates))):
        _say(said)
    if chosen:
        _say(f"selected: {chosen.meaning}")


def _show_intervals(one: CoefficientIntervals, names: list[str]) -> None:
    _title(f"{TITLES[one.kind]}: intervals by formula, {100 * one.confidence:g} %")
    rows: list[tuple[str, ...]]
    rows = [("(intercept)", *(short(one.intercept[k]) for k in WORTH))] if one.intercept else []
    rows += [(term_shown(name), *(short(one.coefficients[name][k]) for k in WORTH)) for name in names]
    table(("column", "estimate", "std. error", "low", "high"), rows, right={1, 2, 3, 4})
    _say(one.meaning)


def _show_bootstrap(one: ResampledIntervals, names: list[str]) -> None:
    _title(f"{TITLES[one.kind]}: intervals by {one.resamples:,} resamples, {100 * one.confidence:g} %")
    rows: list[tuple[str, ...]] = []
    if one.intercept:
        rows = [("(intercept)", "", "", short(one.intercept["low"]), short(one.intercept["high"]))]
    rows += [(term_shown(name), *(short(one.coefficients[name][k]) for k in WORTH)) for name in names]
    table(("column", "estimate", "std. error", "low", "high"), rows, right={1, 2, 3, 4})
    _say(one.meaning)


def _show_importance(found: ColumnWorth) -> None:
    if found.is_borrowed:
        rows = f"{found.rows:,} {found.part} rows"
        _title(f"Importance of each column: mean deviance {short(found.error)} on {rows} with all of them")
    else:
        _title(
            f"Importance of each column: {found.folds} folds by {found.fold_by}, mean squared error "
            f"{short(found.error)} with all of them"
        )
    error = found.error or 1.0
    shown = [(name, short(rise), _percent((rise or 0.0) / error)) for name, rise in list(found.rises.items())[:SHOWN]]
    rise = "rise with its values shuffled" if found.is_borrowed else "rise without it"  # only folds are fitted anew
    table(("column", rise, "in percent"), shown, right={1, 2})
    if len(shown) < len(found.rises):
        print(f"({len(shown)} of {len(found.rises)}; --json gives all)")
    _say(found.meaning)


def _percent(share: float) -> str:
    """With its sign, but none for what rounds to nothing."""
    return f"{round(100 * share, 2) + 0.0:+.2f} %"


def _show_predictions(found: PredictionInterval, several: bool) -> None:
    what = "Sets of values" if found.method == SETS else "Prediction intervals"
    _title(f"{what}: from {found.rows:,} test rows")
    sets = found.method == SETS
    rows = [
        (
            f"{100 * float(level):g} %",
            f"up to {short(width)}" if sets else width_words(width, found.spread, found.centre),
        )
        for level, width in found.half_widths.items()
        if width is not None
    ]
    if rows:
        beside = "others where 1 less their probability is" if several else "both values where the likelier has"
        table(("of new rows", beside if sets else "are within"), rows, right={0, 1})
        _say(found.meaning)
    if found.note:
        _say(found.note)
