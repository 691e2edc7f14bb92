"""Gradient training against scikit-learn's SGDRegressor and a bare NumPy loop; the copy of the rows is warm."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.cases import Measurement, span
from benchmarks.tables import BIG, MadeTable
from shoal.coordinator import Coordinator
from shoal.data_pipeline import Shards
from shoal.engines.base import Engine
from shoal.engines.processes import ProcessEngine
from shoal.fitting.reports import Trained
from shoal.metrics import Round
from shoal.results.fit import GradientTraining
from shoal.settings.values import config_from
from shoal.storage import open_storage
from shoal.training.callbacks import Callbacks
from shoal.training.checkpoints import Checkpoints
from shoal.training.run import train_gradient
from shoal.training.session import Session
from shoal.utils import THREAD_LIMITS
from shoal.worker import Ping, Worker

CHUNK = 4096  # rows that the bare loop multiplies at a time: the fastest of 1k, 2k, 4k and 8k here
CLOSE = 1e-3  # of the way: where the race to the optimum ends
SLICE = 2_000  # rows between two looks at SGDRegressor's weights where it is fed by slices


@dataclass(frozen=True)
class Race:
    """One run: what it reported, and its records."""

    outcome: Trained
    rounds: list[Round]
    started: float

    def rows_per_second(self, rows: int, since: float = 0.0) -> float:
        """Between two records, so that the start of the run does not count."""
        kept = [r for r in self.rounds if r.seconds >= since * self.rounds[-1].seconds]
        return (kept[-1].epoch - kept[0].epoch) * rows / (kept[-1].seconds - kept[0].seconds)

    def seconds_to(self, distance: float) -> float:
        return next(r.seconds for r in self.rounds if r.distance is not None and r.distance <= distance) - self.started


class Trainer:
    """Runs on one table, with engines whose workers have started."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path, self.home = path, home

    @contextmanager
    def engine(self, workers: int) -> Iterator[Engine]:
        with ProcessEngine(workers, preload=["shoal.passes.gradient_loop"]) as engine:
            for _ in engine.sweep([Ping()] * 4 * workers):
                pass
            yield engine

    def run(self, engine: Engine, commands: Callable[[Any], None] = lambda storage: None, **knobs: Any) -> Race:
        config = config_from({"file": str(self.path), "target": "y", "precision": "float32", **knobs})
        with (
            tempfile.TemporaryDirectory(dir=self.home) as folder,
            open_storage(f"sqlite://{folder}/metrics.sqlite") as storage,
        ):
            commands(storage)
            session = Session(
                storage, Checkpoints(Path(folder) / "checkpoints"), Callbacks([], print),
                log=lambda level, text: None, state=lambda standing: None,
            )  # fmt: skip
            outcome = train_gradient(Coordinator(engine, self.home), config, session)
            started = next(e["seconds"] for e in _training(outcome).events if e["kind"] == "started")
            return Race(outcome, storage.rounds(100_000), started)


@dataclass(frozen=True)
class BarePasses:
    """Some passes over some shards as one would write them by hand: no weights from elsewhere, nothing pushed."""

    shards: Shards
    which: tuple[int, ...]
    passes: int

    def answer(self, worker: Worker) -> float:
        w = np.zeros(self.shards.width, self.shards.dtype)
        total = np.zeros(self.shards.width)
        for _ in range(self.passes):
            for shard in self.which:
                X, y = self.shards.open(shard)
                for start in range(0, len(y), CHUNK):
                    chunk = X[start : start + CHUNK]
                    total += (chunk @ w - y[start : start + CHUNK]) @ chunk
        return float(total.sum())


def bare_rows_per_second(engine: Engine, shards: Shards, passes: int) -> float:
    count = len(shards.rows)
    halves = [tuple(range(rank, count, engine.workers)) for rank in range(engine.workers)]
    started = time.perf_counter()
    for _ in engine.sweep([BarePasses(shards, half, passes) for half in halves]):
        pass
    return shards.total * passes / (time.perf_counter() - started)


