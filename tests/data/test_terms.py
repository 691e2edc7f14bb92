"""Squares and interactions: fits, folds, predictions and exports against scikit-learn and NumPy on the rows."""

from __future__ import annotations

import io
import json
import runpy
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import shoal
from shoal.coordinator import Coordinator, silent
from shoal.dashboard.forms.problems import problems_of
from shoal.dashboard.tables import uploads
from shoal.data.columns import base_encoding, choose_columns
from shoal.data.encoding import Encoding, mapped
from shoal.data.terms import Indicator, Level, Number, Product
from shoal.engines.inline import InlineEngine
from shoal.errors import ConfigError, DataError, StateError
from shoal.exports.names import FORMATS
from shoal.exports.trial_rows import trial_rows
from shoal.fitting.model_file import load_model, model_from
from shoal.fitting.summing import sum_cells
from shoal.home import home
from shoal.runs.forecast import Shape
from shoal.runs.launch import list_runs
from shoal.settings.config import config_from
from shoal.settings.pairs import pair_text, split_pair
from shoal.solve.moments import Moments
from shoal.tasks.diagnose import diagnose
from shoal.tasks.explain_row import explain, typical_row
from shoal.whatif.cells import CellMoments, cross_validate
from shoal.whatif.folds import FoldChoice
from shoal.whatif.importance import drop_one
from support.pages import checked, open_page, said, settle, widget
from support.tables import fitted, opened
from support.tables import shoal as command

Array = np.ndarray[Any, Any]
SQUARES, PAIRS = ("a", "b"), ("a:b", "a:city", "size:b", "city:size")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def frame(rows: int = 300, seed: int = 1) -> pd.DataFrame:
    """Numbers and texts with gaps, and a target that bends with them and with their products."""
    random = np.random.default_rng(seed)
    a, b, c = random.normal(5, 2, rows), random.normal(-30, 3, rows), random.normal(0, 1, rows)
    city = random.choice(["Rome", "Oslo", "Bern"], rows).astype(object)
    size = random.choice(["S", "L"], rows).astype(object)
    y = 0.5 * a**2 + 0.1 * a * b + c + (city == "Rome") * a + (city == "Oslo") * (size == "S") * 4
    found = pd.DataFrame({"a": a, "b": b, "c": c, "city": city, "size": size, "y": y + random.normal(0, 1, rows)})
    for name, share in {"a": 0.15, "b": 0.2, "city": 0.1, "y": 0.03}.items():
        found.loc[random.random(rows) < share, name] = np.nan if name in "aby" else None
    return found


def saved(folder: Path, data: pd.DataFrame, name: str = "data.csv") -> Path:
    path = folder / name
    data.to_csv(path, index=False)
    return path


# ------------------------------------------------------------------ the same, by hand from the rows


def by_hand(
    train: pd.DataFrame, rows: pd.DataFrame, *, impute: str = "median", fill: float = 0.0, coding: str = "drop_first",
    squares: Sequence[str] = SQUARES, pairs: Sequence[str] = PAIRS, columns: Sequence[str] = ("a", "b", "c", "city", "size"),
) -> pd.DataFrame:  # fmt: skip
    """The design of `rows`, imputed and coded as `train` says: first filled, then multiplied."""
    sides: dict[str, dict[str, Array]] = {}
    for name in columns:
        if pd.api.types.is_numeric_dtype(train[name]):
            stands = {"median": train[name].median(), "mean": train[name].mean()}.get(impute, fill)
            sides[name] = {name: rows[name].fillna(stands).to_numpy()}
        else:
            levels = sorted(train[name].fillna("__missing__").unique())[coding == "drop_first" :]
            given = rows[name].fillna("__missing__")
            sides[name] = {f"{name}={level}": (given == level).to_numpy(float) for level in levels}
    made = {term: values for side in sides.values() for term, values in side.items()}
    for name in squares:
        if name in columns:
            made[f"{name}^2"] = sides[name][name] ** 2
    for left, right in (pair.split(":") for pair in pairs):
        if left in columns and right in columns:
            both = {f"{p}:{q}": sides[left][p] * sides[right][q] for p in sides[left] for q in sides[right]}
            made |= both
    return pd.DataFrame(made)


def with_products(data: pd.DataFrame) -> dict[str, Any]:
    return {"squares": list(SQUARES), "interactions": list(PAIRS)}


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
    chunks = [chunk for block in dataset.blocks for chunk in encoding.chunks(dataset, block)]
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


