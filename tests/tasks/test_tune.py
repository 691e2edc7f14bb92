"""`shoal tune`, `shoal.path` and what they rest on: whole paths with certificates, the choice, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model as reference
from sklearn.preprocessing import StandardScaler

import shoal as api
from shoal.errors import ConfigError, TrainingError
from shoal.models import certify, penalty_for
from shoal.solve.least_squares import LeastSquares, Standardisation, triangle
from shoal.solve.moments import Moments
from shoal.solve.paths import alpha_grid, certify_along, follow, weights_along
from support.references import CODINGS, our_names
from support.tables import SHARED, Answer, shared, shoal, written

TIGHT: dict[str, Any] = {"tol": 1e-14, "max_iter": 1_000_000}
DATA = SHARED / "data" / "regression"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def rows(n: int = 80, p: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1) + 10
    return X, X @ np.where(np.arange(p) % 2, 0.0, 1.0) + 2 * rng.standard_normal(n)


def frame_of(X: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    frame_of(*rows()).to_csv(path, index=False, float_format="%.17g")
    return path


def tuned(path: Path, *flags: str | Path) -> dict[str, Any]:
    answer = shoal("tune", path, "--target", "y", *flags, "--json")
    assert (answer.code, answer.err) == (0, "")
    found: dict[str, Any] = answer.json
    return found


def refused(path: Path, *flags: str | Path) -> str:
    """One plain sentence or two, and no traceback."""
    answer: Answer = shoal("tune", path, "--target", "y", *flags)
    assert answer.code == 1
    assert answer.is_plain()
    return answer.err


# ------------------------------------------------------------------ whole paths


def problem_of(X: np.ndarray, y: np.ndarray, from_rows: bool = False, standardize: bool = True) -> LeastSquares:
    moments = Moments.of(np.column_stack((X, y)))
    if not from_rows:
        return LeastSquares.from_moments(moments, True, standardize)
    units = Standardisation.of(moments, True, standardize)
    return LeastSquares.from_triangle(triangle(units.apply(X, y)), units, moments.n)


@pytest.mark.parametrize(("model", "ratio"), [("ridge", 0.5), ("lasso", 1.0), ("elasticnet", 0.2), ("elasticnet", 0.0)])
def test_a_path_is_scikit_learns_at_every_point(model: str, ratio: float) -> None:
    X, y = rows(60, 9)
    Z = StandardScaler().fit(X)
    problem = problem_of(X, y)
    alphas = np.append(alpha_grid(problem, model, ratio, 12), 0.0)
    path = follow(problem, model, alphas, ratio)
    for i, alpha in enumerate(alphas):
        if alpha == 0:
            theirs: Any = reference.LinearRegression()
        elif model == "ridge" or ratio == 0:
            theirs = reference.Ridge(alpha=alpha if model == "ridge" else alpha * len(y), solver="svd")
        else:
            theirs = reference.ElasticNet(alpha=alpha, l1_ratio=ratio, **TIGHT)
        theirs.fit(Z.transform(X), y)
        np.testing.assert_allclose(path.W[i], theirs.coef_, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(path.coef[i] @ X.T + path.intercepts[i], theirs.predict(Z.transform(X)), rtol=1e-9)
        assert path.kept[i] == np.count_nonzero(theirs.coef_)
    assert path.worst.relative == max(c.relative for c in path.certificates) < 1e-12


@pytest.mark.parametrize("model", ["ridge", "lasso", "elasticnet"])
def test_certificates_of_many_points_are_those_of_each(model: str) -> None:
    """Also of points that are far from the optimum, where they are large."""
    problem = problem_of(*rows(50, 7))
    alphas = np.array([3.0, 0.5, 0.01, 0.0])
    W = weights_along(problem, model, alphas, 0.4)
    for guess in (W, W + np.random.default_rng(0).standard_normal(W.shape), np.zeros_like(W)):
        for alpha, w, found in zip(alphas, guess, certify_along(problem, model, alphas, 0.4, guess), strict=True):
            expected = certify(
                penalty_for(model, alpha, 0.4, problem.n), w, problem.gradient(w), problem.rss(w), problem.n,
                y_scatter=problem.y_scatter, zero_gradient=problem.zero_gradient, rests_on="moments",
            )  # fmt: skip
            assert (found.kind, found.rests_on) == (expected.kind, expected.rests_on)
            assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-13)
            assert found.relative == pytest.approx(expected.relative, rel=1e-9, abs=1e-13)


def powers() -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(1, 2, 80)
    return np.column_stack([x**k for k in range(1, 7)]), np.cos(4 * x)


def test_where_squares_lose_digits_the_path_is_found_on_the_triangle() -> None:
    """Powers of x, against QR of the rows on the same support: normal equations would lose twice as many digits."""
    X, y = powers()
    problem = problem_of(X, y, from_rows=True)
    alphas = np.asarray(alpha_grid(problem, "lasso", 1.0, 25)) / 100
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    most = 0
    for alpha, w in zip(alphas, weights_along(problem, "lasso", alphas), strict=True):
        support = w != 0
        Q, R = np.linalg.qr(Z[:, support])
        pull = np.linalg.solve(R.T, len(y) * alpha * np.sign(w[support]))
        np.testing.assert_allclose(w[support], np.linalg.solve(R, Q.T @ (y - y.mean()) - pull), rtol=1e-9)
        correlation = Z.T @ (y - y.mean() - Z @ w) / len(y)
        assert (np.abs(correlation) <= alpha * (1 + 1e-9) + 1e-13).all()
        most = max(most, int(support.sum()))
    assert most >= 4


def test_a_ridge_path_of_such_columns_rests_on_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.fitting.exact.SMALL", 0)
    path = tmp_path / "powers.csv"
    frame_of(*powers()).to_csv(path, index=False, float_format="%.17g")
    found = api.path(path, target="y", model="ridge", alphas=[1e-3, 1e-8])
    assert {certificate.rests_on for certificate in found.certificates} == {"data"}


# ------------------------------------------------------------------ the command


def test_the_keys_and_what_they_mean(table: Path) -> None:
    found = tuned(table, "--model", "lasso", "--folds", "5", "--n-alphas", "20")
    alphas, mean, se = (np.array(found[key]) for key in ("alphas", "cv_mean", "cv_se"))
    assert alphas.shape == mean.shape == se.shape == (20,)
    assert (np.diff(alphas) < 0).all()
    assert found["best"] == alphas[mean.argmin()]
    assert found["one_se"] == alphas[mean <= mean.min() + se[mean.argmin()]].max()
    assert found["one_se"] > found["best"]
    X, y = rows()
    scaler = StandardScaler().fit(X)
    for which in ("best", "one_se"):
        theirs = reference.Lasso(alpha=found[which], **TIGHT).fit(scaler.transform(X), y)
        ours = [found["coefficients"][which][f"x{j}"] for j in range(5)]
        np.testing.assert_allclose(ours, theirs.coef_ / scaler.scale_, rtol=1e-8, atol=1e-9)
        weights = list(found["coefficients_standardized"][which].values())
        np.testing.assert_allclose(weights, theirs.coef_, rtol=1e-8, atol=1e-9)
        predicted = np.array(ours) @ X.T + found["intercepts"][which]
        np.testing.assert_allclose(predicted, theirs.predict(scaler.transform(X)), rtol=1e-9)
        score = found["scores"][which]["train"]
        assert score["rmse"] == pytest.approx(float(np.sqrt(((y - predicted) ** 2).mean())), rel=1e-9)
        assert score["r2"] == pytest.approx(theirs.score(scaler.transform(X), y), rel=1e-9)
        place = found["alphas"].index(found[which])
        assert found["n_features_kept"][place] == np.count_nonzero(theirs.coef_)
    assert (found["folds"], found["fold_by"], found["rows"], found["model"]) == (5, "row", 80, "lasso")
    assert found["certificate"]["relative"] < 1e-12
    assert found["warnings"] == []
    assert set(found["timings"]) == {"ingest", "sums", "tune", "total"}


def test_ten_folds_hundred_alphas_and_lasso_are_usual(table: Path) -> None:
    found = tuned(table)
    assert (len(found["alphas"]), found["folds"], found["model"]) == (100, 10, "lasso")


def test_a_second_tune_reads_no_file(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tuned(table)

    def reading(*_: Any) -> None:
        raise AssertionError("the file was read again")

    monkeypatch.setattr("shoal.coordinator.Ingest", reading)
    second = tuned(table, "--model", "ridge", "--fold-by", "hash")
    assert second["rows"] == first["rows"]


def test_the_linear_model_has_one_error(table: Path) -> None:
    found = tuned(table, "--model", "linear", "--folds", "4")
    assert found["alphas"] == [0.0]
    X, y = rows()
    errors = []
    for k in range(4):
        train, test = np.arange(80) % 4 != k, np.arange(80) % 4 == k
        fitted = reference.LinearRegression().fit(X[train], y[train])
        errors.append(((y[test] - fitted.predict(X[test])) ** 2).mean())
    assert found["cv_mean"][0] == pytest.approx(np.mean(errors), rel=1e-9)
    assert found["cv_se"][0] == pytest.approx(np.std(errors, ddof=1) / 2, rel=1e-8)


def test_the_mixing_ratio_is_chosen_too(table: Path) -> None:
    found = tuned(table, "--model", "elasticnet", "--l1-ratio", "0.1,0.5,1", "--n-alphas", "15", "--folds", "4")
    smallest = {one["l1_ratio"]: min(one["cv_mean"]) for one in found["l1_ratios"]}
    assert list(smallest) == [0.1, 0.5, 1.0]
    assert found["l1_ratio"] == min(smallest, key=lambda ratio: smallest[ratio])
    chosen = next(one for one in found["l1_ratios"] if one["l1_ratio"] == found["l1_ratio"])
    assert (chosen["alphas"], chosen["cv_mean"], chosen["best"]) == (found["alphas"], found["cv_mean"], found["best"])
    for one in found["l1_ratios"]:
        alone = tuned(table, "--model", "elasticnet", "--l1-ratio", str(one["l1_ratio"]), "--n-alphas", "15",
                      "--folds", "4")  # fmt: skip
        assert alone["cv_mean"] == one["cv_mean"]


def test_test_rows_are_scored(table: Path) -> None:
    found = tuned(table, "--test-fraction", "0.25", "--alphas", "0.3", "--fold-by", "hash", "--folds", "4")
    assert found["scores"]["best"]["train"]["rows"] == found["rows"]
    test = found["scores"]["best"]["test"]
    assert test["rows"] + found["rows"] == 80
    answer = shoal("train", table, "--target", "y", "--model", "lasso", "--alpha", "0.3", "--test-fraction", "0.25",
                   "--json").json  # fmt: skip
    assert test["r2"] == pytest.approx(answer["test"]["r2"], rel=1e-9)
    assert test["rmse"] == pytest.approx(answer["test"]["rmse"], rel=1e-9)


def test_folds_whose_rows_are_all_kept_for_testing(table: Path) -> None:
    """--test-every 5 takes all rows of the folds 0 and 5 of ten: the others answer, and it is said."""
    found = tuned(table, "--test-every", "5", "--alphas", "0.3")
    assert any("fold 0, 5 are among those kept for testing" in said for said in found["warnings"])
    X, y = rows()
    errors, index = [], np.arange(80)
    for k in (1, 2, 3, 4, 6, 7, 8, 9):
        train, test = (index % 5 != 0) & (index % 10 != k), index % 10 == k
        scaler = StandardScaler().fit(X[train])
        fitted = reference.Lasso(alpha=0.3, **TIGHT).fit(scaler.transform(X[train]), y[train])
        errors.append(((y[test] - fitted.predict(scaler.transform(X[test]))) ** 2).mean())
    assert found["cv_mean"][0] == pytest.approx(np.mean(errors), rel=1e-8)
    assert found["cv_se"][0] == pytest.approx(np.std(errors, ddof=1) / np.sqrt(8), rel=1e-7)


def lasso_cases() -> list[Any]:
    return [
        pytest.param(path.name, coding, id=f"{path.name.split('.')[0]}-{coding}")
        for path in sorted(DATA.glob("*.reference.json"))
        for coding in json.loads(path.read_text())["codings"]
    ] or [pytest.param("missing.reference.json", "", id="shared-is-missing")]


@pytest.mark.parametrize(("file", "coding"), lasso_cases())
def test_stored_lasso_solutions(file: str, coding: str) -> None:
    """All alphas of a reference in one path; each is reached as the best of a path of its own."""
    stored = json.loads(shared("data", "regression", file).read_text())
    details = stored["codings"][coding]
    names = our_names(stored, details["columns"])
    for name, expected in details["models"].items():
        if not name.startswith("lasso"):
            continue
        answer = shoal(
            "tune", DATA / stored["file"], "--target", stored["target"], "--alphas", repr(expected["alpha"]),
            "--features", ",".join(stored["features"]), "--coding", CODINGS[coding], "--test-every", "5",
            "--fold-by", "hash", "--missing", ",".join(stored["read"]["na_tokens"]), "--json",
        ).json  # fmt: skip
        weights = np.array([answer["coefficients_standardized"]["best"][column] for column in names])
        theirs = np.array(expected["coef_standardised"])
        np.testing.assert_allclose(weights, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())
        assert answer["scores"]["best"]["test"]["rmse"] == pytest.approx(expected["test_rmse"], rel=1e-6)
        assert answer["scores"]["best"]["train"]["r2"] == pytest.approx(expected["train_r2"], rel=1e-6)


def test_the_table_marks_both_choices(table: Path) -> None:
    answer = shoal("tune", table, "--target", "y", "--folds", "5")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "lasso model of y: 5 folds by row, 80 rows"
    marked = [line for line in lines if "<-" in line]
    assert [line.split("<- ")[1] for line in marked] == ["1-SE", "best"]
    curve = [line for line in lines if len(line.split()) >= 4 and line.split()[0].replace(".", "").isdigit()]
    assert 10 <= len(curve) <= 22
    assert "of 100 alphas; --json gives all)" in answer.out
    assert any(line.split() == ["column", "at", "best", "at", "1-SE"] for line in lines)
    found = tuned(table, "--folds", "5")
    assert f"{found['coefficients']['best']['x0']:.6g}" in answer.out
    assert f"{found['coefficients']['one_se']['x0']:.6g}" in answer.out


def test_the_table_of_mixing_ratios(table: Path) -> None:
    answer = shoal("tune", table, "--target", "y", "--model", "elasticnet", "--l1-ratio", "0.2,0.9", "--n-alphas", "5")
    assert answer.out.count("<- chosen") == 1
    assert answer.out.splitlines()[0].startswith("elasticnet model of y, l1_ratio = 0.")


# ------------------------------------------------------------------ what cannot be, or is odd


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--folds", "1"], "at least 2 folds, got 1"),
        (["--folds", "0"], "at least 2 folds, got 0"),
        (["--folds", "many"], "whole number after --folds, got 'many'"),
        (["--folds", "81"], "at most as many folds as rows, got 81 folds of 80 rows"),
        (["--fold-by", "colour"], "row, hash, group:COLUMN or time:COLUMN, got 'colour'"),
        (["--fold-by", "group:"], "got 'group:'"),
        (["--fold-by", "group:nothing"], "'nothing'"),
        (["--fold-by", "time:nothing"], "'nothing'"),
        (["--alphas", "0.1,-2"], "at least 0, got -2"),
        (["--alphas", "nan"], "finite numbers of at least 0, got nan"),
        (["--alphas", "1,inf"], "got inf"),
        (["--alphas", ""], "at least one alpha to try, got none"),
        (["--alphas", ","], "at least one alpha"),
        (["--alphas", "a,b"], "after --alphas, got 'a,b'"),
        (["--alphas", "1,2", "--n-alphas", "5"], "Both alphas and a number of alphas"),
        (["--n-alphas", "0"], "from 1 to 10,000, got 0"),
        (["--n-alphas", "-3"], "got -3"),
        (["--n-alphas", "2.5"], "whole number after --n-alphas"),
        (["--model", "linear", "--alphas", "1"], "has no penalty"),
        (["--model", "lasso", "--l1-ratio", "0.1,0.2"], "for elasticnet only"),
        (["--model", "elasticnet", "--l1-ratio", "1.2"], "from 0 (ridge) to 1 (lasso), got 1.2"),
        (["--model", "elasticnet", "--l1-ratio", "half"], "after --l1-ratio, got 'half'"),
        (["--features", "x0,y"], "also among the features"),
        (["--features", "x9"], "got 'x9'"),
        (["--model", "tree"], "Argument --model"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_plain_sentence(table: Path, flags: list[str], said: str) -> None:
    assert said in refused(table, *flags)


def test_no_target(table: Path) -> None:
    answer = shoal("tune", table)
    assert answer.is_plain()
    assert "Expected a target" in answer.err


def test_the_target_cannot_be_text(tmp_path: Path) -> None:
    path = written(tmp_path, "x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(20)))
    assert "Expected a column of numbers as target" in refused(path)


def odd(tmp_path: Path, **columns: Any) -> Path:
    X, y = rows(40, 3)
    path = tmp_path / "odd.csv"
    frame_of(X, y).assign(**columns).to_csv(path, index=False)
    return path


def test_a_group_column_with_one_group(tmp_path: Path) -> None:
    said = refused(odd(tmp_path, team="only"), "--fold-by", "group:team", "--folds", "2")
    assert "at least 2 groups in column 'team' for 2 folds, got 1" in said


def test_fewer_groups_than_folds(tmp_path: Path) -> None:
    path = odd(tmp_path, team=np.arange(40) % 3)
    assert "got 3" in refused(path, "--fold-by", "group:team", "--folds", "5")


def test_time_that_is_text(tmp_path: Path) -> None:
    path = odd(tmp_path, when=np.where(np.arange(40) % 2, "soon", "late"))
    assert "Expected dates or numbers in 'when'" in refused(path, "--fold-by", "time:when")


def test_time_that_stands_still(tmp_path: Path) -> None:
    path = odd(tmp_path, when=np.arange(40) // 30)
    assert "the same time in 'when'" in refused(path, "--fold-by", "time:when", "--folds", "3")


def test_groups_that_predict_are_warned_of(tmp_path: Path) -> None:
    path = odd(tmp_path, team=np.where(np.arange(40) % 8 < 4, "a", "b"))
    found = tuned(path, "--fold-by", "group:team", "--folds", "2")
    assert any("--exclude team" in said for said in found["warnings"])
    assert not tuned(path, "--fold-by", "group:team", "--folds", "2", "--exclude", "team")["warnings"]


def test_a_fold_without_variation_of_the_target(tmp_path: Path) -> None:
    """Only fold 1 has rows with another target, so that fold 1 is trained on rows that are all alike."""
    X, y = rows(40, 2)
    y = np.where(np.arange(40) % 4 == 1, y, 5.0)
    path = tmp_path / "flat.csv"
    frame_of(X, y).to_csv(path, index=False, float_format="%.17g")
    found = tuned(path, "--folds", "4", "--alphas", "0.1")
    assert any("does not vary over the training rows of fold 1" in said for said in found["warnings"])
    errors = []
    for k in range(4):
        train, test = np.arange(40) % 4 != k, np.arange(40) % 4 == k
        scaler = StandardScaler().fit(X[train])
        fitted = reference.Lasso(alpha=0.1, **TIGHT).fit(scaler.transform(X[train]), y[train])
        errors.append(((y[test] - fitted.predict(scaler.transform(X[test]))) ** 2).mean())
    assert found["cv_mean"][0] == pytest.approx(np.mean(errors), rel=1e-8)


def test_a_target_without_any_variation(tmp_path: Path) -> None:
    assert "The target does not vary" in refused(odd(tmp_path, y=0.1))  # whose mean is rounded
    path = odd(tmp_path, y=5.0)
    assert "The target does not vary" in refused(path)
    found = tuned(path, "--alphas", "1,0.1")
    assert found["cv_mean"] == [0.0, 0.0]
    assert found["intercepts"]["best"] == 5.0
    assert found["scores"]["best"]["train"]["r2"] is None


def test_constant_columns(tmp_path: Path) -> None:
    found = tuned(odd(tmp_path, same=3.0), "--folds", "4")
    assert any("do not vary" in said and "same" in said for said in found["warnings"])
    assert found["coefficients"]["best"]["same"] == 0
    np.testing.assert_allclose(found["cv_mean"], tuned(odd(tmp_path), "--folds", "4")["cv_mean"], rtol=1e-12)


def test_a_column_that_varies_in_one_fold_only(tmp_path: Path) -> None:
    found = tuned(odd(tmp_path, spike=(np.arange(40) == 6).astype(float)), "--folds", "4", "--alphas", "0.01")
    assert any("some fold" in said and "spike" in said for said in found["warnings"])


def test_columns_without_any_value(tmp_path: Path) -> None:
    found = tuned(odd(tmp_path, empty=np.nan), "--folds", "4")
    assert any("'empty' has no value in any row and is left out" in said for said in found["warnings"])
    assert "empty" not in found["coefficients"]["best"]


def test_a_column_without_a_value_in_the_training_rows_of_a_fold(tmp_path: Path) -> None:
    """It has values in the rows of fold 2 only: without them it is no column at all, and the others answer."""
    X, y = rows(40, 3)
    late = np.where(np.arange(40) % 4 == 2, X[:, 0] ** 2, np.nan)
    found = tuned(odd(tmp_path, late=late), "--folds", "4", "--alphas", "0.05")
    train, test = np.arange(40) % 4 != 2, np.arange(40) % 4 == 2
    scaler = StandardScaler().fit(X[train])
    alone = reference.Lasso(alpha=0.05, **TIGHT).fit(scaler.transform(X[train]), y[train])
    error = ((y[test] - alone.predict(scaler.transform(X[test]))) ** 2).mean()
    path = api.path(tmp_path / "odd.csv", target="y", alphas=[0.05], folds=4)
    assert path.tuned.curve.errors[2, 0] == pytest.approx(error, rel=1e-8)
    assert found["cv_mean"][0] == pytest.approx(path.cv_mean[0], rel=1e-12)


def test_more_columns_than_rows(tmp_path: Path) -> None:
    X, y = rows(12, 20)
    path = tmp_path / "wide.csv"
    frame_of(X, y).to_csv(path, index=False, float_format="%.17g")
    found = tuned(path, "--folds", "3", "--alphas", "2,1")
    assert any("20 columns and 12 training rows" in said for said in found["warnings"])
    errors = []
    for k in range(3):
        train, test = np.arange(12) % 3 != k, np.arange(12) % 3 == k
        scaler = StandardScaler().fit(X[train])
        for alpha in (2.0, 1.0):
            fitted = reference.Lasso(alpha=alpha, **TIGHT).fit(scaler.transform(X[train]), y[train])
            errors.append(((y[test] - fitted.predict(scaler.transform(X[test]))) ** 2).mean())
    np.testing.assert_allclose(found["cv_mean"], np.array(errors).reshape(3, 2).mean(axis=0), rtol=1e-8)


def test_more_folds_than_rows_with_a_target(tmp_path: Path) -> None:
    path = odd(tmp_path, y=np.where(np.arange(40) < 6, np.arange(40.0), np.nan))
    assert "Choose fewer folds" in refused(path, "--folds", "10")


def test_repeated_and_unsorted_alphas(table: Path) -> None:
    found = tuned(table, "--alphas", "0.1,5,0.1,1", "--folds", "4")
    assert found["alphas"] == [5.0, 1.0, 0.1]
    assert any("given more than once" in said for said in found["warnings"])
    assert found["cv_mean"] == tuned(table, "--alphas", "5,1,0.1", "--folds", "4")["cv_mean"]


def test_of_equal_errors_the_strongest_penalty(table: Path) -> None:
    found = tuned(table, "--alphas", "1e9,1e8", "--folds", "4")
    assert found["best"] == found["one_se"] == 1e9


def test_alpha_zero_is_least_squares(table: Path) -> None:
    found = tuned(table, "--alphas", "1,0", "--folds", "4")
    assert found["cv_mean"][1] == pytest.approx(
        tuned(table, "--model", "linear", "--folds", "4")["cv_mean"][0], rel=1e-9
    )


# ------------------------------------------------------------------ in Python


def test_path_of_a_file_and_of_a_frame(table: Path) -> None:
    X, y = rows()
    for data in (table, frame_of(X, y)):
        path = api.path(data, target="y", n_alphas=10)
        scaler = StandardScaler().fit(X)
        for i, alpha in enumerate(path.alphas):
            theirs = reference.Lasso(alpha=alpha, **TIGHT).fit(scaler.transform(X), y)
            np.testing.assert_allclose(path.coef[i], theirs.coef_ / scaler.scale_, rtol=1e-8, atol=1e-9)
        assert path.coefficients.shape == (10, 5)
        assert path.coefficients.columns.tolist() == path.names == [f"x{j}" for j in range(5)]
        assert path.kept == [np.count_nonzero(row) for row in path.coef]
        assert len(path.certificates) == 10
        assert max(c.relative for c in path.certificates) < 1e-12
        assert repr(path).startswith("<PenaltyPath: lasso models of 'y', 10 alphas")
        with pytest.raises(ConfigError, match="made without folds"):
            path.best  # noqa: B018


def test_path_with_folds_is_what_the_command_says(table: Path) -> None:
    found = tuned(table, "--folds", "6", "--fold-by", "hash", "--seed", "5", "--n-alphas", "9")
    path = api.path(table, target="y", n_alphas=9, folds=6, fold_by="hash", seed=5)
    np.testing.assert_array_equal(path.cv_mean, found["cv_mean"])
    np.testing.assert_array_equal(path.cv_se, found["cv_se"])
    assert (path.best, path.one_se) == (found["best"], found["one_se"])
    assert "6 folds by hash, 80 rows" in repr(path)


@pytest.mark.parametrize("frame", [False, True], ids=["file", "frame"])
def test_models_of_a_path(table: Path, frame: bool) -> None:
    X, y = rows()
    path = api.path(frame_of(X, y) if frame else table, target="y", model="ridge", n_alphas=9, folds=4)
    model = path.best_model()
    place = int(np.flatnonzero(path.alphas == path.best)[0])
    np.testing.assert_allclose(list(model.coefficients.values()), path.coef[place], rtol=1e-9)
    assert model.alpha == path.best
    between = path.model_at(7.5)
    expected = api.fit(table, target="y", model="ridge", alpha=7.5)
    np.testing.assert_allclose(list(between.coefficients.values()), list(expected.coefficients.values()), rtol=1e-9)
    np.testing.assert_allclose(between.predict(table), expected.predict(table), rtol=1e-9)
    assert path.one_se_model().alpha == path.one_se >= path.best


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"alphas": [-1.0]}, "at least 0"),
        ({"alphas": ["x"]}, "got 'x'"),
        ({"alphas": [True]}, "got True"),
        ({"alphas": [], "folds": 3}, "at least one alpha"),
        ({"folds": 1}, "at least 2 folds"),
        ({"model": "elasticnet", "l1_ratio": [0.1, 0.9]}, "need folds to choose by"),
        ({"model": "tree"}, "'tree'"),
        ({"colour": 1}, "'colour'"),
        ({"features": ["y"]}, "also among the features"),
    ],
)
def test_path_refuses(table: Path, knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        api.path(table, target="y", **knobs)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e5])
@pytest.mark.parametrize(("model", "ratio"), [("ridge", 0.0), ("elasticnet", 0.3), ("lasso", 1.0)])
def test_the_best_alpha_lies_inside_the_path_whatever_the_unit_of_the_target(
    model: str, ratio: float, unit: float
) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 6))
    y = X @ [3.0, -2.0, 1.0, 0.5, 0.0, 0.0] + rng.normal(size=120)
    problem = LeastSquares.from_moments(Moments.of(np.column_stack((X, y * unit))), True, True)
    alphas = alpha_grid(problem, model, ratio)
    W = weights_along(problem, model, alphas, ratio)
    least = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0] * X.std(axis=0) * unit
    assert np.abs(W[0]).max() <= 2e-3 * np.abs(least).max()  # the first leaves nothing, or nearly so
    assert np.abs(W[-1] - least).max() <= 2e-3 * np.abs(least).max()  # the last hardly shrinks


def test_a_negative_list_is_no_flag(table: Path) -> None:
    answer = shoal("tune", table, "--target", "y", "--alphas", "-1,2")
    assert answer.code == 1
    assert "at least 0, got -1" in answer.err


def test_odd_values_in_python_are_sentences(table: Path, tmp_path: Path) -> None:
    for wrong in ({"folds": "x"}, {"folds": 5.0}, {"folds": True}):
        with pytest.raises(ConfigError, match="whole number of folds"):
            api.path(table, target="y", **wrong)
    found = api.path(table, target="y", alphas=1.0)
    assert found.alphas.tolist() == [1.0]
    with pytest.raises(ConfigError, match="alpha to be a number"):
        found.model_at("x")
    with pytest.raises(TrainingError, match="data frame with columns"):
        api.path(pd.DataFrame(), target="y")
    (tmp_path / "flat.csv").write_text("a,y\n" + "".join(f"{i},3\n" for i in range(20)))
    with pytest.raises(TrainingError, match="target does not vary"):
        api.path(tmp_path / "flat.csv", target="y")
