"""Cross-validation from sums of cells against scikit-learn pipelines that are refitted to the rows of every fold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from shoal.coordinator import Coordinator
from shoal.engines.inline import InlineEngine
from shoal.fitting.summing import sum_cells
from shoal.home import home
from shoal.settings.values import config_from
from shoal.utils import silent
from shoal.whatif.cells import CellMoments
from shoal.whatif.curve import CrossValidation, cross_validate
from shoal.whatif.folds import FoldChoice
from shoal.whatif.penalty_choice import Tuned, tune
from support.tables import written

NUMBERS = ["x", "far", "gaps", "same"]
TEXTS = ["kind", "rare"]
TIGHT: dict[str, Any] = {"tol": 1e-14, "max_iter": 1_000_000}
Splits = list[tuple[np.ndarray, np.ndarray]]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def made(n: int = 240, seed: int = 0) -> pd.DataFrame:
    """Gaps in numbers, texts, target and time; levels that some folds have no training row of; ties in time."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "x": rng.standard_normal(n),
        "far": 1e4 + 3 * rng.standard_normal(n),
        "gaps": rng.gamma(2.0, 2.0, n),
        "same": 7.0,
        "kind": rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2]),
        "rare": np.where(np.arange(n) % 60 == 13, "seldom", rng.choice(["often", "usual"], n)),
        "team": rng.choice([f"t{i:02}" for i in range(14)], n, p=(w := np.arange(1, 15.0)) / w.sum()),
        "stamp": rng.integers(0, n // 2, n).astype(float),
    })  # fmt: skip
    frame["y"] = (
        2 * frame["x"] - 0.4 * (frame["far"] - 1e4) + np.sqrt(frame["gaps"]) + 1.5 * (frame["kind"] == "red")
        + rng.standard_normal(n)
    )  # fmt: skip
    frame.loc[rng.choice(n, 30, replace=False), "gaps"] = np.nan
    frame.loc[rng.choice(n, 9, replace=False), "kind"] = None
    frame.loc[rng.choice(n, 6, replace=False), "y"] = np.nan
    return frame


def sums(path: Path, choice: FoldChoice, **knobs: Any) -> CellMoments:
    config = config_from({"file": str(path), "target": "y", "features": NUMBERS + TEXTS, "model": "lasso",
                          "coding": "drop_first", **knobs})  # fmt: skip
    with InlineEngine() as engine:
        coordinator = Coordinator(engine, home(), silent)
        return sum_cells(coordinator, coordinator.open(config), config, choice)


def preparation() -> Any:
    """What comes before the model: learnt from the training rows of a fold, and from nothing else."""
    levels = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="__missing__"),
        OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False),
    )
    columns = make_column_transformer((SimpleImputer(strategy="median"), NUMBERS), (levels, TEXTS))
    return make_pipeline(columns, StandardScaler())


def theirs(model: str, alpha: float, l1_ratio: float) -> Any:
    return {
        "linear": LinearRegression(),
        "ridge": Ridge(alpha=alpha, solver="svd"),
        "lasso": Lasso(alpha=alpha, **TIGHT),
        "elasticnet": ElasticNet(alpha=alpha, l1_ratio=l1_ratio, **TIGHT),
    }[model]


def refitted(frame: pd.DataFrame, splits: Splits, model: str, alphas: list[float], l1_ratio: float = 0.5) -> np.ndarray:
    """errors (folds, m) of pipelines fitted to the rows of each fold; splits are labels of the frame's index."""
    found = []
    for train, test in splits:
        known, other = frame.loc[train], frame.loc[test]
        before = preparation()
        X, tested = before.fit_transform(known), before.transform(other)
        models = [theirs(model, alpha, l1_ratio).fit(X, known["y"]) for alpha in alphas]
        found.append([float(((other["y"] - fitted.predict(tested)) ** 2).mean()) for fitted in models])
    return np.array(found)


def splitmix(index: int, seed: int) -> int:
    """SplitMix64 in whole numbers of any length."""
    mask = 2**64 - 1
    z = (index + seed * 0x632BE59BD9B4E019) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
    return z ^ (z >> 31)


def by_label(fold: pd.Series) -> Splits:
    return [(np.asarray(fold.index[fold != k]), np.asarray(fold.index[fold == k])) for k in range(int(fold.max()) + 1)]


def splits_of(frame: pd.DataFrame, by: str, k: int, seed: int = 0) -> Splits:
    """The folds by scikit-learn's splitters or a formula of their own; rows of the frame are those that count."""
    index = frame.index.to_series()
    if by == "row":
        return by_label(index % k)
    if by == "hash":
        return by_label(index.map(lambda row: splitmix(row, seed) % k))
    if by.startswith("group"):
        groups = frame[by.removeprefix("group:")]
        return [
            (frame.index[a].to_numpy(), frame.index[b].to_numpy()) for a, b in GroupKFold(k).split(frame, groups=groups)
        ]
    return _time_splits(frame[by.removeprefix("time:")].dropna(), k)