# ------------------------------------------------------------------ folds


def cells_of(path: Path, folds: int = 4, **knobs: Any) -> CellMoments:
    config = config_from({"file": str(path), "target": "y", "engine": "inline", **knobs})
    with InlineEngine() as engine:
        coordinator = Coordinator(engine, home(), silent)
        return sum_cells(coordinator, coordinator.open(config), config, FoldChoice(folds))


def refitted(data: pd.DataFrame, folds: int, model: str, alpha: float, **how: Any) -> list[float]:
    """The mean squared error of each fold, every one of them filled, coded, scaled and fitted from its own rows."""
    own = data["y"].notna()
    errors = []
    for fold in range(folds):
        train, test = data[own & (data.index % folds != fold)], data[own & (data.index % folds == fold)]
        X, T = by_hand(train, train, **how), by_hand(train, test, **how)
        varies = X.columns[X.std(ddof=0) > 0]
        kind = Ridge(alpha=alpha) if model == "ridge" else Lasso(alpha=alpha, tol=1e-14, max_iter=500_000)
        oracle = make_pipeline(StandardScaler(), kind).fit(X[varies], train["y"])
        errors.append(float(np.mean((oracle.predict(T[varies]) - test["y"]) ** 2)))
    return errors


@pytest.mark.parametrize(("model", "impute"), [("ridge", "median"), ("lasso", "median"), ("ridge", "mean")])
def test_folds_are_refitted_with_their_own_fills_inside_products(model: str, impute: str, tmp_path: Path) -> None:
    data = frame()
    cells = cells_of(saved(tmp_path, data), impute=impute, **with_products(data))
    alphas = [3.0, 0.1]
    found = cross_validate(cells, model, alphas, 1.0)
    for place, alpha in enumerate(alphas):
        assert np.allclose(found.errors[:, place], refitted(data, 4, model, alpha, impute=impute), rtol=1e-8, atol=0)


def test_a_column_that_is_left_out_takes_its_square_and_products_along(tmp_path: Path) -> None:
    data = frame()
    cells = cells_of(saved(tmp_path, data), **with_products(data))
    found = drop_one(cells, "ridge", 1.0, 0.0)
    whole = float(np.mean(refitted(data, 4, "ridge", 1.0)))
    assert found.error == pytest.approx(whole, rel=1e-9)
    columns = ("a", "b", "c", "city", "size")
    assert set(found.rises) == set(columns)
    for name in ("a", "city"):
        rest = [column for column in columns if column != name]
        without = float(np.mean(refitted(data, 4, "ridge", 1.0, columns=rest)))
        assert found.rises[name] == pytest.approx(without - whole, rel=1e-7)
        ticked = cross_validate(cells.only(rest), "ridge", [1.0], 0.0)
        assert float(ticked.mean[0]) == pytest.approx(without, rel=1e-9)


# ------------------------------------------------------------------ gradient runs, and numbers far from zero


def test_a_gradient_run_comes_to_the_same_model(tmp_path: Path) -> None:
    data = frame(600)
    path = saved(tmp_path, data)
    knobs = {"model": "ridge", "alpha": 5.0, **with_products(data)}
    exact = fitted(path, "y", **knobs)
    steps = shoal.fit(path, "y", solver="gradient", engine="inline", epochs=5, tolerance=1e-8, **knobs)
    assert steps.coefficients.keys() == exact["coefficients"].keys()
    for name, weight in exact["coefficients_standardized"].items():
        assert steps.coefficients_standardized[name] == pytest.approx(weight, abs=2e-4), name
    assert steps.scores["train"]["r2"] == pytest.approx(exact["train"]["r2"], rel=1e-6)


def test_a_column_far_from_zero_and_its_square_keep_their_digits(tmp_path: Path) -> None:
    """Their correlation is 1 - 1e-9: solved in extended precision from columns that are centred first."""
    random = np.random.default_rng(5)
    x = 1e4 + random.normal(0, 1, 2000)
    y = 3 + 2 * (x - 1e4) + 0.7 * (x - 1e4) ** 2 + random.normal(0, 0.1, 2000)
    data = pd.DataFrame({"x": x, "y": y})
    found = fitted(saved(tmp_path, data), "y", squares=["x"])
    u = x.astype(np.longdouble) - 10_000  # exact; y = p + q u + r u^2 is the same model
    U = np.column_stack((np.ones(len(u)), u, u**2))
    p, q, r = _solved(U.T @ U, U.T @ y.astype(np.longdouble))
    assert found["coefficients"]["x^2"] == pytest.approx(float(r), rel=1e-7)
    assert found["coefficients"]["x"] == pytest.approx(float(q - 20_000 * r), rel=1e-7)
    residual = (y - U @ np.array([p, q, r])).astype(float)
    assert found["train"]["rmse"] == pytest.approx(float(np.sqrt(np.mean(residual**2))), rel=1e-9)
    assert found["certificate"]["rests_on"] == "data"


