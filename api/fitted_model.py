"""A fitted model as Python sees it, and the fits that make one from a file or a data frame."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from shoal.api.frames import Unknown, as_needed, date_columns, encoded, text_sums
from shoal.api.predicted import called, ends, gathered, likeliest, likely_sets, usual_sets, without_prediction
from shoal.api.tables import as_frame, path_of, with_target
from shoal.errors import DataError, StateError, TrainingError
from shoal.exports import export
from shoal.files.output import Output
from shoal.fitting.model_file import in_days, usable, without_zeros
from shoal.fitting.reports import Trained, described
from shoal.losses.layers import expected
from shoal.models import Floats
from shoal.results.findings import Finding
from shoal.results.fit import FitReport
from shoal.results.model import ModelFile, model_bytes
from shoal.results.network import NetworkReport
from shoal.results.plain import plain
from shoal.results.thresholds import check_threshold
from shoal.settings.config import RunConfig
from shoal.settings.meaning import implied, left_out, understood
from shoal.settings.values import config_from
from shoal.solve.conformal import between
from shoal.solve.inference import variance_inflation
from shoal.sparse.prediction import predicted as of_sparse
from shoal.sparse.table import is_sparse
from shoal.sparse.texts.models import split_where_many
from shoal.sparse.texts.scores import predict_requests
from shoal.tasks.predict import open_for, predict_file, suited
from shoal.tasks.quartiles import residual_quartiles
from shoal.tasks.refit import Basis
from shoal.tasks.train import train_gradient_with, train_with
from shoal.tasks.workers import kept_coordinator
from shoal.utils import Progress

if TYPE_CHECKING:
    from shoal.api.summary import ModelSummary
    from shoal.exports.proof import Proof
    from shoal.report.pictures import Picture
    from shoal.results.answers.explanation import ModelExplanation
    from shoal.results.answers.predictions import FilePredictions

KEPT = 100_000  # rows of a frame of which residuals are looked at when it is fitted


class FittedModel:
    """A fitted model: its numbers, what they are worth, and predictions."""

    def __init__(self, file: ModelFile, report: FitReport | None = None, basis: Basis | None = None,
                 residuals: tuple[float, ...] = ()) -> None:  # fmt: skip
        self._file, self._report, self._basis, self._residuals = file, report or file.report, basis, residuals

    @property
    def report(self) -> dict[str, Any]:
        """All that is said of the fit, as `shoal train --json` prints it."""
        return self._report.as_dict()

    @property
    def model(self) -> str:
        """linear, ridge, lasso, elasticnet, or a model of another loss such as logistic."""
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
    def findings(self) -> tuple[Finding, ...]:
        """What was worth knowing before the fit: leaks, ids, too few rows and the like, each with what can be done."""
        return self._report.findings

    @property
    def prediction_interval(self) -> dict[str, Any] | None:
        """Half-widths of prediction intervals by level, from the rows kept for testing, with what they mean."""
        found: dict[str, Any] | None = plain(self._report.prediction_interval)
        return found

    @overload
    def predict(self, data: Any, *, interval: None = None, threshold: float | None = None, **knobs: Any) -> Any: ...

    @overload
    def predict(self, data: Any, *, interval: float, **knobs: Any) -> tuple[Floats, Floats, Floats]: ...

    def predict(self, data: Any, *, interval: float | None = None, threshold: float | None = None, **knobs: Any) -> Any:
        """A prediction for every row of a file or a table in memory; NaN for a row that could not be read.

        A logistic model gives the likelier of its two values (None for such a row), or its yes from the probability
        `threshold` on; `predict_proba` gives the probabilities.

        A table is a data frame of pandas or polars, an Arrow table, an array, a dictionary of columns, or one row as a
        dictionary or a Series.

        With an interval such as 0.9: predictions, lower ends, upper ends, which follow the rows where the model has
        bands of that level; of a logistic model predictions and sets, each a tuple of one value or both. `knobs` say
        how to read a file (delimiter, decimal, encoding, ...), where that cannot be detected.
        """
        outcome = self._report.outcome
        called_from = check_threshold(outcome, threshold)
        width, lines = (None, ()) if interval is None else usable(self._file, hashes=True).interval_at(interval)
        found = self._predicted(data, knobs)
        if lines and width is not None:
            with warnings.catch_warnings(action="ignore"):  # what is odd about the rows was said
                low, high = (FittedModel(line.file)._predicted(data, knobs) for line in lines)
            return found, *between(low, high, width)
        if outcome and outcome.several:
            sure = likeliest(found, outcome.labels)
            return sure if width is None else (sure, likely_sets(found, outcome.labels, width))
        if outcome and outcome.classes:
            calls = called(found, outcome.labels, called_from)
            return calls if width is None else (calls, usual_sets(found, outcome.labels, width))
        return found if width is None else (found, *ends(found, width, self._report))

    def predict_proba(self, data: Any, **knobs: Any) -> Floats:
        """(rows, K): probabilities of the values of a logistic or multinomial model, in the order of `classes`."""
        self._check_classes()
        yes = self._predicted(data, knobs)
        return yes if yes.ndim > 1 else np.column_stack((1 - yes, yes))

    @property
    def classes(self) -> tuple[Any, ...]:
        """The values of the target: of a logistic model no and yes, of a multinomial one all of them."""
        self._check_classes()
        return self._report.outcome.labels if self._report.outcome else ()

    def _check_classes(self) -> None:
        if not self._report.outcome or not self._report.outcome.classes:
            raise StateError(
                f"Expected a logistic or multinomial model, which has classes and probabilities, got {self.model}."
            )

    def _predicted(self, data: Any, knobs: Mapping[str, Any]) -> Floats:
        """The mean that the model expects of each row: of a logistic model the probability of its yes."""
        frame = as_frame(data)
        parts = self._of_file(path_of(data), knobs) if frame is None else self._of_frame(frame)
        offset = str(self._file.config.get("offset", ""))
        shaped = any(term["type"] == "shaped" for term in self._file.design.terms)
        encoding = usable(self._file, hashes=True).encoding
        return gathered(parts, encoding, without_prediction(frame is None, shaped, offset))

    def predict_to(
        self, file: str | Path, out: str | Path, *, keep: Sequence[str] | str = (), interval: float | None = None,
        threshold: float | None = None, like_file: bool = False, **knobs: Any,
    ) -> FilePredictions:  # fmt: skip
        """Write a prediction for every row of a file to `out`, beside the columns to `keep` ("all" for all of them,
        "ids" for those that look like ids), `like_file` with the marks of the file in place of commas and points;
        returns what is said of them, with the rows that have none: `as_dict()` is what `shoal predict --json` prints.
        """
        wanted = [keep] if isinstance(keep, str) else list(keep)
        with self._as_file() as path:
            config = config_from({**knobs, "file": str(file)})
            return predict_file(path, config, out, interval=interval, keep=wanted, threshold=threshold,
                                like_file=like_file)  # fmt: skip

    @contextmanager
    def _as_file(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
            path = Path(folder) / "model.json"
            path.write_bytes(model_bytes(self._file))
            yield path

    def score(self, data: Any, y: Any = None) -> float:
        """R2 on the rows of a table in memory that has the target as well, or beside values y of it;
        of a logistic model the accuracy: the share of rows called right."""
        frame, target = (as_frame(data), self.target) if y is None else with_target(data, y)
        frame = as_needed(frame, [target], self._file.config.get("one_spelling") or ())
        if frame is None or target not in frame.columns:
            raise DataError(
                f"Expected a table with the column '{target}', or values of it as y, got neither. "
                "For a file, give its rows as a data frame."
            )
        if self._report.outcome and self._report.outcome.classes:
            return float(np.mean(self.predict(frame) == frame[target].to_numpy()))
        actual = frame[target].to_numpy(np.float64)
        squares = float(((actual - self.predict(frame)) ** 2).sum())
        scatter = float(((actual - actual.mean()) ** 2).sum()) if len(actual) else 0.0
        return 1 - squares / scatter if scatter > 0 else float("nan")

    @property
    def network(self) -> NetworkReport | None:
        """Of a neural network: its layers, its scores, and `beside`, how it does beside the exact linear model."""
        return self._report.network

    def summary(self) -> ModelSummary:
        """Coefficients with their errors, F, AIC, BIC, residual quartiles and variance inflation, for notebooks too.

        Inflation comes from the sums of the fit; a loaded model looks for them in its file, and says none without it.
        """
        from shoal.api.summary import ModelSummary, residuals_of

        if self._report.outcome or self._report.network:
            known = self._report.collinearity.inflation if self._report.collinearity else {}
            return ModelSummary.of(self._report, {name: value for name, value in known.items() if value is not None})
        try:
            self._basis = basis = self._basis or Basis.of_model(self._file)
        except TrainingError:  # the file is gone or another one, or the fit was made without sums of all pairs
            return ModelSummary.of(self._report, {})
        inflated = variance_inflation(basis.prepared.problem).tolist()
        self._residuals = self._residuals or residuals_of(self._file, basis)
        named = dict(zip(basis.prepared.encoding.names, inflated, strict=True))
        return ModelSummary.of(self._report, named, self._residuals)

    def explain(self, **question: Any) -> ModelExplanation:
        """What `shoal explain` says: intervals, importance of columns, prediction intervals, each with what it
        means; `resamples`, `confidence`, `alpha`, `folds`, `fold_by` and `seed` are those of the command.

        The file that the model was fitted to is read for it.
        """
        from shoal.tasks.explain import ExplainRequest, explain_model  # here: a fit needs none of it

        with self._as_file() as path:
            return explain_model(path, ExplainRequest(**question))

    def plot(self) -> Picture | None:
        """The coefficients as a picture that notebooks show and `save` writes; None if all are 0."""
        from shoal.report.pictures import coefficients_of

        return coefficients_of(self._report)

    def _repr_html_(self) -> str:
        from shoal.api.summary import ModelSummary

        drawn = self.plot()
        return ModelSummary.of(self._report, {})._repr_html_() + (drawn._repr_html_() if drawn else "")

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
        if self._report.outcome or self._report.network:
            raise StateError(
                f"Expected a linear model to refit from sums, got {self.model}. Fit it anew with shoal.fit."
            )
        given = {name: value for name, value in changed.items() if value is not None}
        config = config_from(self._file.config | given | {"solver": "exact"})
        self._basis = basis = (self._basis or Basis.of_model(self._file)).suiting(config)
        trained = described(basis.fit(config, self._report.rows_dropped))
        return fitted_in(time.perf_counter() - started, trained, basis)

    def __repr__(self) -> str:
        from shoal.api.summary import shown_model

        return shown_model(self._report, self.scores)

    def _of_frame(self, frame: Any) -> Iterator[tuple[Floats, Unknown]]:
        saved = without_zeros(usable(self._file, hashes=True))
        frame = as_needed(frame, [*saved.numbers, *saved.texts], saved.one_spelling)
        saved = in_days(saved, date_columns(frame, saved.numbers))
        split = split_where_many(saved)
        X_parts = encoded(frame, split.dense.encoding, self._report.dates, self._file.design.written)
        for (X, unknown), (adds, more) in zip(X_parts, text_sums(frame, split.texts), strict=True):
            yield np.asarray(expected(X, *split.dense.fitted[1:]) + adds, np.float64), {**unknown, **more}

    def _of_file(self, path: str, knobs: Mapping[str, Any]) -> Iterator[tuple[Floats, Unknown]]:
        saved = without_zeros(usable(self._file, hashes=True))
        config = config_from({**knobs, "file": path})
        with kept_coordinator(config) as coordinator:
            if is_sparse(config):
                yield from ((np.asarray(part, np.float64), {}) for part in of_sparse(saved, coordinator, config))
                return

            def predicted() -> list[tuple[Floats, Unknown]]:
                dataset = open_for(saved, coordinator, config)
                requests = predict_requests(suited(saved, dataset), dataset)
                found = zip(coordinator.swept("predicting", requests), requests, strict=True)
                return [(np.asarray(all_, np.float64), of.unknown() if unseen else {}) for (all_, unseen), of in found]

            yield from coordinator.cache.mending(predicted)
            for repair in coordinator.cache.repairs:
                warnings.warn(repair, stacklevel=4)


def fitted_in(seconds: float, trained: Trained, basis: Basis) -> FittedModel:
    """A model that was made from sums, in so many seconds."""
    return FittedModel(trained.model, replace(trained.report, timings={"total": seconds}), basis)


def fit_file(path: Any, values: Mapping[str, Any], progress: Progress | None = None) -> FittedModel:
    """From a path and the knobs of a run by name."""
    config = _understood(config_from({**values, "file": path_of(path)}), values)
    with kept_coordinator(config, progress) as coordinator:
        if config.solver == "gradient":
            trained = train_gradient_with(coordinator, config)
            return FittedModel(trained.model, trained.report)
        trained = train_with(coordinator, config)
    return FittedModel(trained.model, trained.report, Basis.of_fit(trained.fit) if trained.fit else None)


def fit_frame(frame: Any, values: Mapping[str, Any], progress: Progress | None = None) -> FittedModel:
    with frame_as_file(frame, values) as (config, folder), kept_coordinator(config, progress, folder) as coordinator:
        config = _understood(config, values)
        if config.solver == "gradient":
            trained = train_gradient_with(coordinator, config)
            return FittedModel(trained.model, trained.report)
        trained = train_with(coordinator, config)
        basis = Basis.of_fit(trained.fit) if trained.fit else None
        basis = basis.summed(coordinator) if basis else None
        rows = basis.prepared.dataset if basis and len(frame) <= KEPT else None  # gone when somebody asks
        residuals = residual_quartiles(usable(trained.model), rows, coordinator) if rows else ()
    return FittedModel(trained.model, trained.report, basis, residuals)


def _understood(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """What the caller of `fit` means by the knobs that it names."""
    meant = understood(config, values)
    steps = implied(values, meant)
    for note in (steps and f"{steps} Say solver='gradient' if that is what you want.", left_out(values, meant)):
        if note:
            warnings.warn(note, stacklevel=4)
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
