"""A whole path of penalties as Python sees it: `shoal.path`; how its points are found is in `solve` and `whatif`."""

from __future__ import annotations

import dataclasses
import html
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.api.fitted_model import FittedModel, fit_file, fit_frame, fitted_in, frame_as_file
from shoal.api.tables import as_frame, path_of
from shoal.coordinator import Coordinator
from shoal.data.columns import choose_columns, widest
from shoal.data.dataset import Dataset
from shoal.errors import ConfigError, StateError
from shoal.fitting.exact import prepare, rows_dropped
from shoal.fitting.reports import described
from shoal.fitting.wide import is_wide, wide_problem
from shoal.metrics import Timings
from shoal.models import Certificate, Floats
from shoal.settings.config import RunConfig
from shoal.settings.limits import USUAL_POINTS
from shoal.settings.values import config_from
from shoal.settings.when import CLASSES, LOSSES, penalised_as
from shoal.solve.paths import Path, follow
from shoal.solve.rows.along import follow_wide
from shoal.sparse.table import is_sparse
from shoal.tasks.refit import WITHOUT_SUMS, Basis
from shoal.tasks.train import suited_to_rows
from shoal.tasks.tune import TuningRequest, loss_tuned, summed, tune_with, tuned_from
from shoal.tasks.workers import kept_coordinator
from shoal.utils import Progress
from shoal.whatif.penalty_choice import Tuned, checked_alphas, checked_ratios, grid_for, is_number
from shoal.whatif.wide_choice import check_memory

if TYPE_CHECKING:
    from shoal.report.pictures import Picture

Again = Callable[[Mapping[str, Any]], FittedModel]