def _time_splits(times: pd.Series, k: int) -> Splits:
    """TimeSeriesSplit on the sorted rows; a moment that is cut belongs to what is later."""
    ordered = times.sort_values(kind="stable")
    starts = [ordered.iloc[test[0]] for _, test in TimeSeriesSplit(k).split(ordered)]
    ends = [*starts[1:], np.inf]
    return [
        (times.index[times < a].to_numpy(), times.index[(times >= a) & (times < b)].to_numpy())
        for a, b in zip(starts, ends, strict=True)
    ]


def counted(frame: pd.DataFrame, test_every: int = 0) -> pd.DataFrame:
    """The rows with a target that are not kept for testing, under their index in the file."""
    rows = frame[frame["y"].notna()]
    return rows[rows.index % test_every != 0] if test_every else rows


# ------------------------------------------------------------------ every way to make folds, every model


MODELS = [
    ("linear", [0.0], 0.5),
    ("ridge", [300.0, 10.0, 0.1], 0.5),
    ("lasso", [0.5, 0.1, 0.001], 0.5),
    ("elasticnet", [0.5, 0.1, 0.001], 0.3),
]


@pytest.mark.parametrize("by", ["row", "hash", "group:team", "group:stamp", "time:stamp"])
@pytest.mark.parametrize(
    ("model", "alphas", "l1_ratio"), MODELS, ids=lambda value: value if isinstance(value, str) else ""
)
@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_equal_to_a_pipeline_refitted_in_every_fold(
    tmp_path: Path, by: str, model: str, alphas: list[float], l1_ratio: float
) -> None:
    frame = made()
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    cells = sums(path, FoldChoice.parse(5, by))
    ours = cross_validate(cells, model, alphas, l1_ratio)
    expected = refitted(counted(frame), splits_of(counted(frame), by, 5), model, alphas, l1_ratio)
    np.testing.assert_allclose(ours.errors, expected, rtol=1e-8)
    np.testing.assert_allclose(ours.mean, expected.mean(axis=0), rtol=1e-8)
    np.testing.assert_allclose(ours.standard_error, expected.std(axis=0, ddof=1) / np.sqrt(5), rtol=1e-7)


@pytest.mark.parametrize("by", ["hash", "group:team", "time:stamp"])
@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_rows_kept_for_testing_have_no_part_in_it(tmp_path: Path, by: str) -> None:
    frame = made(seed=1)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    cells = sums(path, FoldChoice.parse(4, by, seed=3), test_every=6, seed=3)
    rows = counted(frame, 6)
    expected = refitted(rows, splits_of(rows, by, 4, seed=3), "lasso", [0.2, 0.02])
    np.testing.assert_allclose(cross_validate(cells, "lasso", [0.2, 0.02], 0.5).errors, expected, rtol=1e-8)
    assert cells.held.n == frame["y"].notna()[frame.index % 6 == 0].sum()


def test_gaps_of_the_time_and_of_the_group_column(tmp_path: Path) -> None:
    """Rows without a time are in no fold; rows without a group are a group of their own."""
    frame = made(seed=2)
    frame.loc[frame.index % 11 == 3, "stamp"] = np.nan
    frame.loc[frame.index % 17 == 5, "team"] = None
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    rows = counted(frame)
    timed = cross_validate(sums(path, FoldChoice.parse(3, "time:stamp")), "ridge", [2.0], 0.5)
    expected = refitted(rows, splits_of(rows, "time:stamp", 3), "ridge", [2.0])
    np.testing.assert_allclose(timed.errors, expected, rtol=1e-8)
    grouped = cross_validate(sums(path, FoldChoice.parse(3, "group:team")), "ridge", [2.0], 0.5)
    teams = rows.assign(team=rows["team"].fillna("zzz"))  # sorts last, as missing ones do
    np.testing.assert_allclose(
        np.sort(grouped.errors[:, 0]),
        np.sort(refitted(teams, splits_of(teams, "group:team", 3), "ridge", [2.0])[:, 0]),
        rtol=1e-8,
    )


@pytest.mark.parametrize("knobs", [{"intercept": False}, {"standardize": False}], ids=lambda k: next(iter(k)))
def test_without_intercept_and_without_standardising(tmp_path: Path, knobs: dict[str, bool]) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4)) * [1, 2, 5, 0.3] + [0, 1, 2, 3]
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=X @ [1, -1, 0.5, 2] + rng.standard_normal(90) + 4)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    ours = cross_validate(
        sums(path, FoldChoice.parse(3, "row"), features=list("abcd"), **knobs), "lasso", [0.5, 0.01], 0.5
    )
    expected = []
    for k in range(3):
        train, test = frame.index % 3 != k, frame.index % 3 == k
        scale = np.ones(4) if "standardize" in knobs else X[train].std(axis=0)
        for alpha in (0.5, 0.01):
            model = Lasso(alpha=alpha, fit_intercept="intercept" not in knobs, **TIGHT)
            model.fit(X[train] / scale, frame["y"][train])
            expected.append(float(((frame["y"][test] - model.predict(X[test] / scale)) ** 2).mean()))
    np.testing.assert_allclose(ours.errors.ravel(), expected, rtol=1e-8)


