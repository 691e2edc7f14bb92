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
from shoal.settings.config import RunConfig
from shoal.settings.limits import SOLVING
from shoal.solve.moments import Moments
from shoal.tasks.train import coordinated, look, train
from shoal.whatif.folds import FoldChoice
from support.tables import written

WIDTH, FREE = 300, 16 * 8 * 300 * 301  # a machine on which sixteen matrices of all columns are free


def wide(folder: Path, rows: int, width: int = WIDTH) -> Path:
    values = np.random.default_rng(3).standard_normal((rows, width)).round(3)
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
    with pytest.raises(OutOfMemory, match=r"exact solver needs .* MB for matrices of .*gradient"):
        WAYS[way](RunConfig(file=str(crowded), target="y", test_every=5))


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
