"""The way down of large tables, whose last steps sum slopes alone, on small ones: scikit-learn's answers, run to the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor

import shoal
from shoal.passes import losses

RNG = np.random.default_rng(11)
N, P = 3000, 6


@pytest.fixture(autouse=True)
def _large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("shoal.fitting.losses.descent.CHEAP", 0)
    monkeypatch.setattr("shoal.solve.newton.NEAR", 0.05)  # so that all of them come to it


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether squares were asked for, of each request."""
    seen: list[bool] = []
    answer = losses.SumCurvature.answer

    def watched(self: losses.SumCurvature, worker: object) -> object:
        seen.append(self.squares)
        return answer(self, worker)  # type: ignore[arg-type]

    monkeypatch.setattr(losses.SumCurvature, "answer", watched)
    return seen


def table(kind: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    X = RNG.normal(size=(N, P))
    X[:, 1] += 0.9 * X[:, 0]
    eta = X @ (RNG.normal(size=P) * 0.4) - 0.3
    mean = np.exp(eta)
    y = {
        "logistic": (RNG.random(N) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": RNG.poisson(mean).astype(float),
        "gamma": RNG.gamma(3.0, mean / 3.0),
    }[kind]
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(P)]).assign(y=y), X, y


@pytest.mark.parametrize("kind", ["logistic", "poisson", "gamma"])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_coefficients_are_those_of_scikit_learn(kind: str, alpha: float, asked: list[bool]) -> None:
    frame, X, y = table(kind)
    how = {"shrink": "ridge", "alpha": alpha, "standardize": False} if alpha else {}
    model = shoal.fit(frame, target="y", model=kind, engine="inline", **how)
    tight = {"max_iter": 10_000, "tol": 1e-12}
    if kind == "logistic":
        peer = LogisticRegression(C=1 / alpha if alpha else np.inf, solver="newton-cholesky", **tight).fit(X, y)
        expected = np.append(peer.coef_[0], peer.intercept_)
    else:
        peer = (PoissonRegressor if kind == "poisson" else GammaRegressor)(
            alpha=alpha, solver="newton-cholesky", **tight
        )
        peer.fit(X, y)
        expected = np.append(peer.coef_, peer.intercept_)
    found = np.append([model.coefficients[f"x{j}"] for j in range(P)], model.intercept)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert model.certificate["relative"] < 1e-9
    assert not all(asked), "no pass summed slopes alone"
    if not alpha:
        assert model.report["inference"]["coefficients"]["x0"]["std_error"] > 0


def test_what_runs_away_is_told(asked: list[bool]) -> None:
    X = RNG.normal(size=(N, 2))
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=(X[:, 0] > 0).astype(int))
    model = shoal.fit(frame, target="y", model="logistic", engine="inline")
    assert model.report["outcome"]["separated"]
    assert any("a" in note and "grow" in note for note in model.report["warnings"]), model.report["warnings"]


@pytest.mark.parametrize("sorted_by", [None, "rare", "y"])
def test_steps_from_a_sample_of_the_blocks_lead_to_the_optimum_of_all_rows(
    sorted_by: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[bool]
) -> None:
    """The squares of the sample are used for one step of all rows at most: as for rows in a random order, so where the
    sample is without a column or nearly without a class."""
    monkeypatch.setattr("shoal.settings.limits.BLOCK_BYTES", 10_000)
    if sorted_by is None:
        monkeypatch.setattr("shoal.solve.newton.NEAR", 0.2)  # a sample of so few rows is that far off
    frame, _, _ = table("logistic")
    frame["rare"] = (np.arange(N) % 100 == 7).astype(float)
    frame = frame if sorted_by is None else frame.sort_values(sorted_by, kind="stable")
    frame.to_csv(tmp_path / "table.csv", index=False)
    found = shoal.fit(
        tmp_path / "table.csv", target="y", model="logistic", shrink="ridge", alpha=1.0, standardize=False,
        engine="inline",
    )  # fmt: skip
    X = frame.drop(columns="y")
    peer = LogisticRegression(C=1.0, solver="newton-cholesky", max_iter=10_000, tol=1e-12).fit(X, frame["y"])
    np.testing.assert_allclose([found.coefficients[name] for name in X], peer.coef_[0], atol=1e-8)
    assert found.certificate["relative"] < 1e-9
    blocks = -(-(tmp_path / "table.csv").stat().st_size // 10_000)
    assert blocks >= 32  # or no sample is taken
    if sorted_by is None:
        assert sum(asked) <= blocks + 5 * (blocks // 8 + 1), "squares of all rows are summed once"
