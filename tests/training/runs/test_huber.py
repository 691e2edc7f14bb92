"""Gradient runs of Huber models: they end at the line that the exact fit and scikit-learn find together with a scale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.linear_model import HuberRegressor

import shoal
from shoal.engines.base import Engine
from shoal.errors import ConfigError
from support.tables import same_bits, shared
from support.training import MODES, At, Trainer

ROWS = 400
COLUMNS = ["a", "b", "c"]
TIGHT: dict[str, Any] = {"model": "huber", "features": COLUMNS, "standardize": False, "tolerance": 1e-11}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """One row in ten is far off."""
    random = np.random.default_rng(6)
    X = random.standard_normal((ROWS, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -1.0]
    y = X @ [2.0, -1.0, 3.0] + 5.0 + random.standard_normal(ROWS)
    y[::10] += random.uniform(20, 90, len(y[::10]))
    return pd.DataFrame(X, columns=COLUMNS).assign(
        y=y, worth=random.uniform(0.1, 3.0, ROWS), times=random.integers(0, 4, ROWS)
    )


@pytest.fixture(scope="module")
def path(place: Path, frame: pd.DataFrame) -> Path:
    target = place / "far.csv"
    frame.to_csv(target, index=False)
    return target


def theirs(frame: pd.DataFrame, alpha: float, weight: npt.NDArray[Any] | None = None) -> Any:
    return HuberRegressor(alpha=alpha, tol=1e-10, max_iter=10_000).fit(frame[COLUMNS], frame["y"], weight)


def check(report: dict[str, Any], expected: Any) -> None:
    """Theirs are good to about five digits, whatever tolerance is asked for."""
    found = [report["coefficients"][name] for name in COLUMNS]
    np.testing.assert_allclose(found, expected.coef_, rtol=0, atol=1e-4)
    assert report["intercept"] == pytest.approx(expected.intercept_, abs=1e-4)
    assert report["outcome"]["parameters"]["sigma"] == pytest.approx(expected.scale_, rel=1e-4)
    assert report["converged"]


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_ends_at_the_line_and_scale_of_scikit_learn(
    mode: str, run: Trainer, path: Path, frame: pd.DataFrame
) -> None:
    found = run(path, "y", **TIGHT, shrink="ridge", alpha=0.5, mode=mode)
    check(found.report, theirs(frame, 0.5))
    assert found.report["distance_to_optimum"] <= 1e-11
    assert found.rounds[-1].distance is not None


def test_rows_count_for_what_their_weights_say(run: Trainer, path: Path, frame: pd.DataFrame) -> None:
    found = run(path, "y", **TIGHT, weights="times", weights_are="frequency", mode="local", compression="topk")
    check(found.report, theirs(frame.loc[frame.index.repeat(frame["times"])], 0.0))
    found = run(path, "y", **TIGHT, weights="worth", step_rule="adam")
    check(found.report, theirs(frame, 0.0, (frame["worth"] / frame["worth"].mean()).to_numpy()))


@pytest.mark.parametrize("knobs", [{}, {"shrink": "elasticnet", "alpha": 20.0}, {"intercept": False}], ids=str)
def test_a_real_table_ends_at_the_exact_fit_and_says_the_same(knobs: dict[str, Any], run: Trainer) -> None:
    table = shared("data", "regression", "concrete.csv")
    knobs = {"model": "huber", "test_every": 5, **knobs}
    found = run(table, "strength", **knobs, tolerance=1e-13, finish_passes=50_000)
    exact = shoal.fit(str(table), target="strength", **knobs)
    coef = np.array(list(exact.report["coefficients_standardized"].values()))
    np.testing.assert_allclose(found.w, coef, rtol=0, atol=1e-6 * np.abs(coef).max())
    assert ((found.w != 0) == (coef != 0)).all()
    ours, known = found.report["outcome"], exact.report["outcome"]
    assert ours["parameters"] == pytest.approx(known["parameters"], rel=1e-9)
    assert ours["dispersion"] == pytest.approx(known["dispersion"], rel=1e-6)
    for part in ("train", "test"):
        assert ours[part]["scores"] == pytest.approx(known[part]["scores"], rel=1e-6)
    assert found.rounds[-1].validation == pytest.approx(ours["test"]["scores"]["loss_explained"], abs=1e-9)
    assert not any("lie on the line" in note for note in found.report["warnings"])


def test_single_precision_keeps_the_digits_of_a_target_far_from_0(
    run: Trainer, path: Path, frame: pd.DataFrame
) -> None:
    far = path.with_name("aloft.csv")
    frame.assign(y=frame["y"] + 1e7).to_csv(far, index=False)
    near, aloft = (run(place, "y", **{**TIGHT, "tolerance": 1e-8}, precision="float32") for place in (path, far))
    assert aloft.report["converged"]
    np.testing.assert_allclose(aloft.w, near.w, rtol=0, atol=1e-4)
    assert aloft.report["intercept"] - 1e7 == pytest.approx(near.report["intercept"], abs=1e-3)


def test_a_line_that_rows_lie_on_has_no_scale_and_is_refused_in_words(run: Trainer, tmp_path: Path) -> None:
    x = np.arange(60.0)
    pd.DataFrame({"x": x, "y": 2 * x + 1}).to_csv(tmp_path / "line.csv", index=False)
    with pytest.raises(ConfigError, match="Expected residuals that spread about the line"):
        run(tmp_path / "line.csv", "y", model="huber")


# ------------------------------------------------------------------ the same bits


BITS: dict[str, Any] = {
    "model": "huber", "shrink": "elasticnet", "alpha": 5.0, "features": COLUMNS, "weights": "worth", "epochs": 3,
    "batch_size": 16, "shards": 5, "tolerance": 1e-13, "finish_passes": 12,
}  # fmt: skip
LOCAL = {"mode": "local", "local_steps": 3, "compression": "half"}
SYNC = {"mode": "sync", "step_rule": "adam", "compression": "topk"}


@pytest.mark.parametrize("how", [SYNC, LOCAL], ids=["sync", "local"])
def test_the_same_bits_with_any_number_of_workers_and_after_a_resumption(
    how: dict[str, Any], run: Trainer, path: Path, engines: Callable[[int], Engine]
) -> None:
    saving = At(**{f"round{n}": lambda r: r.send("checkpoint") for n in (3, 12)})
    alone = run(path, "y", callbacks=[saving], **BITS, **how)
    for workers in (1, 2, 3):
        other = run(path, "y", engine=engines(workers), **BITS, **how)
        assert same_bits(alone.w, other.w), workers
        assert alone.report["intercept"] == other.report["intercept"]
    for step, workers in ((3, 2), (12, 0)):
        again = run(path, "y", engine=engines(workers), resume=alone.checkpoints.load(step), **BITS, **how)
        assert same_bits(alone.w, again.w), step


def test_a_killed_worker_changes_no_bit(run: Trainer, path: Path) -> None:
    kill = At(round2=lambda r: r.send("kill_worker", rank=0))
    killed = run(path, "y", workers=2, callbacks=[kill], **BITS, **SYNC)
    assert killed.events("lost")
    assert same_bits(run(path, "y", **BITS, **SYNC).w, killed.w)


def test_another_alpha_on_the_way_is_minimised_at_the_scale_of_the_first(run: Trainer, path: Path) -> None:
    found = run(
        path, "y", **TIGHT, shrink="ridge", alpha=0.5, callbacks=[At(round2=lambda r: r.send("set", alpha=90.0))]
    )
    assert found.report["slope"] <= 1e-11
    assert found.report["distance_to_optimum"] is None
    first = shoal.fit(
        str(path), target="y", model="huber", features=COLUMNS, standardize=False, shrink="ridge", alpha=0.5
    )
    sigma = first.report["outcome"]["parameters"]["sigma"]
    assert found.report["outcome"]["parameters"]["sigma"] == pytest.approx(sigma, rel=1e-9)
