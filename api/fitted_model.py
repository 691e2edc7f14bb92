"""A fitted model as Python sees it, and the fits that make one from a file or a data frame."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from shoal.api.frames import encoded
from shoal.api.summary import ModelSummary
from shoal.api.tables import as_frame, with_target
from shoal.errors import DataError, TrainingError
from shoal.exports import export
from shoal.files.output import Output
from shoal.fitting.model_file import usable
from shoal.fitting.reports import Trained, described
from shoal.models import Floats
from shoal.results.fit import FitReport
from shoal.results.model import ModelFile, model_bytes
from shoal.results.plain import plain
from shoal.settings.config import RunConfig
from shoal.settings.meaning import implied, understood
from shoal.settings.values import config_from
from shoal.solve.conformal import half_width_of
from shoal.solve.inference import variance_inflation
from shoal.tasks.explain import ExplainRequest, explain_model
from shoal.tasks.predict import open_for
from shoal.tasks.refit import Basis
from shoal.tasks.train import train_gradient_with, train_with
from shoal.tasks.workers import kept_coordinator
from shoal.utils import Progress

if TYPE_CHECKING:
    from shoal.exports.proof import Proof

SHOWN = 12  # coefficients in a repr


class FittedModel:
    """A fitted model: its numbers, what they are worth, and predictions."""

    def __init__(self, file: ModelFile, report: FitReport | None = None, basis: Basis | None = None) -> None:
        self._file, self._basis = file, basis
        self._report = report or file.report

    @property
    def report(self) -> dict[str, Any]:
        """All that is said of the fit, as `shoal train --json` prints it."""
        return self._report.as_dict()

    @property
    def model(self) -> str:
        """linear, ridge, lasso or elasticnet."""
        return self._report.model

    @property
    def target(self) -> str:
        return self._report.target

    @property
    def alpha(self) -> float | None:
        """The strength of the penalty; None for a linear model."""
        return self._report.alpha

    @property
    def coefficients(self) -> dict[str, float]:
        """By design column, in the units of the file."""
        return dict(self._report.coefficients)

    @property
    def coefficients_standardized(self) -> dict[str, float]:
        """By design column, for columns of mean 0 and spread 1."""
        return dict(self._report.coefficients_standardized)

    @property
    def intercept(self) -> float:
        return self._report.intercept

    @property
    def scores(self) -> dict[str, dict[str, Any]]:
        """`train` and `test`: rows, r2, adjusted_r2, rmse, mae; None where it is not known."""
        return {"train": plain(self._report.train), "test": plain(self._report.test)}

    @property
    def inference(self) -> dict[str, Any] | None:
        """Standard errors, t, p and intervals of a linear model, else None."""
        found: dict[str, Any] | None = plain(self._report.inference)
        return found

    @property
    def certificate(self) -> dict[str, Any]:
        """How far the answer can be from the optimum, and whether the data or their moments say so."""
        return plain(self._report.certificate) or {}

    @property
    def warnings(self) -> list[str]:
        return list(self._report.warnings)

    @property
    def prediction_interval(self) -> dict[str, Any] | None:
        """Half-widths of prediction intervals by level, from the rows kept for testing, with what they mean."""
        found: dict[str, Any] | None = plain(self._report.prediction_interval)
        return found

    @overload
    def predict(self, data: Any, *, interval: None = None, **knobs: Any) -> Floats: ...

    @overload
    def predict(self, data: Any, *, interval: float, **knobs: Any) -> tuple[Floats, Floats, Floats]: ...

    def predict(
        self, data: Any, *, interval: float | None = None, **knobs: Any
    ) -> Floats | tuple[Floats, Floats, Floats]:
        """A prediction for every row of a file or a table in memory; NaN for a row that could not be read.

        A table is a data frame of pandas or polars, an Arrow table, an array, a dictionary of columns, or one row as a
        dictionary or a Series.

        With an interval such as 0.9: predictions, lower ends, upper ends. `knobs` say how to read a file (delimiter,
        decimal, encoding, ...), where that cannot be detected.
        """
        width = None if interval is None else half_width_of(self._report.prediction_interval, interval)
        frame = as_frame(data)
        parts = self._of_file(path_of(data), knobs) if frame is None else self._of_frame(frame)
        found = _gathered(parts)
        return found if width is None else (found, found - width, found + width)

    def score(self, data: Any, y: Any = None) -> float:
        """R2 on the rows of a table in memory that has the target as well, or beside values y of it."""
        frame, target = (as_frame(data), self.target) if y is None else with_target(data, y)
        if frame is None or target not in frame.columns:
            raise DataError(
                f"Expected a table with the column '{target}', or values of it as y, got neither. "
                "For a file, give its rows as a data frame."
            )
        actual = frame[target].to_numpy(np.float64)
        squares = float(((actual - self.predict(frame)) ** 2).sum())
        scatter = float(((actual - actual.mean()) ** 2).sum()) if len(actual) else 0.0
        return 1 - squares / scatter if scatter > 0 else float("nan")

    def summary(self) -> ModelSummary:
        """Coefficients with their errors, F, AIC, BIC and variance inflation, as text and for notebooks.

        Inflation comes from the sums of the fit; a loaded model looks for them in its file, and says none without it.
        """
        try:
            self._basis = basis = self._basis or Basis.of_model(self._file)
        except TrainingError:  # the file is gone or another one, or the fit was made without sums
            return ModelSummary.of(self._report, {})
        inflated = variance_inflation(basis.prepared.problem).tolist()
        return ModelSummary.of(self._report, dict(zip(basis.prepared.encoding.names, inflated, strict=True)))

    def explain(self, **question: Any) -> dict[str, Any]:
        """What `shoal explain --json` prints: intervals, importance of columns, prediction intervals, each with what it
        means; `resamples`, `confidence`, `alpha`, `folds`, `fold_by` and `seed` are those of the command.

        The file that the model was fitted to is read for it.
        """
        with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
            path = Path(folder) / "model.json"
            path.write_bytes(model_bytes(self._file))
            return explain_model(path, ExplainRequest(**question))

    def _repr_html_(self) -> str:
        return ModelSummary.of(self._report, {})._repr_html_()

    def save(self, path: str | Path) -> None:
        """Write the model as JSON, readable by eye and enough by itself to predict."""
        given = self._file.config.get("file")
        data = {"the data that the model was trained on": str(given)} if given else {}
        Output(path, data).write(model_bytes(self._file))

    def export(self, to: str, path: str | Path, *, table: str | None = None) -> Proof:
        """Write the model as sql, python, sklearn, onnx or json; it is there only if it predicts what this one does.

        `table` is the name of the table in the SQL. The answer says on how many rows it was proven, and how far apart
        the two were at most.
        """
        return export(self._file, to, path, table)

    def refit(
        self, *, alpha: float | None = None, model: str | None = None, l1_ratio: float | None = None
    ) -> FittedModel:
        """The same rows and columns with another penalty, from what was summed before: in milliseconds, whatever
        the number of rows. The certificate rests on these sums, and the MAE, which needs the rows, is None.

        A loaded model finds its sums in the cached data set of its file, or reads the file again.
        """
        started = time.perf_counter()
        changed = {"alpha": alpha, "model": model, "l1_ratio": l1_ratio}
        given = {name: value for name, value in changed.items() if value is not None}
        config = config_from(self._file.config | given | {"solver": "exact"})
        self._basis = basis = (self._basis or Basis.of_model(self._file)).suiting(config)
        trained = described(basis.fit(config, self._report.rows_dropped))
        return fitted_in(time.perf_counter() - started, trained, basis)

    def __repr__(self) -> str:
        alpha = "" if self.alpha is None else f", alpha = {self.alpha:g}"
        coefficients = self.coefficients
        columns = "1 column" if len(coefficients) == 1 else f"{len(coefficients)} columns"
        lines = [f"<FittedModel: {self.model} model of '{self.target}'{alpha}, {columns}>"]
        for part, scores in self.scores.items():
            if scores["rows"]:
                shown = ", ".join(f"{k} {v:.6g}" for k, v in scores.items() if k != "rows" and v is not None)
                lines.append(f"  {part}: {scores['rows']:,} rows, {shown}")
        names = ["(intercept)", *list(coefficients)[:SHOWN]]
        width = max(map(len, names))
        values = [self.intercept, *coefficients.values()]
        lines += [f"  {name:<{width}}  {value: .6g}" for name, value in zip(names, values, strict=False)]
        if len(coefficients) > SHOWN:
            lines.append(f"  ... and {len(coefficients) - SHOWN} more")
        return "\n".join(lines)

    def _of_frame(self, frame: Any) -> Iterator[tuple[Floats, int]]:
        saved = usable(self._file)
        for X, unseen in encoded(frame, saved.encoding):
            yield X @ saved.coef + saved.intercept, unseen

    def _of_file(self, path: str, knobs: Mapping[str, Any]) -> Iterator[tuple[Floats, int]]:
        saved = usable(self._file)
        config = config_from({**knobs, "file": path})
        with kept_coordinator(config) as coordinator:

            def predicted() -> list[tuple[Floats, int]]:
                dataset = open_for(saved, coordinator, config)
                found = coordinator.predict(dataset, saved.encoding, saved.coef, saved.intercept)
                return [(np.asarray(predictions, np.float64), unseen) for predictions, unseen in found]

            yield from coordinator.cache.mending(predicted)
            for repair in coordinator.cache.repairs:
                warnings.warn(repair, stacklevel=4)


def fitted_in(seconds: float, trained: Trained, basis: Basis) -> FittedModel:
    """A model that was made from sums, in so many seconds."""
    return FittedModel(trained.model, replace(trained.report, timings={"total": seconds}), basis)


def path_of(data: Any) -> str:
    if isinstance(data, (str, Path)):
        return str(data)
    raise TypeError(
        f"Expected the path of a file or a table in memory (pandas, polars, Arrow, an array with y beside it), "
        f"got {type(data).__name__}. Convert it."
    )


def fit_file(path: Any, values: Mapping[str, Any], progress: Progress | None = None) -> FittedModel:
    """From a path and the knobs of a run by name."""
    config = _understood(config_from({**values, "file": path_of(path)}), values)
    with kept_coordinator(config, progress) as coordinator:
        if config.solver == "gradient":
            trained = train_gradient_with(coordinator, config)
            return FittedModel(trained.model, trained.report)
        trained = train_with(coordinator, config)
    return FittedModel(trained.model, trained.report, Basis.of_fit(trained.fit))


def fit_frame(frame: Any, values: Mapping[str, Any], progress: Progress | None = None) -> FittedModel:
    with frame_as_file(frame, values) as (config, folder), kept_coordinator(config, progress, folder) as coordinator:
        trained = train_with(coordinator, _understood(config, values))
        basis = Basis.of_fit(trained.fit).summed(coordinator)
    return FittedModel(trained.model, trained.report, basis)


def _understood(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """What the caller of `fit` means by the knobs that it names."""
    meant = understood(config, values)
    if note := implied(values, meant):
        warnings.warn(f"{note} Say solver='gradient' if that is what you want.", stacklevel=4)
    return meant


@contextmanager
def frame_as_file(frame: Any, values: Mapping[str, Any]) -> Iterator[tuple[RunConfig, Path]]:
    """The config of a run on a Parquet file of the frame, and the folder for its data set; both are gone afterwards."""
    import pyarrow

    if not len(frame.columns):
        raise DataError("Expected a data frame with columns, got one without. Choose another.")
    labels = [str(name) for name, dtype in frame.dtypes.items() if str(dtype) == "category"]
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        path = Path(folder) / "frame.parquet"
        try:
            frame.rename(columns=str).to_parquet(path, index=False, row_group_size=1 << 17)
        except (pyarrow.ArrowException, ValueError, TypeError) as error:
            raise DataError(
                f"The data frame cannot be written as a table: {error}. Give each column one type."
            ) from None
        categorical = [*values.get("categorical", ()), *labels]
        yield config_from({**values, "file": str(path), "categorical": categorical}), Path(folder)


def _gathered(parts: Iterator[tuple[Floats, int]]) -> Floats:
    """All predictions; what is odd about them is said once, with a count."""
    found, unseen = [np.zeros(0)], 0
    for predictions, count in parts:
        found.append(predictions)
        unseen += count
    whole = np.concatenate(found)
    unread = int(np.isnan(whole).sum())
    if unseen:
        said = f"{unseen} rows have a level that the model was not trained with; its 0/1 columns are all 0 there."
        warnings.warn(said, stacklevel=3)
    if unread:
        warnings.warn(f"{unread} rows could not be read; their prediction is NaN.", stacklevel=3)
    return whole
