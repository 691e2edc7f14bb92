"""huber and quantile models as a person asks for them: scikit-learn and statsmodels come to the same on real tables
(figures of the latter by tools/robust_references.py), and what cannot be is said in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import HuberRegressor, QuantileRegressor

import shoal
from shoal.cli import app as cli
from shoal.errors import TrainingError
from shoal.fitting.robust import quantile as corner
from support.data.glm_tables import GlmTable, coded, glm_tables, linear_tables
from support.tables import fitted, shared

REFERENCES = json.loads((Path(__file__).parent / "robust.json").read_text())["tables"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def tables() -> dict[str, GlmTable]:
    return {table.name: table for table in (*linear_tables(shared("data")), *glm_tables(shared("data")))}


def far_off(n: int = 300, p: int = 4, seed: int = 2) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Numbers with heavy tails whose spread grows with the first column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.linspace(0.5, 4, p) + 3
    y = X @ np.linspace(1, -1, p) + rng.standard_t(2, n) * (1 + 0.3 * np.abs(X[:, 0]))
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]).assign(y=y), X, y


def estimates(found: dict[str, Any], names: list[str]) -> list[dict[str, float]]:
    inference = found["inference"]
    return [inference["intercept"], *(inference["coefficients"][name] for name in names[1:])]


def pinball(X: np.ndarray, y: np.ndarray, coef: Any, intercept: float, q: float, weight: Any = None) -> float:
    r = y - X @ np.asarray(coef) - intercept
    return float(np.average(np.maximum(q * r, (q - 1) * r), weights=weight))


# ------------------------------------------------------------------ huber


@pytest.mark.parametrize("name", REFERENCES)
def test_huber_is_that_of_scikit_learn_and_its_errors_those_of_statsmodels(
    name: str, tables: dict[str, GlmTable], tmp_path: Path
) -> None:
    table, said = tables[name], REFERENCES[name]
    table.frame.to_csv(tmp_path / "table.csv", index=False)
    found = fitted(tmp_path / "table.csv", table.target, model="huber")
    rows = estimates(found, said["names"])
    np.testing.assert_allclose([row["estimate"] for row in rows], said["huber"]["coefficients"], rtol=1e-6)
    np.testing.assert_allclose([row["std_error"] for row in rows], said["huber"]["std_errors"], rtol=1e-6)
    assert found["outcome"]["parameters"]["sigma"] == pytest.approx(said["huber"]["scale"], rel=1e-6)
    assert found["certificate"]["relative"] < 1e-8
    assert found["certificate"]["rests_on"] == "data"
    assert found["outcome"]["sweeps"] <= 18


@pytest.mark.parametrize("alpha", [0.5, 40.0])
@pytest.mark.parametrize("epsilon", [1.05, 1.35, 3.0])
def test_alpha_and_epsilon_mean_what_they_do_in_scikit_learn(alpha: float, epsilon: float) -> None:
    frame, X, y = far_off()
    knobs = {"shrink": "ridge", "alpha": alpha, "huber_epsilon": epsilon, "standardize": False}
    found = shoal.fit(frame, "y", "huber", **knobs)
    theirs = HuberRegressor(epsilon=epsilon, alpha=alpha, max_iter=10_000, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(list(found.coefficients.values()), theirs.coef_, atol=2e-4)  # it stops early

    def objective(coef: Any, intercept: float, scale: float) -> float:
        z = np.abs(y - X @ np.asarray(coef) - intercept) / scale
        h = np.where(z < epsilon, z**2, 2 * epsilon * z - epsilon**2)
        return float(len(y) * scale + scale * h.sum() + alpha * np.square(coef).sum())

    scale = found.report["outcome"]["parameters"]["sigma"]
    ours = objective(list(found.coefficients.values()), found.intercept, scale)
    assert ours <= objective(theirs.coef_, theirs.intercept_, theirs.scale_) * (1 + 1e-12)


def test_rows_far_off_do_not_pull() -> None:
    frame, *_ = far_off()
    spoilt = frame.assign(y=frame["y"].where(frame.index % 30 != 0, 1e6))
    plain, moved = (shoal.fit(one, "y", "huber").coefficients["x0"] for one in (frame, spoilt))
    assert abs(moved - plain) < 0.2
    assert abs(shoal.fit(spoilt, "y", "linear").coefficients["x0"] - plain) > 100


def test_a_line_that_most_rows_lie_on_is_found_and_its_scale_is_rounding() -> None:
    x = np.arange(60.0)
    frame = pd.DataFrame({"x": x, "y": np.where(x % 7 == 0, 500.0, 2 * x + 1)})
    found = shoal.fit(frame, "y", "huber")
    assert found.coefficients["x"] == pytest.approx(2, abs=1e-6)
    assert found.intercept == pytest.approx(1, abs=1e-5)
    assert found.inference is None
    assert any("lie on the line" in note for note in found.warnings)


def test_columns_that_only_rows_far_off_have_are_moved_too() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=80), "rare": np.r_[np.zeros(76), np.ones(4)]})
    frame["y"] = frame["x"] + rng.normal(size=80) + np.r_[np.zeros(76), 1000 + rng.normal(size=4)]
    found = shoal.fit(frame, "y", "huber")
    assert found.coefficients["rare"] == pytest.approx(1000, abs=5)
    assert found.report["certificate"]["relative"] < 1e-8


# ------------------------------------------------------------------ quantile


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", REFERENCES)
def test_quantiles_are_those_of_scikit_learn_and_errors_those_of_statsmodels(
    name: str, q: float, tables: dict[str, GlmTable], tmp_path: Path
) -> None:
    table, said = tables[name], REFERENCES[name]
    table.frame.to_csv(tmp_path / "table.csv", index=False)
    found = fitted(tmp_path / "table.csv", table.target, model="quantile", quantile=q)
    design, y = coded(table)
    X = design.to_numpy()
    theirs = QuantileRegressor(quantile=q, alpha=0.0, solver="highs").fit(X, y)
    coef = [found["coefficients"][column] for column in design.columns]
    ours, best = (
        pinball(X, y.to_numpy(), *one, q) for one in ((coef, found["intercept"]), (theirs.coef_, theirs.intercept_))
    )
    assert ours <= best * (1 + 1e-8)
    assert found["outcome"]["train"]["scores"]["pinball"] == pytest.approx(best, rel=1e-8)
    assert found["certificate"]["kind"] == "duality_gap"
    assert found["certificate"]["relative"] < 1e-8
    errors = [row["std_error"] for row in estimates(found, said["names"])]
    np.testing.assert_allclose(errors, said["quantile"][str(q)]["std_errors"], rtol=2e-3)  # that fit is not exact


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC3"])
def test_robust_errors_of_a_quantile_are_powells(kind: str) -> None:
    """A^-1 B A^-1 with the kernel's density of each row in A, worked out here by NumPy."""
    frame, X, y = far_off(400)
    found = shoal.fit(frame, "y", "quantile", quantile=0.8, robust=kind)
    U = np.column_stack((np.ones(len(y)), X))
    r = y - U @ np.array([found.intercept, *found.coefficients.values()])
    z, n = norm.ppf(0.8), len(y)
    h = n ** (-1 / 3) * norm.ppf(0.975) ** (2 / 3) * (1.5 * norm.pdf(z) ** 2 / (2 * z**2 + 1)) ** (1 / 3)
    quarters = np.quantile(r, [0.25, 0.75])
    width = min(y.std(), float(np.diff(quarters)[0]) / 1.34) * (norm.ppf(0.8 + h) - norm.ppf(0.8 - h))
    u = r / width
    density = np.where(np.abs(u) <= 1, 0.75 * (1 - u**2), 0.0) / width
    inverse = np.linalg.inv(U.T @ (U * density[:, None]))
    g = np.where(r <= 1e-9, 0.2, -0.8)  # rows on the line count as below it
    if kind == "HC3":
        g = g / (1 - density * ((U @ inverse) * U).sum(axis=1))
    times = n / (n - 5) if kind == "HC1" else 1.0
    errors = np.sqrt(times * np.diag(inverse @ (U.T @ (U * (g**2)[:, None])) @ inverse))
    ours = [row["std_error"] for row in estimates(found.report, ["", *found.coefficients])]
    np.testing.assert_allclose(ours, errors, rtol=1e-6)


