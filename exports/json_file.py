"""The model file itself, JSON; proven by a reader that knows nothing but the rule below.

    prediction = intercept + sum over design.terms of coefficients[name] * x

where, with `value` the row's value in the term's `column`,

    type        name                   x
    number      column                 value, or `fill` where it is missing
    indicator   column=__missing__     1 where the value is missing, else 0
    level       column=level           1 where the value (`__missing__` for none) is the term's `level`, else 0
    product     column^2               x of the number that is both `left` and `right`, squared
                left:right             x of `left` times x of `right`, which are terms of the kinds above
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shoal.exports.base import ColumnValues
from shoal.fitting.model_file import SavedModel, save_model
from shoal.models import Array


class JsonFile:
    packages: tuple[str, ...] = ()
    runtime = "the rule of docs/exports.md applied to the JSON alone"
    use = "shoal predict FILE.json data.csv --out predictions.csv, or the rule in docs/exports.md in any language."

    def write(self, model: SavedModel, out: Path) -> None:
        save_model(out, model.file)

    def run(self, path: Path, model: SavedModel, rows: ColumnValues) -> Array:
        contents = json.loads(path.read_text("utf-8"))
        count = len(next(iter(rows.values())))
        return np.array([predict(contents, {name: rows[name][i] for name in rows}) for i in range(count)])


def predict(contents: Mapping[str, Any], row: Mapping[str, float | str | None]) -> float:
    total = contents["intercept"]
    for term in contents["design"]["terms"]:
        name, x = named_value(term, row)
        total += contents["coefficients"][name] * x
    return float(total)


def named_value(term: Mapping[str, Any], row: Mapping[str, float | str | None]) -> tuple[str, Any]:
    """A term's name and its x."""
    if term["type"] == "product":
        (left, a), (right, b) = named_value(term["left"], row), named_value(term["right"], row)
        return f"{left}^2" if term["left"] == term["right"] else f"{left}:{right}", a * b
    value, column = row[term["column"]], term["column"]
    if term["type"] == "number":
        return column, term["fill"] if value is None else value
    if term["type"] == "indicator":
        return f"{column}=__missing__", float(value is None)
    return f"{column}={term['level']}", float(("__missing__" if value is None else value) == term["level"])


FORMAT = JsonFile()
