"""The choice of a penalty by cross-validation for models of other losses: what `shoal tune --model logistic` says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.errors import ConfigError
from shoal.fitting.exact import bad_row_notes
from shoal.kernels.threads import one_thread
from shoal.lazy.classes import dataclass
from shoal.models import Array, Certificate
from shoal.settings.config import RunConfig
from shoal.settings.when import CLASSES, penalised_as
from shoal.solve.paths import Path
from shoal.tuning.classes import FollowedClasses, follow_classes
from shoal.tuning.designs import FoldDesign
from shoal.tuning.follow import FoldPoints, Followed, PathRequest
from shoal.tuning.tables import WHOLE, LossTable, as_mean, columns_that_rest
from shoal.whatif.curve import CrossValidation
from shoal.whatif.folds import FoldChoice
from shoal.whatif.penalty_choice import Tuned, checked_alphas, checked_ratios
from shoal.words import listed

LOG_LOSS, MEAN_DEVIANCE = "log loss", "mean deviance"
OF_LOSS = {"huber": "huber loss", "quantile": "pinball loss"}  # of those that have no deviance
LOOSE = (
    "{:,} points of the path, those of the folds among them, did not come within 1e-06 of their minimum: with so weak "
    "a penalty coefficients may grow without end. Their errors are those of where they stood; a stronger penalty is "
    "not concerned."
)
SETTLED = 1e-6  # relative derivative above which a point is said not to be at its minimum


@dataclass(frozen=True, eq=False)
class TunedLoss(Tuned):
    """The same for another loss: errors of folds, `train` and `test` are what `by` says."""

    shrink: str
    sweeps: int
    by: str  # of a yes/no target the log loss that scikit-learn has, half the mean deviance
    nulls: tuple[float, float]  # errors of the best constant on the training rows, and on those kept for testing

    @property
    def measure(self) -> str:
        return self.by

    def scores(self, which: str) -> dict[str, dict[str, float | int | None]]:
        path, place = self.chosen, self.place(which)
        parts = zip(("train", "test"), (self.target, self.held), (self.train, self.test), self.nulls, strict=True)
        return {part: self._part(rows.n, float(errors[path][place]), null) for part, rows, errors, null in parts}

    def _part(self, n: float, error: float, null: float) -> dict[str, float | int | None]:
        name = self.measure.replace(" ", "_")
        if not n > 0:
            return {"rows": 0, name: None, "explained": None}
        return {"rows": round(n), name: error, "explained": 1 - error / null if null > 0 else None}

    def as_dict(self) -> dict[str, Any]:
        found = super().as_dict()
        mixed = self.shrink == "elasticnet"
        found["l1_ratio"] = self.path.l1_ratio if mixed else None
        found["l1_ratios"] = [self._ratio(i) for i in range(len(self.paths))] if mixed else []
        return {**found, "shrink": self.shrink, "measure": self.measure, "sweeps": self.sweeps}


def tune_loss(
    coordinator: Coordinator,
    dataset: Dataset,
    config: RunConfig,
    choice: FoldChoice | None,
    l1_ratio: float | Sequence[float] = 0.5,
    alphas: Iterable[float] | None = None,
    n_alphas: int | None = None,
) -> TunedLoss:
    """The whole path in every fold; without folds that of all training rows, whose curve has no errors."""
    if choice is not None and choice.count > dataset.rows:
        raise ConfigError(
            f"Expected at most as many folds as rows, got {choice.count:,} folds of {dataset.rows:,} rows. "
            "5 or 10 are usual."
        )
    kind = penalised_as(config.model, config.shrink)
    ratios = checked_ratios(kind, l1_ratio)
    given, about = checked_alphas(kind, alphas, n_alphas)
    if config.model == CLASSES:
        with one_thread:
            found = follow_classes(coordinator, dataset, config, choice or WHOLE, ratios, given, n_alphas)
        return _tuned_classes(found, config, ratios, (*dataset.notes, *bad_row_notes(dataset), *about))
    table = LossTable.of(coordinator, dataset, config, choice or WHOLE)
    count = None if n_alphas is None else int(n_alphas)
    with one_thread:  # as workers have; two on cores that others use take ten times as long
        followed = table.follower.follow(PathRequest(config.shrink, ratios, given, count))
    notes = (*dataset.notes, *bad_row_notes(dataset), *table.notes, *about)
    return _tuned(table, followed, ratios, notes)


def _tuned(table: LossTable, followed: Followed, ratios: Sequence[float], notes: Sequence[str]) -> TunedLoss:
    config, loss = table.config, table.follower.loss
    *folds, whole = followed.found
    places = np.cumsum([0, *map(len, followed.grids)])
    slices = [slice(a, b) for a, b in zip(places[:-1].tolist(), places[1:].tolist(), strict=True)]
    by = LOG_LOSS if loss.target == "two" else OF_LOSS.get(loss.name, MEAN_DEVIANCE)
    factor = 0.5 if by == LOG_LOSS else 1.0
    errors = [factor * as_mean(one.tested, one.design.test_n) for one in folds]
    paths = tuple(
        _path(config, whole, grid, ratio, part)
        for grid, ratio, part in zip(followed.grids, ratios, slices, strict=True)
    )
    curves = tuple(
        CrossValidation(grid, np.array([one[part] for one in errors]).reshape(len(folds), len(grid)))
        for grid, part in zip(followed.grids, slices, strict=True)
    )
    train, test = as_mean(whole.fitted, whole.design.n), as_mean(whole.tested, whole.design.test_n)
    worst = max((_certificate(one, i) for one in followed.found for i in range(len(one.gap))), key=_relative)
    target = whole.design.moments.take([-1])
    held = table.cells.held.take([-1])
    nulls = (
        factor * float(as_mean(followed.null_fitted, whole.design.n)),
        factor * float(as_mean(followed.null_tested, whole.design.test_n)),
    )
    return TunedLoss(
        whole.design.names, paths, curves, worst,
        tuple(factor * train[part] for part in slices), tuple(factor * test[part] for part in slices),
        target, held, table.choice, (*notes, *_notes(table, followed)), config.shrink, followed.sweeps, by, nulls,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class TunedClasses(TunedLoss):
    """The same for several classes, whose weights come class by class."""

    kept: tuple[list[int], ...]  # columns with a weight for any class, for each mixing ratio
    columns: int  # of the design, each with a weight for every class

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "n_features_kept": self.kept[self.chosen], "columns": self.columns}


def _tuned_classes(
    followed: FollowedClasses, config: RunConfig, ratios: Sequence[float], notes: Sequence[str]
) -> TunedClasses:
    """Errors are mean losses, the log loss that scikit-learn has."""
    table, whole = followed.table, followed.folds[-1].design
    folds = [fold.design for fold in followed.folds[:-1]]
    paths = tuple(followed.path(i, config.model, ratio) for i, ratio in enumerate(ratios))
    errors = [
        [as_mean(np.array([one.tested for one in minima]), design.test_n)
         for design, minima in zip(folds, found[:-1], strict=True)]
        for found in followed.found
    ]  # fmt: skip
    curves = tuple(
        CrossValidation(grid, np.array(own).reshape(len(folds), len(grid)))
        for grid, own in zip(followed.grids, errors, strict=True)
    )
    train, test = (
        tuple(as_mean(np.array([getattr(one, part) for one in found[-1]]), n) for found in followed.found)
        for part, n in (("fitted", whole.n), ("tested", whole.test_n))
    )
    worst = max(followed.certificates(), key=_relative)
    null = followed.folds[-1].said
    nulls = (float(as_mean(np.array(null.fitted), whole.n)), float(as_mean(np.array(null.tested), whole.test_n)))
    said = (*notes, *table.table.notes, *_about_rest([*folds, whole]), *_about_loose(followed))
    return TunedClasses(
        followed.names, paths, curves, worst, train, test, whole.moments.take([-1]), table.cells.held.take([-1]),
        table.table.folds.choice, said, config.shrink, table.sweeps, LOG_LOSS, nulls,
        tuple(followed.kept(i) for i in range(len(paths))), len(whole.names),
    )  # fmt: skip


def _about_loose(followed: FollowedClasses) -> list[str]:
    loose = sum(one.relative > SETTLED for one in followed.certificates())
    return [LOOSE.format(loose)] if loose else []


def _path(config: RunConfig, whole: FoldPoints, grid: Array, ratio: float, part: slice) -> Path:
    coef, intercepts = whole.design.raw(whole.b[part], whole.W[part])
    certificates = tuple(_certificate(whole, i) for i in range(part.start, part.stop))
    return Path(config.model, ratio, grid, whole.W[part], coef, intercepts, certificates)


def _certificate(found: FoldPoints, i: int) -> Certificate:
    gap = float(found.gap[i])
    return Certificate("kkt", gap * found.steepest, gap, "data")


def _relative(certificate: Certificate) -> float:
    return certificate.relative


def _about_rest(designs: Sequence[FoldDesign]) -> list[str]:
    """Which columns do not vary."""
    notes = []
    always, at_times = columns_that_rest(designs)
    if always:
        notes.append(f"These columns do not vary, so that their weights are 0: {listed(sorted(always))}.")
    if at_times:
        notes.append(
            "These columns do not vary over the training rows of some fold and have weight 0 there: "
            f"{listed(sorted(at_times))}."
        )
    return notes


def _notes(table: LossTable, followed: Followed) -> list[str]:
    *folds, whole = followed.found
    notes = _about_rest([one.design for one in followed.found])
    if table.follower.loss.smears:
        notes.append(
            "Intercepts of the path are those of the logarithms; the model that is fitted at an alpha has in it what "
            "makes means of its predictions."
        )
    if whole.design.n <= len(whole.design.names):
        notes.append(
            f"There are {len(whole.design.names)} columns and {whole.design.n:.0f} training rows: with a weak penalty "
            "the model fits them exactly, whatever they say."
        )
    loose = sum(int((one.gap > SETTLED).sum()) for one in followed.found)
    if loose:
        notes.append(LOOSE.format(loose))
    left_out = sorted(set(range(table.choice.count)) - set(table.tested)) if folds else []
    if left_out:
        notes.append(
            f"All rows of fold {listed([str(fold) for fold in left_out])} are among those kept for testing: the mean "
            f"is that of the other {len(folds)} folds. Folds by hash would share the rows evenly."
        )
    return notes
