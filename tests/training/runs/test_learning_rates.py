"""Learning rates, schedules, clipping and compression in whole runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal.engines.base import Engine
from shoal.errors import Reason
from support.training import EQUAL, MODES, REGRESSION, Bench, Each, Trainer, Vector, data, plain, reference_of

RULES = ("sgd", "momentum", "adagrad", "adam")


# ------------------------------------------------------------------ learning rates


TABLES = [*REGRESSION, "digits"]


@pytest.mark.parametrize(
    ("name", "rule", "mode"),  # every pair of two of them: a table with a rule, a rule with a mode, a mode with a table
    [(name, rule, MODES[(i + j) % len(MODES)]) for i, name in enumerate(TABLES) for j, rule in enumerate(RULES)],
)
def test_the_automatic_rate_does_not_diverge(name: str, rule: str, mode: str, run: Trainer, place: Path) -> None:
    path, target = data(name, place)
    found = run(path, target, step_rule=rule, mode=mode, epochs=2, tolerance=0)
    check_tame(found, path, target)


@pytest.mark.parametrize("mode", ["ssp", "async"])
@pytest.mark.parametrize("rule", RULES)
def test_the_automatic_rate_does_not_diverge_with_stale_gradients(
    rule: str, mode: str, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("concrete", place)
    found = run(path, target, engine=engines(3), step_rule=rule, mode=mode, epochs=3, tolerance=0)
    check_tame(found, path, target)


def check_tame(found: Bench, path: Path, target: str) -> None:
    y = pd.read_csv(path)[target].dropna()
    at_zero = float(y.var(ddof=0)) / 2
    losses = np.array([record.loss for record in found.rounds])
    assert np.isfinite(losses).all()
    assert losses.max() < 3 * losses[0]
    assert losses[-1] < at_zero
    assert found.done.state == "finished"


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_huge_rate_stops_the_run_with_the_last_good_weights(
    mode: str, workers: int, run: Trainer, place: Path, engines: Callable[[int], Engine]
) -> None:
    path, target = data("generated", place)
    found = run(path, target, engine=engines(workers), mode=mode, learning_rate=50.0, epochs=400, batch_size=8)
    assert found.done.state == found.report["state"] == "stopped"
    assert found.done.reason == found.report["reason"] == Reason.DIVERGED
    assert "diverged" in found.done.cause
    assert "learning rate of 50" in found.done.cause
    reference = reference_of(path, target, found)
    assert np.isfinite(found.w).all()
    assert reference.value(found.w) <= reference.value(np.zeros(len(found.w)))
    assert not found.report["converged"]


def test_weights_that_overflow_are_no_model(run: Trainer, place: Path) -> None:
    path, target = data("generated", place)
    found = run(path, target, learning_rate=1e200, epochs=50, batch_size=8)
    assert found.done.state == "stopped"
    assert np.isfinite(found.w).all()


def schedules(epochs: int) -> dict[str, tuple[dict[str, Any], Callable[[float], float]]]:
    return {
        "constant": ({}, lambda e: 1.0),
        "step": ({"decay": 0.3, "decay_every": 2.0}, lambda e: 0.3 ** (e // 2)),
        "exponential": ({"decay": 0.3, "decay_every": 2.0}, lambda e: 0.3 ** (e / 2)),
        "inverse": ({"decay": 0.25, "decay_every": 1.0}, lambda e: 1 / (1 + 3 * e)),
        "cosine": ({}, lambda e: (1 + math.cos(math.pi * e / epochs)) / 2),
    }


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "sync") for name in schedules(1)), ("cosine", "ssp"), ("inverse", "local")]
)
def test_the_recorded_rate_follows_the_schedule(name: str, mode: str, run: Trainer, place: Path) -> None:
    epochs, rate = 6, 0.01
    knobs, expected = schedules(epochs)[name]
    found = run(
        plain(place), "y", **EQUAL, batch_size=20, local_steps=1, epochs=epochs, tolerance=0, learning_rate=rate,
        schedule=name, mode=mode, **knobs,
    )  # fmt: skip
    an_epoch = len(found.rounds) // epochs
    assert an_epoch == (16 if mode == "ssp" else 4)
    begun = [(record.round - 1) / an_epoch for record in found.rounds]
    assert [r.learning_rate for r in found.rounds] == pytest.approx([rate * expected(e) for e in begun], rel=1e-12)
    assert [r.epoch for r in found.rounds] == pytest.approx([(n + 1) / an_epoch for n in range(len(begun))])


def test_warm_up_rises_to_the_rate(run: Trainer, place: Path) -> None:
    knobs = {"batch_size": 20, "epochs": 4, "tolerance": 0, "learning_rate": 0.01, "warmup": 2}
    found = run(plain(place), "y", **EQUAL, **knobs)
    rates = [record.learning_rate / 0.01 for record in found.rounds]
    assert rates == pytest.approx([min(1.0, 0.1 + 0.9 * n / 8) for n in range(16)])


def test_clipped_gradients_make_steps_of_that_length(run: Trainer, place: Path) -> None:
    weights: list[Vector] = [np.zeros(4)]
    watch = Each(lambda r, _: weights.append(r.weights()))
    found = run(
        plain(place), "y", **EQUAL, batch_size=20, epochs=3, tolerance=0, learning_rate=0.3, clip=4.0, callbacks=[watch]
    )
    moved = [float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(weights)][: len(found.rounds)]
    norms = [record.gradient_norm for record in found.rounds]
    assert moved == pytest.approx([0.3 * min(norm, 4.0) for norm in norms], rel=1e-9)
    assert max(norms) > 4 > min(norms)


# ------------------------------------------------------------------ compression


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("compression", "a_message"), [("none", 320), ("topk", 8 + 8 * 4), ("half", 8 + 2 * 40)])
def test_compression_sends_as_many_bytes_as_it_says_and_the_finish_reaches_the_optimum(
    compression: str, a_message: int, mode: str, run: Trainer, place: Path
) -> None:
    path = plain(place, 320, 40)
    found = run(path, "y", **EQUAL, compression=compression, mode=mode, epochs=3, batch_size=40, local_steps=2)
    messages = {"local": 12}.get(mode, 24)  # 4 shards x 3 epochs x 1 or 2 tasks
    assert sum(record.bytes_raw for record in found.steps) == messages * 320
    assert sum(record.bytes_sent for record in found.steps) == messages * a_message
    finish = [record for record in found.rounds if record.phase == "finish"]
    assert all(record.bytes_sent == record.bytes_raw == 4 * 320 for record in finish)
    assert reference_of(path, "y", found).distance_of(found.report) <= 1e-6


@pytest.mark.parametrize("compression", ["topk", "half"])
def test_compressed_steps_come_near_the_optimum_by_themselves(compression: str, run: Trainer, place: Path) -> None:
    """What is left out comes later: without that, the largest of six values alone would never get there."""
    path, target = data("generated", place)
    knobs = {"epochs": 60, "tolerance": 0, "batch_size": 1000}
    found = run(path, target, compression=compression, **knobs)
    assert reference_of(path, target, found).distance_of(found.report) <= 1e-3


@pytest.mark.parametrize("mode", MODES)
def test_the_automatic_rate_waits_for_what_topk_sends_later(mode: str, run: Trainer, place: Path) -> None:
    """One value of ten at a time: applied as a whole, what has added up meanwhile would go further astray each time."""
    path = plain(place, 4000, 10)
    knobs = {"epochs": 120, "tolerance": 0, "batch_size": 2000, "local_steps": 2, "shards": 1}
    found = run(path, "y", compression="topk", mode=mode, **knobs)
    assert found.done.state == "finished"
    assert reference_of(path, "y", found).distance_of(found.report) <= 1e-3


def test_a_run_that_diverged_is_sent_to_the_automatic_rate_only_from_another(run: Trainer, place: Path) -> None:
    path, target = data("generated", place)
    found = run(path, target, learning_rate=50.0, epochs=400, batch_size=8)
    assert found.done.cause.endswith("Choose a smaller learning rate, or auto")