class PenaltyPath:
    """The models at all alphas of a path, exact at each; with folds also what cross-validation says about them."""

    def __init__(
        self, config: RunConfig, names: list[str], notes: tuple[str, ...], path: Path, tuned: Tuned | None,
        basis: Basis | None,
    ) -> None:  # fmt: skip
        self._config, self._names, self._notes = config, names, notes
        self._path, self._tuned, self._basis = path, tuned, basis
        self._again: Again | None = None  # a fit of the same data with other knobs: what sums do not answer

    @property
    def model(self) -> str:
        return self._path.model

    @property
    def target(self) -> str:
        return self._config.target

    @property
    def l1_ratio(self) -> float | None:
        """The mixing ratio of an elastic net: of several the one that cross-validation chose."""
        return self._path.l1_ratio if self.penalty == "elasticnet" else None

    @property
    def penalty(self) -> str:
        """ridge, lasso or elasticnet, whatever the loss; linear where there is none."""
        return penalised_as(self._config.model, self._config.shrink)

    @property
    def measure(self) -> str:
        """What `cv_mean` is: mean squared error, log loss or mean deviance."""
        return self.tuned.measure

    @property
    def names(self) -> list[str]:
        """Of the design columns."""
        return self._names

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
        """The mean squared error (of another loss, what `measure` says), averaged over the folds, at each alpha."""
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
        return list(self._tuned.notes if self._tuned else self._notes)

    # ---- models

    @property
    def is_without_sums(self) -> bool:
        """Whether a model takes a fit to the data."""
        return self._basis is None

    def fits_again(self, again: Again) -> None:
        self._again = again

    def model_at(self, alpha: float) -> FittedModel:
        """The model at any alpha, on the path or between its points, from what was summed: no row is read for it; of
        another loss than squares by a fit to the same data."""
        started = time.perf_counter()
        if not (is_number(alpha) and 0 <= alpha < float("inf")):
            raise ConfigError(f"Expected alpha to be a number of at least 0, got {alpha!r}. Correct it.")
        if self._again is not None:
            return self._again(
                {"alpha": float(alpha), **({} if self.l1_ratio is None else {"l1_ratio": self.l1_ratio})}
            )
        config = dataclasses.replace(self._config, alpha=float(alpha), l1_ratio=self._path.l1_ratio)
        if self._basis is None:
            raise StateError(WITHOUT_SUMS)
        self._basis = basis = self._basis.suiting(config)
        fit = basis.fit(config, {})
        fit = dataclasses.replace(fit, rows_dropped=rows_dropped(fit.prepared, config, basis.rows))
        return fitted_in(time.perf_counter() - started, described(fit), basis)

    def best_model(self) -> FittedModel:
        return self.model_at(self.best)

    def one_se_model(self) -> FittedModel:
        return self.model_at(self.one_se)

    def plot(self, what: str = "coefficients") -> Picture:
        """Coefficients along the path, or, with `what` "errors", those of cross-validation; notebooks show it."""
        from shoal.report.charts import path_chart, validation_chart
        from shoal.report.evidence import WeightPath
        from shoal.report.pictures import alone

        curve = self._tuned.curve if self._tuned else None
        marks = {"best": float(self.alphas[curve.best]), "1 SE": float(self.alphas[curve.one_se])} if curve else {}
        if what == "coefficients":
            path = WeightPath(self.alphas, tuple(self.names), self._path.W, curve.best if curve else None)
            return alone(path_chart(path, marks)[0])
        if what != "errors" or curve is None or self._tuned is None:
            ways = "coefficients or errors" if curve else "coefficients (errors need folds, such as folds=10)"
            raise ConfigError(f"Expected {ways} to plot, got {what!r}. Choose one of these.")
        return alone(validation_chart(curve, marks, self._tuned.measure))

    def _repr_html_(self) -> str:
        pictures = [self.plot(what) for what in ("coefficients", "errors")[: 1 + (self._tuned is not None)]]
        return f"<pre>{html.escape(repr(self))}</pre>" + "".join(one._repr_html_() for one in pictures)

    @property
    def _each(self) -> str:
        """What has a coefficient: a column, or of several classes a column for each of them."""
        return "weights" if self.model == CLASSES else "columns"

    def __repr__(self) -> str:
        ratio = "" if self.l1_ratio is None else f", l1_ratio = {self.l1_ratio:g}"
        alphas = self.alphas
        points = (
            f"alpha = {alphas[0]:g}" if len(alphas) == 1 else f"{len(alphas)} alphas, {alphas[0]:g} to {alphas[-1]:g}"
        )
        shrunk = "" if self.penalty == self.model else f", {self.penalty}"
        lines = [f"<PenaltyPath: {self.model} models of '{self.target}'{shrunk}{ratio}, {points}>"]
        if self._tuned is not None:
            head, curve = self._tuned.as_dict(), self._tuned.curve
            for which, name, place in (("best", "best", curve.best), ("one_se", "1-SE", curve.one_se)):
                lines.append(
                    f"  {name}: alpha = {head[which]:g}, {self.kept[place]} of {len(self.names)} {self._each}, "
                    f"{self.measure} {self.cv_mean[place]:.6g} +- {self.cv_se[place]:.2g}"
                )
            lines.append(f"  {head['folds']} folds by {head['fold_by']}, {head['rows']:,} rows")
        else:
            lines.append(f"  {self.kept[0]} to {self.kept[-1]} of {len(self.names)} {self._each}")
        return "\n".join(lines)


def path_of_data(
    data: Any, values: Mapping[str, Any], request: TuningRequest, with_folds: bool, progress: Progress | None
) -> PenaltyPath:
    """From a file or a data frame and the knobs of a run by name; without folds the request is about penalties only."""
    frame = as_frame(data)
    other = values.get("model") in LOSSES
    if other:
        values = {"shrink": "lasso", **values}
    if frame is not None:
        with (
            frame_as_file(frame, values) as (config, folder),
            kept_coordinator(config, progress, folder) as coordinator,
        ):
            found = _mended(coordinator, config, request, with_folds)
    else:
        config = config_from({**values, "file": path_of(data)})
        with kept_coordinator(config, progress) as coordinator:
            found = _mended(coordinator, config, request, with_folds)
    if found.is_without_sums:
        found.fits_again(lambda more: _fit(data if frame is None else frame, frame is not None, {**values, **more}))
    return found


