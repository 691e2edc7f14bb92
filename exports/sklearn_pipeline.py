"""A model as a scikit-learn Pipeline in a file of skops: data and names of known types, no pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

import numpy as np

from shoal.data.terms import MISSING_LEVEL
from shoal.exports.base import (
    HIGHEST,
    ColumnValues,
    FactorColumn,
    LinearForm,
    NumberColumn,
    ProductPart,
    ShapedColumn,
    TextColumn,
    class_forms,
    linear_form,
)
from shoal.exports.sklearn_shapes import shaped_steps, without_value
from shoal.fitting.model_file import SavedModel
from shoal.models import Array

TRUSTED = ["numpy.dtype"]  # what SimpleImputer remembers of its columns; all else is on skops' own list


class SklearnPipeline:
    packages = ("skops",)
    runtime = f"skops.io.load(trusted={TRUSTED}) and predict"
    use = (
        f"skops.io.load(path, trusted={TRUSTED}).predict(frame), with a pandas data frame that has the columns by "
        "name: numbers as numbers (dates as days since 1970), levels as text."
    )

    def write(self, model: SavedModel, out: Path) -> None:
        import skops.io

        made = class_pipeline(model) if model.several else pipeline(linear_form(model))
        skops.io.dump(made, out, compression=ZIP_DEFLATED)

    def run(self, path: Path, model: SavedModel, rows: ColumnValues) -> Array:
        import skops.io

        forms, frame = class_forms(model) if model.several else (linear_form(model),), _frame(model.texts, rows)
        made = skops.io.load(path, trusted=TRUSTED)
        refused = without_value([shape for form in forms for shape in _all_shapes(form)], rows)
        kept = frame[~refused]
        if model.several:
            found = made.predict_proba(kept)
        else:
            found = made.predict_proba(kept)[:, 1] if forms[0].classes else made.predict(kept)
        predictions = np.full((len(frame), *found.shape[1:]), np.nan)
        predictions[~refused] = found
        return predictions


def class_pipeline(model: SavedModel) -> Any:
    """The score of each of several classes by a pipeline of its own, side by side, and a model that only adds
    intercepts and makes probabilities of them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import FeatureUnion, Pipeline

    forms = class_forms(model)
    steps = ([("columns", _fitted_columns(form)), ("score", _summed(_coefficients(form)))] for form in forms)
    scores = [(f"class_{place}", Pipeline(own)) for place, own in enumerate(steps)]
    last, outcome = LogisticRegression(), model.outcome
    last.coef_, last.intercept_ = np.eye(len(forms)), np.array([form.intercept for form in forms])
    last.classes_ = np.array(outcome.labels if outcome else ())
    last.n_features_in_ = len(forms)
    return Pipeline([("scores", FeatureUnion(scores)), ("model", last)])


def pipeline(form: LinearForm) -> Any:
    """Fitted on one row that has each column's fill, so that what is learnt is what the model has."""
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import Pipeline

    columns, coef = _fitted_columns(form), _coefficients(form)
    if form.link == "log":
        return Pipeline([("columns", columns), *_powers(coef, form.intercept)])
    if form.classes:
        model = LogisticRegression()
        model.coef_, model.intercept_, model.classes_ = coef[None], np.array([form.intercept]), np.array(form.classes)
    else:
        model = LinearRegression()
        model.coef_, model.intercept_ = coef, form.intercept
    model.n_features_in_ = len(coef)
    return Pipeline([("columns", columns), ("model", model)])


def _fitted_columns(form: LinearForm) -> Any:
    columns = _columns(form).fit(_frame([t.name for t in form.texts], _one_row(form)))
    for place, column in enumerate(_with_others(form)):
        _set_none_of(columns.named_transformers_[f"other_{place}"], len(_entries(column)))
    for place, part in enumerate(form.products):
        _set_sides(columns.named_transformers_[_product_name(place)], part)
    shapes = enumerate(_shapes_by_column(form).values())
    _replace(columns, {_shape_name(place): shaped_steps(own) for place, own in shapes})
    return columns


def _summed(coef: Array) -> Any:
    """A step that multiplies by coefficients and adds up, and nothing else."""
    from sklearn.random_projection import GaussianRandomProjection

    summed = GaussianRandomProjection(n_components=1, random_state=0).fit(np.zeros((1, len(coef))))
    summed.components_ = coef[None]
    return summed


