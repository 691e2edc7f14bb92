"""Squares and interactions: fits against scikit-learn and NumPy on the rows, other fills, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import shoal
from shoal.data.columns import base_encoding, choose_columns
from shoal.data.encoding import Encoding, mapped
from shoal.data.terms import Indicator, Number, Product
from shoal.data_pipeline import design_rows
from shoal.errors import ConfigError, DataError
from shoal.settings.values import config_from
from shoal.solve.moments import Moments
from shoal.tasks.diagnose import diagnose
from support.data.encoding import Array, saved
from support.data.products import by_hand, frame, with_products
from support.tables import fitted, opened

# ------------------------------------------------------------------ the same, by hand from the rows


SKLEARN: dict[str, Callable[[], Any]] = {
    "linear": LinearRegression,
    "ridge": lambda: Ridge(alpha=2.0),
    "lasso": lambda: Lasso(alpha=0.05, tol=1e-13, max_iter=200_000),
    "elasticnet": lambda: ElasticNet(alpha=0.05, l1_ratio=0.4, tol=1e-13, max_iter=200_000),
}


KNOBS = {
    "linear": {},
    "ridge": {"alpha": 2.0},
    "lasso": {"alpha": 0.05},
    "elasticnet": {"alpha": 0.05, "l1_ratio": 0.4},
}


CASES = [
    ("linear", {}), ("ridge", {"coding": "full"}), ("lasso", {}), ("elasticnet", {"impute": "mean"}),
    ("ridge", {"impute": "constant", "fill": 3.0}), ("linear", {"impute": "drop"}), ("ridge", {"indicators": True}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "how"), CASES)
def test_a_fit_is_that_of_scikit_learn_on_filled_and_then_multiplied_columns(
    model: str, how: dict[str, Any], tmp_path: Path
) -> None:
    data = frame()
    found = fitted(saved(tmp_path, data), "y", model=model, test_every=4, **KNOBS[model], **how, **with_products(data))
    data = data[data["y"].notna()]
    if how.get("impute") == "drop":
        data = data.dropna()
    test = data.index % 4 == 0
    plain = {name: value for name, value in how.items() if name != "indicators"}
    X = by_hand(data[~test], data, **plain)
    if how.get("indicators"):
        X = X.assign(**{f"{name}=__missing__": data[name].isna().to_numpy(float) for name in ("a", "b")})
    assert set(found["coefficients"]) == set(X)
    X = X[list(found["coefficients"])]
    oracle = make_pipeline(StandardScaler(), SKLEARN[model]()).fit(X[~test], data["y"][~test])
    assert np.allclose(list(found["coefficients_standardized"].values()), oracle[-1].coef_, rtol=1e-8, atol=1e-9)
    assert found["test"]["r2"] == pytest.approx(oracle.score(X[test], data["y"][test]), rel=1e-10)
    assert found["train"]["rmse"] == pytest.approx(
        float(np.sqrt(np.mean((oracle.predict(X[~test]) - data["y"][~test]) ** 2))), rel=1e-10
    )
    assert found["certificate"]["rests_on"] == "data"


def test_all_pairs_and_squares_of_numbers_are_scikit_learn_s_polynomial_features(tmp_path: Path) -> None:
    data = frame()[["a", "b", "c", "y"]].dropna(subset="y")
    columns = ["a", "b", "c"]
    found = fitted(
        saved(tmp_path, data), "y", model="ridge", alpha=3.0,
        squares=columns, interactions=list(combinations(columns, 2)),
    )  # fmt: skip
    oracle = Pipeline([
        ("fill", ColumnTransformer([("median", SimpleImputer(strategy="median"), columns)])),
        ("times", PolynomialFeatures(degree=2, include_bias=False)), ("scale", StandardScaler()),
        ("model", Ridge(alpha=3.0)),
    ]).fit(data, data["y"])  # fmt: skip
    names = oracle[:2].get_feature_names_out()
    named = {name.replace("median__", "").replace(" ", ":"): w for name, w in zip(names, oracle[-1].coef_, strict=True)}
    assert named.keys() == found["coefficients_standardized"].keys()
    for name, weight in found["coefficients_standardized"].items():
        assert weight == pytest.approx(named[name], rel=1e-9)


def test_standard_errors_are_those_of_the_normal_equations(tmp_path: Path) -> None:
    data = frame()
    found = fitted(saved(tmp_path, data), "y", **with_products(data))
    data = data[data["y"].notna()]
    X = by_hand(data, data)[list(found["coefficients"])]
    Z = np.column_stack((np.ones(len(X)), X)).astype(np.longdouble)
    centre, spread = Z[:, 1:].mean(axis=0), Z[:, 1:].std(axis=0)
    Z[:, 1:] = (Z[:, 1:] - centre) / spread
    y = data["y"].to_numpy()
    w, *_ = np.linalg.lstsq(Z.astype(float), y, rcond=None)
    variance = np.sum((y - Z.astype(float) @ w) ** 2) / (len(y) - Z.shape[1])
    errors = np.sqrt(variance * np.diag(np.linalg.inv(Z.T.astype(float) @ Z.astype(float))))[1:] / spread.astype(float)
    theirs = [found["inference"]["coefficients"][name]["std_error"] for name in X]
    assert np.allclose(theirs, errors, rtol=1e-8)


# ------------------------------------------------------------------ other fills are a linear map of the sums


def rows_of(encoding: Encoding, path: Path) -> Array:
    dataset = opened(path)
    chunks = [chunk for block in dataset.blocks for chunk in design_rows(encoding, dataset, block)]
    return np.column_stack((np.concatenate([c.X for c in chunks]), np.concatenate([c.y for c in chunks])))


@pytest.mark.parametrize("seed", range(4))
def test_sums_with_other_fills_are_those_of_the_rows_filled_that_way(seed: int, tmp_path: Path) -> None:
    path = saved(tmp_path, frame(seed=seed))
    config = config_from({"file": str(path), "target": "y", **with_products(frame())})
    base = base_encoding(choose_columns(opened(path), config), config)
    random = np.random.default_rng(seed)
    fills = {"a": float(random.normal(5, 3)), "b": float(random.normal(0, 30)), "c": 1.0}

    def refilled(factor: Any) -> Any:
        return Number(factor.column, fills[factor.column]) if isinstance(factor, Number) else factor

    terms = [
        Product(refilled(t.left), refilled(t.right)) if isinstance(t, Product) else refilled(t)
        for t in base.terms if not isinstance(t, Indicator) and not (isinstance(t, Product) and t.helps)
    ]  # fmt: skip
    wanted = Encoding(tuple(terms), base.known, base.target)
    by_map, by_rows = mapped(Moments.of(rows_of(base, path)), base, wanted), Moments.of(rows_of(wanted, path))
    scale = np.sqrt(np.outer(np.diag(by_rows.scatter), np.diag(by_rows.scatter)))
    assert np.allclose(by_map.mean, by_rows.mean, rtol=1e-12)
    assert (np.abs(by_map.scatter - by_rows.scatter) <= 1e-11 * scale).all()


def test_sums_have_no_more_than_fills_need(tmp_path: Path) -> None:
    """A square needs its column's indicator and nothing else; a complete column has none to multiply with."""
    path = saved(tmp_path, frame())
    asked = {"squares": ["a", "c"], "interactions": ["a:c"], "features": ["a", "c"]}
    config = config_from({"file": str(path), "target": "y", **asked})
    base = base_encoding(choose_columns(opened(path), config), config)
    assert base.names == ["a", "c", "a=__missing__", "a^2", "c^2", "a:c", "a=__missing__:c"]
    assert base.columns == ["a", "c"]
    assert base.owned_by("c").tolist() == [False, True, False, False, True, True, True]