def _fit(data: Any, in_memory: bool, values: Mapping[str, Any]) -> FittedModel:
    return fit_frame(data, values) if in_memory else fit_file(data, values)


def _mended(coordinator: Coordinator, config: RunConfig, request: TuningRequest, with_folds: bool) -> PenaltyPath:
    return coordinator.cache.mending(lambda: _followed(coordinator, config, request, with_folds))


def _followed(coordinator: Coordinator, config: RunConfig, request: TuningRequest, with_folds: bool) -> PenaltyPath:
    config = suited_to_rows(config)
    request.check(config)
    ratios = checked_ratios(penalised_as(config.model, config.shrink), request.ratios)
    if len(ratios) > 1 and not with_folds:
        raise ConfigError("Several mixing ratios need folds to choose by. Ask for some (folds=10) or give one ratio.")
    if is_sparse(config):
        return _of_sparse(coordinator, config, request, ratios[0], with_folds)
    dataset = coordinator.open(config)
    if config.model in LOSSES:
        found = loss_tuned(coordinator, dataset, config, request, with_folds)
        path, tuned = (found.path, found) if with_folds else (found.paths[0], None)
        return PenaltyPath(config, list(found.names), found.notes, path, tuned, None)
    cells = summed(coordinator, dataset, config, request.choice(config)) if with_folds else None
    tuned = tuned_from(cells, dataset, config, request) if cells else None
    if is_wide(dataset, config):
        return _of_rows(coordinator, dataset, config, request, ratios[0], tuned)
    weakest = dataclasses.replace(config, model="linear")  # as many digits as the end of any path asks for
    prepared = prepare(coordinator, dataset, weakest, Timings())
    basis = Basis(prepared).summed(coordinator)
    if tuned is None:
        given, _ = checked_alphas(config.model, request.alphas, request.n_alphas)
        alphas = grid_for(prepared.problem, config.model, ratios[0], request.n_alphas) if given is None else given
        path = follow(prepared.problem, config.model, alphas, ratios[0])
    return PenaltyPath(config, prepared.encoding.names, prepared.notes, tuned.path if tuned else path, tuned, basis)


def _of_rows(
    coordinator: Coordinator, dataset: Dataset, config: RunConfig, request: TuningRequest, ratio: float,
    tuned: Tuned | None,
) -> PenaltyPath:  # fmt: skip
    """Of a table wider than long."""
    if tuned is not None:
        return PenaltyPath(config, list(tuned.names), tuned.notes, tuned.path, tuned, None)
    given, _ = checked_alphas(config.model, request.alphas, request.n_alphas)
    points = len(given) if given is not None else request.n_alphas or USUAL_POINTS
    check_memory(dataset.rows, widest(choose_columns(dataset, config), config), points, 1)
    encoding, rows, notes = wide_problem(coordinator, dataset, config)
    alphas = grid_for(rows, config.model, ratio, request.n_alphas) if given is None else given
    return PenaltyPath(config, encoding.names, notes, follow_wide(rows, config.model, alphas, ratio), None, None)


def _of_sparse(
    coordinator: Coordinator, config: RunConfig, request: TuningRequest, ratio: float, with_folds: bool
) -> PenaltyPath:
    if with_folds:
        tuned = tune_with(coordinator, config, request, Timings())
        return PenaltyPath(config, list(tuned.names), tuned.notes, tuned.path, tuned, None)
    from shoal.sparse.choice import path_of_sparse  # here: tables of cells need none of it

    names, path = path_of_sparse(coordinator, config, ratio, request.alphas, request.n_alphas)
    return PenaltyPath(config, names, (), path, None, None)
