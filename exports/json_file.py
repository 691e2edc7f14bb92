"""The model file itself, JSON; proven by a reader that knows nothing but the rule below.

    prediction = intercept + sum over design.terms of coefficients[name] * x

where, with `value` the row's value in the term's `column`,

    type        name                   x
    number      column                 value, or `fill` where it is missing
    indicator   column=__missing__     1 where the value is missing, else 0
    level       column=level           1 where the value (`__missing__` for none) is the term's `level`, else 0
    rare        column=level           1 where the value (`__missing__` for none) is none of the term's `kept`, else 0
    shaped      `name`                 `expression` of the value, or of `fill` where it is missing; if `equals` is
                                       not null, 1 where the expression is equal to it, else 0
    offset      (no coefficient)       the value, or its natural logarithm if `log` is true, times 1; a row where that
                                       has no value has no prediction
    product     column^2               x of the number that is both `left` and `right`, squared
                left:right             x of `left` times x of `right`, which are terms of the kinds above

An expression is a text of words with blanks between, read from left to right: `x` is the value, a number is itself, and
each other word takes the values before it and leaves one in their place. `a b +`, also `-`, `*` and `/`; `a floor`;
`a log`, natural, without a value where a is 0 or less; `a sqrt`, without a value where a is below 0; `a sin`, of an
angle in radians; `a b c d if<`, which is c where a is below b, else d. A row with an expression without a value has no
prediction.

A model with an `outcome` predicts a function of that sum: 1 / (1 + e^-sum) for its `link` logit, the probability of the
second of its `classes`; e^sum for its `link` log, where a sum of more than 700 counts as 700.

With the `link` softmax there is such a sum for each of its `classes`: from the class's own place in `intercepts`, with
coefficients whose names have the class and ": " before them (more colons, where two names would be the same). They
stand class by class in the order of the terms. e^sum of each class, divided by those of all, is its probability.

A network has `layers` in place of coefficients: the x of its terms, each less its place in `centre` and divided by that
in `scale`, are the inputs of the first layer. Each unit of a layer is its place in `biases` plus the sum of its line in
`weights` times the inputs; units below 0 count as 0, but for the last one, which is multiplied by `target_scale` and
added to `target_centre`. That is the sum that an `outcome` is a function of.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shoal.exports.base import ColumnValues
from shoal.fitting.model_file import SavedModel, save_model
from shoal.models import Array

FUNCTIONS: dict[str, tuple[int, Any]] = {  # how many values a word takes, and what it makes of them
    "+": (2, operator.add), "-": (2, operator.sub), "*": (2, operator.mul), "/": (2, operator.truediv),
    "floor": (1, math.floor), "sin": (1, math.sin), "log": (1, lambda a: math.log(a) if a > 0 else math.nan),
    "sqrt": (1, lambda a: math.sqrt(a) if a >= 0 else math.nan), "if<": (4, lambda a, b, c, d: c if a < b else d),
}  # fmt: skip


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


def probabilities(contents: Mapping[str, Any], row: Mapping[str, float | str | None]) -> list[float]:
    """Of each class of a model with the link softmax."""
    values = [named_value(term, row)[1] for term in contents["design"]["terms"]]
    coefficients, intercepts = list(contents["coefficients"].values()), contents["outcome"]["intercepts"]
    sums = []
    for place, intercept in enumerate(intercepts):
        own = coefficients[place * len(values) : (place + 1) * len(values)]
        sums.append(intercept + sum(weight * x for weight, x in zip(own, values, strict=True)))
    if any(map(math.isnan, sums)):
        return [math.nan for _ in sums]
    powers = [math.exp(one - max(sums)) for one in sums]
    return [power / sum(powers) for power in powers]


def predict(contents: Mapping[str, Any], row: Mapping[str, float | str | None]) -> float | list[float]:
    if (contents.get("outcome") or {}).get("link") == "softmax":
        return probabilities(contents, row)
    total = contents["intercept"]
    if "layers" in contents:
        total = of_layers(contents["layers"], [named_value(term, row)[1] for term in contents["design"]["terms"]])
    for term in contents["design"]["terms"] if "layers" not in contents else ():
        name, x = named_value(term, row)
        total += x if term["type"] == "offset" else contents["coefficients"][name] * x
    link = (contents.get("outcome") or {}).get("link", "identity")
    if link == "logit":
        small = math.exp(-abs(total))
        return float((1.0 if total >= 0 else small) / (1 + small))
    if math.isnan(total):
        return math.nan
    return math.exp(min(total, 700.0)) if link == "log" else float(total)


def of_layers(layers: Mapping[str, Any], x: list[float]) -> float:
    """The score of a network."""
    inputs = [(a - centre) / scale for a, centre, scale in zip(x, layers["centre"], layers["scale"], strict=True)]
    if any(map(math.isnan, inputs)):
        return math.nan
    for place, (weights, biases) in enumerate(zip(layers["weights"], layers["biases"], strict=True)):
        units = [
            b + sum(w * a for w, a in zip(own, inputs, strict=True)) for own, b in zip(weights, biases, strict=True)
        ]
        inputs = units if place == len(layers["weights"]) - 1 else [max(unit, 0.0) for unit in units]
    return float(layers["target_centre"] + layers["target_scale"] * inputs[0])


def named_value(term: Mapping[str, Any], row: Mapping[str, float | str | None]) -> tuple[str, Any]:
    """A term's name and its x."""
    if term["type"] == "product":
        (left, a), (right, b) = named_value(term["left"], row), named_value(term["right"], row)
        return f"{left}^2" if term["left"] == term["right"] else f"{left}:{right}", a * b
    value, column = row[term["column"]], term["column"]
    if term["type"] == "offset":
        given = math.nan if value is None else value
        return column, FUNCTIONS["log"][1](given) if term["log"] else given
    if term["type"] == "number":
        return column, term["fill"] if value is None else value
    if term["type"] == "shaped":
        shaped = evaluated(term["expression"], term["fill"] if value is None else value)
        return term["name"], shaped if term["equals"] is None else float(shaped == term["equals"])
    if term["type"] == "indicator":
        return f"{column}=__missing__", float(value is None)
    level = "__missing__" if value is None else value
    is_ = level not in term["kept"] if term["type"] == "rare" else level == term["level"]
    return f"{column}={term['level']}", float(is_)


def evaluated(expression: str, x: Any) -> float:
    """From left to right: what is waiting is taken by the name that comes after it."""
    waiting: list[float] = []
    for word in expression.split():
        if word not in FUNCTIONS:
            waiting.append(x if word == "x" else float(word))
            continue
        count, function = FUNCTIONS[word]
        waiting[-count:] = [function(*waiting[-count:])]
    return waiting[0]


FORMAT = JsonFile()
