"""One exact fit from a data set to a model with scores, intervals and a certificate; the steps in their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import ColumnChoice, base_encoding, choose_columns, design_encoding, fills_for, small_medians
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding, mapped
from shoal.data.notation.words import told
from shoal.data.splits import Split
from shoal.data.terms import Indicator, Number
from shoal.data_pipeline import design_rows
from shoal.errors import BadRowsError, DataError, Remedy
from shoal.fitting.leaks import AgainstTarget, leak_columns
from shoal.metrics import Timings
from shoal.models import L1L2, Array, penalty_for
from shoal.passes.blocks import Sums
from shoal.passes.medians import medians as exact_medians
from shoal.settings.config import RunConfig
from shoal.settings.limits import POLISHED_CELLS, SOLVING, memory_for_exact
from shoal.solve.inference import Inference, inference
from shoal.solve.least_squares import LeastSquares, Standardisation, needs_data
from shoal.solve.moments import Moments, plan_cells
from shoal.solve.paths import Solution, polish, refine, solve, with_certificate
from shoal.utils import available_memory

SMALL = 2e7  # rows x columns^2 up to which R is always taken from the rows: it costs no time that one would notice
NEARLY_DEPENDENT = 1e6  # condition number from which it is said
GOOD_ENOUGH = 1e-12  # relative certificate from the data at which refinement stops


@dataclass(frozen=True)
class Prepared:
    """What rows and columns a model is fitted to; nothing of it depends on the penalty."""

    dataset: Dataset
    split: Split
    encoding: Encoding
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Reduced(Prepared):
    """The same with the small problem that is equal to all training rows, and the moments of both kinds of rows."""

    problem: LeastSquares
    train: Moments
    test: Moments


@dataclass(frozen=True)
class Fit:
    """A fitted model and all that is said about it."""

    config: RunConfig
    prepared: Prepared
    solution: Solution
    sums: Sums
    inference: Inference | None
    rows_dropped: dict[str, int]
    notes: tuple[str, ...]
    condition: float


def fit_exact(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Fit:
    """Prepare the equivalent small problem, solve it, look at the rows once more, and say what came out."""
    prepared = prepare(coordinator, dataset, config, timings)
    problem = prepared.problem
    penalty = penalty_for(config.model, config.alpha, config.l1_ratio, problem.n)
    with timings.stage("solve"):
        solution = solve(problem, penalty)
        solution, polished = _polished(prepared, penalty, solution)
    with timings.stage("score"):
        solution, sums = _checked_on_data(coordinator, prepared, penalty, solution, refining=not polished)
    with timings.stage("inference"):
        worth = inference(problem, solution, config.confidence) if config.model == "linear" else None
    return Fit(
        config,
        prepared,
        solution,
        sums,
        worth,
        rows_dropped(dataset, config, sums),
        (*prepared.notes, *solution.notes, *precision_notes(problem, penalty, solution)),
        problem.condition(penalty.l2),
    )


def prepare(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Reduced:
    """Choose the columns, sum moments over the training rows, and reduce them to a problem of p rows."""
    check_bad_rows(dataset, config)
    split = Split(config.test_every, config.test_fraction, config.seed)
    choice = choose_columns(dataset, config)
    base = base_encoding(choice, config)
    plan_cells(len(base.terms) + 1, 2, memory_for_exact(available_memory()), SOLVING, least=2)
    with timings.stage("moments"):
        train, test = coordinator.moments(dataset, base, split)
        check_rows(train.n, config)
        encoding, notes = design_for(coordinator, dataset, config, choice, base, train.mean, split)
        moments, held = (mapped(part, base, encoding) for part in (train, test))
    with timings.stage("solve"):
        l2 = penalty_for(config.model, config.alpha, config.l1_ratio, moments.n).l2
        problem = LeastSquares.from_moments(moments, config.intercept, config.standardize)
        from_rows = needs_data(problem, l2) or moments.n * len(encoding.terms) ** 2 < SMALL
    if from_rows:
        with timings.stage("factor"):
            units = Standardisation.of(moments, config.intercept, config.standardize)
            T = coordinator.triangle(dataset, encoding, split, units)
            problem = LeastSquares.from_triangle(T, units, moments.n)
    leaks = _leak_notes(leak_columns(AgainstTarget.of(train), base))
    said = (*dataset.notes, *bad_row_notes(dataset), *choice.notes, *notes, *leaks)
    return Reduced(dataset, split, encoding, said, problem, moments, held)


def check_bad_rows(dataset: Dataset, config: RunConfig) -> None:
    """Stop if more rows could not be read than the config lets pass."""
    manifest = dataset.manifest
    limit = {"stop": 0, "skip": manifest.bad_count}.get(config.on_bad_rows, min(100, manifest.rows // 100))
    if manifest.bad_count - manifest.repeated <= limit:
        return
    if words := {word: None for column in manifest.columns for word, _ in column.words}:
        raise BadRowsError(
            f"{manifest.bad_count} of {manifest.rows} rows could not be read, expected at most {limit}: "
            f"{words_told(dataset)}.",
            Remedy.set("If these words mean that there is no value, treat them as missing", "also_missing",
                       ",".join([*config.also_missing, *words])),
            Remedy.set("Or leave these rows out", "on_bad_rows", "skip"),
        )  # fmt: skip
    shown = "; ".join(f"line {line}: {what}" for line, what in manifest.bad_rows[:5])
    more = f" (and {manifest.bad_count - 5} more)" if manifest.bad_count > 5 else ""
    raise BadRowsError(
        f"{manifest.bad_count} of {manifest.rows} rows could not be read, expected at most {limit}: {shown}{more}.",
        Remedy.set(
            "Correct the file, give the right delimiter or encoding, or leave these rows out", "on_bad_rows", "skip"
        ),
    )


def bad_row_notes(dataset: Dataset) -> list[str]:
    manifest = dataset.manifest
    if manifest.bad_count <= manifest.repeated:
        return []
    shown = words_told(dataset) or "; ".join(f"line {line}: {what}" for line, what in manifest.bad_rows[:3])
    rows = "1 row" if manifest.bad_count == 1 else f"{manifest.bad_count} rows"
    return [f"{rows} could not be read and left out ({shown})."]


def words_told(dataset: Dataset) -> str:
    """The columns of numbers with words among them."""
    having = [column for column in dataset.manifest.columns if column.words]
    return "; ".join(f"column '{column.name}' has words among its numbers: {told(column.words)}" for column in having)


def check_rows(count: float, config: RunConfig) -> None:
    if count < 1:
        why = " after rows with missing values were dropped" if config.impute == "drop" else ""
        raise DataError(
            f"Expected training rows with a value of '{config.target}', got none{why}. "
            "Choose another target, or keep fewer rows for testing."
        )


def design_for(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: ColumnChoice, base: Encoding, mean: Array,
    split: Split,
) -> tuple[Encoding, list[str]]:  # fmt: skip
    """The encoding that the model is fitted in; `mean` is that of (base terms..., target) over the training rows."""
    with_missing = [t.column for t in base.terms if isinstance(t, Indicator)]
    wanted = with_missing if config.impute == "median" else []
    medians = exact_medians(coordinator.swept, dataset, wanted, config.target, split) if wanted else {}
    fills = fills_for(base, config, mean, medians)
    complete = [t.column for t in base.terms if isinstance(t, Number) and t.column not in with_missing]
    if config.impute == "median" and complete and dataset.rows * len(complete) <= POLISHED_CELLS:
        fills |= small_medians(dataset, complete, config.target, split)
    encoding, notes = design_encoding(base, config, fills, mean[:-1])
    if not encoding.terms:
        raise DataError(
            "No column is left to predict from: "
            + (" ".join((*choice.notes, *notes)) or "none was chosen.")
            + " Choose other features or raise max_levels."
        )
    return encoding, notes


def _polished(prepared: Reduced, penalty: L1L2, solution: Solution) -> tuple[Solution, bool]:
    """Nearly all digits, where the model is linear and all rows are at hand; whether that was so."""
    blocks = prepared.dataset.blocks
    if penalty != L1L2() or len(blocks) != 1 or blocks[0].rows * len(prepared.encoding.terms) > POLISHED_CELLS:
        return solution, False
    X, y = [], []
    for chunk in design_rows(prepared.encoding, prepared.dataset, blocks[0]):
        train = ~prepared.split.is_test(chunk.row)
        X.append(chunk.X[train])
        y.append(chunk.y[train])
    return polish(np.concatenate(X), np.concatenate(y), prepared.problem, solution), True


def _checked_on_data(
    coordinator: Coordinator, prepared: Reduced, penalty: L1L2, solution: Solution, refining: bool
) -> tuple[Solution, Sums]:
    """Scores and a certificate from the rows; the weights are refined by their gradient while that helps."""
    problem = prepared.problem
    best: tuple[Solution, Sums] | None = None
    while True:
        sums = coordinator.score(
            prepared.dataset, prepared.encoding, prepared.split,
            solution.coef, solution.intercept, problem.units.centre, problem.units.scale,
        )  # fmt: skip
        solution = with_certificate(problem, penalty, solution, sums.gradient, sums.train.squares)
        if best is not None and not solution.certificate.relative < best[0].certificate.relative / 2:
            return best
        best = solution, sums
        if not refining or solution.certificate.relative < GOOD_ENOUGH or not solution.unique:
            return best
        solution = refine(problem, penalty, solution, sums.gradient)


def precision_notes(problem: LeastSquares, penalty: L1L2, solution: Solution) -> list[str]:
    condition = problem.condition(penalty.l2)
    if not solution.unique or condition < NEARLY_DEPENDENT:
        return []
    return [
        f"The columns nearly depend on one another (condition number {condition:.0e}): single coefficients are "
        "sensitive to the last digits of the data; predictions are not. A ridge penalty or fewer columns would help."
    ]


def rows_dropped(dataset: Dataset, config: RunConfig, sums: Sums) -> dict[str, int]:
    """Why rows were left out, and how many."""
    bad = dataset.manifest.bad_count
    no_target = dataset.columns[config.target].missing
    rest = dataset.rows - sums.train.rows - sums.test.rows - bad - no_target
    reasons = {"bad_row": bad, "target_missing": no_target, "feature_missing": rest}
    return {reason: count for reason, count in reasons.items() if count > 0}


def _leak_notes(columns: set[str]) -> list[str]:
    return [
        f"Column '{name}' alone determines the target almost exactly (leak?). "
        "Leave it out if it would not be known when predicting."
        for name in sorted(columns)
    ]
