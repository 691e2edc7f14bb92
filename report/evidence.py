"""What the rows add to a model file, for its report: columns, residuals, cross-validation and the path of penalties.

All by passes over the cached blocks of the file that the model was trained on, as long as that is what it was. What
cannot be had is left out, and a sentence says why. How it is shown is elsewhere.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.terms import Indicator, Number
from shoal.errors import DamagedFile, DataError, SourceChanged, TrainingError
from shoal.files.parts import is_there, title
from shoal.fitting.inspection import inspect
from shoal.fitting.model_file import SavedModel, own_data
from shoal.fitting.reports import finite
from shoal.fitting.summing import sum_cells
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.results.answers.diagnosis import Diagnosis
from shoal.results.answers.table import ColumnLook
from shoal.settings.config import RunConfig
from shoal.solve.intervals import intervals_for
from shoal.solve.moments import merge_all
from shoal.solve.paths import alpha_grid, weights_along
from shoal.sparse.inspection import looked_at_sparse
from shoal.sparse.table import is_sparse, open_table
from shoal.tasks.diagnose import residuals_of
from shoal.tasks.train import coordinated
from shoal.tasks.workers import reachable
from shoal.utils import Progress, silent
from shoal.whatif.cells import CellMoments
from shoal.whatif.curve import CrossValidation, cross_validate
from shoal.whatif.folds import FoldChoice

FOLDS = 10
ROWS_OF_A_FOLD = 3  # at least: fewer rows make fewer folds
ALPHAS = 100  # of a path; fewer where there are very many columns
WIDE = 300
AROUND = 30.0  # a path goes down to the model's alpha divided by this, at least
MORE = 100  # alphas that are added at an end, at most: an alpha may be anything
OF_SPARSE_ROWS = (
    "The model was trained on sparse rows. Residuals, and other penalties on other rows, are not in reports of these: "
    "shoal tune has the latter."
)
_Found = TypeVar("_Found")


@dataclass(frozen=True, eq=False)
class WeightPath:
    """Standardised weights (m, p) at falling alphas, and the place of the model's own alpha (None: it has none)."""

    alphas: Array
    names: tuple[str, ...]
    weights: Array
    chosen: int | None


@dataclass(frozen=True, eq=False)
class Validation:
    """Cross-validation of a model as it is, and of other penalties where it has one."""

    choice: FoldChoice
    rows: int
    own: CrossValidation  # at the model's alpha alone
    path: WeightPath | None = None
    along: CrossValidation | None = None


@dataclass(frozen=True, eq=False)
class Evidence:
    """Empty or None is what could not be had; `notes` say why."""

    columns: tuple[ColumnLook, ...] = ()
    means: Mapping[str, float] = dataclasses.field(default_factory=dict)
    residuals: Diagnosis | None = None
    validation: Validation | None = None
    intervals: tuple[Mapping[str, Any], ...] = ()  # as `Intervals.as_dict`
    notes: tuple[str, ...] = ()


def gathered(model: SavedModel, progress: Progress = silent) -> Evidence:
    try:
        config = own_data(model.file.config)
        _check_there(config)
        with coordinated(reachable(config), progress) as coordinator:
            gather = _of_sparse_rows if is_sparse(config) else _of_rows
            return coordinator.cache.mending(lambda: gather(model, config, coordinator))
    except TrainingError as error:
        return Evidence(notes=(f"This report is without what the rows would say. {error.message}",))


def _check_there(config: RunConfig) -> None:
    if not is_there(config.file):
        name = title(config.file)
        raise DataError(f"The file that the model was trained on{f', {name},' if name else ''} is not where it was.")


def _of_sparse_rows(model: SavedModel, config: RunConfig, coordinator: Coordinator) -> Evidence:
    """What there is of rows whose zeros are never filled in: the label."""
    _check_content(model, config, open_table(coordinator, config).content)
    return Evidence(looked_at_sparse(coordinator, config).columns, notes=(OF_SPARSE_ROWS,))


def _check_content(model: SavedModel, config: RunConfig, content: str) -> None:
    if content != model.file.data.content:
        raise SourceChanged(f"{title(config.file)} is not what it was when the model was trained.")