class Peer:
    """SGDRegressor with its default schedule, on the same standardised float32 rows."""

    def __init__(self, shards: Shards) -> None:
        parts = [shards.open(s) for s in range(len(shards.rows))]
        self.X = np.concatenate([X for X, _ in parts])
        self.y = np.concatenate([y for _, y in parts])
        gram = self.X.astype(np.float64).T @ self.X / len(self.y)
        cross = self.X.astype(np.float64).T @ self.y / len(self.y)
        self.best = np.linalg.solve(gram, cross)
        self.gram = gram

    def rows_per_second(self) -> float:
        from sklearn.linear_model import SGDRegressor

        model = SGDRegressor(penalty=None, max_iter=1, tol=None)
        started = time.perf_counter()
        model.fit(self.X, self.y)
        return len(self.y) / (time.perf_counter() - started)

    def seconds_to(self, distance: float) -> float:
        """Of `fit` with the fewest epochs that come so close: it cannot be left in the middle of one."""
        from sklearn.linear_model import SGDRegressor

        for epochs in range(1, 50):
            model = SGDRegressor(penalty=None, max_iter=epochs, tol=None)
            started = time.perf_counter()
            model.fit(self.X, self.y)
            spent = time.perf_counter() - started
            if self._distance(model.coef_) <= distance:
                return spent
        return float("inf")

    def seconds_by_slices(self, distance: float) -> float:
        """Of `partial_fit`, slice by slice; looking how far it is, is not counted."""
        from sklearn.linear_model import SGDRegressor

        model, spent = SGDRegressor(penalty=None), 0.0
        for start in range(0, len(self.y), SLICE):
            rows = slice(start, start + SLICE)
            started = time.perf_counter()
            model.partial_fit(self.X[rows], self.y[rows])
            spent += time.perf_counter() - started
            if self._distance(model.coef_) <= distance:
                return spent
        return float("inf")

    def _distance(self, w: npt.NDArray[Any]) -> float:
        """(F(w) - F*) / (F(0) - F*): both are quadratic forms of the way to the optimum."""
        away = w - self.best
        return float(away @ self.gram @ away) / float(self.best @ self.gram @ self.best)


# ------------------------------------------------------------------ the cases


def training(path: Path, directory: Path, repeats: int) -> list[Measurement]:
    """In a process of its own with one BLAS thread, as a run has it; the other contestants may use more."""
    with tempfile.TemporaryDirectory(prefix="home-", dir=directory) as home:
        command = [sys.executable, "-m", "benchmarks.gradient", str(path), home, str(repeats)]
        done = subprocess.run(command, env=os.environ | THREAD_LIMITS, stdout=subprocess.PIPE, check=True)
    return [Measurement(**finding) for finding in json.loads(done.stdout)]


def measured(table: MadeTable, path: Path, home: Path, repeats: int) -> list[Measurement]:
    trainer = Trainer(path, home)
    with trainer.engine(2) as engine:
        trainer.run(engine, epochs=1, tolerance=0)  # makes the copy
        shards = _shards(home)
        findings = _speed(trainer, engine, shards, table, repeats)
        return findings + _stragglers(trainer, engine, table, repeats) + _overhead(trainer, engine, table, repeats)


def _shards(home: Path) -> Shards:
    from shoal.training.objectives.shards import opened

    return next(opened(folder) for folder in (home / "cache").glob("shards-*"))


