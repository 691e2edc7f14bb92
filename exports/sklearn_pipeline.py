"""A model as a scikit-learn Pipeline in a file of skops: data and names of known types, no pickle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

import numpy as np

from shoal.data.terms import MISSING_LEVEL
from shoal.exports.base import ColumnValues, FactorColumn, LinearForm, ProductPart, TextColumn, linear_form
from shoal.fitting.model_file import SavedModel
from shoal.models import Array

TRUSTED = ["numpy.dtype"]  # what SimpleImputer remembers of its columns; all else is on skops' own list


class SklearnPipeline:
    packages = ("skops",)
    runtime = f"skops.io.load(trusted={TRUSTED}) and predict"
    use = (
        f"skops.io.load(path, trusted={TRUSTED}).predict(frame), with a pandas data frame that has the columns by "
        "name: numbers as numbers (dates as seconds since 1970), levels as text."
    )

    def write(self, model: SavedModel, out: Path) -> None:
        import skops.io

        skops.io.dump(pipeline(linear_form(model)), out, compression=ZIP_DEFLATED)

    def run(self, path: Path, model: SavedModel, rows: ColumnValues) -> Array:
        import skops.io

        predictions: Array = skops.io.load(path, trusted=TRUSTED).predict(_frame(model.texts, rows))
        return predictions


def pipeline(form: LinearForm) -> Any:
    """Fitted on one row that has each column's fill, so that what is learnt is what the model has."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import Pipeline

    columns = _columns(form).fit(_frame([t.name for t in form.texts], _one_row(form)))
    for place, part in enumerate(form.products):
        _set_levels(columns.named_transformers_[_product_name(place)], part)
    model = LinearRegression()
    model.coef_, model.intercept_ = _coefficients(form), form.intercept
    model.n_features_in_ = len(model.coef_)
    return Pipeline([("columns", columns), ("model", model)])


def _columns(form: LinearForm) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.pipeline import Pipeline

    parts = [
        ("numbers", SimpleImputer(strategy="mean"), [c.name for c in form.numbers]),
        ("missing", MissingIndicator(features="all"), [c.name for c in form.numbers if c.if_missing]),
        ("levels", Pipeline(_one_hot(form.texts)), [c.name for c in form.texts]),
    ]
    for place, part in enumerate(form.products):
        parts.append((_product_name(place), _product(part), list(dict.fromkeys((part.left.name, part.right.name)))))
    return ColumnTransformer([part for part in parts if part[2]], verbose_feature_names_out=True)


def _one_hot(columns: Sequence[TextColumn]) -> list[tuple[str, Any]]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    categories = [np.array([level for level, _ in _entries(column)], object) for column in columns]
    one_hot = OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False)
    return [("missing", SimpleImputer(strategy="constant", fill_value=MISSING_LEVEL)), ("one_hot", one_hot)]


def _product_name(place: int) -> str:
    return f"product_{place}"


def _product(part: ProductPart) -> Any:
    """Two values, each from one column, and their product: three outputs, of which the model uses the last."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import PolynomialFeatures

    sides = [("left", _side(part.left), [part.left.name]), ("right", _side(part.right), [part.right.name])]
    times = PolynomialFeatures(degree=2, interaction_only=True, include_bias=False)
    return Pipeline([("sides", ColumnTransformer(sides)), ("times", times)])


def _side(column: FactorColumn) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.random_projection import GaussianRandomProjection

    if not isinstance(column, TextColumn):
        return SimpleImputer(strategy="mean")
    # Of all transformers this one does a product with a matrix and nothing else; nothing is random once that is set.
    return Pipeline([*_one_hot([column]), ("values", GaussianRandomProjection(n_components=1, random_state=0))])


def _set_levels(product: Any, part: ProductPart) -> None:
    """The value of each level, in place of what fitting made up."""
    sides = product.named_steps["sides"].named_transformers_
    for side, column in (("left", part.left), ("right", part.right)):
        if isinstance(column, TextColumn):
            sides[side].named_steps["values"].components_ = np.array([[value for _, value in _entries(column)]])


def _entries(column: TextColumn) -> list[tuple[str | None, float]]:
    """All that the encoder tells apart and what it adds: the level that is left out adds 0; None and "" are missing."""
    missing = column.levels.get(MISSING_LEVEL, 0.0)
    return [*({**column.levels, MISSING_LEVEL: missing, "": missing}).items(), (None, missing)]


def _coefficients(form: LinearForm) -> Array:
    numbers = [c.coefficient for c in form.numbers]
    missing = [c.if_missing for c in form.numbers if c.if_missing]
    levels = [value for column in form.texts for _, value in _entries(column)]
    products: list[float] = []
    for part in form.products:
        products += [0.0, 0.0, 1.0 if isinstance(part.right, TextColumn) else part.right.coefficient]
    return np.array([*numbers, *missing, *levels, *products])


def _one_row(form: LinearForm) -> ColumnValues:
    return {**{c.name: [c.fill] for c in form.numbers}, **{c.name: [MISSING_LEVEL] for c in form.texts}}


def _frame(texts: Sequence[str], rows: ColumnValues) -> Any:
    import pandas as pd

    kinds = {name: "str" if name in texts else "float64" for name in rows}
    return pd.DataFrame({name: pd.Series(list(values), dtype=kinds[name]) for name, values in rows.items()})


FORMAT = SklearnPipeline()
