"""The same rows and columns with another penalty, answered from what was summed before; no row is read for it."""

from __future__ import annotations

import dataclasses

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.errors import StateError
from shoal.fitting.exact import Fit, Reduced, nonnegative_notes, precision_notes, prepare
from shoal.fitting.wide import is_wide
from shoal.lazy.classes import dataclass
from shoal.metrics import Residuals, Timings
from shoal.models import penalty_for
from shoal.passes.blocks import Sums
from shoal.results.model import ModelFile
from shoal.settings.config import RunConfig
from shoal.settings.strength import strength
from shoal.settings.values import config_from
from shoal.solve.inference import inference
from shoal.solve.least_squares import needs_data
from shoal.solve.moments import Moments, residual_squares
from shoal.solve.paths import solve
from shoal.tasks.workers import kept_coordinator, reachable

WITHOUT_SUMS = (
    "A table with so many columns is fitted from its rows, so there are no sums from which another penalty could be "
    "answered. Fit it anew with shoal.fit."
)


@dataclass(frozen=True)
class Basis:
    """What answers for any penalty without the rows: the prepared problem, and the moments of (columns..., target)
    over training and test rows, which are summed when they are first asked for."""

    prepared: Reduced
    moments: tuple[Moments, Moments] | None = None

    @classmethod
    def of_fit(cls, fit: Fit) -> Basis | None:
        """None of a fit that was made from the rows, as that of a table wider than long."""
        return cls(fit.prepared) if isinstance(fit.prepared, Reduced) else None

    @classmethod
    def of_model(cls, file: ModelFile) -> Basis:
        """For a loaded model: from its file, as long as that holds what it held."""
        config = config_from({**file.config, "out": None})
        with kept_coordinator(reachable(config)) as coordinator:

            def made() -> Basis:
                dataset = _unchanged(coordinator, config, file.data.content)
                if is_wide(dataset, config):
                    raise StateError(WITHOUT_SUMS)
                return cls(prepare(coordinator, dataset, config, Timings())).summed(coordinator)

            return coordinator.cache.mending(made)

    @property
    def rows(self) -> int:
        """Of the file, for training and for testing together."""
        if weighting := self.prepared.weighting:
            return weighting.seen.rows + weighting.seen.test_rows
        return sum(round(part.n) for part in self.moments or ())

    def summed(self, coordinator: Coordinator) -> Basis:
        prepared = self.prepared
        moments = coordinator.moments(prepared.dataset, prepared.encoding, prepared.split)
        return dataclasses.replace(self, moments=moments)

    def suiting(self, config: RunConfig) -> Basis:
        """Itself, or where the new penalty asks for more digits than moments have, one with R from the rows."""
        coarse = self._is_too_coarse(config)
        if self.moments is not None and not coarse:
            return self
        with kept_coordinator(reachable(config)) as coordinator:

            def made() -> Basis:
                prepared = self._whole(coordinator, config)
                prepared = prepare(coordinator, prepared.dataset, config, Timings()) if coarse else prepared
                return Basis(prepared).summed(coordinator)

            return coordinator.cache.mending(made)

    def _whole(self, coordinator: Coordinator, config: RunConfig) -> Reduced:
        """Itself on a data set that is all there: one that was cleaned up or damaged meanwhile is made again."""
        dataset = self.prepared.dataset
        if dataset.is_whole():
            return self.prepared
        again = _unchanged(coordinator, config, dataset.manifest.content)
        return dataclasses.replace(self.prepared, dataset=again)

    def _is_too_coarse(self, config: RunConfig) -> bool:
        """Rows that are not kept, as those of a data frame, cannot help; the certificate then says `moments`."""
        problem = self.prepared.problem
        penalty = penalty_for(config.model, strength(config), config.l1_ratio, problem.n)
        return self.prepared.dataset.directory.exists() and needs_data(problem, penalty.l2)

    def fit(self, config: RunConfig, rows_dropped: dict[str, int]) -> Fit:
        """As `fitting.fit_exact` gives it, but for what only rows can tell: MAE and a certificate of their own."""
        problem = self.prepared.problem
        if problem.nonnegative != config.nonnegative:  # else the same, with all that it has found out about itself
            problem = dataclasses.replace(problem, nonnegative=config.nonnegative)
        penalty = penalty_for(config.model, strength(config), config.l1_ratio, problem.n)
        solution = solve(problem, penalty)
        if config.robust != "none" and config.model == "linear":
            raise StateError("Robust standard errors need the rows, not sums alone. Fit it anew with shoal.fit.")
        plain = config.model == "linear" and not config.nonnegative
        worth = inference(problem, solution, config.confidence) if plain else None
        assert self.moments is not None
        train, test = self.moments
        sums = Sums(
            _residuals(train, problem.rss(solution.w)),
            _residuals(test, residual_squares(test, solution.coef, solution.intercept)),
            np.zeros_like(solution.w),
            0,
        )
        notes = (
            *self.prepared.notes, *solution.notes, *precision_notes(problem, penalty, solution),
            *nonnegative_notes(config, solution.w),
        )  # fmt: skip
        return Fit(config, self.prepared, solution, sums, worth, rows_dropped, notes, problem.condition(penalty.l2))


def _unchanged(coordinator: Coordinator, config: RunConfig, content: str) -> Dataset:
    dataset = coordinator.open(config)
    if dataset.manifest.content != content:
        raise StateError(f"'{config.file}' is not what it was when the model was fitted. Fit it anew with shoal.fit.")
    return dataset


def _residuals(moments: Moments, squares: float) -> Residuals:
    """As a pass over the rows would give them, but for the sizes, which moments do not hold."""
    mean, scatter = float(moments.mean[-1]), float(moments.scatter[-1, -1])
    return Residuals(round(moments.n), squares, float("nan"), mean, scatter)
