"""Shapes of columns as steps of scikit-learn: of transformers that are data alone, no function of ours among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from shoal.data.shapes.expression import Expression, X, evaluate
from shoal.exports.base import ColumnValues, ShapedColumn
from shoal.lazy.classes import dataclass
from shoal.models import Array, Bools

UFUNCS = {"floor": np.floor, "log": np.log, "sqrt": np.sqrt, "sin": np.sin}


def shaped_steps(shapes: Sequence[ShapedColumn]) -> Any:
    """A fitted pipeline from one column to one: missing values filled, then one new value at a time from those before,
    until the last step adds up what all these shapes of the column add to the prediction."""
    import pandas as pd
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import PolynomialFeatures

    making, total = _Making(), _Sum({})
    for shape in shapes:
        total = total.plus(_added(making, shape))
    name, none = shapes[0].name, bool(np.isnan(shapes[0].fill))
    # Without a value that stands in, as for an offset, the step after it refuses a missing one, and so it should.
    fill = [] if none else [("fill", _filling(shapes[0]))]
    zeros = pd.DataFrame({name: [0.0]}) if none else np.zeros((1, 1))
    first = PolynomialFeatures(degree=1).fit(zeros)  # a column of ones before the value
    return Pipeline([*fill, ("one", first), *making.steps, ("value", making.matrix(total))])


def _added(making: _Making, shape: ShapedColumn) -> _Sum:
    value = making.value(shape.expression)
    if not shape.levels:
        return value.times(shape.coefficient)
    total = _Sum({})
    for level, adds in shape.levels.items():
        total = total.plus(making.is_whole(value, level).times(adds))
    return total


def _filling(column: ShapedColumn) -> Any:
    import pandas as pd
    from sklearn.impute import SimpleImputer

    return SimpleImputer(strategy="mean").fit(pd.DataFrame({column.name: [column.fill]}))


def without_value(columns: Iterable[ShapedColumn], rows: ColumnValues) -> Bools:
    """Rows in which some shape has no value, such as a logarithm of 0: scikit-learn refuses them."""
    found: Bools = np.zeros(len(next(iter(rows.values()))), bool)
    for column in columns:
        values = np.array([column.fill if value is None else value for value in rows[column.name]], float)
        found |= np.isnan(evaluate(column.expression, values))
    return found


@dataclass(frozen=True)
class _Sum:
    """Values that are there, each with a weight: no step of its own is needed for one."""

    weights: Mapping[int, float]

    def plus(self, other: _Sum, sign: float = 1.0) -> _Sum:
        found = dict(self.weights)
        for place, weight in other.weights.items():
            found[place] = found.get(place, 0.0) + sign * weight
        return _Sum({place: weight for place, weight in found.items() if weight})

    def times(self, factor: float) -> _Sum:
        return _Sum({place: factor * weight for place, weight in self.weights.items()})

    @property
    def constant(self) -> float | None:
        """What it is in every row, if that is so."""
        return self.weights.get(0, 0.0) if set(self.weights) <= {0} else None


class _Making:
    """Values that are there so far, [1, x, ...], and the steps that append one more each."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, Any]] = []
        self.width = 2
        self.known: dict[Expression, _Sum] = {X: _Sum({1: 1.0})}

    def value(self, expression: Expression) -> _Sum:
        """Its value, which is made if it is not there yet."""
        if expression not in self.known:
            made = self._made(expression) if isinstance(expression, tuple) else _Sum({0: float(expression)})
            self.known[expression] = made
        return self.known[expression]

    def is_whole(self, value: _Sum, number: float) -> _Sum:
        """1 where a whole number is this one: above the half before it, and not above the half after it."""
        above = [self._above_zero(value.plus(_Sum({0: half - number}))) for half in (0.5, -0.5)]
        return above[0].plus(above[1], -1.0)

    def matrix(self, *sums: _Sum) -> Any:
        """A product with a matrix and nothing else: the transformer that does this keeps it as data."""
        return _matrix(np.array([[one.weights.get(place, 0.0) for place in range(self.width)] for one in sums]))

    def _made(self, expression: tuple[Any, ...]) -> _Sum:
        name, *parts = expression
        values = [self.value(part) for part in parts]
        if name in ("+", "-"):
            return values[0].plus(values[1], 1.0 if name == "+" else -1.0)
        if name == "*":
            return self._product(*values)
        if name == "/":
            return self._append(self.matrix(values[0]), _divided(float(parts[1])))
        if name == "if<":
            below = self._above_zero(values[1].plus(values[0], -1.0))
            other = _Sum({0: 1.0}).plus(below, -1.0)
            return self._product(below, values[2]).plus(self._product(other, values[3]))
        return self._append(self.matrix(values[0]), _function(name))

    def _above_zero(self, value: _Sum) -> _Sum:
        return self._append(self.matrix(value), _above_zero())

    def _product(self, left: _Sum, right: _Sum) -> _Sum:
        from sklearn.preprocessing import PolynomialFeatures

        for one, other in ((left, right), (right, left)):
            if one.constant is not None:
                return other.times(one.constant)
        times = PolynomialFeatures(degree=2, interaction_only=True, include_bias=False).fit(np.zeros((1, 2)))
        return self._append(self.matrix(left, right), times, _matrix(np.array([[0.0, 0.0, 1.0]])))

    def _append(self, *transformers: Any) -> _Sum:
        from sklearn.pipeline import FeatureUnion, Pipeline
        from sklearn.preprocessing import FunctionTransformer

        new = Pipeline([(f"step_{i}", one) for i, one in enumerate(transformers)])
        kept = FunctionTransformer().fit(np.zeros((1, self.width)))
        self.steps.append((f"value_{self.width}", FeatureUnion([("before", kept), ("new", new)])))
        self.width += 1
        return _Sum({self.width - 1: 1.0})


def _matrix(components: Array) -> Any:
    from sklearn.random_projection import GaussianRandomProjection

    made = GaussianRandomProjection(n_components=len(components), random_state=0).fit(np.zeros(components.shape))
    made.components_ = components
    return made


def _above_zero() -> Any:
    from sklearn.preprocessing import Binarizer

    return Binarizer(threshold=0.0).fit(np.zeros((1, 1)))


def _divided(by: float) -> Any:
    from sklearn.preprocessing import StandardScaler

    made = StandardScaler(with_mean=False).fit(np.zeros((1, 1)))
    made.scale_ = np.array([by])
    return made


def _function(name: str) -> Any:
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(UFUNCS[name]).fit(np.zeros((1, 1)))
