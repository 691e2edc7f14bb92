"""When a run stops: patience, epochs, a time limit, convergence."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal.engines.base import Engine
from shoal.errors import ConfigError, Reason
from shoal.metrics import Round
from shoal.training.conductor import Conductor
from support.training import EQUAL, MODES, Bench, Each, Trainer, Vector, plain, reference_of, table, wampler


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_patience_stops_early_with_the_best_weights(mode: str, run: Trainer, tmp_path: Path) -> None:
    """More columns than the noise allows: training on makes the score on other rows worse."""
    random = np.random.default_rng(2)
    X = random.standard_normal((120, 50))
    path = table(tmp_path / "noise.csv", X, X[:, 0] + 3 * random.standard_normal(120))
    weights: dict[int, Vector] = {}
    watch = Each(lambda r, record: weights.setdefault(record.round, r.weights()))
    knobs: dict[str, Any] = {"test_every": 2, "patience": 3, "epochs": 500, "batch_size": 1000, "mode": mode}
    found = run(path, "y", callbacks=[watch], **knobs)
    assert (found.done.state, found.done.cause) == ("finished", "no better score on the test rows for 3 epochs")
    assert found.done.reason == Reason.NO_BETTER_SCORE
    assert 3 < found.report["epochs"] < 100
    held = np.arange(120) % 2 == 0
    y = pd.read_csv(path)["y"].to_numpy()

    def score(w: Vector) -> float:
        """R2 on the test rows of weights of the standardised columns."""
        Z = (X - X[~held].mean(0)) / X[~held].std(0)
        left = y[held] - y[~held].mean() - Z[held] @ w
        return 1 - float(left @ left) / float(((y[held] - y[held].mean()) ** 2).sum())

    scores = {number: score(w) for number, w in weights.items() if number < found.report["rounds"]}
    ends = {number: value for number, value in scores.items() if weights_of_an_epoch(found, number)}
    assert score(found.w) == pytest.approx(max(ends.values()), abs=1e-12)
    assert found.report["test"]["r2"] == pytest.approx(score(found.w), abs=1e-9)
    assert max(ends, key=lambda n: ends[n]) < found.report["rounds"]
    recorded = {r.round: r.validation for r in found.rounds}
    for number, value in ends.items():
        assert recorded[number] == pytest.approx(value, abs=1e-9)


def weights_of_an_epoch(found: Bench, number: int) -> bool:
    return next(r.epoch for r in found.rounds if r.round == number).is_integer()


def test_patience_without_test_rows_is_refused(run: Trainer, place: Path) -> None:
    with pytest.raises(ConfigError, match="Expected test rows"):
        run(plain(place), "y", patience=2)


@pytest.mark.parametrize("mode", MODES)
def test_epochs_alone_make_their_steps_and_no_more(mode: str, run: Trainer, place: Path) -> None:
    found = run(plain(place), "y", **EQUAL, mode=mode, epochs=5, tolerance=0, batch_size=20, local_steps=2)
    assert (found.done.state, found.done.cause) == ("finished", "all 5 epochs are done")
    assert {record.phase for record in found.rounds} == {"steps"}
    assert found.report["epochs"] == found.rounds[-1].epoch == 5
    assert found.report["rounds"] == {"sync": 20, "local": 10}.get(mode, 80)
    assert found.report["ledger"]["batches"] == {"local": 40}.get(mode, 80)


def test_a_time_limit_ends_a_run_in_either_phase(run: Trainer, tmp_path: Path, place: Path) -> None:
    def at(phase: str) -> Each:
        """Lets the time pass in the seventh round of that phase."""
        seen = itertools.count(1)

        def look(r: Conductor, record: Round) -> None:
            if record.phase == phase and next(seen) == 7:
                r.clock = lambda: 1001.0

        return Each(look)

    knobs = {"max_seconds": 1000, "tolerance": 1e-300}
    steps = run(plain(place), "y", epochs=1_000_000, callbacks=[at("steps")], **knobs)
    hard = table(tmp_path / "hard.csv", *wampler(5))
    finish = run(hard, "y", epochs=1, finish_passes=100_000_000, callbacks=[at("finish")], **knobs)
    for found, phase in ((steps, "steps"), (finish, "finish")):
        assert (found.done.state, found.done.cause) == ("finished", "the time limit of 1000 s is reached")
        assert found.done.reason == Reason.TIME_LIMIT
        assert 7 <= sum(record.phase == phase for record in found.rounds) <= 9  # and what was in hand
        assert found.rounds[-1].phase == phase
    assert not finish.report["converged"]


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_converges_by_steps_needs_no_finish(mode: str, run: Trainer, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    X = np.linalg.qr(random.standard_normal((256, 3)))[0]
    path = table(tmp_path / "easy.csv", X, X @ [3.0, -2.0, 1.0])
    found = run(path, "y", mode=mode, epochs=500, batch_size=1000)
    assert (found.done.state, found.done.cause, found.report["converged"]) == ("finished", "converged", True)
    assert {record.phase for record in found.rounds} == {"steps"}
    assert found.report["epochs"] < 500
    assert reference_of(path, "y", found).distance_of(found.report) <= 1e-6


def test_weights_that_converged_are_those_of_the_model_whatever_was_still_on_its_way(
    run: Trainer, tmp_path: Path, engines: Callable[[int], Engine]
) -> None:
    random = np.random.default_rng(4)
    X = random.standard_normal((256, 3))
    path = table(tmp_path / "easy.csv", X, X @ [3.0, -2.0, 1.0] + 0.01 * random.standard_normal(256))
    found = run(path, "y", engine=engines(3), mode="async", epochs=3000, batch_size=16, tolerance=1e-4)
    assert found.done.cause == "converged"
    assert {record.phase for record in found.rounds} == {"steps"}
    assert found.report["converged"]
    assert reference_of(path, "y", found).distance_of(found.report) <= 1e-4
