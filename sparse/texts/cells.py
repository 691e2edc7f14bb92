"""One exact fit to a table of cells whose text columns have any number of levels: these are columns of a sparse design,
numbers and shapes are as in dense fits. Files that are sparse themselves are in `sparse.fit`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.coordinator import Coordinator
from shoal.data.columns import ColumnChoice, choose_columns
from shoal.data.dataset import Column, Dataset
from shoal.data.encoding import Encoding, spelled_levels
from shoal.data.splits import Split
from shoal.data.terms import HashedText, Level, Rare, Term
from shoal.data_pipeline import design_rows
from shoal.errors import ConfigError, DataError, OutOfMemory, Remedy
from shoal.fitting.exact import Fit, Prepared, check_bad_rows, check_rows, design_for, notes_before, rows_dropped
from shoal.fitting.guidance.findings import findings_of
from shoal.fitting.guidance.known import Known
from shoal.fitting.reports import Trained, described
from shoal.kernels.threads import one_thread
from shoal.lazy.classes import dataclass
from shoal.metrics import Timings
from shoal.models import Array, penalty_for
from shoal.passes.blocks import Sums
from shoal.passes.quantiles import base_for
from shoal.passes.weights import Weighting, weighted, weighting_of
from shoal.results.findings import Routine
from shoal.settings.config import RunConfig
from shoal.settings.levels import levels_by_column
from shoal.settings.limits import MOST_LEVELS, SOLVING, TEXT_COPIES, check_sparse, memory_for_exact, sparse_bytes
from shoal.settings.strength import strength
from shoal.settings.transforms import PLAIN, TEXTS, ColumnPart, parts_by_column
from shoal.solve.moments import FEWER, Moments, plan_cells
from shoal.solve.paths import Solution
from shoal.solve.rows.sparse import SparseRows
from shoal.solve.rows.wide import solve_wide
from shoal.sparse.texts.columns import Codes, TextDesign, by_hash, by_level, codes_of, counted, hashed_parts
from shoal.sparse.texts.scores import ScoreTexts, added
from shoal.utils import available_memory
from shoal.words import plural


@dataclass(frozen=True)
class _Asked:
    """What a config asks for: numbers, shapes and products of `choice` as dense terms, the rest as sparse ones."""

    config: RunConfig  # without hashes
    choice: ColumnChoice
    texts: tuple[Column, ...]  # one term a level
    hashes: tuple[tuple[Column, ColumnPart], ...]

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns that have no dense terms."""
        return tuple(dict.fromkeys(column.name for column in (*self.texts, *(one for one, _ in self.hashes))))

    @classmethod
    def of(cls, dataset: Dataset, config: RunConfig) -> _Asked:
        parts = parts_by_column(config.transform, dataset.columns)
        hashes = [(dataset.columns[name], part) for name, own in parts.items() for part in own if part.how in TEXTS]
        hashed_parts(hashes)
        names = {column.name for column, _ in hashes}
        gone = {config.target, config.weights, *config.exclude}
        for name in names:
            if name in gone or (config.features and name not in config.features):
                raise ConfigError(
                    f"Expected columns that the model uses in transform, got '{name}', which is the target or left "
                    "out. Take it out of transform, or add it to the features.", knobs=["transform", "features"],
                )  # fmt: skip
            if odd := [str(part) for part in parts[name] if part.how not in (*TEXTS, PLAIN)]:
                raise ConfigError(f"A text has no {odd[0]}, which '{name}' has in transform.", knobs=["transform"])
        only = {name for name in names if ColumnPart(PLAIN) not in parts[name]}
        kept = tuple(text for text in config.transform if not parts_by_column([text], dataset.columns).keys() & names)
        plain = replace(
            config, transform=kept, exclude=(*config.exclude, *sorted(only - {*config.exclude})),
            features=tuple(name for name in config.features if name not in only),
        )  # fmt: skip
        if config.features and not plain.features:
            choice = ColumnChoice([], [], [])
        else:
            choice = choose_columns(dataset, plain, sparse=True)
        paired = {column.name for pair in choice.products for column in (pair.left, pair.right)}
        texts = tuple(column for column in choice.texts if column.name not in paired)
        dense = choice._replace(texts=[column for column in choice.texts if column.name in paired])
        return cls(plain, dense, texts, tuple(hashes))


@dataclass(frozen=True)
class _Rows:
    """The training rows: dense terms (n, p) without their zeros, the target, weights, and codes of texts by column."""

    X: Any
    y: Array
    weights: Array | None
    codes: dict[str, Codes]


