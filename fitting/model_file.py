"""Model files: JSON that a person can read and that is enough by itself to predict; no pickle, no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shoal.data.encoding import Encoding, encoding_from
from shoal.data.terms import Level, Product
from shoal.errors import Remedy, StateError
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.utils import write_atomically

NAME = "shoal-model"
VERSION, WITH_PRODUCTS = 1, 2  # what older programs read as well; and what they cannot, so that they say so


@dataclass(frozen=True)
class SavedModel:
    """What prediction needs of a model file, and the whole file as it was read."""

    encoding: Encoding
    coef: Array
    intercept: float
    contents: dict[str, Any]

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


def contents_of(encoding: Encoding, report: dict[str, Any], config: dict[str, Any], content: str) -> dict[str, Any]:
    """The object that is written: what it is, the answer, how columns become terms, where it came from."""
    return {
        "format": NAME,
        "version": _version(encoding),
        **report,
        "design": {
            "terms": encoding.as_list(),
            "known_levels": {k: list(v) for k, v in encoding.known.items()},
        },
        "config": config,
        "data": {"file": Path(config["file"]).name, "content": content, "rows": report["rows_read"]},
    }


def _version(encoding: Encoding) -> int:
    return WITH_PRODUCTS if any(isinstance(term, Product) for term in encoding.terms) else VERSION


def save_model(path: Path, contents: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(contents, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def load_model(path: Path) -> SavedModel:
    try:
        contents = json.loads(path.read_text())
    except OSError as error:
        raise StateError(f"Expected a model file at '{path}', got: {error.strerror}. Check the path.") from None
    except ValueError as error:
        raise StateError(
            f"'{path}' is not a whole model file: {error}.", Remedy.run("Make it again", "train", "--out", path.name)
        ) from None
    if not isinstance(contents, dict) or contents.get("format") != NAME:
        raise StateError(f"Expected a model file that Shoal has written, got another kind of file: '{path}'.")
    if contents.get("version") not in (VERSION, WITH_PRODUCTS):
        raise StateError(
            f"'{path}' has version {contents.get('version')}, this program reads versions {VERSION} and "
            f"{WITH_PRODUCTS}. "
            "Use the program that wrote it, or train again."
        )
    try:
        return model_from(contents)
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"The model file '{path}' is damaged: {error!r} is missing or wrong. Train again.") from None


def model_from(contents: dict[str, Any]) -> SavedModel:
    encoding = encoding_from(contents["design"]["terms"], contents["design"]["known_levels"])
    coef = np.array([contents["coefficients"][name] for name in encoding.names], float)
    return SavedModel(encoding, coef, float(contents["intercept"]), contents)


def own_data(contents: Mapping[str, Any]) -> RunConfig:
    """The file that a model was trained on, read as it was then; for passes over its rows, whatever the solver was."""
    return config_from({**contents["config"], "out": None, "solver": "exact"})