# ------------------------------------------------------------------ columns that nearly depend on one another


def powers(count: int = 6, n: int = 200) -> pd.DataFrame:
    x = np.linspace(1, 3, n)
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({f"x{k}": x**k for k in range(1, count + 1)})
    return frame.assign(y=np.sin(3 * x) + 0.1 * rng.standard_normal(n))


LONGLEY = """y,deflator,gnp,unemployed,forces,population,year
60323,83.0,234289,2356,1590,107608,1947
61122,88.5,259426,2325,1456,108632,1948
60171,88.2,258054,3682,1616,109773,1949
61187,89.5,284599,3351,1650,110929,1950
63221,96.2,328975,2099,3099,112075,1951
63639,98.1,346999,1932,3594,113270,1952
64989,99.0,365385,1870,3547,115094,1953
63761,100.0,363112,3578,3350,116219,1954
66019,101.2,397469,2904,3048,117388,1955
67857,104.6,419180,2822,2857,118734,1956
68169,108.4,442769,2936,2798,120445,1957
66513,110.8,444546,4681,2637,121950,1958
68655,112.6,482704,3813,2552,123366,1959
69564,114.2,502601,3931,2514,125368,1960
69331,115.7,518173,4806,2572,127852,1961
70551,116.9,554894,4007,2827,130081,1962
"""


def read_exactly(path: Path) -> pd.DataFrame:
    """Each number as the nearest double."""
    lines = [line.split(",") for line in path.read_text().splitlines()]
    return pd.DataFrame([[float(field) for field in line] for line in lines[1:]], columns=lines[0])


def ridge_by_rows(frame: pd.DataFrame, k: int, alpha: float) -> np.ndarray:
    """Errors of folds by row: least squares on the standardised rows, with those of the ridge below."""
    found = []
    names = [name for name in frame.columns if name != "y"]
    X, y = frame[names].to_numpy(), frame["y"].to_numpy()
    for fold in range(k):
        train, test = np.arange(len(X)) % k != fold, np.arange(len(X)) % k == fold
        centre, scale = X[train].mean(axis=0), X[train].std(axis=0)
        Z = np.vstack(((X[train] - centre) / scale, np.sqrt(alpha) * np.eye(len(names))))
        target = np.append(y[train] - y[train].mean(), np.zeros(len(names)))
        w = np.linalg.lstsq(Z, target, rcond=None)[0]
        residual = y[test] - y[train].mean() - (X[test] - centre) / scale @ w
        found.append(float((residual**2).mean()))
    return np.array(found)


@pytest.mark.parametrize("alpha", [0.0, 1e-6, 1e-3])
@pytest.mark.parametrize("data", ["powers", "longley"])
def test_columns_that_nearly_depend_on_one_another(tmp_path: Path, data: str, alpha: float) -> None:
    path = tmp_path / "table.csv"
    if data == "powers":
        powers().to_csv(path, index=False, float_format="%.17g")
    else:
        written(tmp_path, LONGLEY)
    frame = read_exactly(path)
    features = [name for name in frame.columns if name != "y"]
    cells = sums(path, FoldChoice.parse(4, "row"), features=features)
    model = "ridge" if alpha else "linear"
    found = cross_validate(cells, model, [alpha], 0.5).errors[:, 0]
    np.testing.assert_allclose(found, ridge_by_rows(frame, 4, alpha), rtol=1e-8)


def test_lasso_on_columns_that_nearly_depend_on_one_another(tmp_path: Path) -> None:
    """The optimality conditions are checked on the rows of each fold, in extended precision: coordinate descent would
    take for ever here."""
    path = tmp_path / "table.csv"
    powers().to_csv(path, index=False, float_format="%.17g")
    frame = read_exactly(path)
    tuned = _tuned(path, [name for name in frame.columns if name != "y"])
    X, y = (frame.drop(columns="y").to_numpy(), frame["y"].to_numpy())
    Z = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.longdouble)
    for i, alpha in enumerate(tuned.path.alphas):
        w = tuned.path.W[i].astype(np.longdouble)
        pull = Z.T @ (y - y.mean() - Z @ w) / len(y)
        assert np.abs(pull).max() <= alpha * (1 + 1e-8) + 1e-13
        np.testing.assert_allclose(pull[w != 0].astype(float), alpha * np.sign(tuned.path.W[i][w != 0]), atol=1e-12)


def _tuned(path: Path, features: list[str]) -> Tuned:
    return tune(sums(path, FoldChoice.parse(4, "row"), features=features), "lasso")


@pytest.mark.parametrize("size", [1.0, 1e200, 1e-200])
def test_the_standard_error_of_large_and_of_small_errors(size: float) -> None:
    errors = size * np.array([[1.0, 2.0, 0.0], [3.0, 2.0, 0.0], [5.0, 5.0, 0.0]])
    found = CrossValidation(np.array([3.0, 2.0, 1.0]), errors)
    np.testing.assert_allclose(found.standard_error, size * np.array([2.0, np.sqrt(3), 0.0]) / np.sqrt(3), rtol=1e-14)