def _of_rows(model: SavedModel, config: RunConfig, coordinator: Coordinator) -> Evidence:
    dataset = coordinator.open(config)
    _check_content(model, config, dataset.manifest.content)
    notes: list[str] = []

    def tried(what: str, make: Callable[[], _Found]) -> _Found | None:
        try:
            return make()
        except DamagedFile:
            raise  # it is made again, and all of this with it
        except TrainingError as error:
            notes.append(f"{what}: {error.message}")
            return None

    plain = dataclasses.replace(config, target="")  # what gives the target away was said before training
    described = tried("There is no summary of the columns", lambda: inspect(coordinator, dataset, plain))
    residuals = None
    if not model.several:  # calls of classes are in its own report
        residuals = tried("There are no residuals", lambda: residuals_of(model, dataset, coordinator))
    if model.outcome:
        return Evidence(described.columns if described else (), residuals=residuals, notes=tuple(notes))
    cells = tried(
        "There is no cross-validation", lambda: sum_cells(coordinator, dataset, config, _folds(model, config))
    )
    coordinator.progress("trying other penalties", 0.5)
    columns = described.columns if described else ()
    if cells is None:
        return Evidence(columns, residuals=residuals, notes=tuple(notes))
    validation = tried("There is no cross-validation", lambda: _validated(model, cells))
    intervals = tried("There are no intervals", lambda: _intervals(model, config, cells)) or ()
    return Evidence(columns, _means(cells), residuals, validation, intervals, tuple(notes))


def _folds(model: SavedModel, config: RunConfig) -> FoldChoice:
    """By row index, for which sums may be there already; by a hash of it where an index also tells test rows apart."""
    rows = model.report.train.rows
    count = max(2, min(FOLDS, rows // ROWS_OF_A_FOLD))
    tests = config.test_every or config.test_fraction
    return FoldChoice(count, "hash" if tests else "row", seed=config.seed)


def _means(cells: CellMoments) -> dict[str, float]:
    """Of each column of numbers over the rows that have a value, the target among them."""
    total = merge_all([*cells.cells, cells.held])
    terms = list(zip(cells.base.terms, total.mean.tolist(), strict=False))
    gaps = {term.column: share for term, share in terms if isinstance(term, Indicator)}
    found = {cells.base.target: float(total.mean[-1])}
    for term, mean in terms:
        if isinstance(term, Number) and gaps.get(term.column, 0.0) < 1:
            share = gaps.get(term.column, 0.0)
            found[term.column] = (mean - share * term.fill) / (1 - share)
    return found


# ------------------------------------------------------------------ other penalties, and other rows


def _validated(model: SavedModel, cells: CellMoments) -> Validation:
    kind, alpha, ratio = _penalised(model)
    own = cross_validate(cells, kind, [alpha], ratio)
    rows = int(sum(cell.n for cell in cells.cells))
    if kind == "linear":
        return Validation(cells.choice, rows, own)
    encoding, problem = cells.problem(None)
    alphas, chosen = _alphas(alpha_grid(problem, kind, ratio, ALPHAS if len(problem.z) <= WIDE else ALPHAS // 2), alpha)
    path = WeightPath(alphas, tuple(encoding.names), weights_along(problem, kind, alphas, ratio), chosen)
    return Validation(cells.choice, rows, own, path, cross_validate(cells, kind, alphas, ratio))


def _penalised(model: SavedModel) -> tuple[str, float, float]:
    """The model's name, alpha and mixing ratio."""
    report = model.report
    if report.penalty:
        raise DataError(f"The penalty {report.penalty} is a plug-in's, and is not known here.")
    return report.model, report.alpha or 0.0, 0.5 if report.l1_ratio is None else report.l1_ratio


def _intervals(model: SavedModel, config: RunConfig, cells: CellMoments) -> tuple[Mapping[str, Any], ...]:
    """Of the exact fit; those of a linear model that was fitted exactly are in its file."""
    if model.report.inference or config.nonnegative:
        return ()
    encoding, problem = cells.problem(None)
    found = intervals_for(problem, *_penalised(model), config.confidence)
    return tuple(finite(each.as_dict(encoding.names)) for each in found)


def _alphas(grid: Array, alpha: float) -> tuple[Array, int | None]:
    """The grid with the model's own alpha in its place; longer where that would be at an end of it, or beyond."""
    if not (math.isfinite(alpha) and alpha > 0):
        return grid, None
    step = math.log(grid[0] / grid[1])
    above = _steps(math.log(alpha / grid[0]) / step)
    below = _steps(math.log(AROUND * grid[-1] / alpha) / step)
    ends = grid[0] * np.exp(step * np.arange(above, 0, -1)), grid[-1] * np.exp(-step * np.arange(1, below + 1))
    longer = np.concatenate((ends[0], grid, ends[1]))
    alphas = np.sort(np.append(longer[longer != alpha], alpha))[::-1]
    return alphas, int(np.flatnonzero(alphas == alpha)[0])


def _steps(count: float) -> int:
    return max(0, math.ceil(min(MORE, count)))
