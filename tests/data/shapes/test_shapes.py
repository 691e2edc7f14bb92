"""Shapes of columns: the calendar against pandas, splines against scikit-learn, and models against its pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)

from shoal.coordinator import Coordinator
from shoal.data.shapes import basis, dates
from shoal.data.shapes.expression import X, as_text, evaluate, from_text
from shoal.data.splits import Split
from shoal.engines.inline import InlineEngine
from shoal.errors import ConfigError, DataError
from shoal.fitting.summing import sum_cells
from shoal.home import home
from shoal.passes import quantiles as passes
from shoal.settings.values import config_from
from shoal.utils import silent
from shoal.whatif.curve import cross_validate
from shoal.whatif.folds import FoldChoice
from support.data.encoding import saved
from support.tables import fitted, opened, shared

# ------------------------------------------------------------------ expressions


def test_parts_of_dates_are_those_of_the_calendar() -> None:
    times = pd.Series(pd.date_range("1890-01-01", "2210-12-31 23:00", freq="61h"))
    days = ((times - pd.Timestamp("1970-01-01")).dt.total_seconds() / 86400).to_numpy()
    for expression, theirs in (
        (dates.year, times.dt.year), (dates.month, times.dt.month), (dates.weekday, times.dt.day_of_week),
        (dates.hour, times.dt.hour), (dates.day_of_year, times.dt.day_of_year),
    ):  # fmt: skip
        assert np.array_equal(evaluate(from_text(as_text(expression)), days), theirs)
    angle = 2 * np.pi * times.dt.day_of_year.to_numpy() / 365.25
    assert np.allclose(evaluate(dates.sine, days), np.sin(angle), atol=1e-12)
    assert np.allclose(evaluate(dates.cosine, days), np.cos(angle), atol=1e-12)


def test_splines_are_those_of_scikit_learn_within_the_knots_and_beyond_them() -> None:
    x = np.random.default_rng(0).lognormal(size=300)
    theirs = SplineTransformer(n_knots=6, knots="quantile", include_bias=False, extrapolation="linear").fit(x[:, None])
    tried = np.concatenate((x, [-3.0, 0.0, 50.0, 1000.0]))
    found = np.column_stack([evaluate(one, tried) for one in basis.splines(np.quantile(x, np.linspace(0, 1, 6)))])
    assert np.allclose(found, theirs.transform(tried[:, None]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("text", ["x +", "x x", "x power", ""])
def test_a_text_that_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|operands|convert"):
        from_text(text)


def test_no_value_has_a_logarithm_or_root_but_those_that_have() -> None:
    x = np.array([-1.0, 0.0, 4.0])
    assert np.array_equal(evaluate(("log", X), x), [np.nan, np.nan, np.log(4)], equal_nan=True)
    assert np.array_equal(evaluate(("sqrt", X), x), [np.nan, 0.0, 2.0], equal_nan=True)


def test_quantiles_counted_bit_by_bit_are_those_of_the_sorted_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(3)
    table = pd.DataFrame(
        {"a": random.normal(size=501) * 1e3, "b": random.integers(-3, 4, 501), "y": random.normal(size=501)}
    )
    table.loc[::7, "a"] = np.nan
    dataset = opened(saved(tmp_path, table))
    monkeypatch.setattr(passes, "POLISHED_CELLS", 0)
    wanted = {"a": [0.0, 0.25, 0.4, 1.0], "b": [0.1, 0.5]}
    with InlineEngine() as engine:
        found = passes.quantiles(lambda _, requests: engine.sweep(requests), dataset, wanted, "y", Split(every=5))
    train = table[table.index % 5 != 0]
    for name, shares in wanted.items():
        assert np.allclose([found[name][share] for share in shares], train[name].dropna().quantile(shares), rtol=1e-13)


# ------------------------------------------------------------------ models


def _agree(found: dict[str, Any], oracle: Any, table: pd.DataFrame, target: str, test: Any) -> None:
    for part, rows in (("train", ~test), ("test", test)):
        off = oracle.predict(table[rows]) - table.loc[rows, target]
        assert found[part]["rmse"] == pytest.approx(float(np.sqrt(np.mean(off**2))), rel=1e-8)
        assert found[part]["mae"] == pytest.approx(float(np.abs(off).mean()), rel=1e-8)


def test_a_model_of_shapes_is_that_of_a_pipeline_of_scikit_learn() -> None:
    path = shared("data", "regression", "auto_mpg.csv")
    table = pd.read_csv(path)
    test = table.index % 5 == 0
    oracle = make_pipeline(
        ColumnTransformer([
            ("log", FunctionTransformer(np.log), ["weight"]),
            ("root", FunctionTransformer(np.sqrt), ["displacement"]),
            ("spline", make_pipeline(
                SimpleImputer(strategy="median"),
                SplineTransformer(n_knots=4, knots=np.nanquantile(table.horsepower[~test], [0, 1 / 3, 2 / 3, 1])[:, None],
                                  include_bias=False, extrapolation="linear")), ["horsepower"]),
            ("bins", KBinsDiscretizer(4, encode="onehot-dense", quantile_method="linear"), ["acceleration"]),
            ("origin", OneHotEncoder(sparse_output=False), ["origin"]),
        ]), LinearRegression(),
    ).fit(table[~test], table.mpg[~test])  # fmt: skip
    found = fitted(
        path, "mpg", test_every=5, features=["weight", "displacement", "horsepower", "acceleration", "origin"],
        transform=["weight=log", "displacement=sqrt", "horsepower=spline(4)", "acceleration=bins(4)"],
    )  # fmt: skip
    _agree(found, oracle, table, "mpg", test)
    assert [name for name in found["coefficients"] if "=" not in name] == [
        "log(weight)", "sqrt(displacement)", *(f"spline(horsepower)[{i}]" for i in range(1, 6)),
    ]  # fmt: skip
    assert found["references"]["bins(acceleration)"].startswith("below ")
    assert found["filled"]["horsepower"]["value"] == table.horsepower[~test].median()
    assert found["certificate"]["rests_on"] == "data"


def test_parts_of_dates_and_penalised_splines_are_those_of_scikit_learn_on_seattle_weather() -> None:
    path = shared("data", "regression", "seattle_weather.csv")
    table = pd.read_csv(path)
    when = pd.to_datetime(table.date)
    table = table.assign(month=when.dt.month, weekday=when.dt.day_of_week, trend=(when - when.min()).dt.days)
    table["sine"] = np.sin(2 * np.pi * when.dt.day_of_year / 365.25)
    table["cosine"] = np.cos(2 * np.pi * when.dt.day_of_year / 365.25)
    test = table.index % 4 == 0
    knots = table.temp_min[~test].quantile(np.linspace(0, 1, 5)).to_numpy()[:, None]
    oracle = make_pipeline(
        ColumnTransformer([
            ("plain", "passthrough", ["trend", "sine", "cosine"]),
            ("spline", SplineTransformer(5, knots=knots, include_bias=False, extrapolation="linear"), ["temp_min"]),
            ("levels", OneHotEncoder(drop=[7, 0], sparse_output=False), ["month", "weekday"]),
        ]), StandardScaler(), Ridge(alpha=3.0),
    ).fit(table[~test], table.temp_max[~test])  # fmt: skip
    found = fitted(
        path, "temp_max", model="ridge", alpha=3.0, test_every=4, features=["date", "temp_min"],
        transform=["date=trend+month+weekday+day_of_year", "temp_min=spline(5)"], reference=["month(date)=7"],
    )  # fmt: skip
    _agree(found, oracle, table, "temp_max", test)
    assert found["references"] == {"month(date)": "7", "weekday(date)": "Mon"}


def test_another_fill_is_another_constant_in_sums_of_shapes_and_their_products(tmp_path: Path) -> None:
    """Moments are summed with one fill and mapped to that of each fold: the same as filling first."""
    random = np.random.default_rng(1)
    table = pd.DataFrame({"a": random.lognormal(size=400), "c": random.choice(["u", "v"], 400)})
    table["y"] = np.log(table.a) + (table.c == "u") + random.normal(size=400) / 10
    table.loc[random.random(400) < 0.2, "a"] = np.nan
    path = saved(tmp_path, table)
    knobs = {"transform": ["a=log+bins(3)"], "interactions": ["a:c"], "indicators": True}
    found = fitted(path, "y", **knobs)
    borders = table.a.quantile([1 / 3, 2 / 3])
    X = pd.DataFrame({"log": np.log(table.a.fillna(table.a.median())), "gone": table.a.isna() * 1.0})
    place = np.searchsorted(borders, table.a.fillna(table.a.median()), side="right")
    for level in (1, 2):
        X[f"bin{level}"] = (place == level) * 1.0
    X["v"] = (table.c == "v") * 1.0
    for name in ("log", "bin1", "bin2"):
        X[f"{name}:v"] = X[name] * X.v
    oracle = LinearRegression().fit(X, table.y)
    assert np.allclose(list(found["coefficients"].values()), oracle.coef_, rtol=1e-9)


def test_folds_refit_shapes_with_their_own_medians(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    table = pd.DataFrame({"a": random.lognormal(size=200)})
    table["y"] = np.log(table.a) * 3 + random.normal(size=200) / 5
    table.loc[::9, "a"] = np.nan
    path = saved(tmp_path, table)
    config = config_from(
        {"file": str(path), "target": "y", "engine": "inline", "transform": ["a=log"], "model": "ridge"}
    )
    with InlineEngine() as engine:
        coordinator = Coordinator(engine, home(), silent)
        cells = sum_cells(coordinator, coordinator.open(config), config, FoldChoice(4))
    found = cross_validate(cells, "ridge", [0.5], 1.0)
    errors = []
    for fold in range(4):
        out = table.index % 4 == fold
        steps = make_pipeline(
            SimpleImputer(strategy="median"), FunctionTransformer(np.log), StandardScaler(), Ridge(0.5)
        )
        oracle = steps.fit(table.loc[~out, ["a"]].to_numpy(), table.y[~out])
        errors.append(float(np.mean((oracle.predict(table.loc[out, ["a"]].to_numpy()) - table.y[out]) ** 2)))
    assert np.allclose(found.errors[:, 0], errors, rtol=1e-9)


# ------------------------------------------------------------------ what is refused

REFUSED = [
    ({"transform": ["a=log"]}, DataError, "Expected values above 0 in 'a' to use as log, got -1 as the smallest. Use spline"),
    ({"transform": ["z=log"]}, DataError, "got 0 as the smallest. Use log1p or sqrt or spline"),
    ({"transform": ["a=sqrt"]}, DataError, "Expected values of at least 0 in 'a'"),
    ({"transform": ["a=month"]}, ConfigError, "Expected a column of dates to use as month, got 'a'"),
    ({"transform": ["d=log"]}, ConfigError, "Expected a column of numbers to use as log, got 'd', which holds dates"),
    ({"transform": ["d=hour"]}, ConfigError, "Expected times of day in 'd'"),
    ({"transform": ["c=log"]}, ConfigError, "got 'c', which holds text"),
    ({"transform": ["y=log"]}, ConfigError, "got 'y', which is the target"),
    ({"transform": ["a=cube"]}, ConfigError, "Expected ways to use a column, some of log, log1p"),
    ({"transform": ["a=bins"]}, ConfigError, "as in bins(5); got 'bins'"),
    ({"transform": ["a=spline(1)"]}, ConfigError, "from 2 to 50"),
    ({"transform": ["area=log"]}, ConfigError, "Expected a column of the file in 'area=log'"),
    ({"transform": ["a=bins(3)", "a=plain"]}, ConfigError, "Join what is wanted of it: a=bins(3)+plain"),
    ({"transform": ["a=bins(3)"], "squares": ["a"]}, ConfigError, "Add +plain"),
    ({"transform": ["d=month"], "reference": ["month(d)=13"]}, ConfigError, "It has 1, 2, 3"),
    ({"transform": ["g=log"], "impute": "constant"}, ConfigError, "Expected fill to be above 0"),
]  # fmt: skip


@pytest.mark.parametrize(("knobs", "kind", "said"), REFUSED)
def test_what_a_column_cannot_be_used_as_is_refused_in_words(
    knobs: dict[str, Any], kind: type[Exception], said: str, tmp_path: Path
) -> None:
    table = pd.DataFrame({
        "a": [-1.0, 2, 3, 4, 5, 6], "z": [0, 1, 2, 3, 4, 5], "g": [1, 2, None, 4, 5, 6], "c": list("uvuvuv"),
        "d": [f"2021-0{i}-11" for i in range(1, 7)], "y": [1.0, 2, 3, 5, 4, 6],
    })  # fmt: skip
    with pytest.raises(kind) as refused:
        fitted(saved(tmp_path, table), "y", **knobs)
    assert said in str(refused.value)