def fit_cells(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Trained:
    """As `fitting.exact.fit_exact`, without a matrix of columns x columns, and so without errors of coefficients."""
    check_sparse(config)
    check_bad_rows(dataset, config)
    asked, split = _Asked.of(dataset, config), Split(config.test_every, config.test_fraction, config.seed)
    used = [*asked.choice.names, *asked.beside]
    weighting = weighting_of(coordinator.swept, dataset, config, split, used)
    with timings.stage("moments"):
        base, train = _sums(coordinator, dataset, asked, split, weighting)
        encoding, notes = design_for(
            coordinator, dataset, asked.config, asked.choice, base, train.mean, train.n, split, alone=not asked.beside
        )
    check_memory(dataset, len(encoding.terms), len(asked.texts) + len(asked.hashes))
    with timings.stage("rows"), one_thread, np.errstate(over="ignore", invalid="ignore"):
        taken = _taken(dataset, encoding, split, asked.beside)
        designs = _designs(asked, config, taken)
        rows = _standardised(taken, designs, config)
    with timings.stage("solve"), one_thread:
        solution = solve_wide(rows, penalty_for(config.model, strength(config), config.l1_ratio, rows.n))
    with timings.stage("score"):
        sums = _score(coordinator, dataset, encoding, split, designs, solution, rows)
    findings = findings_of(Known.of(dataset, config, base, train)) if base.terms else ()
    said = notes_before(dataset, weighting, asked.choice, [*notes, *(d.note for d in designs if d.note)])
    whole = _whole(encoding, designs)
    prepared = Prepared(dataset, split, whole, said, findings=findings, weighting=weighting)
    dropped = rows_dropped(prepared, config, sums.train.rows + sums.test.rows)
    kept = _with_weight(whole.terms, solution.coef)
    told = (
        *said,
        *solution.notes,
        *_new_levels(config, sums.unseen),
        Routine(_sparse_note(len(whole.terms), len(kept))),
    )
    prepared = replace(prepared, encoding=replace(whole, terms=tuple(whole.terms[i] for i in kept)))
    solution = replace(solution, w=solution.w[kept], coef=solution.coef[kept])
    return replace(described(Fit(config, prepared, solution, sums, None, dropped, told, math.nan)), fit=None)


def _with_weight(terms: Sequence[Term], coef: Array) -> npt.NDArray[np.intp]:
    """The terms that a model file has: of texts those with a weight. Where one level of a column alone has none, it
    stays: it would pass for the one that others are compared with."""
    of_text = [isinstance(term, Level | HashedText) and not isinstance(term, Rare) for term in terms]
    gone = np.array(of_text, bool) & (coef == 0)
    alone = Counter(terms[i].columns for i in np.flatnonzero(gone).tolist())
    return np.array([i for i, out in enumerate(gone.tolist()) if not out or alone[terms[i].columns] == 1], np.intp)


def _new_levels(config: RunConfig, unseen: int) -> list[str]:
    """Where levels are very many, new ones come: as which of the known ones they are predicted then."""
    if not unseen or config.coding != "reference" or config.model == "linear":
        return []
    return [
        "A level that is new is predicted as the one that others are compared with, which may be an extreme one, and "
        "intervals do not hold there. With coding full it counts as an average one (--coding full)."
    ]


def _sparse_note(terms: int, kept: int) -> str:
    gone = f"; {terms - kept:,} without a weight are not in the model file" if kept < terms else ""
    return f"Levels were kept sparse: {plural(terms, 'column')} in all{gone}. There are no standard errors."


def _sums(
    coordinator: Coordinator, dataset: Dataset, asked: _Asked, split: Split, weighting: Weighting | None
) -> tuple[Encoding, Moments]:
    """The dense terms that everything follows from, and their moments over the training rows."""
    base = weighted(base_for(coordinator.swept, dataset, asked.config, split, asked.choice), weighting)
    base = replace(base, present=asked.beside)
    plan_cells(len(base.terms) + 1, 2, memory_for_exact(available_memory()), SOLVING, 2, FEWER)
    train, _ = coordinator.moments(dataset, base, split)
    train = weighting.counted(train) if weighting else train
    check_rows(train.n, asked.config)
    return base, train


def check_memory(dataset: Dataset, dense: int, sparse: int) -> None:
    """What the fit would take is refused before it is taken; `sparse` text columns have a value a row each, or more."""
    levels = sum(len(column.levels) for column in dataset.level_columns)
    values = dataset.rows * (dense + sparse)
    need = sparse_bytes(values, TEXT_COPIES * levels, dataset.rows)
    free = memory_for_exact(available_memory())
    if need > free:
        raise OutOfMemory(
            f"An exact fit to {values:,} values in {dataset.rows:,} rows and up to {dense + levels:,} columns needs "
            f"{need / 1e6:,.0f} MB, but only {free / 1e6:,.0f} MB may be used. Use fewer rows or columns, or more "
            "memory.", Remedy.set("Or leave columns of very many levels out", "max_levels", MOST_LEVELS),
        )  # fmt: skip


def _taken(dataset: Dataset, encoding: Encoding, split: Split, names: Sequence[str]) -> _Rows:
    from scipy.sparse import csr_array, vstack  # here: only sparse rows need it

    parts, targets, weights = [csr_array((0, len(encoding.terms)))], list[Array](), list[Array]()
    codes: dict[str, list[Codes]] = {name: [] for name in names}
    for block in dataset.blocks:
        own = {name: codes_of(dataset, dataset.columns[name], block) for name in names}
        for chunk in design_rows(encoding, dataset, block):
            train = ~split.is_test(chunk.row)
            parts.append(csr_array(chunk.X[train]))
            targets.append(chunk.y[train])
            weights += [] if chunk.weight is None else [chunk.weight[train]]
            for name, levels in own.items():
                codes[name].append(levels[chunk.row[train] - block.first])
    X = vstack(parts, format="csr")
    return _Rows(
        X, np.concatenate(targets), np.concatenate(weights) if weights else None,
        {name: np.concatenate(own) for name, own in codes.items()},
    )  # fmt: skip


def _designs(asked: _Asked, config: RunConfig, rows: _Rows) -> list[TextDesign]:
    texts = [column.name for column in asked.texts]
    wanted = levels_by_column(spelled_levels(config.reference, config.one_spelling, texts), texts)

    def counts(column: Column) -> Array:
        return counted(rows.codes[column.name], len(column.levels), rows.weights)

    one_a_level = [by_level(column, counts(column), config, wanted.get(column.name)) for column in asked.texts]
    return [*one_a_level, *(by_hash(column, counts(column), part) for column, part in asked.hashes)]


def _standardised(taken: _Rows, designs: Sequence[TextDesign], config: RunConfig) -> SparseRows:
    from scipy.sparse import hstack

    X = hstack([taken.X, *(design.rows(taken.codes[design.column.name]) for design in designs)], format="csc")
    if not X.shape[1]:
        raise DataError("No column is left to predict from: none was chosen. Choose other features.")
    most = max(1, math.isqrt(memory_for_exact(available_memory()) // (8 * SOLVING)))
    rows = SparseRows.of(X, taken.y, config.intercept, config.standardize, taken.weights, most)
    if not (np.isfinite(rows.squares).all() and np.isfinite(rows.y_scatter)):
        raise DataError("Expected values whose squares can be summed, got some over about 1e150. Divide them first.")
    return rows


def _score(
    coordinator: Coordinator, dataset: Dataset, encoding: Encoding, split: Split, designs: Sequence[TextDesign],
    solution: Solution, rows: SparseRows,
) -> Sums:  # fmt: skip
    dense = len(encoding.terms)
    adds: dict[str, Array] = {}
    first = dense
    for design in designs:
        own = design.adds(solution.coef[first : first + len(design.terms)])
        adds[design.column.name] = adds.get(design.column.name, 0.0) + own
        first += len(design.terms)
    fitted = (solution.coef[:dense], solution.intercept, rows.units.centre[:dense], rows.units.scale[:dense])
    requests = [
        ScoreTexts(str(dataset.directory), block, encoding, split, *fitted, added(dataset, block, adds))
        for block in dataset.blocks
    ]
    total: Sums = reduce(Sums.merge, coordinator.swept("scoring", requests))
    return total


def _whole(encoding: Encoding, designs: Sequence[TextDesign]) -> Encoding:
    """All terms of the model."""
    terms = [term for design in designs for term in design.terms]
    known = {design.column.name: design.known for design in designs if design.known is not None}
    usual = {design.column.name: design.usual for design in designs if design.usual}
    compared = {design.column.name: design.compared for design in designs if design.compared is not None}
    return replace(
        encoding, terms=(*encoding.terms, *terms), known={**encoding.known, **known},
        usual={**encoding.usual, **usual}, compared={**encoding.compared, **compared}, present=(),
    )  # fmt: skip
