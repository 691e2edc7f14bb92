"""The model file itself, JSON; proven by a reader that knows nothing but the rule below.

    prediction = intercept + sum over design.terms of coefficients[name] * x

where, with `value` the row's value in the term's `column`,

    type        name                   x
    number      column                 value, or `fill` where it is missing
    indicator   column=__missing__     1 where the value is missing, else 0
    level       column=level           1 where the value (`__missing__` for none) is the term's `level`, else 0
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from exports.base import Rows
from model_file import SavedModel, save_model
from models import Array


class JsonFile:
    packages: tuple[str, ...] = ()
    runtime = "the rule of docs/operations.md applied to the JSON alone"
    use = "shoal predict FILE.json data.csv --out predictions.csv, or the rule in docs/operations.md in any language."

    def write(self, model: SavedModel, out: Path) -> None:
        save_model(out, model.contents)

    def run(self, path: Path, model: SavedModel, rows: Rows) -> Array:
        contents = json.loads(path.read_text("utf-8"))
        count = len(next(iter(rows.values())))
        return np.array([predict(contents, {name: rows[name][i] for name in rows}) for i in range(count)])


def predict(contents: Mapping[str, Any], row: Mapping[str, float | str | None]) -> float:
    total = contents["intercept"]
    for term in contents["design"]["terms"]:
        value, column = row[term["column"]], term["column"]
        if term["type"] == "number":
            x, name = (term["fill"] if value is None else value), column
        elif term["type"] == "indicator":
            x, name = float(value is None), f"{column}=__missing__"
        else:
            x = float(("__missing__" if value is None else value) == term["level"])
            name = f"{column}={term['level']}"
        total += contents["coefficients"][name] * x
    return float(total)


FORMAT = JsonFile()
