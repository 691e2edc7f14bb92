"""Networks on tables: plain PyTorch's steps and predictions, scikit-learn's scores, and the same bits for anyone."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score, roc_auc_score

from shoal.errors import ConfigError
from shoal.metrics import Round
from shoal.results.model import model_bytes
from shoal.training.conductor import Conductor
from support.gradient.nets import flat, shards_made
from support.gradient.network_tables import TEST_EVERY, curved, of_file, oracle, outputs, sequential
from support.training import At, Bench, Each, Trainer

KNOBS: dict[str, Any] = {
    "model": "mlp", "hidden": "12,6", "step_rule": "adamw", "learning_rate": 0.01, "epochs": 6, "patience": 3,
    "tolerance": 0, "test_every": TEST_EVERY, "seed": 3,
}  # fmt: skip


def file_of(found: Bench) -> dict[str, Any]:
    contents: dict[str, Any] = json.loads(model_bytes(found.trained.model))
    return contents


def listening(heard: list[tuple[float, Any]]) -> Callable[[Conductor, Round], None]:
    """Notes the score of a record and what metrics of plug-ins would be asked about."""

    def listen(run: Conductor, record: Round) -> None:
        if record.validation is not None and not run.server.finished:
            heard.append((run.objective.score(run.server.w) or 0.0, run.objective.predicted(run.server.w)))

    return listen


def best_of(found: Bench) -> float:
    return max(r.validation for r in found.rounds if r.validation is not None)


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 4e-6)])
def test_steps_are_plain_pytorchs(precision: str, tolerance: float, run: Trainer, tmp_path: Path) -> None:
    """On the same batches, from the weights of the same seed; targets in units of their spread."""
    path = curved(tmp_path / "table.csv")
    found = run(
        path,
        "y",
        **{**KNOBS, "patience": 0, "epochs": 3, "batch_size": 15, "precision": precision, "partition": "contiguous"},
    )
    rows = oracle(path)
    dealt, kind = shards_made(), getattr(torch, precision)
    assert len(dealt.rows) == 5, "four for steps, one for validation"
    torch.manual_seed(3)
    module = sequential([4, 12, 6, 1]).to(kind)
    optimizer = torch.optim.AdamW(module.parameters(), 0.01)
    scale = rows.y[~rows.test].std()
    own = dataclasses.replace(dealt, rows=dealt.rows[:4], checksums=dealt.checksums[:4])
    for epoch in range(3):
        for step in range(own.steps(15)):
            places = [(shard, own.slice(3, epoch, shard, step, 15)) for shard in range(4)]
            parts = [(own.open(shard)[0][at], own.open(shard)[1][at]) for shard, at in places if at is not None]
            X, y = (torch.tensor(np.concatenate([part[i] for part in parts])).to(kind) for i in (0, 1))
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(module(X)[:, 0], y / scale).backward()
            optimizer.step()
    wanted = flat(module)
    layers = file_of(found)["layers"]
    got = flat(of_file(layers))
    np.testing.assert_allclose(got, wanted, atol=tolerance * np.abs(wanted).max(), rtol=0)


def test_numbers_are_scored_as_scikit_learn_does_beside_its_linear_model(run: Trainer, tmp_path: Path) -> None:
    path = curved(tmp_path / "table.csv")
    heard: list[tuple[float, Any]] = []
    found = run(path, "y", callbacks=[Each(listening(heard))], **KNOBS)
    rows, contents = oracle(path), file_of(found)
    for validation, (y, said, weight) in heard:
        assert np.abs(y[:, None] - rows.y[~rows.test]).min(axis=1).max() < 1e-3, "in the units of the file"
        assert r2_score(y, said, sample_weight=weight) == pytest.approx(validation, abs=1e-5)
    assert len(heard) > 1
    layers, report = contents["layers"], found.trained.report
    train = rows.X[~rows.test]
    np.testing.assert_allclose(layers["centre"], train.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(layers["scale"], train.std(axis=0), rtol=1e-12)
    assert layers["target_centre"] == pytest.approx(rows.y[~rows.test].mean(), rel=1e-12)
    said, y = outputs(layers, rows.X), rows.y
    for part, own in ((report.train, ~rows.test), (report.test, rows.test)):
        assert part.rows == own.sum()
        assert part.r2 == pytest.approx(r2_score(y[own], said[own]), abs=1e-10)
        assert part.rmse == pytest.approx(mean_squared_error(y[own], said[own]) ** 0.5, rel=1e-10)
        assert part.adjusted_r2 is None
    linear = LinearRegression().fit(train, y[~rows.test]).predict(rows.X)
    assert report.network is not None
    beside = report.network.beside
    assert beside is not None
    losses = [(y[rows.test] - other[rows.test]) ** 2 for other in (said, linear)]
    np.testing.assert_allclose([beside.network, beside.linear], [one.mean() for one in losses], rtol=1e-9)
    interval = stats.ttest_rel(*losses).confidence_interval(0.95)
    np.testing.assert_allclose([beside.low, beside.high], interval, rtol=1e-8)
    assert report.network.hidden == (12, 6)
    assert report.network.parameters == 4 * 12 + 12 + 12 * 6 + 6 + 6 + 1
    assert (report.coefficients, report.inference, report.certificate) == ({}, None, None)


def test_yes_and_no_are_scored_as_scikit_learn_does(run: Trainer, tmp_path: Path) -> None:
    path = curved(tmp_path / "table.csv", yes_no=True)
    heard: list[tuple[float, Any]] = []
    found = run(path, "y", callbacks=[Each(listening(heard))], **{**KNOBS, "epochs": 12})
    rows, report = oracle(path), found.trained.report
    for validation, (y, said, _) in heard:
        assert 1 - log_loss(y, said) / log_loss(y, np.full(len(y), y.mean())) == pytest.approx(validation, abs=1e-5)
    test, y = rows.test, rows.y
    p = 1 / (1 + np.exp(-outputs(file_of(found)["layers"], rows.X)))
    assert report.outcome is not None
    assert report.outcome.classes == ("no", "yes")
    scores = report.outcome.test.scores
    assert scores["log_loss"] == pytest.approx(log_loss(y[test], p[test]), rel=1e-9)
    assert scores["auc"] == pytest.approx(roc_auc_score(y[test], p[test]), abs=1e-12)
    assert scores["accuracy"] == pytest.approx(accuracy_score(y[test], p[test] >= 0.5))
    other = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(rows.X[~test], y[~test])
    assert report.network is not None
    beside = report.network.beside
    assert beside is not None
    assert beside.linear == pytest.approx(log_loss(y[test], other.predict_proba(rows.X[test])[:, 1]), rel=1e-6)
    assert beside.linear_error == pytest.approx(1 - other.score(rows.X[test], y[test]))
    assert beside.network == scores["log_loss"]
    assert "predicted wrongly" in " ".join(report.network.sentences())


def course(found: Bench) -> list[tuple[Any, ...]]:
    return [(r.round, r.loss, r.gradient_norm, r.validation) for r in found.rounds]


def test_the_same_bits_for_anyone_through_kills_and_after_a_resume(run: Trainer, tmp_path: Path) -> None:
    path, killed = curved(tmp_path / "table.csv", 300), list[int]()
    knobs = {**KNOBS, "batch_size": 16}

    def kill(conductor: Conductor) -> None:
        rank, worker = next(iter(conductor.server.workers.items()))
        killed.append(rank)
        os.kill(worker.pid, signal.SIGKILL)

    alone = run(path, "y", **knobs, callbacks=[At(round7=lambda r: r.send("checkpoint"))])
    harmed = run(path, "y", workers=2, callbacks=[At(round4=kill)], **knobs)
    assert len(killed) == len(harmed.events("lost")) == 1
    again = run(path, "y", resume=alone.checkpoints.load(7), **knobs)
    assert course(harmed) == course(alone)
    assert course(again) == course(alone)[7:]
    layers = [file_of(found)["layers"] for found in (alone, harmed, again)]
    assert layers[0] == layers[1] == layers[2]


def test_the_weights_that_did_best_on_validation_rows_are_kept(run: Trainer, tmp_path: Path) -> None:
    """Whether patience ends the run or its epochs do; the score is R² of rows that are neither trained on nor tested."""
    path = curved(tmp_path / "table.csv", 120)
    table = path.read_text().splitlines()
    random = np.random.default_rng(0).permutation([line.rsplit(",", 1)[1] for line in table[1:]])
    lines = (f"{line.rsplit(',', 1)[0]},{y}" for line, y in zip(table[1:], random, strict=True))
    path.write_text("\n".join([table[0], *lines]) + "\n")  # nothing to learn: it soon gets worse
    for patience, epochs, cause in ((4, 60, "no better score on the validation rows for 4 epochs"), (50, 20, "all 20")):
        found = run(
            path, "y", **{**KNOBS, "hidden": "32", "patience": patience, "epochs": epochs, "precision": "float64"}
        )
        assert cause in found.done.cause
        network = found.trained.report.network
        assert network is not None
        X, y = shards_made().open(4)
        assert len(y) == network.validation_rows
        layers = file_of(found)["layers"]
        with torch.no_grad():
            out = of_file(layers)(torch.tensor(X).double())[:, 0].numpy() * layers["target_scale"]
        assert best_of(found) == pytest.approx(r2_score(y, out), rel=1e-9)
        assert best_of(found) > found.rounds[-2].validation  # type: ignore[operator]


@pytest.mark.parametrize("mode", ["ssp", "async", "local"])
def test_every_mode_learns(mode: str, run: Trainer, tmp_path: Path) -> None:
    path = curved(tmp_path / "table.csv")
    rate, epochs = (0.2, 60) if mode == "local" else (0.01, 25)
    found = run(
        path, "y", **{**KNOBS, "mode": mode, "epochs": epochs, "patience": 0, "learning_rate": rate, "hidden": "auto"}
    )
    report = found.trained.report
    assert report.network is not None
    assert report.network.hidden == (16,)
    assert report.test.r2 is not None
    assert report.test.r2 > 0.5


def test_a_column_that_never_varied_says_nothing(run: Trainer, tmp_path: Path) -> None:
    path = curved(tmp_path / "table.csv", 200)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"k,{lines[0]}", *(f"7,{line}" for line in lines[1:])]) + "\n")
    found = run(path, "y", **{**KNOBS, "epochs": 1})
    contents = file_of(found)
    if "k" in [term["column"] for term in contents["design"]["terms"]]:
        assert not np.array(contents["layers"]["weights"][0])[:, 0].any()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": "a"}, "Expected no weights of rows beside model mlp"),
        ({"standardize": False}, "Expected intercept and standardize as usual"),
        ({"target": "c"}, "two values such as yes and no, for a network; 'c' has 3 classes"),
    ],
)
def test_what_a_network_does_not_do_is_said(changes: dict[str, Any], words: str, run: Trainer, tmp_path: Path) -> None:
    path = curved(tmp_path / "table.csv", 100)
    knobs = {**KNOBS, **changes}
    with pytest.raises(ConfigError, match=words):
        run(path, knobs.pop("target", "y"), **knobs)


def test_too_few_rows_are_refused(run: Trainer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Expected at least 20 training rows for a network, got 15"):
        run(curved(tmp_path / "table.csv", 20), "y", **KNOBS)