def _powers(coef: Array, intercept: float) -> list[tuple[str, Any]]:
    """e to the power of the score, which is cut at HIGHEST: of steps and a model that are data alone. scikit-learn's
    own models of a logarithm keep what they predict with in parts that are not meant to be set."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import MinMaxScaler

    cut = MinMaxScaler(feature_range=(-HIGHEST * 2, HIGHEST), clip=True).fit(np.array([[0.0], [1.0]]))
    cut.scale_, cut.min_ = np.ones(1), np.array([intercept])
    power = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp, check_inverse=False)
    power.fit(np.array([[0.0], [1.0]]), np.exp([0.0, 1.0]))
    power.regressor_.coef_, power.regressor_.intercept_ = np.ones(1), 0.0
    return [("score", _summed(coef)), ("cut", cut), ("model", power)]


def _columns(form: LinearForm) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.pipeline import Pipeline

    parts = [
        ("numbers", SimpleImputer(strategy="mean"), [c.name for c in form.numbers]),
        ("missing", MissingIndicator(features="all"), [c.name for c in form.numbers if c.if_missing]),
        ("levels", Pipeline(_one_hot(form.texts)), [c.name for c in form.texts]),
    ]
    parts += [(f"other_{place}", _none_of(c), [c.name]) for place, c in enumerate(_with_others(form))]
    for place, name in enumerate(_shapes_by_column(form)):
        parts.append((_shape_name(place), SimpleImputer(strategy="mean"), [name]))  # holds the place
    for place, part in enumerate(form.products):
        parts.append((_product_name(place), _product(part), list(dict.fromkeys((part.left.name, part.right.name)))))
    return ColumnTransformer([part for part in parts if part[2]], verbose_feature_names_out=True)


def _one_hot(columns: Sequence[TextColumn]) -> list[tuple[str, Any]]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    categories = [np.array([level for level, _ in _entries(column)], object) for column in columns]
    one_hot = OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False)
    return [("missing", SimpleImputer(strategy="constant", fill_value=MISSING_LEVEL)), ("one_hot", one_hot)]


def _with_others(form: LinearForm) -> list[TextColumn]:
    return [column for column in form.texts if column.other]


def _none_of(column: TextColumn) -> Any:
    """1 where a value is none of the column's levels, else 0: 1 less the sum of their columns."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MinMaxScaler
    from sklearn.random_projection import GaussianRandomProjection

    summed = GaussianRandomProjection(n_components=1, random_state=0)
    return Pipeline([*_one_hot([column]), ("any", summed), ("none", MinMaxScaler())])


def _set_none_of(steps: Any, count: int) -> None:
    steps.named_steps["any"].components_ = np.ones((1, count))
    steps.named_steps["none"].scale_, steps.named_steps["none"].min_ = np.array([-1.0]), np.array([1.0])


def _shapes_by_column(form: LinearForm) -> dict[str, list[ShapedColumn]]:
    names = dict.fromkeys(shape.name for shape in form.shapes)
    return {name: [shape for shape in form.shapes if shape.name == name] for name in names}


def _all_shapes(form: LinearForm) -> list[ShapedColumn]:
    sides = (side for part in form.products for side in (part.left, part.right))
    return [*form.shapes, *(side for side in sides if isinstance(side, ShapedColumn))]


def _shape_name(place: int) -> str:
    return f"shape_{place}"


def _replace(columns: Any, made: Mapping[str, Any]) -> None:
    """Other transformers, fitted already, in the places of some."""
    columns.transformers_ = [(name, made.get(name, one), of) for name, one, of in columns.transformers_]


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

    if not isinstance(column, TextColumn):  # in the place of a shape as well
        return SimpleImputer(strategy="mean")
    # Of all transformers this one does a product with a matrix and nothing else; nothing is random once that is set.
    return Pipeline([*_one_hot([column]), ("values", GaussianRandomProjection(n_components=1, random_state=0))])


def _set_sides(product: Any, part: ProductPart) -> None:
    """The value of each level, in place of what fitting made up; and shapes."""
    sides = product.named_steps["sides"].named_transformers_
    for side, column in (("left", part.left), ("right", part.right)):
        if isinstance(column, ShapedColumn):
            _replace(product.named_steps["sides"], {side: shaped_steps([column])})
        elif isinstance(column, TextColumn):
            sides[side].named_steps["values"].components_ = np.array([[value for _, value in _entries(column)]])


def _entries(column: TextColumn) -> list[tuple[str | None, float]]:
    """All that the encoder tells apart and what it adds: the level that is left out adds 0; None and "" are missing."""
    missing = column.levels.get(MISSING_LEVEL, 0.0)
    if column.other and MISSING_LEVEL not in column.levels:
        return list(column.levels.items())
    return [*({**column.levels, MISSING_LEVEL: missing, "": missing}).items(), (None, missing)]


def _coefficients(form: LinearForm) -> Array:
    numbers = [c.coefficient for c in form.numbers]
    missing = [c.if_missing for c in form.numbers if c.if_missing]
    levels = [value for column in form.texts for _, value in _entries(column)]
    products: list[float] = []
    for part in form.products:
        products += [0.0, 0.0, part.right.coefficient if isinstance(part.right, NumberColumn) else 1.0]
    others = [column.other for column in _with_others(form)]
    return np.array([*numbers, *missing, *levels, *others, *(1.0 for _ in _shapes_by_column(form)), *products])


def _one_row(form: LinearForm) -> ColumnValues:
    return {**{c.name: [c.fill] for c in form.numbers}, **{c.name: [MISSING_LEVEL] for c in form.texts}}


def _frame(texts: Sequence[str], rows: ColumnValues) -> Any:
    import pandas as pd

    kinds = {name: "str" if name in texts else "float64" for name in rows}
    return pd.DataFrame({name: pd.Series(list(values), dtype=kinds[name]) for name, values in rows.items()})


FORMAT = SklearnPipeline()
