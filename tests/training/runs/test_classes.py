"""Gradient runs of several classes: scikit-learn says where they have to end, exact fits what is said of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression

import shoal
from shoal.engines.base import Engine
from shoal.fitting.classes import fit as fits
from support.tables import same_bits
from support.training import MODES, At, Bench, Trainer

ROWS = 400
COLUMNS = ["a", "b", "c"]
TIGHT: dict[str, Any] = {"model": "multinomial", "features": COLUMNS, "standardize": False, "tolerance": 1e-11}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(4)
    X = random.standard_normal((ROWS, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -1.0]
    scores = X @ random.normal(0, 0.7, (3, 4)) + [0.5, 0.0, -0.8, 0.2] + random.gumbel(size=(ROWS, 4))
    return pd.DataFrame(X, columns=COLUMNS).assign(
        tree=np.array(["fir", "ash", "oak", "yew"])[scores.argmax(axis=1)],
        worth=random.uniform(0.1, 3.0, ROWS), times=random.integers(0, 4, ROWS),
    )  # fmt: skip


@pytest.fixture(scope="module")
def path(place: Path, frame: pd.DataFrame) -> Path:
    target = place / "trees.csv"
    frame.to_csv(target, index=False)
    return target


def theirs(frame: pd.DataFrame, alpha: float, weight: npt.NDArray[Any] | None = None, **more: Any) -> Any:
    found = LogisticRegression(C=1 / alpha, tol=1e-12, max_iter=10_000, **{"solver": "newton-cholesky", **more})
    return found.fit(frame[COLUMNS], frame["tree"], weight)


def check(bench: Bench, expected: Any, within: float = 2e-6) -> None:
    coef = np.asarray(expected.coef_)
    found = np.array(list(bench.report["coefficients"].values())).reshape(coef.shape)
    np.testing.assert_allclose(found, coef, rtol=0, atol=within * np.abs(coef).max())
    ours, theirs = np.array(bench.report["outcome"]["intercepts"]), np.asarray(expected.intercept_)
    np.testing.assert_allclose(ours - ours.mean(), theirs - theirs.mean(), rtol=0, atol=20 * within)  # sums say nothing
    assert bench.report["converged"]
    assert bench.done.cause == "converged"


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_ends_where_scikit_learn_does(mode: str, run: Trainer, path: Path, frame: pd.DataFrame) -> None:
    found = run(path, "tree", **TIGHT, shrink="ridge", alpha=0.3, mode=mode)
    check(found, theirs(frame, 0.3))
    assert found.report["distance_to_optimum"] <= 1e-11
    assert found.rounds[0].distance == pytest.approx(1, abs=0.9)  # it begins far from there, and is known on the way
    assert found.rounds[-1].distance is not None


def test_a_real_table_ends_at_the_exact_optimum(run: Trainer, place: Path) -> None:
    """The wines of scikit-learn: 13 columns, and what is said of the model is what an exact fit says."""
    wines = load_wine(as_frame=True).frame.assign(target=lambda f: f["target"].map({0: "red", 1: "rose", 2: "white"}))
    table = place / "wines.csv"
    wines.to_csv(table, index=False)
    knobs: dict[str, Any] = {"model": "multinomial", "shrink": "ridge", "alpha": 1.0, "test_every": 5}
    found = run(table, "target", **knobs, tolerance=1e-12)
    exact = shoal.fit(str(table), target="target", **knobs)
    coef = np.array(list(exact.report["coefficients_standardized"].values()))
    np.testing.assert_allclose(found.w, coef, rtol=0, atol=1e-6 * np.abs(coef).max())
    ours, known = found.report["outcome"], exact.report["outcome"]
    for part in ("train", "test"):
        assert ours[part]["scores"] == pytest.approx(known[part]["scores"], abs=1e-6)
    assert ours["confusion"] == known["confusion"]
    assert ours["classes"] == known["classes"]


def test_without_a_penalty_the_answer_is_the_one_whose_weights_sum_to_0(
    run: Trainer, path: Path, frame: pd.DataFrame
) -> None:
    """Adam and packed messages leave that way: what is reported is what says the same and sums to 0."""
    found = run(path, "tree", **TIGHT, step_rule="adam", compression="topk", weights="worth")
    own = theirs(frame, 1e-12, (frame["worth"] / frame["worth"].mean()).to_numpy())
    own.coef_ -= own.coef_.mean(axis=0)
    check(found, own, within=1e-5)
    W = np.array(list(found.report["coefficients"].values())).reshape(4, 3)
    np.testing.assert_allclose(W.sum(axis=0), 0, atol=1e-12)


def test_rows_count_for_what_weights_and_classes_say(run: Trainer, path: Path, frame: pd.DataFrame) -> None:
    knobs = {**TIGHT, "shrink": "ridge", "alpha": 0.5}
    found = run(path, "tree", weights="times", weights_are="frequency", mode="local", **knobs)
    check(found, theirs(frame.loc[frame.index.repeat(frame["times"])], 0.5))
    found = run(path, "tree", class_weight="balanced", test_every=5, **knobs)
    train = frame[np.arange(ROWS) % 5 != 0]
    check(found, theirs(train, 0.5, class_weight="balanced"))
    explained = found.report["outcome"]["test"]["scores"]["deviance_explained"]
    assert found.rounds[-1].validation == pytest.approx(explained, abs=1e-6)


@pytest.mark.parametrize(("shrink", "ratio"), [("lasso", 1.0), ("elasticnet", 0.5)])
def test_zeros_are_those_of_scikit_learn(
    shrink: str, ratio: float, run: Trainer, place: Path, frame: pd.DataFrame
) -> None:
    """Of three classes: of four, an L1 penalty leaves open what is added to all weights of a column."""
    frame, path = frame[frame["tree"] != "yew"], place / "three.csv"
    frame.to_csv(path, index=False)
    found = run(path, "tree", **TIGHT, shrink=shrink, alpha=20.0, l1_ratio=0.5)
    own = theirs(frame, 20.0, solver="saga", l1_ratio=ratio)
    check(found, own, within=1e-4)
    ours = np.array(list(found.report["coefficients"].values()))
    kept = np.abs(np.ravel(own.coef_)) > 1e-7
    assert ((ours != 0) == kept).all()
    assert 0 < kept.sum() < len(kept)
    assert found.rounds[-1].nonzeros == kept.sum()


def test_where_weights_are_too_many_for_an_optimum_beforehand_the_slope_decides(
    run: Trainer, path: Path, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "MOST_PARAMETERS", 10)
    for balance in ("none", "balanced"):
        knobs = {**TIGHT, "class_weight": balance}
        found = run(path, "tree", shrink="ridge", alpha=1.0, **knobs)
        check(found, theirs(frame, 1.0, class_weight=None if balance == "none" else balance))
        assert found.report["distance_to_optimum"] is None
        assert found.report["slope"] <= 1e-11
        assert any("the exact optimum is not worked out before the run" in note for note in found.report["warnings"])


# ------------------------------------------------------------------ the same bits


BITS: dict[str, Any] = {
    "model": "multinomial", "shrink": "elasticnet", "alpha": 0.5, "features": COLUMNS, "weights": "worth",
    "class_weight": "balanced", "epochs": 3, "batch_size": 16, "shards": 5, "tolerance": 1e-13, "finish_passes": 12,
}  # fmt: skip
LOCAL = {"mode": "local", "local_steps": 3, "compression": "half"}
SYNC = {"mode": "sync", "step_rule": "adam", "compression": "topk"}


@pytest.mark.parametrize("how", [SYNC, LOCAL], ids=["sync", "local"])
def test_the_same_bits_with_any_number_of_workers_and_after_a_resumption(
    how: dict[str, Any], run: Trainer, path: Path, engines: Callable[[int], Engine]
) -> None:
    saving = At(**{f"round{n}": lambda r: r.send("checkpoint") for n in (3, 12)})
    alone = run(path, "tree", callbacks=[saving], **BITS, **how)
    for workers in (1, 2, 3):
        other = run(path, "tree", engine=engines(workers), **BITS, **how)
        assert same_bits(alone.w, other.w), workers
        assert alone.report["outcome"]["intercepts"] == other.report["outcome"]["intercepts"]
    for step, workers in ((3, 2), (12, 0)):
        again = run(path, "tree", engine=engines(workers), resume=alone.checkpoints.load(step), **BITS, **how)
        assert same_bits(alone.w, again.w), step


def test_a_killed_worker_changes_no_bit(run: Trainer, path: Path) -> None:
    kill = At(round2=lambda r: r.send("kill_worker", rank=0))
    killed = run(path, "tree", workers=2, callbacks=[kill], **BITS, **SYNC)
    assert killed.events("lost")
    assert same_bits(run(path, "tree", **BITS, **SYNC).w, killed.w)


# ------------------------------------------------------------------ on the way


def test_another_alpha_on_the_way_leads_to_its_own_optimum(run: Trainer, path: Path, frame: pd.DataFrame) -> None:
    other = At(round2=lambda r: r.send("set", alpha=3.0))
    found = run(path, "tree", **TIGHT, shrink="ridge", alpha=0.3, callbacks=[other])
    check(found, theirs(frame, 3.0))
    assert found.report["alpha"] == 3.0
    assert found.report["distance_to_optimum"] is None
    assert found.report["slope"] <= 1e-11


def test_a_wild_rate_ends_with_finite_weights(run: Trainer, path: Path) -> None:
    for rate in (1e6, 1e300):
        found = run(path, "tree", model="multinomial", features=COLUMNS, learning_rate=rate, epochs=2, finish_passes=0)
        assert np.isfinite(found.w).all()
        assert not found.report["converged"]


def test_classes_that_are_told_apart_have_no_optimum_and_it_is_said(run: Trainer, tmp_path: Path) -> None:
    x = np.arange(90.0)
    pd.DataFrame({"x": x, "y": np.repeat(["low", "mid", "up"], 30)}).to_csv(tmp_path / "apart.csv", index=False)
    found = run(tmp_path / "apart.csv", "y", model="multinomial", epochs=2, finish_passes=20)
    assert found.done.cause == "not converged after 20 full passes"
    assert any("no finite optimum" in note for note in found.report["warnings"])
    assert found.report["distance_to_optimum"] is None
