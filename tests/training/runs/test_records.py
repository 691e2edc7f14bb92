"""What a run puts on record adds up."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal.engines.base import Engine
from shoal.metrics import HISTOGRAMS, Round
from shoal.training.conductor import Conductor
from support.tables import same_bits
from support.training import (
    EQUAL,
    MODES,
    At,
    Bench,
    Each,
    Reference,
    Trainer,
    Vector,
    data,
    generated,
    plain,
    reference_of,
)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", MODES)
def test_records_add_up(mode: str, workers: int, run: Trainer, place: Path, engines: Callable[[int], Engine]) -> None:
    path, target = data("generated", place)
    rows: dict[int, int] = {}

    def count(r: Conductor, record: Round) -> None:
        rows[record.round] = sum(worker.rows for worker in r.server.workers.values())

    weights: dict[int, Vector] = {}
    watch = [Each(count), Each(lambda r, record: weights.__setitem__(record.round, r.weights()))]
    knobs: dict[str, Any] = {"model": "lasso", "alpha": 0.2, "test_every": 5}
    found = run(path, target, engine=engines(workers), mode=mode, epochs=3, callbacks=watch, **knobs)
    rounds = found.rounds
    assert [record.round for record in rounds] == list(range(1, found.report["rounds"] + 1))
    assert all(a.epoch < b.epoch and a.seconds <= b.seconds for a, b in itertools.pairwise(rounds))
    reference = reference_of(path, target, found, **knobs)
    assert rows[rounds[-1].round] == reference.n * found.report["epochs"]
    assert rows[found.steps[-1].round] == reference.n * 3
    spans = np.diff([record.seconds for record in rounds])
    shown = sum(r.rows_per_second * span for r, span in zip(rounds[1:], spans, strict=True))
    assert shown == pytest.approx(reference.n * found.report["epochs"] - rows[1], rel=1e-6)
    for record in rounds:
        for share in (record.read, record.compute, record.wait, record.apply):
            assert 0 <= share <= 1
        assert record.read + record.compute + record.wait == pytest.approx(1, abs=1e-9) or record.wait == 0
        w = weights[record.round]
        assert record.nonzeros == np.count_nonzero(w)
        assert record.loss == pytest.approx(reference.value(w), rel=1e-9)
        assert record.distance == pytest.approx(reference.distance(w), abs=1e-9)
        assert record.alpha == 0.2
        assert 1 <= record.workers <= max(1, workers)
    assert any(record.compute > 0 for record in rounds)
    check_scores(found, path, target, reference, weights)


def check_scores(found: Bench, path: Path, target: str, reference: Reference, weights: dict[int, Vector]) -> None:
    held = pd.read_csv(path).iloc[::5]
    Z = (held[reference.names].to_numpy() - reference.centre) / reference.scale
    y = held[target].to_numpy()
    for record in found.rounds:
        left = y - reference.y.mean() - Z @ weights[record.round]
        assert record.validation == pytest.approx(1 - left @ left / ((y - y.mean()) ** 2).sum(), abs=1e-9)


def test_events_tell_the_course_of_a_run(run: Trainer, place: Path, engines: Callable[[int], Engine]) -> None:
    path, target = data("generated", place)
    found = run(path, target, engine=engines(2), epochs=2, callbacks=[At(round3=lambda r: r.send("checkpoint"))])
    events = found.events()
    assert [event.kind for event in events if event.kind != "joined"] == [
        "started", "checkpoint", "checkpoint", "command", "phase", "checkpoint", "state",
    ]  # fmt: skip
    assert [event.round for event in events] == sorted(event.round for event in events)
    assert {event.rank for event in events if event.kind == "joined"} == {0, 1}
    last = found.report["rounds"]
    assert [event.round for event in found.events("checkpoint")] == [0, 3, last]
    assert found.checkpoints.steps() == [0, 3, last]
    assert [event.round for event in found.events("state")] == [last]
    assert found.states == [("running", "")]
    assert found.report["events"][0]["data"]["resolved"] == found.report["resolved"]
    json.dumps(found.report)


def test_the_last_checkpoint_has_the_weights_of_the_model(run: Trainer, place: Path) -> None:
    found = run(plain(place), "y", epochs=2)
    assert same_bits(found.checkpoints.load(found.report["rounds"]).arrays["weights"], found.w)


def test_a_run_whose_checkpoints_are_all_gone_says_that_it_begins_again(run: Trainer, place: Path) -> None:
    path = plain(place, 320, 4)
    knobs = {"epochs": 3, "tolerance": 0, "batch_size": 40} | EQUAL
    bench = run(path, "y", **knobs)
    done, before = bench.rounds[-1].round, bench.w
    assert not bench.events("warning")
    bench.states.clear()
    again = run(path, "y", bench=bench, **knobs)  # as a resumed run does that has found no checkpoint
    (event,) = again.events("warning")
    assert f"The run had come to round {done}, but none of its checkpoints in '{bench.folder}'" in event.text
    assert event.data["rounds_lost"] == done
    assert ("warning", event.text) in again.log
    assert ("running", event.text) in again.states
    assert [record.round for record in again.rounds] == sorted({record.round for record in again.rounds})
    assert again.w.tolist() == before.tolist()


def test_histograms_are_of_the_weights_and_of_enough_of_them(run: Trainer, place: Path) -> None:
    path = generated(place, "many.csv", columns=30)
    found = run(path, "y", model="lasso", alpha=0.1, epochs=5, batch_size=50)
    *earlier, last = found.events(HISTOGRAMS)
    assert earlier
    (part,) = last.data["parts"]
    assert (part["name"], part["size"]) == ("coefficients", 30)
    counts, edges = np.histogram(found.w, len(part["weights"]["counts"]))
    assert part["weights"]["counts"] == counts.tolist()
    assert [part["weights"]["low"], part["weights"]["high"]] == pytest.approx([edges[0], edges[-1]])
    assert sum(part["gradient"]["counts"]) == 30
    assert last.round == found.rounds[-1].round
    few, target = data("generated", place)
    assert run(few, target, epochs=2).events(HISTOGRAMS) == []