def test_folds_keep_their_digits_far_from_zero_too(tmp_path: Path) -> None:
    """Ordinary least squares in every fold, with its own median squared, against the centred problem by QR."""
    random = np.random.default_rng(5)
    x = np.where(random.random(1500) < 0.1, np.nan, 1e4 + random.normal(0, 1, 1500))
    u = np.nan_to_num(x - 1e4)
    y = 3 + 2 * u + 0.7 * u**2 + random.normal(0, 0.1, 1500)
    cells = cells_of(saved(tmp_path, pd.DataFrame({"x": x, "y": y})), squares=["x"])
    found = cross_validate(cells, "linear", [0.0], 0.0).errors[:, 0]
    for fold, error in enumerate(found):
        test = np.arange(1500) % 4 == fold
        v = np.where(np.isnan(x), np.nanmedian(x[~test]), x) - 1e4
        U = np.column_stack((np.ones(1500), v, v**2))
        w = np.linalg.lstsq(U[~test], y[~test], rcond=None)[0]
        assert error == pytest.approx(float(np.mean((y[test] - U[test] @ w) ** 2)), rel=1e-7)


def _solved(A: Array, b: Array) -> Array:
    """By elimination: NumPy's own solver knows no extended precision."""
    A, b = A.copy(), b.copy()
    for i in range(len(b)):
        for j in range(i + 1, len(b)):
            factor = A[j, i] / A[i, i]
            A[j], b[j] = A[j] - factor * A[i], b[j] - factor * b[i]
    x = np.zeros_like(b)
    for i in reversed(range(len(b))):
        x[i] = (b[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x


# ------------------------------------------------------------------ predictions and model files


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(tmp_path_factory.mktemp("home")))
        return shoal.fit(frame(), "y", model="ridge", alpha=0.5, indicators=True, **with_products(frame()))


def strangers() -> pd.DataFrame:
    """Rows with gaps and a city that no training row has."""
    data = frame(80, seed=9).drop(columns="y")
    data.loc[:4, "city"] = "Atlantis"
    data.loc[5, ["a", "b", "city"]] = [np.nan, np.nan, None]
    return data


def predicted_by_hand(model: Any, rows: pd.DataFrame) -> Array:
    train = frame()[frame()["y"].notna()]
    X = by_hand(train, rows).assign(**{f"{c}=__missing__": rows[c].isna().to_numpy(float) for c in ("a", "b")})
    assert set(X) == set(model.coefficients)
    return X[list(model.coefficients)].to_numpy() @ np.array(list(model.coefficients.values())) + model.intercept


def test_files_and_frames_are_predicted_as_by_hand(model: Any, tmp_path: Path) -> None:
    rows, by = strangers(), predicted_by_hand(model, strangers())
    with pytest.warns(UserWarning, match="level"):
        assert np.allclose(model.predict(rows), by, rtol=1e-12)
    with pytest.warns(UserWarning, match="level"):
        assert np.allclose(model.predict(saved(tmp_path, rows)), by, rtol=1e-12)


def test_a_model_file_comes_back_and_older_programs_refuse_it_in_words(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model.save(path)
    assert load_model(path).encoding.terms == model_from(model._contents).encoding.terms
    assert json.loads(path.read_text())["version"] == 2  # the version is all that a program before products looks at
    plain = shoal.fit(frame(), "y")
    assert plain._contents["version"] == 1
    path.write_text(json.dumps({**model._contents, "version": 3}))
    with pytest.raises(StateError, match="version 3"):
        load_model(path)
    broken = json.loads(json.dumps(model._contents))
    next(term for term in broken["design"]["terms"] if term["type"] == "product").pop("left")
    path.write_text(json.dumps(broken))
    with pytest.raises(StateError, match="damaged"):
        load_model(path)


def test_one_row_is_explained_with_products_as_parts_of_their_own(model: Any) -> None:
    saved_model, rows = model_from(model._contents), strangers()
    expected = predicted_by_hand(model, rows)
    for i in (0, 5, 20, 40):
        row = {k: None if v is None or v != v else v for k, v in rows.iloc[i].items()}
        found = explain(saved_model, row)
        assert found.prediction == pytest.approx(expected[i], rel=1e-12)
        assert found.intercept + sum(part.adds for part in found.parts) == pytest.approx(found.prediction, rel=1e-12)
        against = found.typical + sum(part.against_typical for part in found.parts)
        assert against == pytest.approx(found.prediction, rel=1e-12)
        parts = {part.column: part for part in found.parts}
        assert set(parts) == {"a", "b", "c", "city", "size", "a:b", "a:city", "size:b", "city:size"}
        assert parts["a:city"].value == (row["a"], row["city"])
        a = typical_row(saved_model.encoding)["a"] if row["a"] is None else row["a"]
        coefficients = model.coefficients
        own = coefficients["a"] * a + coefficients["a^2"] * a**2 + coefficients["a=__missing__"] * (row["a"] is None)
        assert parts["a"].adds == pytest.approx(own, rel=1e-10)
        assert parts["city"].unseen == (row["city"] == "Atlantis")
        assert not parts["a:city"].unseen


# ------------------------------------------------------------------ exports


def by_sqlite(path: Path, rows: pd.DataFrame) -> Array:
    with sqlite3.connect(":memory:") as connection:
        rows.to_sql("data", connection, index=False)
        found = np.array([row[-1] for row in connection.execute(path.read_text())])
    connection.close()
    return found


def by_python(path: Path, rows: pd.DataFrame) -> Array:
    predict = runpy.run_path(str(path))["predict"]
    return np.array([predict(row) for row in rows.to_dict("records")])


def by_skops(path: Path, rows: pd.DataFrame) -> Array:
    assert skops.io.get_untrusted_types(file=path) == ["numpy.dtype"]
    found: Array = skops.io.load(path, trusted=["numpy.dtype"]).predict(rows)
    return found


def by_onnx(path: Path, rows: pd.DataFrame) -> Array:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {
        given.name: rows[given.name].to_numpy(float)[:, None] if given.type == "tensor(double)"
        else rows[given.name].astype(object).where(rows[given.name].notna(), "").to_numpy(object)[:, None]
        for given in session.get_inputs()
    }  # fmt: skip
    return np.asarray(session.run(None, feeds)[0][:, 0])


def by_json(path: Path, rows: pd.DataFrame) -> Array:
    with pytest.warns(UserWarning, match="level"):
        found: Array = shoal.load(path).predict(rows)
    return found


RUN = {"sql": by_sqlite, "python": by_python, "sklearn": by_skops, "onnx": by_onnx, "json": by_json}


@pytest.mark.parametrize("to", list(FORMATS))
def test_exports_predict_products_as_by_hand(to: str, model: Any, tmp_path: Path) -> None:
    path = tmp_path / f"model{FORMATS[to][1]}"
    proof = model.export(to, path, **({"table": "data"} if to == "sql" else {}))
    assert proof.rows >= 1000
    assert proof.largest_relative < 1e-14
    assert np.allclose(RUN[to](path, strangers()), predicted_by_hand(model, strangers()), rtol=1e-12)


@pytest.mark.parametrize("pair", ["city:size", "size:city"])
def test_two_text_columns_are_exported_whichever_is_longer(pair: str, tmp_path: Path) -> None:
    train = frame()[frame()["y"].notna()]
    made = shoal.fit(frame(), "y", model="ridge", features=["city", "size"], interactions=[pair])
    made.export("python", tmp_path / "model.py")
    X = by_hand(train, strangers(), squares=(), pairs=[pair], columns=("city", "size"))[list(made.coefficients)]
    expected = X.to_numpy() @ np.array(list(made.coefficients.values())) + made.intercept
    assert np.allclose(by_python(tmp_path / "model.py", strangers()), expected, rtol=1e-12)


def test_products_without_weight_are_left_out_of_exports(tmp_path: Path) -> None:
    data = frame()
    sparse = shoal.fit(data, "y", model="lasso", alpha=0.6, **with_products(data))
    kept = [name for name, value in sparse.coefficients.items() if value and (":" in name or "^2" in name)]
    assert 0 < len(kept) < 8
    sparse.export("python", tmp_path / "model.py")
    made = runpy.run_path(str(tmp_path / "model.py"))
    levels = sum(len(right[1]) if isinstance(right[1], dict) else 1 for _, right in made["PRODUCTS"])
    assert levels == len(kept)


def test_trial_rows_have_every_combination_of_levels_that_has_a_coefficient() -> None:
    """3,600 of them, which a thousand rows by chance cannot have."""
    levels = [f"l{i}" for i in range(60)]
    both = [(a, b) for a in levels for b in levels]
    terms = [Product(Level("p", a), Level("q", b)) for a, b in both]
    contents = {
        "design": {"terms": [t.as_dict() for t in terms], "known_levels": {"p": levels, "q": levels}},
        "coefficients": {t.name: 1.0 for t in terms}, "intercept": 0.0,
    }  # fmt: skip
    rows, _ = trial_rows(model_from(contents))
    assert set(both) <= set(zip(rows["p"], rows["q"], strict=True))


# ------------------------------------------------------------------ how pairs are written


def test_pairs_are_cut_where_a_column_is_on_either_side() -> None:
    assert split_pair("a:b", ["a", "b"]) == ("a", "b")
    assert split_pair(" a : b ", ["a", "b"]) == ("a", "b")
    assert split_pair("time:of:day", ["time:of", "day"]) == ("time:of", "day")
    assert split_pair("time:of:day", ["time", "of:day"]) == ("time", "of:day")
    with pytest.raises(ConfigError, match='time:"of:day" or "time:of":day'):
        split_pair("time:of:day", ["time", "of:day", "time:of", "day"])
    assert split_pair('"time:of":day', ["time", "of:day", "time:of", "day"]) == ("time:of", "day")
    with pytest.raises(ConfigError, match="no such column beside 'a'"):
        split_pair("a:x", ["a", "b"])


@pytest.mark.parametrize(
    "names", [("a", "b"), ("a:b", "c"), ('say "x"', ":"), (" a", "a"), ('"', '""'), ("::", "a:"), ("b ", " a")]
)
def test_a_pair_as_text_comes_back(names: tuple[str, str]) -> None:
    others = [*names, "a", "b", "c", ":", "x", "b:c", "a:b:c"]
    (kept,) = config_from({"interactions": [names]}).interactions
    assert kept == pair_text(*names)
    assert split_pair(kept, others) == names


def test_python_and_yaml_may_give_two_names() -> None:
    assert config_from({"interactions": [("a:b", "c"), "d:e"]}).interactions == ('"a:b":c', "d:e")
    assert config_from({"interactions": "a:b, c:d"}).interactions == ("a:b", "c:d")
    for text in ("a", "a:", ":", ""):
        if text:
            with pytest.raises(ConfigError, match="two columns with a colon"):
                config_from({"interactions": [text]})


def test_columns_with_signs_in_their_names(tmp_path: Path) -> None:
    data = frame()[["a", "c", "y"]].rename(columns={"a": "a:b", "c": "c^2"})
    found = fitted(saved(tmp_path, data), "y", squares=["a:b"], interactions=["a:b:c^2"])
    assert list(found["coefficients"]) == ["a:b", "c^2", "a:b^2", "a:b:c^2"]


def test_a_pair_counts_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    found = fitted(saved(tmp_path, frame()), "y", interactions=["a:b", "b:a", "a:b"], features=["a", "b"])
    assert list(found["coefficients"]) == ["a", "b", "a:b"]


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
    trained = fitted(path, "y", out=str(tmp_path / "m.json"), model="ridge", **with_products(frame()))
    found = diagnose(tmp_path / "m.json", config_from({"file": str(path), "engine": "inline"}), own_data=True)
    assert found["train"]["r2"] == pytest.approx(trained["train"]["r2"], rel=1e-12)
    again = shoal.fit(path, "y", model="ridge", alpha=7.0, **with_products(frame()))
    refit = shoal.fit(path, "y", model="ridge", **with_products(frame())).refit(alpha=7.0)
    assert refit.coefficients == pytest.approx(again.coefficients, rel=1e-9)


# ------------------------------------------------------------------ the command line, and what a run will need


def test_flags_yaml_and_python_say_the_same(tmp_path: Path) -> None:
    path = saved(tmp_path, frame())
    answer = command("train", str(path), "--target", "y", "--squares", "a,c", "--interactions", "a:b,a:city", "--json")
    assert answer.code == 0, answer.err
    flags = json.loads(answer.out)["coefficients"]
    (tmp_path / "run.yaml").write_text("target: y\nsquares: [a, c]\ninteractions: ['a:b', [a, city]]\n")
    answer = command("train", str(path), "--config", str(tmp_path / "run.yaml"), "--json")
    assert json.loads(answer.out)["coefficients"] == flags
    assert shoal.fit(path, "y", squares=["a", "c"], interactions=[("a", "b"), ("a", "city")]).coefficients == flags
    wrong = command("train", str(path), "--target", "y", "--interactions", "a*b")
    assert wrong.code == 1
    assert "two columns with a colon between" in wrong.err
    assert "Traceback" not in wrong.err


@pytest.mark.parametrize("how", [{}, {"impute": "drop"}, {"coding": "full"}, {"features": ["a", "b", "c"]}])
def test_the_forecast_counts_the_columns_that_come(how: Mapping[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path, frame())
    pairs = [pair for pair in PAIRS if not how.get("features") or pair == "a:b"]
    config = config_from({"file": str(path), "target": "y", "squares": ["a"], "interactions": pairs, **how})
    dataset = opened(path)
    base = base_encoding(choose_columns(dataset, config), config)
    answer = command("inspect", str(path), "--json")
    shape = Shape.of(json.loads(answer.out), config, path.stat().st_size)
    assert shape.base == len(base.terms)
    found = fitted(path, "y", squares=["a"], interactions=pairs, **how)
    assert shape.design == len(found["coefficients"])
    assert not shape.plain


# ------------------------------------------------------------------ the form, and a row on the page of a model


def uploaded() -> str:
    path = uploads.keep(io.BytesIO(frame(120).to_csv(index=False).encode()), "table.csv")
    return uploads.key_of(path) or ""


def test_the_form_offers_numbers_to_square_and_pairs_and_fits_them() -> None:
    page = settle(open_page("train", data=uploaded(), target="y"))
    squares, pairs = (widget(page, "multiselect", label) for label in ("Squares of columns", "Products of two columns"))
    assert squares.options == ["a", "b", "c"]
    assert pairs.options == [":".join(pair) for pair in combinations(["a", "b", "c", "city", "size"], 2)]
    checked(squares.set_value(["a", "b"]).run())
    checked(widget(page, "multiselect", "Products of two columns").set_value(["a:city", "b:c"]).run())
    page = checked(widget(page, "multiselect", "Columns to leave out").set_value(["b"]).run())
    assert widget(page, "multiselect", "Squares of columns").value == ["a"]  # what is not used goes with its column
    assert widget(page, "multiselect", "Products of two columns").value == ["a:city"]
    assert "b" not in widget(page, "multiselect", "Squares of columns").options
    page = checked(page.button(key="start").click().run())
    settle(page)
    (run,) = list_runs()
    assert (run.config["squares"], run.config["interactions"]) == (["a"], ["a:city"])
    assert run.result is not None
    assert {"a^2", "a:city=Rome"} <= run.result["coefficients"].keys()


def test_the_form_says_what_is_wrong_with_a_pair_before_a_run() -> None:
    page = settle(open_page("train", data=uploaded(), target="y"))
    page = checked(widget(page, "multiselect", "Products of two columns").set_value(["a:nowhere"]).run())
    assert "no such column beside" in said(page)
    assert page.button(key="start").disabled
    found = {"rows": 9, "bad_rows": {"count": 0}, "columns": [
        {"name": name, "type": kind, "missing": 0, "distinct": 3}
        for name, kind in {"a": "numeric", "city": "categorical", "y": "numeric"}.items()
    ]}  # fmt: skip
    for knobs, sentence in (
        ({"squares": ["city"]}, "Expected a column of numbers to square, got 'city'"),
        ({"interactions": ["a:a"]}, "two different columns in 'a:a'"),
        ({"interactions": ["a:y"]}, "The column to predict is in 'a:y'"),
    ):
        problems = problems_of(config_from({"file": "f", "target": "y", **knobs}), found)
        assert any(sentence in problem for problem in problems), problems


def test_a_frame_without_a_column_of_one_level_gets_a_sentence() -> None:
    """No term is left of such a column, but whether its level is known is asked all the same."""
    made = shoal.fit(frame().assign(unit="kg"), "y", features=["a", "unit"])
    assert list(made.coefficients) == ["a"]
    with pytest.raises(DataError, match="does not have: unit"):
        made.predict(frame())
