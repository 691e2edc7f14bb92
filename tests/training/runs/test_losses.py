"""Gradient runs of other losses and of weighted rows: scikit-learn says where they have to end, NumPy what a row costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor, Ridge

from shoal.engines.base import Engine
from shoal.errors import ConfigError
from support.tables import same_bits
from support.training import MODES, At, Bench, Script, Trainer, wait_for

ROWS = 600
TARGETS = {"logistic": "yes", "poisson": "counts", "gamma": "amount"}
COLUMNS = ["a", "b", "c", "d"]
TIGHT: dict[str, Any] = {"tolerance": 1e-11, "features": COLUMNS, "standardize": False}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(3)
    X = random.standard_normal((ROWS, 4)) * [1.0, 2.0, 0.5, 1.0] + [0.0, 5.0, -1.0, 2.0]
    X[:, 3] += 0.6 * X[:, 0]
    eta = X @ [0.8, -0.3, 0.5, 0.1] + 1.0
    hours = random.uniform(0.5, 4.0, ROWS)
    return pd.DataFrame(X, columns=COLUMNS).assign(
        yes=np.where(random.random(ROWS) < 1 / (1 + np.exp(-eta)), "late", "in time"),
        counts=random.poisson(hours * np.exp(0.6 * eta)),
        amount=random.gamma(2.0, np.exp(eta) / 2),
        number=eta + random.standard_normal(ROWS),
        hours=hours, times=random.integers(0, 4, ROWS), worth=random.uniform(0.1, 3.0, ROWS),
    )  # fmt: skip


@pytest.fixture(scope="module")
def path(place: Path, frame: pd.DataFrame) -> Path:
    target = place / "outcomes.csv"
    frame.to_csv(target, index=False)
    return target


def theirs(frame: pd.DataFrame, model: str, alpha: float, weight: npt.NDArray[Any] | None = None) -> Any:
    """The estimator of that name, run to a tight tolerance."""
    tight = {"tol": 1e-12, "max_iter": 10_000}
    found: Any = {
        "logistic": lambda: LogisticRegression(C=1 / alpha, solver="newton-cholesky", **tight),
        "poisson": lambda: PoissonRegressor(alpha=alpha, solver="newton-cholesky", **tight),
        "gamma": lambda: GammaRegressor(alpha=alpha, solver="newton-cholesky", **tight),
    }[model]()
    y = frame[TARGETS[model]]
    return found.fit(frame[COLUMNS], (y == "late").astype(int) if model == "logistic" else y, weight)


def check(bench: Bench, expected: Any, within: float = 2e-6) -> None:
    coef = np.ravel(expected.coef_)
    found = [bench.report["coefficients"][name] for name in COLUMNS]
    np.testing.assert_allclose(found, coef, rtol=0, atol=within * np.abs(coef).max())
    assert bench.report["intercept"] == pytest.approx(float(np.ravel(expected.intercept_)[0]), abs=20 * within)
    assert bench.report["converged"]
    assert bench.done.cause == "converged"


@pytest.mark.parametrize("model", TARGETS)
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_ends_where_scikit_learn_does(
    mode: str, model: str, run: Trainer, path: Path, frame: pd.DataFrame
) -> None:
    knobs = {**TIGHT, "model": model, "shrink": "ridge", "alpha": 0.3, "mode": mode, "positive": "late"}
    if model != "logistic":
        del knobs["positive"]
    found = run(path, TARGETS[model], **knobs)
    check(found, theirs(frame, model, 0.3))
    assert found.report["distance_to_optimum"] <= 1e-11
    assert found.rounds[0].distance == pytest.approx(1, abs=0.9)  # it begins far from there, and is known on the way
    assert found.rounds[-1].distance is not None


@pytest.mark.parametrize("model", TARGETS)
def test_weights_are_scikit_learns_and_repeated_rows(model: str, run: Trainer, path: Path, frame: pd.DataFrame) -> None:
    """Importance has a mean of 1; alpha of a logistic model stands beside a sum over rows, whatever they count for."""
    knobs = {**TIGHT, "model": model, "shrink": "ridge", "alpha": 0.3, "compression": "topk"}
    found = run(path, TARGETS[model], weights="worth", mode="local", **knobs)
    check(found, theirs(frame, model, 0.3, frame["worth"].to_numpy() / frame["worth"].mean()))
    found = run(path, TARGETS[model], weights="times", weights_are="frequency", step_rule="momentum", **knobs)
    many = frame.loc[frame.index.repeat(frame["times"])]
    check(found, theirs(many, model, 0.3))
    assert found.report["train"]["rows"] == len(many)


def test_an_exposure_is_the_rate_weighted_by_time(run: Trainer, path: Path, frame: pd.DataFrame) -> None:
    found = run(path, "counts", model="poisson", offset="hours", offset_as="exposure", mode="ssp", **TIGHT)
    rates = frame.assign(counts=frame["counts"] / frame["hours"])
    check(found, theirs(rates, "poisson", 0.0, frame["hours"].to_numpy()))


def test_both_values_count_as_much_where_that_is_asked_for(run: Trainer, path: Path, frame: pd.DataFrame) -> None:
    found = run(
        path, "yes", model="logistic", class_weight="balanced", shrink="ridge", alpha=0.5, test_every=5, **TIGHT
    )
    train = frame[np.arange(ROWS) % 5 != 0]
    late = train["yes"] == "late"
    weight = np.where(late, 0.5 / late.mean(), 0.5 / (1 - late.mean()))
    check(found, theirs(train, "logistic", 0.5, weight))


def test_a_lasso_leaves_out_what_scikit_learn_leaves_out(run: Trainer, path: Path, frame: pd.DataFrame) -> None:
    """Zeros are exact: the penalty comes in by its own operator, and the intercept is no part of it."""
    found = run(path, "yes", model="logistic", shrink="lasso", alpha=40, **TIGHT)
    own = LogisticRegression(C=1 / 40, l1_ratio=1, solver="saga", tol=1e-10, max_iter=100_000)
    own.fit(frame[COLUMNS], frame["yes"] == "late")
    kept = {name for name, value in zip(COLUMNS, np.ravel(own.coef_), strict=True) if abs(value) > 1e-9}
    assert {name for name, value in found.report["coefficients"].items() if value} == kept
    assert 0 < len(kept) < len(COLUMNS)
    check(found, own, within=1e-5)
    assert found.rounds[-1].nonzeros == len(kept)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_weighted_squares_are_scikit_learns(run: Trainer, path: Path, frame: pd.DataFrame, precision: str) -> None:
    knobs = {"features": COLUMNS, "standardize": False, "model": "ridge", "alpha": 2.0, "tolerance": 1e-9}
    found = run(path, "number", weights="worth", mode="local", precision=precision, **knobs)
    weight = frame["worth"] / frame["worth"].mean()
    expected = Ridge(alpha=2.0).fit(frame[COLUMNS], frame["number"], weight)
    check(found, expected, within=1e-5)
    found = run(path, "number", weights="times", weights_are="frequency", precision=precision, **knobs)
    many = frame.loc[frame.index.repeat(frame["times"])]
    check(found, Ridge(alpha=2.0).fit(many[COLUMNS], many["number"]), within=1e-5)


# ------------------------------------------------------------------ the same bits


BITS: dict[str, Any] = {
    "shrink": "elasticnet", "alpha": 0.02, "features": COLUMNS, "weights": "worth", "epochs": 3, "batch_size": 16,
    "shards": 7, "tolerance": 1e-13, "finish_passes": 12,
}  # fmt: skip
LOCAL = {"mode": "local", "local_steps": 3, "compression": "half"}
SYNC = {"mode": "sync", "step_rule": "adam", "compression": "topk"}


@pytest.mark.parametrize("how", [SYNC, LOCAL], ids=["sync", "local"])
@pytest.mark.parametrize("model", TARGETS)
def test_the_same_bits_with_any_number_of_workers_and_after_a_resumption(
    how: dict[str, Any], model: str, run: Trainer, path: Path, engines: Callable[[int], Engine]
) -> None:
    knobs, target = {**BITS, **how, "model": model}, TARGETS[model]
    saving = At(**{f"round{n}": lambda r: r.send("checkpoint") for n in (3, 12)})
    alone = run(path, target, callbacks=[saving], **knobs)
    for workers in (1, 2, 3):
        other = run(path, target, engine=engines(workers), **knobs)
        assert same_bits(alone.w, other.w), workers
        assert alone.report["intercept"] == other.report["intercept"]
    for step, workers in ((3, 2), (12, 0)):
        again = run(path, target, engine=engines(workers), resume=alone.checkpoints.load(step), **knobs)
        assert same_bits(alone.w, again.w), step


@pytest.mark.parametrize("how", [SYNC, LOCAL], ids=["sync", "local"])
def test_a_killed_worker_changes_no_bit(how: dict[str, Any], run: Trainer, path: Path) -> None:
    knobs = {**BITS, **how, "model": "poisson"}
    kill = At(round2=lambda r: r.send("kill_worker", rank=0))
    killed = run(path, "counts", workers=2, callbacks=[kill], **knobs)
    assert killed.events("lost")
    assert same_bits(run(path, "counts", **knobs).w, killed.w)


# ------------------------------------------------------------------ on the way


def test_the_score_of_test_rows_is_the_deviance_explained(run: Trainer, path: Path) -> None:
    for model, target in TARGETS.items():
        found = run(path, target, model=model, features=COLUMNS, test_every=4, weights="worth")
        explained = found.report["outcome"]["test"]["scores"]["deviance_explained"]
        assert found.rounds[-1].validation == pytest.approx(explained, abs=1e-6)
        assert found.rounds[0].loss > found.rounds[-1].loss > 0


def test_another_alpha_on_the_way_leads_to_its_own_optimum(run: Trainer, path: Path, frame: pd.DataFrame) -> None:
    """What that is cannot be known without passes over the rows: it is judged by the slope."""
    other = At(round2=lambda r: r.send("set", alpha=3.0))
    found = run(path, "yes", model="logistic", shrink="ridge", alpha=0.3, callbacks=[other], **TIGHT)
    check(found, theirs(frame, "logistic", 3.0))
    assert found.report["alpha"] == 3.0
    assert found.report["distance_to_optimum"] is None
    assert found.report["slope"] <= 1e-11


def test_what_has_no_penalty_has_no_alpha_to_set(run: Trainer, path: Path) -> None:
    found = run(
        path, "counts", model="poisson", features=COLUMNS, callbacks=[At(round2=lambda r: r.send("set", alpha=1))]
    )
    said = [event.data["outcome"] for event in found.events("command")]
    assert said == ["The poisson model has no penalty, so it has no alpha to set."]


@pytest.mark.parametrize("model", ["poisson", "gamma"])
def test_a_wild_rate_and_far_rows_do_not_break_exponentials(model: str, run: Trainer, tmp_path: Path) -> None:
    """e^eta leaves the doubles beyond 709; one row lies 30 spreads out."""
    random = np.random.default_rng(0)
    x = np.append(random.standard_normal(400), 30.0)
    mean = np.exp(0.1 * x + 1)
    y = random.poisson(mean) if model == "poisson" else random.gamma(1.0, mean) + 0.01
    pd.DataFrame({"x": x, "y": y}).to_csv(tmp_path / "far.csv", index=False)
    found = run(tmp_path / "far.csv", "y", model=model, mode="sync", epochs=3)
    assert found.report["converged"]
    found = run(tmp_path / "far.csv", "y", model=model, mode="sync", epochs=3, learning_rate=50.0, finish_passes=0)
    assert np.isfinite(found.w).all()
    assert not found.report["converged"]


def test_rows_that_are_told_apart_have_no_optimum_and_it_is_said(run: Trainer, tmp_path: Path) -> None:
    x = np.arange(60.0)
    pd.DataFrame({"x": x, "y": np.where(x > 30, "yes", "no")}).to_csv(tmp_path / "apart.csv", index=False)
    found = run(tmp_path / "apart.csv", "y", model="logistic", epochs=2, finish_passes=20)
    assert found.done.cause == "not converged after 20 full passes"
    assert any("no finite optimum" in note for note in found.report["warnings"])
    assert found.report["distance_to_optimum"] is None
    assert run(tmp_path / "apart.csv", "y", model="logistic", shrink="ridge", alpha=1).report["converged"]


def test_patience_stops_by_the_deviance_of_test_rows(run: Trainer, path: Path) -> None:
    found = run(path, "yes", model="logistic", features=COLUMNS, test_every=3, patience=2, epochs=200, tolerance=0)
    assert "no better score on the test rows for 2 epochs" in found.done.cause


def test_a_pause_and_a_stop_leave_a_model(run: Trainer, path: Path) -> None:
    def course(run: Any) -> Any:
        run.send("pause")
        yield from wait_for(lambda: run.server.policy.paused)
        run.send("resume")
        yield

    found = run(path, "counts", model="poisson", features=COLUMNS, callbacks=[Script(course)], epochs=50, tolerance=0)
    assert found.done.state == "stopped"
    assert found.report["outcome"]["loss"] == "poisson"


def test_what_a_gradient_run_cannot_minimise_is_said(run: Trainer, path: Path) -> None:
    with pytest.raises(ConfigError, match="no penalty of a plug-in beside model logistic"):
        run(path, "yes", model="logistic", penalty="group", features=COLUMNS)
