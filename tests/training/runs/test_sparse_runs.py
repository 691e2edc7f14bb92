"""Gradient runs on files of sparse rows: the optimum of scikit-learn, the steps of NumPy on filled-in rows, the same bits
with any number of workers, and pushes of the coordinates that are touched."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model as reference
from sklearn.datasets import dump_svmlight_file

import shoal
from shoal.data.cache import Cache
from shoal.engines.base import Engine
from shoal.errors import ConfigError, OutOfMemory, SourceChanged
from shoal.home import home
from shoal.sparse import shards as sparse_shards
from shoal.sparse import table as sparse_table
from shoal.sparse.shards import SparseShards
from shoal.training.conductor import Conductor
from shoal.training.objectives import sparse_rows
from support.tables import same_bits
from support.training import MODES, At, Bench, Trainer

ROWS, COLUMNS = 300, 80
STEPS: dict[str, Any] = {
    "epochs": 3, "finish_passes": 8, "batch_size": 8, "local_steps": 3, "tolerance": 1e-12, "model": "elasticnet",
    "alpha": 0.05, "shards": 5, "test_every": 7,
}  # fmt: skip
BITS = [
    ("sync", "sgd", "none"), ("sync", "momentum", "topk"), ("sync", "adam", "half"), ("sync", "momentum", "none"),
    ("local", "sgd", "none"), ("local", "sgd", "topk"),
]  # fmt: skip


@pytest.fixture(scope="module")
def table(place: Path) -> tuple[Path, Any, Any]:
    """Sparse rows with a column that is nowhere 0 and far from it, one that is constant, and a row without values."""
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, COLUMNS)) * (random.random((ROWS, COLUMNS)) < 0.06)
    X[3] = 0.0
    X[:, 11] = 5e4 + random.standard_normal(ROWS)
    X[:, 12] = 2.0
    y = X[:, :11] @ np.linspace(-3, 4, 11) + 2 * (X[:, 11] - 5e4) + 0.5 * random.standard_normal(ROWS) + 7
    path = place / "rows.svm"
    dump_svmlight_file(sp.csr_matrix(X), y, str(path), zero_based=True)
    return path, X, y


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_table, "BLOCK_BYTES", 5_000)


def weights(found: Bench) -> Any:
    w = np.zeros(COLUMNS)
    for name, value in found.report["coefficients"].items():
        w[int(name[1:])] = value
    return w


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", ["ridge", "lasso", "elasticnet"])
def test_every_mode_comes_to_the_optimum_of_scikit_learn(
    model: str, mode: str, run: Trainer, table: tuple[Path, Any, Any]
) -> None:
    path, X, y = table
    found = run(path, "label", model=model, alpha=0.1, mode=mode, epochs=3, tolerance=1e-12)
    assert found.done.cause == "converged"
    training = found.trained.report.training
    assert training is not None
    assert training.distance_to_optimum is not None
    assert training.distance_to_optimum < 1e-12
    scale = np.where(X.std(axis=0) > 1e-9, X.std(axis=0), 1.0)
    exact = {"tol": 1e-14, "max_iter": 1_000_000}
    theirs: Any = {
        "ridge": reference.Ridge(0.1, solver="svd"), "lasso": reference.Lasso(0.1, **exact),
        "elasticnet": reference.ElasticNet(0.1, l1_ratio=0.5, **exact),
    }[model].fit((X - X.mean(axis=0)) / scale, y)  # fmt: skip
    np.testing.assert_allclose(weights(found) * scale, theirs.coef_, atol=1e-5)
    assert [record.validation for record in found.rounds] == [None] * len(found.rounds)  # no test rows


def test_linear_models_take_steps_too_and_the_exact_fit_is_the_same(run: Trainer, table: tuple[Path, Any, Any]) -> None:
    path, _, _ = table
    found = run(path, "label", model="linear", test_every=5, tolerance=1e-12, finish_passes=20_000)
    exact = shoal.fit(path, "label", model="linear", test_every=5)
    assert found.done.cause == "converged"
    assert found.report["test"]["r2"] == pytest.approx(exact.scores["test"]["r2"], abs=1e-6)
    assert found.rounds[-1].validation == pytest.approx(exact.scores["test"]["r2"], abs=1e-6)


# ------------------------------------------------------------------ the same bits


def course(found: Bench) -> list[tuple[Any, ...]]:
    return [(r.round, r.loss, r.distance, r.gradient_norm, r.nonzeros, r.bytes_sent) for r in found.rounds]


@pytest.mark.parametrize(("mode", "rule", "compression"), BITS)
def test_the_same_bits_with_any_number_of_workers_and_after_a_resumption(
    mode: str, rule: str, compression: str, run: Trainer, table: tuple[Path, Any, Any],
    engines: Callable[[int], Engine],
) -> None:  # fmt: skip
    knobs = {**STEPS, "mode": mode, "step_rule": rule, "compression": compression, "top_k": 0.3}
    middle = 4
    saving = At(**{f"round{middle}": lambda r: r.send("checkpoint")})
    alone = run(table[0], "label", callbacks=[saving], **knobs)
    assert {record.phase for record in alone.rounds} == {"steps", "finish"}
    assert alone.w.any()
    for workers in (1, 3):
        other = run(table[0], "label", engine=engines(workers), **knobs)
        assert same_bits(alone.w, other.w), workers
        assert course(alone) == course(other), workers
    again = run(table[0], "label", engine=engines(2), resume=alone.checkpoints.load(middle), **knobs)
    assert same_bits(again.w, alone.w)
    assert course(again) == course(alone)[middle:]


@pytest.mark.parametrize("mode", ["sync", "local"])
def test_a_killed_worker_changes_no_bit(
    mode: str, run: Trainer, table: tuple[Path, Any, Any], engines: Callable[[int], Engine]
) -> None:
    knobs = {**STEPS, "mode": mode}

    def kill(conductor: Conductor) -> None:
        os.kill(next(iter(conductor.server.workers.values())).pid, signal.SIGKILL)

    whole = run(table[0], "label", **knobs)
    harmed = run(table[0], "label", workers=2, callbacks=[At(round2=kill)], **knobs)
    assert harmed.events("lost")
    assert same_bits(whole.w, harmed.w)


def test_a_changed_file_is_no_place_to_go_on_from(run: Trainer, table: tuple[Path, Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_bytes(table[0].read_bytes())
    saved = run(path, "label", **STEPS)
    path.write_bytes(table[0].read_bytes() + b"1 3:4\n")
    with pytest.raises(SourceChanged, match="is not what it was"):
        run(path, "label", resume=saved.checkpoints.newest(), **STEPS)


# ------------------------------------------------------------------ what NumPy does with the same rows


def shards_of(found: Bench) -> SparseShards:
    """Those that the run has left in the cache, by its number of shards."""
    folders = (home() / "cache").glob("shards-*")
    known = (sparse_shards._found(Cache(home()), folder) for folder in folders)
    (one,) = (shards for shards in known if shards and len(shards.rows) == found.report["resolved"]["shards"])
    return one


def filled(shards: SparseShards) -> list[tuple[Any, Any]]:
    """The rows of each shard with their zeros, less the centre."""
    rows = []
    for shard in range(len(shards.rows)):
        X, y = shards.open(shard)
        dense = sp.csr_array((X.values, X.indices, X.starts), (len(y), shards.width)).toarray() - X.centre
        rows.append((dense, np.array(y)))
    return rows


@pytest.mark.parametrize("mode", ["sync", "local"])
def test_steps_are_those_of_numpy_on_filled_in_rows(mode: str, run: Trainer, table: tuple[Path, Any, Any]) -> None:
    knobs = {**STEPS, "mode": mode, "tolerance": 0, "shards": 6, "epochs": 2}
    found = run(table[0], "label", **knobs)
    shards, rate = shards_of(found), found.report["resolved"]["learning_rate"]
    rows, w, batch = filled(shards), np.zeros(shards.width), 8
    l1, l2 = 0.05 * 0.5, 0.05 * 0.5
    counts = [-(-len(y) // batch) for _, y in rows]
    together, bytes_sent = batch * len(rows), []

    def prox(w: Any, step: float) -> Any:
        return np.sign(w) * np.maximum(np.abs(w) - step * l1, 0) / (1 + step * l2)

    for epoch in range(2):
        orders = [np.random.default_rng((0, epoch, s)).permutation(count) for s, count in enumerate(counts)]
        taken = 1 if mode == "sync" else 3
        for step in range(-(-max(counts) // taken)):
            total, done, steps, sent = np.zeros_like(w), 0, 0.0, 0
            for (X, y), order in zip(rows, orders, strict=True):
                own, seen, met = w.copy(), 0, np.zeros(len(w), bool)
                for at in order[step * taken : (step + 1) * taken]:
                    part = slice(at * batch, (at + 1) * batch)
                    gradient = X[part].T @ (X[part] @ own - y[part])
                    met |= (np.abs(X[part] + shards.centre()) > 1e-9).any(axis=0)
                    own -= gradient if mode == "sync" else rate / batch * gradient
                    seen += len(y[part])
                total += own - w if mode == "sync" else seen * (own - w)
                done, steps = done + seen, steps + seen * seen / batch
                sent += 16 + min(12 * int(met.sum()), 8 * len(w)) if seen else 0
            bytes_sent.append(sent)
            if mode == "sync":
                own_rate = rate * min(1.0, done / together)
                w = prox(w + own_rate * total / done, own_rate)
            else:
                w = prox(w + total / done, rate * steps / done)
    np.testing.assert_allclose(found.w[np.abs(found.w) > 0], w[np.abs(w) > 0], rtol=1e-7)
    assert [r.bytes_sent for r in found.steps[:-1]] == bytes_sent[: len(found.steps) - 1]
    assert found.steps[0].bytes_raw == 8 * shards.width * len(rows)


# ------------------------------------------------------------------ trouble


def test_a_damaged_shard_is_made_again(run: Trainer, table: tuple[Path, Any, Any]) -> None:
    knobs = {**STEPS, "shards": 9}
    whole = run(table[0], "label", **knobs)
    path = Path(shards_of(whole).path(2))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    again = run(table[0], "label", **knobs)
    assert same_bits(whole.w, again.w)
    assert [text for level, text in again.log if level == "warning" and "damaged" in text]


def test_without_memory_for_the_exact_fit_distances_are_bounds(
    run: Trainer, table: tuple[Path, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Any) -> None:
        raise OutOfMemory("It would take too much.")

    monkeypatch.setattr(sparse_rows, "check_memory", refused)
    found = run(table[0], "label", model="ridge", alpha=3.0, tolerance=1e-6)
    assert found.done.cause == "converged"
    assert any("distances are upper bounds. It would take too much." in text for _, text in found.log)
    exact = shoal.fit(table[0], "label", model="ridge", alpha=3.0)
    for name, value in exact.coefficients.items():
        assert found.report["coefficients"][name] == pytest.approx(value, abs=0.05)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "precision": ({"precision": "float32"}, "there is no precision"),
    "parameter shards": ({"parameter_shards": 2}, "there is no parameter_shards"),
    "another loss": ({"model": "logistic"}, "Gradient steps on sparse rows are for linear models"),
    "a column": ({"exclude": ["x3"]}, "there is no exclude"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_sparse_rows_have_no_way_for_is_refused(case: str, run: Trainer, table: tuple[Path, Any, Any]) -> None:
    knobs, said = REFUSED[case]
    with pytest.raises(ConfigError, match=said):
        run(table[0], "label", **knobs)


def test_an_index_of_thousands_of_millions_is_refused_before_memory_is_taken(run: Trainer, tmp_path: Path) -> None:
    (tmp_path / "vast.svm").write_text("1 0:1 2147483646:2\n0 1:3\n" * 3)
    with pytest.raises(OutOfMemory, match="Gradient steps of 2,147,483,647 columns need"):
        run(tmp_path / "vast.svm", "label", model="ridge", alpha=1.0)
