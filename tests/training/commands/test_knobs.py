"""Knobs turned while a run goes on: what they do is read from the rounds that come after, not from what they say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from shoal.engines.base import Engine
from shoal.metrics import Round
from shoal.training.conductor import Conductor
from support.tables import same_bits
from support.training import (
    ENDLESS,
    KNOBS,
    MODES,
    NAMES,
    At,
    Bench,
    Each,
    Post,
    Reference,
    Script,
    Trainer,
    Vector,
    done_at,
    opened,
    wait_for,
)


@pytest.fixture(scope="module")
def three() -> Iterator[Engine]:
    """Workers for tests that leave them as they are."""
    with opened(3) as engine:
        yield engine


def split(bench: Bench, at: int) -> tuple[list[Round], list[Round]]:
    before, after = [r for r in bench.rounds if r.round <= at], [r for r in bench.rounds if r.round > at]
    assert before
    assert after
    return before, after


@pytest.mark.parametrize("mode", ["sync", "ssp", "async"])
def test_a_learning_rate_moves_the_weights_from_the_next_round_on(
    mode: str, run: Trainer, bench: Bench, post: Post, data: Path
) -> None:
    weights: list[Vector] = [np.zeros(6)]
    watch = Each(lambda r, _: weights.append(r.weights()))
    orders = At(round9=post("set", learning_rate=0.003), round20=post("set", learning_rate="auto"))
    equal = {**KNOBS, "shards": 5, "partition": "contiguous", "batch_size": 16}  # 400 rows: no short batches
    run(data, "y", bench=bench, mode=mode, callbacks=[orders, watch], **equal)
    first, second = done_at(bench), done_at(bench, 1)
    automatic = bench.report["resolved"]["learning_rate"]
    assert automatic != pytest.approx(0.003)
    told = [(event.data["arguments"], event.data["before"]) for event in bench.events("command")]
    assert told == [
        ({"learning_rate": 0.003}, {"learning_rate": automatic}), ({"learning_rate": "auto"}, {"learning_rate": 0.003}),
    ]  # fmt: skip
    for record, old, new in zip(bench.rounds, weights, weights[1:], strict=False):
        expected = 0.003 if first < record.round <= second else automatic
        assert record.learning_rate == pytest.approx(expected)
        assert np.linalg.norm(new - old) == pytest.approx(expected * record.gradient_norm, rel=1e-9)


def test_a_learning_rate_reaches_the_steps_of_mode_local(run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    weights: list[Vector] = [np.zeros(6)]
    watch = Each(lambda r, _: weights.append(r.weights()))
    run(data, "y", bench=bench, mode="local", callbacks=[At(round6=post("set", learning_rate=1e-12)), watch], **KNOBS)
    moved = [float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(weights)]
    at = done_at(bench)
    assert max(moved[at + 1 :]) < 1e-9 < min(moved[:at])


@pytest.mark.parametrize("mode", MODES)
def test_another_alpha_is_another_optimum(mode: str, run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    weights: dict[int, Vector] = {}
    watch = Each(lambda r, record: weights.__setitem__(record.round, r.weights()))
    knobs = {**KNOBS, "tolerance": 1e-6, "model": "lasso", "alpha": 0.05, "mode": mode}
    run(data, "y", bench=bench, callbacks=[At(round8=post("set", alpha=2.5)), watch], **knobs)
    old, new = (Reference(data, "y", NAMES, model="lasso", alpha=alpha) for alpha in (0.05, 2.5))
    before, after = split(bench, done_at(bench))
    for reference, records in ((old, before), (new, after)):
        for record in records:
            w = weights[record.round]
            assert record.alpha == reference.alpha
            assert record.loss == pytest.approx(reference.value(w), rel=1e-9)
            assert record.distance == pytest.approx(reference.distance(w), abs=1e-9)
    assert new.distance_of(bench.report) <= 1e-6 < old.distance_of(bench.report)
    assert {name for name, w in bench.report["coefficients"].items() if w} == new.kept != old.kept
    assert (bench.report["alpha"], bench.report["converged"]) == (2.5, True)
    assert bench.trained.model.config["alpha"] == 2.5


def test_alpha_may_change_in_the_finish_too(run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    knobs = {**KNOBS, "tolerance": 1e-6, "model": "ridge", "alpha": 1.0, "epochs": 0}
    run(data, "y", bench=bench, callbacks=[At(round4=post("set", alpha=500.0))], **knobs)
    assert Reference(data, "y", NAMES, model="ridge", alpha=500.0).distance_of(bench.report) <= 1e-6
    assert bench.report["converged"]


def test_resumed_runs_keep_what_was_set(run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    knobs = {**KNOBS, "model": "ridge", "alpha": 1.0, "compression": "half"}
    orders = At(round5=post("set", learning_rate=0.004, alpha=50.0, compression="topk"), round12=post("checkpoint"))
    run(data, "y", bench=bench, callbacks=[orders], **knobs)
    at = done_at(bench, 1)
    again = run(data, "y", resume=bench.checkpoints.load(at), **knobs)
    assert same_bits(again.w, bench.w)
    assert {(r.learning_rate, r.alpha, r.bytes_sent) for r in again.rounds} == {
        (r.learning_rate, r.alpha, r.bytes_sent) for r in bench.rounds if r.round > at
    }
    assert again.report["alpha"] == 50.0


def test_a_bound_of_staleness_holds_from_then_on(run: Trainer, bench: Bench, data: Path, three: Engine) -> None:
    def course(r: Conductor) -> Iterator[None]:
        while len(r.server.workers) < 3 or not any(record.staleness > 1 for record in seen):
            yield
        for bound in (1, 0):
            bench.storage.post("set", {"staleness": bound})
            yield from wait_for(lambda: all(command.outcome for command in bench.storage.commands()))
            for _ in range(60):
                yield

    seen: list[Round] = []
    watch = Each(lambda _, record: seen.append(record))
    run(data, "y", bench=bench, engine=three, mode="async", callbacks=[watch, Script(course)], **ENDLESS)
    one, none = done_at(bench), done_at(bench, 1)
    in_hand = 3  # updates that were on their way
    assert max(r.staleness for r in bench.rounds if r.round <= one) > 1
    assert max(r.staleness for r in bench.rounds if one + in_hand < r.round <= none) <= 1
    assert max(r.staleness for r in bench.rounds if none + in_hand < r.round) == 0
    assert bench.rounds[-1].round > none + in_hand + 40


def test_ssp_never_exceeds_its_bound(run: Trainer, data: Path, three: Engine) -> None:
    found = run(data, "y", engine=three, mode="ssp", staleness=1, **{**KNOBS, "epochs": 12})
    assert max(record.staleness for record in found.rounds) <= 1


@pytest.mark.parametrize("mode", MODES)
def test_compression_changes_the_bytes(mode: str, run: Trainer, bench: Bench, post: Post, data: Path) -> None:
    orders = At(
        round5=post("set", compression="topk"), round11=post("set", compression="half"),
        round17=post("set", compression="none"),
    )  # fmt: skip
    run(data, "y", bench=bench, mode=mode, callbacks=[orders], **{**KNOBS, "tolerance": 1e-6})
    topk, half, none = (done_at(bench, i) for i in range(3))
    sizes = {"none": 48, "topk": 8 + 8, "half": 8 + 12}  # of 6 values
    edges = [(0, topk, "none"), (topk + 1, half, "topk"), (half + 1, none, "half"), (none + 1, 10**9, "none")]
    for first, last, name in edges:  # one round was given out before
        between = [r for r in bench.rounds if first < r.round <= last]
        assert between
        assert {r.bytes_sent / r.bytes_raw for r in between} == {sizes[name] / 48}
    assert Reference(data, "y", NAMES).distance_of(bench.report) <= 1e-6
