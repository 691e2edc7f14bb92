"""One exact fit from a data set to a model with scores, intervals and a certificate; the steps in their order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from functools import cached_property

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.columns import ColumnChoice, check_names, choose_columns, design_encoding, fills_for, small_medians
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding, mapped
from shoal.data.formats.headers import names_totals
from shoal.data.notation.limits import TOLD as LIMITS
from shoal.data.notation.words import told
from shoal.data.splits import Split
from shoal.data.summaries.columns import training_columns
from shoal.data.terms import Indicator, Number
from shoal.data_pipeline import design_rows
from shoal.errors import BadRowsError, DataError, Remedy
from shoal.fitting.guidance.findings import findings_of
from shoal.fitting.guidance.known import Known
from shoal.lazy.classes import dataclass
from shoal.metrics import Timings
from shoal.models import L1L2, Array, penalty_for
from shoal.passes.blocks import Sums
from shoal.passes.quantiles import base_for
from shoal.passes.quantiles import medians as exact_medians
from shoal.passes.weights import Weighting, weighted, weighting_of
from shoal.results.findings import Finding, Routine, routine
from shoal.results.model import TrainingColumn
from shoal.settings.config import RunConfig
from shoal.settings.limits import POLISHED_CELLS, SOLVING, allowed_bad_rows, has_gradient_way, memory_for_exact
from shoal.settings.strength import strength
from shoal.solve.inference import Inference, inference, with_errors
from shoal.solve.least_squares import LeastSquares, Standardisation, needs_data
from shoal.solve.moments import FEWER, STEPS, Moments, plan_cells
from shoal.solve.paths import Solution, polish, refine, solve, with_certificate
from shoal.utils import available_memory
from shoal.words import list_text, meaning_none, plural, way_for

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
    findings: tuple[Finding, ...] = field(default=(), kw_only=True)
    weighting: Weighting | None = field(default=None, kw_only=True)

    @property
    def repeats(self) -> bool:
        """Whether weights say how many equal rows each one stands for."""
        return self.weighting is not None and self.weighting.repeats

    @cached_property
    def training_columns(self) -> dict[str, TrainingColumn]:
        """What the columns are like, looked at once however many penalties are then asked about."""
        return training_columns(self.dataset, [*dict.fromkeys((*self.encoding.columns, *self.encoding.known))])


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
    penalty = penalty_for(config.model, strength(config), config.l1_ratio, problem.n)
    with timings.stage("solve"):
        solution = solve(problem, penalty)
        solution, polished = _polished(prepared, penalty, solution)
    with timings.stage("score"):
        solution, sums = _checked_on_data(coordinator, prepared, penalty, solution, refining=not polished)
    with timings.stage("inference"):
        plain = config.model == "linear" and not config.nonnegative
        worth = inference(problem, solution, config.confidence) if plain else None
        if worth and config.robust != "none":
            worth = _robust(coordinator, prepared, solution, worth, config.robust)
    return Fit(
        config,
        prepared,
        solution,
        sums,
        worth,
        rows_dropped(prepared, config, sums.train.rows + sums.test.rows),
        (
            *prepared.notes,
            *solution.notes,
            *precision_notes(problem, penalty, solution),
            *(robust_notes(config) if worth else ()),
            *nonnegative_notes(config, solution.w),
        ),
        problem.condition(penalty.l2),
    )


def prepare(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Reduced:
    """Choose the columns, sum moments over the training rows, and reduce them to a problem of p rows."""
    check_bad_rows(dataset, config)
    split = Split(config.test_every, config.test_fraction, config.seed)
    choice = choose_columns(dataset, config)
    weighting = weighting_of(coordinator.swept, dataset, config, split, choice.names)
    base = weighted(base_for(coordinator.swept, dataset, config, split, choice), weighting)
    otherwise = STEPS if has_gradient_way(config, len(base.terms)) else FEWER
    plan_cells(len(base.terms) + 1, 2, memory_for_exact(available_memory()), SOLVING, 2, otherwise)
    with timings.stage("moments"):
        train, test = coordinator.moments(dataset, base, split)
        train = weighting.counted(train) if weighting else train
        check_rows(train.n, config)
        encoding, notes = design_for(coordinator, dataset, config, choice, base, train.mean, train.n, split)
        moments, held = (mapped(part, base, encoding) for part in (train, test))
    with timings.stage("solve"):
        l2 = penalty_for(config.model, strength(config), config.l1_ratio, moments.n).l2
        problem = LeastSquares.from_moments(moments, config.intercept, config.standardize)
        from_rows = needs_data(problem, l2) or moments.n * len(encoding.terms) ** 2 < SMALL
    if from_rows:
        with timings.stage("factor"):
            units = Standardisation.of(moments, config.intercept, config.standardize)
            T = coordinator.triangle(dataset, encoding, split, units)
            problem = LeastSquares.from_triangle(T, units, moments.n)
    problem = replace(problem, nonnegative=config.nonnegative and config.solver == "exact")
    findings = findings_of(Known.of(dataset, config, base, train))
    said = notes_before(dataset, weighting, choice, notes)
    return Reduced(
        dataset, split, encoding, said, problem, moments, held, findings=findings, weighting=weighting
    )  # fmt: skip


def check_bad_rows(dataset: Dataset, config: RunConfig) -> None:
    """Stop if more rows could not be read than the config lets pass, or a column is asked for that is not there, which
    would be answered with talk of others."""
    check_names(dataset, config)
    manifest = dataset.manifest
    limit = allowed_bad_rows(config.on_bad_rows, manifest.rows, manifest.bad_count)
    count = manifest.bad_count - manifest.repeated
    if count <= limit:
        return
    if pairs := [(column.name, word) for column in manifest.columns for word, _ in column.words]:
        values = dict.fromkeys(
            meaning_none(name, word) for name, word in pairs if not names_totals(word) and word not in LIMITS
        )  # totals lack no value
        remedies = [Remedy.set(
            "If these words mean that there is no value, treat them as missing", "also_missing",
            list_text([*config.also_missing, *values]),
        )] if values else []  # fmt: skip
        if ways := _ways(dataset):
            advice = "Read limits as half of them, limit or missing" if "half" in ways.values() else (
                "Read limits as limit or missing")  # fmt: skip
            entries = [*config.limits, *(f"{name}={way}" for name, way in ways.items())]
            remedies.append(Remedy.set(advice, "limits", list_text(entries)))
        leave = "Or leave these rows out" if remedies else "Leave these rows out"
        raise BadRowsError(
            f"{count} of {dataset.rows_of_table} rows could not be read, expected at most {limit}: "
            f"{words_told(dataset)}.", *remedies, Remedy.set(leave, "on_bad_rows", "skip"),
        )  # fmt: skip
    shown = "; ".join(bad.told for bad in manifest.bad_rows[:5])
    more = f" (and {count - 5} more)" if count > 5 else ""
    raise BadRowsError(
        f"{count} of {dataset.rows_of_table} rows could not be read, expected at most {limit}: {shown}{more}.",
        Remedy.set(
            "Correct the file, give the right delimiter or encoding, or leave these rows out", "on_bad_rows", "skip"
        ),
    )


def notes_before(
    dataset: Dataset, weighting: Weighting | None, choice: ColumnChoice, notes: Iterable[str], *more: str
) -> tuple[str, ...]:
    """What is said of a table before it is fitted: how it was read and what of it is used are routine."""
    return (
        *routine(dataset.manifest.notes), *dataset.repairs, *bad_row_notes(dataset),
        *routine([*([weighting.note] if weighting else []), *more, *choice.notes, *notes]),
    )  # fmt: skip


def bad_row_notes(dataset: Dataset) -> list[str]:
    manifest = dataset.manifest
    count = manifest.bad_count - manifest.repeated
    if count <= 0:
        return []
    shown = words_told(dataset) or "; ".join(bad.told for bad in manifest.bad_rows[:3])
    return [f"{plural(count, 'row')} could not be read and left out ({shown})."]


def _ways(dataset: Dataset) -> dict[str, str]:
    """For each column with limits among its numbers, what these may be read as."""
    found = {c.name: [pair for pair in c.words if pair[0] in LIMITS] for c in dataset.manifest.columns if not c.is_date}
    return {name: way_for(pairs) for name, pairs in found.items() if pairs}


def words_told(dataset: Dataset) -> str:
    """The columns of numbers with words or limits among them."""
    having = [column for column in dataset.manifest.columns if column.words]
    return "; ".join(
        f"column '{column.name}' has {'limits' if all(word in LIMITS for word, _ in column.words) else 'words'} among "
        f"its numbers: {told(column.words)}" for column in having
    )  # fmt: skip


def check_rows(count: float, config: RunConfig) -> None:
    if not count > 0:
        why = " after rows with missing values were dropped" if config.impute == "drop" else ""
        raise DataError(
            f"Expected training rows with a value of '{config.target}', got none{why}. "
            "Choose another target, or keep fewer rows for testing."
        )


def design_for(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, choice: ColumnChoice, base: Encoding, mean: Array,
    rows: float, split: Split, alone: bool = True,
) -> tuple[Encoding, list[str]]:  # fmt: skip
    """The encoding that the model is fitted in; `mean` is that of (base terms..., target) over the training `rows`.

    `alone`: a model has no columns but these."""
    with_missing = [t.column for t in base.terms if isinstance(t, Indicator)]
    wanted = with_missing if config.impute == "median" else []
    where = (config.target, split, config.weights)
    medians = exact_medians(coordinator.swept, dataset, wanted, *where) if wanted else {}
    fills = fills_for(base, config, mean, medians)
    complete = [t.column for t in base.terms if isinstance(t, Number) and t.column not in with_missing]
    if config.impute == "median" and complete:
        fills |= _usual_numbers(dataset, complete, *where)
    encoding, notes = design_encoding(base, config, fills, mean[:-1], rows)
    if alone and not encoding.terms:
        raise DataError(
            "No column is left to predict from: "
            + (" ".join((*choice.notes, *notes)) or "none was chosen.")
            + " Choose other features or raise max_levels."
        )
    return encoding, notes


def _usual_numbers(dataset: Dataset, complete: list[str], target: str, split: Split, weights: str) -> dict[str, float]:
    """Of columns without gaps, for rows to predict that have some: medians, in large tables those of sampled rows,
    which have no weights."""
    if dataset.rows * len(complete) <= POLISHED_CELLS:
        return small_medians(dataset, complete, target, split, weights)
    if weights:
        return {}
    middles = {name: dataset.columns[name].middle for name in complete}
    return {name: middle for name, middle in middles.items() if middle is not None}


def _polished(prepared: Reduced, penalty: L1L2, solution: Solution) -> tuple[Solution, bool]:
    """Nearly all digits, where the model is linear and all rows are at hand; whether that was so."""
    blocks = prepared.dataset.blocks
    if (
        prepared.weighting
        or penalty != L1L2()
        or prepared.problem.nonnegative
        or len(blocks) != 1
        or blocks[0].rows * len(prepared.encoding.terms) > POLISHED_CELLS
    ):
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


def _robust(coordinator: Coordinator, prepared: Reduced, solution: Solution, worth: Inference, kind: str) -> Inference:
    from shoal.losses.squared import Squared  # here: other fits need none of it
    from shoal.passes.residuals import RobustRows

    rows = RobustRows(
        prepared.dataset, prepared.encoding, prepared.split, Squared(), solution.coef, solution.intercept, None,
        prepared.repeats,
    )  # fmt: skip
    return with_errors(worth, *rows.errors(coordinator.swept, prepared.problem, None, kind))


def robust_notes(config: RunConfig) -> list[str]:
    if config.robust == "none":
        return []
    said = (
        f"Standard errors of the coefficients are robust ({config.robust}): they hold whatever the spread of each row; "
        "the other figures are the usual ones."
    )
    return [Routine(said)]


def nonnegative_notes(config: RunConfig, w: Array) -> list[str]:
    if not config.nonnegative:
        return []
    said = (
        f"No coefficient may be below 0 (nonnegative), which holds {int((w == 0).sum())} of {len(w)} at 0; so there "
        "are no standard errors."
    )
    return [Routine(said)]


def rows_dropped(prepared: Prepared, config: RunConfig, used: int) -> dict[str, int]:
    """Why rows were left out, and how many; so many were not."""
    dataset = prepared.dataset
    bad = dataset.manifest.bad_count - dataset.manifest.repeated
    no_target = dataset.columns[config.target].missing
    no_weight = prepared.weighting.seen.without if prepared.weighting else 0
    rest = dataset.rows_of_table - used - bad - no_target - no_weight
    why = "offset_missing" if config.offset and config.impute != "drop" else "feature_missing"
    reasons = {"bad_row": bad, "target_missing": no_target, "no_weight": no_weight, why: rest}
    return {reason: count for reason, count in reasons.items() if count > 0}