def _speed(trainer: Trainer, engine: Engine, shards: Shards, table: MadeTable, repeats: int) -> list[Measurement]:
    peer, epochs = Peer(shards), 40
    ours, alone, bare, theirs, to_ours, to_theirs, sliced = ([] for _ in range(7))
    for _ in range(repeats):
        run = trainer.run(engine, epochs=epochs, tolerance=0)
        ours.append(run.rows_per_second(table.rows))
        bare.append(bare_rows_per_second(engine, shards, epochs))
        theirs.append(peer.rows_per_second())
        to_ours.append(trainer.run(engine, epochs=3, tolerance=CLOSE).seconds_to(CLOSE))
        to_theirs.append(peer.seconds_to(CLOSE))
        sliced.append(peer.seconds_by_slices(CLOSE))
        with trainer.engine(1) as single:
            alone.append(trainer.run(single, epochs=epochs, tolerance=0).rows_per_second(table.rows))
    what = table.title
    return [
        Measurement(f"{what}: rows a second of 2 workers / SGDRegressor", _ratio(ours, theirs), "x", 8, True,
                f"ours {_millions(ours)}; SGDRegressor {_millions(theirs)}"),
        Measurement(f"{what}: rows a second of 2 workers / a bare NumPy loop on both cores",
                _ratio(ours, bare), "x", 0.6, True, f"bare {_millions(bare)}"),
        Measurement(f"{what}: SGDRegressor's seconds to 1e-3 / ours", _ratio(to_theirs, to_ours), "x", 5, True,
                f"SGDRegressor.fit {span(to_theirs)}; ours {span(to_ours)}; SGDRegressor.partial_fit, which need not "
                f"finish an epoch, by slices of {SLICE:,} rows: {span(sliced)}"),
        Measurement(f"{what}: rows a second, 2 workers / 1 worker", _ratio(ours, alone), "x", 1.7, True,
                f"1 worker {_millions(alone)}"),
    ]  # fmt: skip


def _stragglers(trainer: Trainer, engine: Engine, table: MadeTable, repeats: int) -> list[Measurement]:
    """What is left of the throughput when one of two workers is four times slower."""
    kept: dict[str, list[float]] = {"sync": [], "ssp": [], "async": []}
    for _ in range(repeats):
        for mode, shares in kept.items():
            knobs = {"mode": mode, "epochs": 60, "tolerance": 0, "staleness": 8}
            usual = trainer.run(engine, **knobs).rows_per_second(table.rows, since=0.3)
            slow = trainer.run(engine, lambda s: s.post("slow_worker", {"rank": 1, "factor": 4}), **knobs)
            shares.append(slow.rows_per_second(table.rows, since=0.3) / usual)
    sync = median(kept["sync"])
    spans = (f"{mode} keeps {median(s):.2f} ({min(s):.2f} to {max(s):.2f})" for mode, s in kept.items())
    detail = "; ".join(spans)
    return [
        Measurement(f"one of two workers four times slower: throughput kept, {mode} / sync",
                median(kept[mode]) / sync, "x", 1.5, True, detail if mode == "ssp" else "")
        for mode in ("ssp", "async")
    ]  # fmt: skip


def _overhead(trainer: Trainer, engine: Engine, table: MadeTable, repeats: int) -> list[Measurement]:
    shares = []
    for _ in range(repeats):
        run = trainer.run(engine, epochs=150, tolerance=0, checkpoint_seconds=1.0)
        spent = sum(_training(run.outcome).overhead.values())
        shares.append(100 * spent / run.outcome.report.timings["train"])
    detail = f"{min(shares):.2f} to {max(shares):.2f}; a checkpoint every second, records in SQLite"
    return [Measurement(f"{table.title}: recording, sampling and checkpoints", median(shares), "%", 3, detail=detail)]


def _training(trained: Trained) -> GradientTraining:
    assert trained.report.training is not None
    return trained.report.training


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def _millions(values: list[float]) -> str:
    return f"{median(values) / 1e6:.3g} M/s ({min(values) / 1e6:.3g} to {max(values) / 1e6:.3g})"


def main() -> None:
    found = measured(BIG, Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps([dataclasses.asdict(finding) for finding in found]))


if __name__ == "__main__":
    # Workers know the requests as `benchmarks.gradient.Name`, not as those of its twin `__main__`.
    from benchmarks import gradient

    gradient.main()