@pytest.mark.parametrize("few", [False, True], ids=["all rows", "rows near the line"])
@pytest.mark.parametrize(("q", "alpha"), [(0.5, 0.0), (0.25, 0.05), (0.97, 0.01), (0.5, 3.0)])
def test_alpha_is_that_of_scikit_learn_and_few_rows_decide(
    q: float, alpha: float, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same corner from all rows at once, or from those near the line, which others join as they change sides."""
    if few:
        monkeypatch.setattr(corner, "NEAR_VALUES", 1)
        monkeypatch.setattr(corner, "FEWEST_NEAR", 150)
    frame, X, y = far_off(1500)
    knobs: dict[str, Any] = {"shrink": "lasso", "alpha": alpha} if alpha else {}
    found = shoal.fit(frame, "y", "quantile", quantile=q, standardize=False, **knobs)
    theirs = QuantileRegressor(quantile=q, alpha=alpha, solver="highs").fit(X, y)
    coef = list(found.coefficients.values())
    ours = pinball(X, y, coef, found.intercept, q) + alpha * np.abs(coef).sum()
    best = pinball(X, y, theirs.coef_, theirs.intercept_, q) + alpha * np.abs(theirs.coef_).sum()
    assert ours == pytest.approx(best, rel=1e-8)
    np.testing.assert_allclose(coef, theirs.coef_, atol=1e-8)
    assert [value == 0 for value in coef] == [abs(value) < 1e-12 for value in theirs.coef_]
    assert found.report["certificate"]["relative"] < 1e-8
    assert found.report["outcome"]["sweeps"] > 8 if few else found.report["outcome"]["sweeps"] <= 8


def test_a_ridge_penalty_of_a_quantile_has_its_optimum_too() -> None:
    frame, X, y = far_off()
    found = shoal.fit(frame, "y", "quantile", quantile=0.7, shrink="ridge", alpha=0.2, standardize=False)
    coef = np.array(list(found.coefficients.values()))

    def objective(move: Any, up: float) -> float:
        return pinball(X, y, coef + move, found.intercept + up, 0.7) + 0.1 * float(np.square(coef + move).sum())

    rng, least = np.random.default_rng(1), objective(0.0, 0.0)
    steps = [(size * rng.normal(size=4), size * rng.normal()) for size in (1e-1, 1e-3, 1e-5) for _ in range(200)]
    assert all(objective(*step) >= least * (1 - 1e-13) for step in steps)
    assert found.report["certificate"]["relative"] < 1e-9


def test_equal_values_leave_room_and_are_fitted_all_the_same() -> None:
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, (400, 2)).astype(float)
    y = rng.poisson(0.4 + X[:, 0] / 4).astype(float)
    found = shoal.fit(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}), "y", "quantile", quantile=0.6)
    theirs = QuantileRegressor(quantile=0.6, alpha=0.0, solver="highs").fit(X, y)
    ours = pinball(X, y, list(found.coefficients.values()), found.intercept, 0.6)
    assert ours == pytest.approx(pinball(X, y, theirs.coef_, theirs.intercept_, 0.6), rel=1e-8)


def test_scores_are_beside_those_of_the_constant_quantile() -> None:
    frame, *_ = far_off()
    outcome = shoal.fit(frame, "y", "quantile", quantile=0.8, test_every=4).report["outcome"]
    train = frame["y"][frame.index % 4 != 0].to_numpy()
    constant = np.sort(train)[int(np.ceil(0.8 * len(train))) - 1]
    for part, y in (("train", train), ("test", frame["y"][frame.index % 4 == 0].to_numpy())):
        known, found = outcome[part]["baseline"], outcome[part]["scores"]
        nothing = pinball(np.zeros((len(y), 1)), y, [0.0], constant, 0.8)
        assert known["pinball"] == pytest.approx(nothing, rel=1e-12)
        assert known["below"] == pytest.approx((y <= constant).mean())
        assert found["loss_explained"] == pytest.approx(1 - found["pinball"] / nothing)


# ------------------------------------------------------------------ both


@pytest.mark.parametrize("model", ["huber", "quantile"])
def test_bits_are_the_same_for_any_number_of_workers(model: str, tmp_path: Path) -> None:
    far_off(4000)[0].to_csv(tmp_path / "table.csv", index=False)
    found = [
        fitted(tmp_path / "table.csv", "y", model=model, **how)["coefficients"]
        for how in ({"engine": "inline"}, {"engine": "processes", "workers": 2})
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("model", ["huber", "quantile"])
def test_the_terminal_fits_predicts_and_exports(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame, X, _ = far_off()
    frame.to_csv(tmp_path / "table.csv", index=False)
    place = str(tmp_path / "model.json")
    assert cli.main(["train", str(tmp_path / "table.csv"), "--target", "y", "--model", model, "--out", place]) == 0
    shown = capsys.readouterr().out
    assert f"{model} model of y" in shown
    assert "loss explained" in shown
    assert "baseline: always predicting the median of the training rows" in shown
    assert "log likelihood" not in shown
    loaded = shoal.load(place)
    line = X @ np.array(list(loaded.coefficients.values())) + loaded.intercept
    np.testing.assert_allclose(loaded.predict(frame), line, rtol=1e-12)
    out = tmp_path / "predicted.csv"
    assert cli.main(["predict", place, str(tmp_path / "table.csv"), "--out", str(out)]) == 0
    np.testing.assert_allclose(pd.read_csv(out).iloc[:, -1], line, rtol=1e-12)
    for to in ("json", "sql", "python", "sklearn"):
        assert cli.main(["export", place, "--to", to, "--out", str(tmp_path / f"export.{to}")]) == 0
    assert capsys.readouterr().out.count("Proven on") == 4
    assert cli.main(["explain", place]) == 0
    shown = capsys.readouterr().out
    assert "As of large samples: intervals by formula" in shown
    assert "Importance of each column" in shown
    assert cli.main(["export", place, "--to", "report", "--out", str(tmp_path / "report.html")]) == 0


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"model": "quantile", "quantile": 1.0}, "Expected quantile to be a number from"),
        ({"model": "huber", "huber_epsilon": 0.5}, "Expected huber_epsilon to be a number of at least 1"),
        ({"model": "huber", "target": "text"}, "Expected a column of numbers as target"),
        ({"model": "quantile", "target": "same"}, "one and the same target"),
        ({"model": "huber", "target": "same"}, "one and the same target"),
        ({"model": "huber", "solver": "gradient"}, "exact"),
        ({"model": "quantile", "solver": "gradient"}, "exact"),
    ],
)
def test_what_cannot_be_is_said(knobs: dict[str, Any], said: str, tmp_path: Path) -> None:
    frame = far_off(50)[0].assign(text="a", same=1.0)
    frame.to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(TrainingError) as caught:
        fitted(tmp_path / "table.csv", **{"target": "y", **knobs})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "flags",
    [["--quantile", "0.9"], ["--model", "multinomial", "--offset", "x0"], ["--model", "huber", "--offset", "x0"]],
)
def test_flags_that_mean_nothing_there_are_refused(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far_off(50)[0].to_csv(tmp_path / "table.csv", index=False)
    assert cli.main(["train", str(tmp_path / "table.csv"), "--target", "y", *flags]) != 0
    told = capsys.readouterr().err
    assert "where it has none" in told
    assert "with ," not in told  # beside what is named