# ------------------------------------------------------------------ what cannot be had


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a square of a text column": ({"squares": ["city"]}, "Expected columns of numbers to square, got 'city'"),
    "a square of an unknown column": ({"squares": ["zz"]}, "Expected a column of the file, got 'zz'"),
    "a pair with an unknown column": ({"interactions": ["a:zz"]}, "no such column beside 'a'"),
    "a pair with itself": ({"interactions": ["a:a"]}, "two different columns in 'a:a'"),
    "the target squared": ({"squares": ["y"]}, "The target 'y' is among the squares"),
    "the target in a pair": ({"interactions": ["a:y"]}, "The target 'y' is among the squares and interactions"),
    "no feature": ({"features": ["a", "b"], "squares": ["c"]}, "'c', which is left out"),
    "excluded": ({"exclude": ["city"], "interactions": ["a:city"]}, "'city', which is left out"),
    "too many levels": ({"max_levels": 2, "interactions": ["a:city"]}, "Raise max_levels"),
    "too many combinations": ({"max_levels": 7, "interactions": ["city:size"]}, "8 combinations of levels"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_had_is_refused_in_a_sentence(case: str, tmp_path: Path) -> None:
    knobs, sentence = REFUSED[case]
    with pytest.raises(ConfigError, match=sentence):
        fitted(saved(tmp_path, frame()), "y", **knobs)


def test_a_name_that_would_stand_for_two_terms_is_refused(tmp_path: Path) -> None:
    data = frame().assign(**{"a^2": 1.0, "a:b": 2.0})
    with pytest.raises(ConfigError, match="'a\\^2'"):
        fitted(saved(tmp_path, data), "y", squares=["a"])
    with pytest.raises(ConfigError, match="'a:b' of 'a:b'"):
        fitted(saved(tmp_path, data), "y", interactions=['"a":"b"'], exclude=["a:b"])


def test_values_too_large_to_be_squared_twice_are_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    data = pd.DataFrame({"x": 1e80 * random.random(50), "z": 1e20 * random.random(50), "y": random.random(50)})
    path = saved(tmp_path, data)
    with pytest.raises(DataError, match="square of 'x' can be beyond 1e\\+140"):
        fitted(path, "y", squares=["x"])
    found = fitted(path, "y", squares=["z"], interactions=["x:z"])
    X = data.assign(**{"z^2": data["z"] ** 2, "x:z": data["x"] * data["z"]})[list(found["coefficients"])]
    oracle = make_pipeline(StandardScaler(), LinearRegression()).fit(X / X.max(), data["y"])
    assert np.allclose(list(found["coefficients_standardized"].values()), oracle[-1].coef_, rtol=1e-8)
    gaps = data.assign(z=data["z"].where(random.random(50) > 0.3))
    with pytest.raises(DataError, match="square of 'z'"):
        fitted(saved(tmp_path, gaps, "gaps.csv"), "y", impute="constant", fill=1e80, squares=["z"])


def test_columns_and_levels_that_training_rows_lack_take_their_products_along(tmp_path: Path) -> None:
    data = pd.DataFrame({"a": [i % 7 for i in range(40)], "e": [None if i % 2 else i for i in range(40)]})
    data["k"] = ["p" if i % 2 else "q" for i in range(40)]
    data["l"] = ["u" if i % 4 == 1 else "v" for i in range(40)]
    data["m"] = ["r" if i % 4 == 1 else "s" for i in range(40)]
    data["y"] = [i % 5 for i in range(40)]
    pairs = ["a:e", "a:k", "l:m"]
    found = fitted(saved(tmp_path, data), "y", test_every=2, coding="full", interactions=pairs, squares=["e"])
    # Training rows are the odd ones: e is empty there, k is always p, and u comes with r only.
    plain, products = ["a", "k=p", "l=u", "l=v", "m=r", "m=s"], ["a:k=p", "l=u:m=r", "l=v:m=s"]
    assert list(found["coefficients"]) == plain + products
    assert any("'e' has no value in the training rows" in note for note in found["warnings"])


def test_diagnostics_and_another_penalty_know_products(tmp_path: Path) -> None:
    path = saved(tmp_path, frame())
    trained = fitted(path, "y", out=str(tmp_path / "m.json"), model="ridge", alpha=1.0, **with_products(frame()))
    found = diagnose(tmp_path / "m.json", config_from({"file": str(path), "engine": "inline"}), own_data=True).as_dict()
    assert found["train"]["r2"] == pytest.approx(trained["train"]["r2"], rel=1e-12)
    again = shoal.fit(path, "y", model="ridge", alpha=7.0, **with_products(frame()))
    refit = shoal.fit(path, "y", model="ridge", alpha=1.0, **with_products(frame())).refit(alpha=7.0)
    assert refit.coefficients == pytest.approx(again.coefficients, rel=1e-9)
