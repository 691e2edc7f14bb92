"""What an exact answer takes is planned before it is taken: refused with another way, or within the plan."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal as api
from shoal.api import cv_estimators, estimators
from shoal.errors import OutOfMemory
from shoal.fitting import exact, summing
from shoal.metrics import Timings
from shoal.settings import limits
from shoal.settings.config import RunConfig
from shoal.settings.limits import SOLVING
from shoal.solve.moments import Moments
from shoal.tasks.train import coordinated, look, train
from shoal.tasks.tune import TuningRequest, tune_with
from shoal.whatif import wide_choice
from shoal.whatif.folds import FoldChoice
from support.tables import written

WIDTH, FREE = 300, 16 * 8 * 300 * 301  # a machine on which sixteen matrices of all columns are free


def wide(folder: Path, rows: int, width: int = WIDTH) -> Path:
    values = np.random.default_rng(3).standard_normal((rows, width)).round(3)
    values[:, 1] = np.abs(values[:, 1]) + 0.1  # can be weights
    head = ",".join(["y", *(f"x{i}" for i in range(1, width))])
    return written(folder, "\n".join([head, *(",".join(map(str, row)) for row in values.tolist())]) + "\n")


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A table on a machine with little memory, where nothing may be summed."""
    path = wide(tmp_path, 60)
    look(RunConfig(file=str(path)))
    for module in (exact, summing, estimators, cv_estimators):
        monkeypatch.setattr(module, "available_memory", lambda: FREE)

    def summed(X: Any) -> Moments:
        raise AssertionError("memory was taken")

    monkeypatch.setattr(Moments, "of", summed)
    return path


def study(config: RunConfig) -> None:
    """What the command `tune` and the Tune page begin with."""
    with coordinated(config) as coordinator:
        summing.make_study(coordinator, coordinator.open(config), config, FoldChoice.parse(5, "row"))


WAYS: dict[str, Callable[[RunConfig], Any]] = {
    "train": train,
    "study": study,
    "fit": lambda config: api.fit(config.file, config.target),
    "path": lambda config: api.path(config.file, config.target),
    "estimator": lambda config: api.Ridge().fit(np.ones((5, WIDTH)), np.ones(5)),
    "estimator with folds": lambda config: api.RidgeCV().fit(np.ones((5, WIDTH)), np.ones(5)),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_would_not_fit_is_refused_before_memory_is_taken(way: str, crowded: Path) -> None:
    with pytest.raises(
        OutOfMemory, match=r"exact solver needs .* MB for matrices of .* fewer columns or more memory\.$"
    ):
        WAYS[way](RunConfig(file=str(crowded), target="y", test_every=5))


@pytest.mark.parametrize(("knobs", "steps"), [({}, True), ({"weights": "x1"}, False), ({"solver": "gradient"}, False)])
def test_gradient_steps_are_named_only_where_they_are_another_way(
    crowded: Path, monkeypatch: pytest.MonkeyPatch, knobs: dict[str, Any], steps: bool
) -> None:
    """They need matrices of all columns too where these are few, know no weights, and are no way out of themselves."""
    monkeypatch.setattr(limits, "MOST_EXACT", WIDTH - 10)
    monkeypatch.setattr(limits, "MANY_COLUMNS", WIDTH)
    config = RunConfig(file=str(crowded), target="y", test_every=5, **knobs)
    with pytest.raises(OutOfMemory) as told, coordinated(config) as coordinator:
        exact.prepare(coordinator, coordinator.open(config), config, Timings())
    assert ("--solver gradient" in str(told.value)) == steps


def tuned(config: RunConfig, request: TuningRequest) -> int:
    """The most bytes that were held for it."""
    with coordinated(config) as coordinator:
        tracemalloc.start()
        try:
            tune_with(coordinator, config, request, Timings())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    ("model", "ratios", "points"), [("ridge", None, 60), ("lasso", None, 3), ("elasticnet", [0.3, 0.6, 0.9], 20)]
)
def test_a_choice_of_penalty_from_rows_stays_within_its_plan(
    model: str, ratios: list[float] | None, points: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no more memory than that, no more folds than planned are on their way at a time."""
    config = RunConfig(file=str(wide(tmp_path, 80, 2500)), target="y", model=model)
    look(config)
    room = limits.tuning_bytes(80, 2500, points, len(ratios or [1]))
    monkeypatch.setattr(wide_choice, "available_memory", lambda: room / limits.SHARE_FOR_EXACT)
    peak = tuned(config, TuningRequest(folds=3, l1_ratio=ratios, n_alphas=points))
    assert peak < limits.tuning_bytes(80, 2500, points, len(ratios or [1])) + (8 << 20)  # and what is said of columns


def test_a_choice_of_penalty_that_would_not_fit_is_refused_with_what_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(file=str(wide(tmp_path, 40, 600)), target="y", model="ridge")
    look(config)
    room = limits.tuning_bytes(40, 599, 50)
    monkeypatch.setattr(wide_choice, "available_memory", lambda: room / limits.SHARE_FOR_EXACT)
    assert tuned(config, TuningRequest(folds=3, n_alphas=50))
    with pytest.raises(OutOfMemory, match=r"path of 100 penalties for 599 columns of 40 rows .* fewer alphas"):
        tuned(config, TuningRequest(folds=3))
    with pytest.raises(OutOfMemory, match="path of 100 penalties"):
        api.path(config.file, "y", model="ridge")
    monkeypatch.setattr(wide_choice, "available_memory", lambda: 0)
    with pytest.raises(OutOfMemory, match=r"may be used\. Use fewer columns or more memory\."):
        tuned(config, TuningRequest(folds=3))


@pytest.mark.parametrize("rows", [150, 900], ids=["fewer rows than columns", "more rows"])
@pytest.mark.parametrize("model", ["linear", "ridge", "lasso", "elasticnet"])
def test_an_exact_fit_stays_within_its_plan(model: str, rows: int, tmp_path: Path) -> None:
    config = RunConfig(file=str(wide(tmp_path, rows, 500)), target="y", model=model, alpha=0.1, test_every=5)
    look(config)
    tracemalloc.start()
    try:
        train(config)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (2 + SOLVING) * 8 * 500 * 501 + (8 << 20)  # and the rows at hand
