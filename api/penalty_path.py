"""A whole path of penalties as Python sees it: `shoal.path`; how its points are found is in `solve` and `whatif`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.api.fitted_model import FittedModel, fitted_in, frame_as_file, path_of
from shoal.api.tables import as_frame
from shoal.coordinator import Coordinator
from shoal.errors import ConfigError
from shoal.fitting.exact import prepare, rows_dropped
from shoal.fitting.reports import described
from shoal.metrics import Timings
from shoal.models import Certificate, Floats
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.solve.paths import Path, follow
from shoal.tasks.refit import Basis
from shoal.tasks.tune import TuningRequest, summed, tuned_from
from shoal.tasks.workers import kept_coordinator
from shoal.utils import Progress
from shoal.whatif.penalty_choice import Tuned, checked_alphas, checked_ratios, grid_for, is_number


class PenaltyPath:
    """The models at all alphas of a path, exact at each; with folds also what cross-validation says about them."""

    def __init__(self, config: RunConfig, basis: Basis, path: Path, tuned: Tuned | None) -> None:
        self._config, self._basis, self._path, self._tuned = config, basis, path, tuned

    @property
    def model(self) -> str:
        return self._path.model

    @property
    def target(self) -> str:
        return self._config.target

    @property
    def l1_ratio(self) -> float | None:
        """The mixing ratio of an elastic net: of several the one that cross-validation chose."""
        return self._path.l1_ratio if self.model == "elasticnet" else None

    @property
    def names(self) -> list[str]:
        """Of the design columns."""
        return self._basis.prepared.encoding.names

    @property
    def alphas(self) -> Floats:
        """Falling (m,)."""
        return np.asarray(self._path.alphas, np.float64)

    @property
    def coef(self) -> Floats:
        """(m, columns), in the units of the file."""
        return np.asarray(self._path.coef, np.float64)

    @property
    def coefficients(self) -> Any:
        """The same as a pandas data frame: a row for each alpha, a column for each design column."""
        import pandas as pd

        return pd.DataFrame(self.coef, index=pd.Index(self.alphas, name="alpha"), columns=self.names)

    @property
    def intercepts(self) -> Floats:
        return np.asarray(self._path.intercepts, np.float64)

    @property
    def kept(self) -> list[int]:
        """How many coefficients are not 0, at each alpha."""
        return [int(count) for count in self._path.kept]

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """How far each point can be from its optimum."""
        return self._path.certificates

    # ---- what cross-validation says

    @property
    def tuned(self) -> Tuned:
        """All that cross-validation says: the errors of every fold, those of other mixing ratios, scores, notes."""
        if self._tuned is None:
            raise ConfigError("This path was made without folds. Ask for some: shoal.path(..., folds=10).")
        return self._tuned

    @property
    def cv_mean(self) -> Floats:
        """The mean squared error, averaged over the folds, at each alpha."""
        return np.asarray(self.tuned.curve.mean, np.float64)

    @property
    def cv_se(self) -> Floats:
        return np.asarray(self.tuned.curve.standard_error, np.float64)

    @property
    def best(self) -> float:
        """The alpha with the smallest error."""
        return self.tuned.alpha("best")

    @property
    def one_se(self) -> float:
        """The largest alpha whose error is within one standard error of the smallest."""
        return self.tuned.alpha("one_se")

    @property
    def warnings(self) -> list[str]:
        return list(self._tuned.notes if self._tuned else self._basis.prepared.notes)

    # ---- models

    def model_at(self, alpha: float) -> FittedModel:
        """The model at any alpha, on the path or between its points, from what was summed: no row is read for it."""
        started = time.perf_counter()
        if not (is_number(alpha) and 0 <= alpha < float("inf")):
            raise ConfigError(f"Expected alpha to be a number of at least 0, got {alpha!r}. Correct it.")
        config = dataclasses.replace(self._config, alpha=float(alpha), l1_ratio=self._path.l1_ratio)
        self._basis = basis = self._basis.suiting(config)
        fit = basis.fit(config, {})
        fit = dataclasses.replace(fit, rows_dropped=rows_dropped(fit.prepared.dataset, config, fit.sums))
        return fitted_in(time.perf_counter() - started, described(fit), basis)

    def best_model(self) -> FittedModel:
        return self.model_at(self.best)

    def one_se_model(self) -> FittedModel:
        return self.model_at(self.one_se)

    def __repr__(self) -> str:
        ratio = "" if self.l1_ratio is None else f", l1_ratio = {self.l1_ratio:g}"
        alphas = self.alphas
        points = (
            f"alpha = {alphas[0]:g}" if len(alphas) == 1 else f"{len(alphas)} alphas, {alphas[0]:g} to {alphas[-1]:g}"
        )
        lines = [f"<PenaltyPath: {self.model} models of '{self.target}'{ratio}, {points}>"]
        if self._tuned is not None:
            head, curve = self._tuned.as_dict(), self._tuned.curve
            for which, name, place in (("best", "best", curve.best), ("one_se", "1-SE", curve.one_se)):
                lines.append(
                    f"  {name}: alpha = {head[which]:g}, {self.kept[place]} of {len(self.names)} columns, "
                    f"mean squared error {self.cv_mean[place]:.6g} +- {self.cv_se[place]:.2g}"
                )
            lines.append(f"  {head['folds']} folds by {head['fold_by']}, {head['rows']:,} rows")
        else:
            lines.append(f"  {self.kept[0]} to {self.kept[-1]} of {len(self.names)} columns")
        return "\n".join(lines)


def path_of_data(
    data: Any, values: Mapping[str, Any], request: TuningRequest, with_folds: bool, progress: Progress | None
) -> PenaltyPath:
    """From a file or a data frame and the knobs of a run by name; without folds the request is about penalties only."""
    frame = as_frame(data)
    if frame is not None:
        with (
            frame_as_file(frame, values) as (config, folder),
            kept_coordinator(config, progress, folder) as coordinator,
        ):
            return _mended(coordinator, config, request, with_folds)
    config = config_from({**values, "file": path_of(data)})
    with kept_coordinator(config, progress) as coordinator:
        return _mended(coordinator, config, request, with_folds)


def _mended(coordinator: Coordinator, config: RunConfig, request: TuningRequest, with_folds: bool) -> PenaltyPath:
    return coordinator.cache.mending(lambda: _followed(coordinator, config, request, with_folds))


def _followed(coordinator: Coordinator, config: RunConfig, request: TuningRequest, with_folds: bool) -> PenaltyPath:
    request.check(config)
    ratios = checked_ratios(config.model, request.l1_ratio)
    if len(ratios) > 1 and not with_folds:
        raise ConfigError("Several mixing ratios need folds to choose by. Ask for some (folds=10) or give one ratio.")
    dataset = coordinator.open(config)
    weakest = dataclasses.replace(config, model="linear")  # as many digits as the end of any path asks for
    prepared = prepare(coordinator, dataset, weakest, Timings())
    basis = Basis(prepared).summed(coordinator)
    if with_folds:
        tuned = tuned_from(summed(coordinator, dataset, config, request.choice(config)), dataset, config, request)
        return PenaltyPath(config, basis, tuned.path, tuned)
    given, _ = checked_alphas(config.model, request.alphas, request.n_alphas)
    alphas = grid_for(prepared.problem, config.model, ratios[0], request.n_alphas) if given is None else given
    return PenaltyPath(config, basis, follow(prepared.problem, config.model, alphas, ratios[0]), None)
