"""Model files: JSON that a person can read and that is enough by itself to predict; no pickle, no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shoal.data.encoding import Encoding, encoding_from
from shoal.data.terms import Level, Product
from shoal.errors import DamagedFile, StateError
from shoal.files.output import Output
from shoal.models import Array
from shoal.results.fit import FitReport
from shoal.results.model import (
    NAME,
    VERSION,
    WITH_PRODUCTS,
    Design,
    ModelFile,
    Origin,
    model_bytes,
    read_model,
    unproven,
)
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.utils import write_atomically


@dataclass(frozen=True)
class SavedModel:
    """What prediction needs of a model file, and the file as it was read."""

    encoding: Encoding
    coef: Array
    file: ModelFile

    @property
    def intercept(self) -> float:
        return self.file.report.intercept

    @property
    def report(self) -> FitReport:
        return self.file.report

    @property
    def target(self) -> str:
        return self.file.report.target

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(t.column for t in self.encoding.terms if isinstance(t, Level))
            | dict.fromkeys(self.encoding.known)
        )

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        texts = set(self.texts)
        return tuple(name for name in self.encoding.columns if name not in texts)


def model_of(encoding: Encoding, report: FitReport, config: RunConfig, content: str) -> ModelFile:
    """The model file of a fit to data with this fingerprint; how long it took and in which run is not part of it."""
    design = Design(tuple(encoding.as_list()), {column: tuple(levels) for column, levels in encoding.known.items()})
    origin = Origin(Path(config.file).name, content, report.rows_read)
    return ModelFile(replace(report, timings={}, run_id=""), design, config.as_dict(), origin, _version(encoding))


def _version(encoding: Encoding) -> int:
    return WITH_PRODUCTS if any(isinstance(term, Product) for term in encoding.terms) else VERSION


def save_model(path: Path, model: ModelFile) -> None:
    write_atomically(path, model_bytes(model))


def model_output(config: RunConfig) -> Output | None:
    """Where a person wants the model of a fit, if that can be written to."""
    return Output(config.out, {"the file that the model is trained on": config.file}).check() if config.out else None


def load_model(path: Path) -> SavedModel:
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
        return model_from(contents)
    except (KeyError, TypeError, ValueError) as error:
        why = f"{error.args[0]!r} is missing or wrong" if isinstance(error, KeyError) else error
        raise StateError(f"The model file '{path}' is damaged: {why}. Train again.") from None


def _check_kind(path: Path, contents: Mapping[str, Any]) -> None:
    """Refuse what another program wrote, or a later version of this one."""
    if contents.get("format") != NAME:
        raise StateError(f"Expected a model file that Shoal has written, got another kind of file: '{path}'.")
    if contents.get("version") not in (VERSION, WITH_PRODUCTS):
        raise StateError(
            f"'{path}' has version {contents.get('version')}, this program reads versions {VERSION} and "
            f"{WITH_PRODUCTS}. "
            "Use the program that wrote it, or train again."
        )


def model_from(contents: Mapping[str, Any]) -> SavedModel:
    """From the object that a model file holds."""
    return usable(ModelFile.from_dict(contents))


def usable(file: ModelFile) -> SavedModel:
    """A model file, made ready to predict."""
    encoding = encoding_from(file.design.terms, file.design.known_levels)
    return SavedModel(encoding, np.array([file.report.coefficients[name] for name in encoding.names], float), file)


def own_data(config: Mapping[str, Any]) -> RunConfig:
    """The file that a model was trained on, read as it was then; for passes over its rows, whatever the solver was."""
    return config_from({**config, "out": None, "solver": "exact"})
