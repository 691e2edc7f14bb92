"""Model files: JSON that a person can read and that is enough by itself to predict; no pickle, no code."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.dataset import Dataset, Manifest
from shoal.data.encoding import Encoding, encoding_from
from shoal.data.terms import Factor, HashedText, Level, Number, Offset, Product, Shaped, Term
from shoal.errors import DamagedFile, StateError
from shoal.files.output import Output
from shoal.files.parts import title
from shoal.lazy.classes import dataclass
from shoal.losses.base import RowLoss
from shoal.losses.layers import NetworkMean, RowMean
from shoal.losses.multinomial import Multinomial
from shoal.losses.named import loss_named
from shoal.models import Array
from shoal.results.fit import BandLine, FitReport
from shoal.results.model import (
    NAME,
    VERSION,
    VERSIONS,
    WITH_CLASSES,
    WITH_DATES,
    WITH_HASHES,
    WITH_LOSS,
    WITH_NETWORK,
    WITH_OFFSET,
    WITH_PRODUCTS,
    WITH_RARE,
    WITH_SHAPES,
    Design,
    ModelFile,
    Origin,
    OriginPart,
    TrainingColumn,
    model_bytes,
    read_model,
    unproven,
)
from shoal.results.network import StoredLayers
from shoal.results.outcome import Outcome, class_terms
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.settings.when import NETWORK
from shoal.solve.conformal import half_width_of
from shoal.utils import write_atomically

DAY = 86400.0  # seconds, the unit of dates in model files before WITH_DATES


@dataclass(frozen=True)
class SavedModel:
    """What prediction needs of a model file, and the file as it was read."""

    encoding: Encoding
    coef: Array  # (p,), or (K, p) of several classes; NaN of a network, which has none
    file: ModelFile

    @property
    def intercept(self) -> float:
        return self.file.report.intercept

    @property
    def several(self) -> bool:
        """Whether it tells several classes apart, with a score for each; what asks for one score takes `of_class`."""
        return self.outcome is not None and self.outcome.several

    def of_class(self, place: int) -> SavedModel:
        """The score of one of several classes, as a linear model."""
        assert self.outcome is not None
        said = replace(self.report, intercept=self.outcome.intercepts[place], outcome=None)
        return replace(self, coef=self.coef[place], file=replace(self.file, report=said))

    @property
    def report(self) -> FitReport:
        return self.file.report

    @property
    def target(self) -> str:
        return self.file.report.target

    @property
    def outcome(self) -> Outcome | None:
        """What is said of a model of another loss than squares."""
        return self.file.report.outcome

    @property
    def one_spelling(self) -> tuple[str, ...]:
        """The columns whose texts were read in one spelling, as they are then of new rows."""
        return tuple(self.file.config.get("one_spelling") or ())

    @cached_property
    def loss(self) -> RowLoss | None:
        """The loss whose mean is predicted; None of a linear model, whose scores are its predictions."""
        if self.outcome is None or self.outcome.several:
            return None
        return loss_named(self.outcome.loss, self.outcome.parameters)

    @cached_property
    def network(self) -> NetworkMean | None:
        """The layers of a network; None of a model with coefficients."""
        found = self.file.layers
        if found is None:
            return None
        return NetworkMean(
            np.array(found.centre), np.array(found.scale), tuple(map(np.array, found.weights)),
            tuple(map(np.array, found.biases)), found.target_centre, found.target_scale, self.loss,
        )  # fmt: skip

    @property
    def fitted(self) -> tuple[Encoding, Array, float | Array, RowMean | None]:
        """What passes over rows predict with: of several classes the coefficients and intercepts of all of them."""
        if self.network is not None:
            return self.encoding, self.coef, 0.0, self.network
        if self.outcome is not None and self.outcome.several:
            return self.encoding, self.coef, np.array(self.outcome.intercepts), Multinomial()
        return self.encoding, self.coef, self.intercept, self.loss

    def lines_at(self, level: float | None) -> tuple[SavedModel, ...]:
        """Where prediction intervals of this level follow the rows, the two quantile lines that they are taken from,
        each as a linear model of its own; none else."""
        bands = self.report.bands
        if bands is None or not bands.are_of(level):
            return ()
        return tuple(without_zeros(usable(_as_file(self.file, line), hashes=True)) for line in bands.lines)

    def interval_at(self, level: float) -> tuple[float, tuple[SavedModel, ...]]:
        """How far the ends of prediction intervals are from the prediction, in the spread of its rows; or, with the two
        lines of intervals that follow the rows, how far these are moved apart. Where there are none, that is said."""
        if lines := self.lines_at(level):
            assert self.report.bands is not None
            return self.report.bands.correction, lines
        return half_width_of(self.report.prediction_interval, level, self.report.bands), ()

    def check_linear(self, what: str) -> None:
        """Refuse what there is for linear models only; `what` is several of them, such as reports."""
        if why := not_there(self.file.report, what):
            raise StateError(why)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(t.column for t in self.encoding.terms if isinstance(t, Level | HashedText))
            | dict.fromkeys(self.encoding.known)
        )

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        texts = set(self.texts)
        return tuple(name for name in self.encoding.columns if name not in texts)


def _as_file(file: ModelFile, line: BandLine) -> ModelFile:
    said = replace(
        file.report, intercept=line.intercept, coefficients=line.coefficients, outcome=None, bands=None,
        prediction_interval=None,
    )  # fmt: skip
    return replace(file, report=said)


def not_there(report: FitReport, what: str) -> str:
    """Why there are none of these for a model; empty where there are."""
    if report.model == NETWORK:
        return f"{what} are for models with coefficients; this is a neural network (mlp)."
    return f"{what} are for linear models; this is a {report.model} model." if report.outcome else ""


def model_of(
    encoding: Encoding, report: FitReport, config: RunConfig, dataset: Dataset, written: Mapping[str, str],
    columns: Mapping[str, TrainingColumn], layers: StoredLayers | None = None,
) -> ModelFile:  # fmt: skip
    """The model file of a fit to a data set; how long it took and in which run is not part of it."""
    known, data = {column: tuple(levels) for column, levels in encoding.known.items()}, dataset.manifest
    if encoding.offset:
        encoding = replace(encoding, terms=(*encoding.terms, encoding.offset))
    design = Design(
        tuple(encoding.as_list()), known, dict(encoding.usual), dict(written), _seen(encoding, data), dict(columns)
    )
    parts = tuple(OriginPart(title(part.file), part.rows, part.content) for part in data.parts)
    origin = Origin(title(config.file), data.content, report.rows_read, parts)
    said = replace(report, timings={}, run_id="")
    return ModelFile(said, design, config.as_dict(), origin, _version(encoding, report, layers), layers)


def _seen(encoding: Encoding, data: Manifest) -> dict[str, tuple[float, float]]:
    """The ends of the columns of numbers that the model uses: what lies beyond them is a guess."""
    used = set(encoding.columns) - set(encoding.known)
    ends = ((column.name, column.minimum, column.maximum) for column in data.columns if column.name in used)
    return {name: (low, high) for name, low, high in ends if low is not None and high is not None}


def _version(encoding: Encoding, report: FitReport, layers: StoredLayers | None) -> int:
    if layers is not None:
        return WITH_NETWORK
    if any(isinstance(term, HashedText) for term in encoding.terms):
        return WITH_HASHES
    if encoding.rare:
        return WITH_RARE
    if report.outcome and report.outcome.several:
        return WITH_CLASSES
    if any(isinstance(term, Offset) for term in encoding.terms):
        return WITH_OFFSET
    if any(isinstance(factor, Shaped) for term in encoding.terms for factor in _factors(term)):
        return WITH_SHAPES
    if report.outcome:
        return WITH_LOSS
    if report.dates:
        return WITH_DATES
    return WITH_PRODUCTS if any(isinstance(term, Product) for term in encoding.terms) else VERSION


def save_model(path: Path, model: ModelFile) -> None:
    write_atomically(path, model_bytes(model))


def model_output(config: RunConfig) -> Output | None:
    """Where a person wants the model of a fit, if that can be written to."""
    return Output(config.out, {"the file that the model is trained on": config.file}).check() if config.out else None


def load_model(path: Path, hashes: bool = False) -> SavedModel:
    """As it was written. Models with hashes of texts are refused but by those who know what these are."""
    try:
        contents = read_model(path)
    except OSError as error:
        raise StateError(f"Expected a model file at '{path}', got: {error.strerror}. Check the path.") from None
    except DamagedFile:
        if (found := unproven(path)) is not None:
            _check_kind(path, found)
        raise
    _check_kind(path, contents)
    try:
        return usable(ModelFile.from_dict(contents), hashes)
    except (KeyError, TypeError, ValueError) as error:
        why = f"{error.args[0]!r} is missing or wrong" if isinstance(error, KeyError) else error
        raise StateError(f"The model file '{path}' is damaged: {why}. Train again.") from None


def _check_kind(path: Path, contents: Mapping[str, Any]) -> None:
    """Refuse what another program wrote, or a later version of this one."""
    if contents.get("format") != NAME:
        raise StateError(f"Expected a model file that Shoal has written, got another kind of file: '{path}'.")
    if contents.get("version") not in VERSIONS:
        raise StateError(
            f"'{path}' has version {contents.get('version')}, this program reads versions {VERSION} to {VERSIONS[-1]}. "
            "Use the program that wrote it, or train again."
        )


def model_from(contents: Mapping[str, Any]) -> SavedModel:
    """From the object that a model file holds."""
    return usable(ModelFile.from_dict(contents))


def usable(file: ModelFile, hashes: bool = False) -> SavedModel:
    """A model file, made ready to predict; `hashes` as in `load_model`."""
    if not hashes and any(term["type"] == "hashedtext" for term in file.design.terms):
        raise StateError(
            "This model hashes texts. It predicts the rows of files (shoal predict) and of tables in Python (predict); "
            "there is no other way to use it yet."
        )
    encoding = encoding_from(file.design.terms, file.design.known_levels, file.design.usual)
    encoding = replace(encoding, compared=file.report.references)  # terms without a weight may be left out
    found, outcome = file.report.coefficients, file.report.outcome
    if outcome is not None and outcome.several:
        rows = [found[name] for name in class_terms(outcome.classes, encoding.names)]
        return SavedModel(encoding, np.array(rows, float).reshape(len(outcome.classes), -1), file)
    if file.layers is not None:
        _check_layers(file.layers, len(encoding.terms))
        return SavedModel(encoding, np.full(len(encoding.terms), np.nan), file)
    coef = [1.0 if isinstance(term, Offset) else found[term.name] for term in encoding.terms]
    return SavedModel(encoding, np.array(coef, float), file)


def _check_layers(layers: StoredLayers, columns: int) -> None:
    """Whether matrices fit one another; ValueError says that a file is not what was written."""
    width = columns
    if len(layers.centre) != columns or len(layers.scale) != columns or len(layers.weights) != len(layers.biases):
        raise ValueError("its layers do not fit its columns")
    for W, b in zip(layers.weights, layers.biases, strict=True):
        if len(W) != len(b) or any(len(row) != width for row in W):
            raise ValueError("its layers do not fit one another")
        width = len(b)
    if width != 1 or not layers.weights or layers.activation != "relu":
        raise ValueError("its last layer should have one output, and relu before it")


def without_zeros(model: SavedModel) -> SavedModel:
    """The same model without terms whose weight is 0: a file needs no columns that add nothing."""
    if model.network is not None:
        return model
    kept = np.flatnonzero(np.atleast_2d(model.coef).any(axis=0) | _in_lines(model))
    terms = tuple(model.encoding.terms[i] for i in kept)
    columns = {column for term in terms for column in term.columns}
    idle = set(model.encoding.columns) - columns  # a column of one level has no term, and is asked for all the same
    known = {name: levels for name, levels in model.encoding.known.items() if name not in idle}
    return replace(model, encoding=replace(model.encoding, terms=terms, known=known), coef=model.coef[..., kept])


def _in_lines(model: SavedModel) -> npt.NDArray[np.bool_]:
    """Which terms the lines of its intervals need, whatever the model itself does with them."""
    lines = model.report.bands.lines if model.report.bands else ()
    return np.array([any(line.coefficients.get(term.name) for line in lines) for term in model.encoding.terms], bool)


def in_days(model: SavedModel, dates: Container[str]) -> SavedModel:
    """The same model for columns of dates as days; those of files without WITH_DATES are made for seconds."""
    names = [name for name in model.numbers if name in dates]
    if model.file.version >= WITH_DATES or not names:
        return model
    terms = tuple(_with_days(term, names) for term in model.encoding.terms)
    powers = [_day_factors(term, names) for term in terms]
    coef = model.coef * np.array([DAY**power for power in powers])
    return replace(model, encoding=replace(model.encoding, terms=terms), coef=coef)


def _with_days(term: Term, names: Container[str]) -> Term:
    if isinstance(term, Product):
        return Product(_factor_with_days(term.left, names), _factor_with_days(term.right, names))
    if isinstance(term, Offset | HashedText):
        return term
    return _factor_with_days(term, names)


def _factor_with_days(factor: Factor, names: Container[str]) -> Factor:
    dated = isinstance(factor, Number) and factor.column in names
    return replace(factor, fill=factor.fill / DAY) if dated and isinstance(factor, Number) else factor


def _day_factors(term: Term, names: Container[str]) -> int:
    return sum(isinstance(factor, Number) and factor.column in names for factor in _factors(term))


def _factors(term: Term) -> tuple[Factor, ...]:
    if isinstance(term, Product):
        return term.factors
    return () if isinstance(term, Offset | HashedText) else (term,)


def own_data(config: Mapping[str, Any]) -> RunConfig:
    """The file that a model was trained on, read as it was then; for passes over its rows, whatever the solver was."""
    return config_from({**config, "out": None, "solver": "exact"})
