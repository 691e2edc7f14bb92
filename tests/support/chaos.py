"""Real harm to real runs: kills of workers and run processes at random moments, and what must be the same afterwards.

Shared by the tests of survival and by `make soak`. What counts as a failure is decided by them.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from shoal.metrics import Event
from shoal.runs.commands import metrics_of
from shoal.runs.launch import Run, launch
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.training.checkpoints import Checkpoints
from support.records import read_log
from support.runs import until

HERE = re.compile(r"Worker (\d+) is here \(process (\d+)\)")
MOMENTS = ("preparing", "first checkpoint", "training", "finish")
SCORES = ("r2", "rmse", "mae")
EPOCHS, BATCH = 8, 16  # of the runs that are harmed
GONE = 60.0  # seconds in which the workers of a dead run have to be gone


# ------------------------------------------------------------------ runs to be harmed


def write_table(path: Path, rows: int = 20_000, columns: int = 10) -> Path:
    """x0, x1, ... that go together, so that the way to the optimum is long, and y."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, columns))
    X[:, 1:] = 0.97 * X[:, :1] + 0.25 * X[:, 1:]
    y = X @ np.arange(columns) + rng.normal(size=rows)
    names = ",".join([*(f"x{j}" for j in range(columns)), "y"])
    np.savetxt(path, np.column_stack([X, y]), "%.5f", ",", header=names, comments="")
    return path


def sync_run(data: Path, **knobs: Any) -> RunConfig:
    """Steps alone, so that the ledger at the end is that of the whole run."""
    plain = {"file": str(data), "target": "y", "solver": "gradient", "engine": "processes", "workers": 2}
    return config_from({**plain, "batch_size": 16, "tolerance": 0, "restarts": 20, "retries": 0, **knobs})


def with_finish(data: Path, **knobs: Any) -> RunConfig:
    """Steps, and then full passes to an end that is not the optimum: the tolerance is out of reach."""
    return sync_run(data, **{"tolerance": 1e-300, "epochs": 3, "finish_passes": 100, **knobs})


@dataclass(frozen=True)
class Yard:
    """Where the runs of a module live, and what they have to end with."""

    home: Path
    data: Path
    steps: Run  # an undisturbed run in one process
    steps_bits: dict[str, Any]
    finish_bits: dict[str, Any]

    def run(self, **knobs: Any) -> Run:
        return launch(sync_run(self.data, **{"epochs": EPOCHS, "checkpoint_seconds": 0.2, **knobs}))


def bits(run: Run) -> dict[str, Any]:
    """What has to be the same, to the last bit, however often a run was harmed on its way."""
    newest, result = Checkpoints(run.checkpoints_path).newest(), run.result
    assert newest is not None
    assert result is not None, run.error
    assert newest.step == result["rounds"]
    return {
        "rounds": result["rounds"],
        "weights": newest.arrays["weights"].tobytes().hex(),
        "coefficients": {name: float(value).hex() for name, value in result["coefficients"].items()},
        "intercept": float(result["intercept"]).hex(),
        "train": {name: float(result["train"][name]).hex() for name in SCORES},
    }


def events(run: Run, *kinds: str) -> list[Event]:
    with metrics_of(run) as storage:
        return [event for _, event in storage.events(kinds=kinds or None)] if storage else []


def log_texts(run: Run, level: str | None = None) -> list[str]:
    return [entry["text"] for entry in read_log(run.directory) if level in (None, entry["level"])]


# ------------------------------------------------------------------ workers


class Worker(NamedTuple):
    rank: int
    process: psutil.Process


class Kill(NamedTuple):
    at: float  # seconds since 1970
    rank: int
    pid: int


def workers_of(run: Run) -> list[Worker]:
    """The worker processes that live, by the system's account, in the order of their ranks."""
    pid, found = run.pid, []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children() if pid else ():
            with contextlib.suppress(psutil.Error), child.oneshot():
                kind, _, rank = child.name().partition(" ")
                if kind == "shoal-worker" and child.status() != psutil.STATUS_ZOMBIE:  # dead and not yet buried
                    found.append(Worker(int(rank), child))
    return sorted(found, key=lambda worker: worker.rank)


def joined(run: Run) -> list[Worker]:
    """Those of them that take part in training, by the run's own account."""
    found = (HERE.search(text) for text in log_texts(run))
    here = {int(match[2]) for match in found if match}
    return [worker for worker in workers_of(run) if worker.process.pid in here]


def mapped(run: Run) -> dict[int, set[str]]:
    """The shards that each worker has looked at so far, by the system's account."""
    found = {}
    for rank, process in workers_of(run):
        with contextlib.suppress(psutil.Error):
            paths = {Path(entry.path).name for entry in process.memory_maps()}
            if shards := {name for name in paths if name.startswith("shard-")}:
                found[rank] = shards
    return found


def kill_workers(run: Run, chance: random.Random, most: int, pause: tuple[float, float] = (0.05, 0.6)) -> list[Kill]:
    """Kill one worker after another, at work or just starting, until there were `most` or the run is over."""
    kills: list[Kill] = []
    until(lambda: run.state == "running" or not run.is_active)
    while len(kills) < most:
        time.sleep(chance.uniform(*pause))
        if run.state != "running":
            break
        if workers := workers_of(run):
            victim = chance.choice(workers)
            kills.append(Kill(time.time(), victim.rank, victim.process.pid))
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.process.kill()
    return kills


def recoveries(run: Run, kills: list[Kill]) -> list[float]:
    """Seconds from each kill until a new process of that rank was at work; without those that came too late."""
    entries = [(float(entry["at"]), HERE.search(entry["text"])) for entry in read_log(run.directory)]
    arrivals = [(at, int(found[1]), int(found[2])) for at, found in entries if found]
    took = []
    for kill in kills:
        after = (at for at, rank, pid in arrivals if at > kill.at and rank == kill.rank and pid != kill.pid)
        took += [at - kill.at for at in [next(after, None)] if at is not None]
    return took


# ------------------------------------------------------------------ the run process


def reach(run: Run, moment: str) -> bool:
    """Wait for a moment in a run's life, looking all the time; False if it ended before."""
    while run.is_active:
        if _is_at(run, moment):
            return True
    return False


def _is_at(run: Run, moment: str) -> bool:
    if moment == "first checkpoint":
        return run.checkpoints_path.exists()  # it is made by the first that is written
    if moment == "preparing":
        return run.state == "preparing" and run.pid is not None
    return run.state == "running" and phase(run) == ("finish" if moment == "finish" else "steps")


def phase(run: Run) -> str | None:
    """That of the last round on record: steps or finish."""
    with metrics_of(run) as storage:
        last = storage.last_round() if storage else None
    return last.phase if last else None


def kill_run(run: Run) -> int:
    """End the run process without a warning; its number, by which its workers are found."""
    pid = run.pid or 0
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not run.is_alive)
    return pid


def orphans(run: Run, pid: int) -> list[str]:
    """What is left, after a while, of a dead run: workers that name it as their parent, and forks of itself."""
    deadline = time.monotonic() + GONE
    while (left := _orphans(run, pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _orphans(run: Run, pid: int) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()  # empty for a zombie, which is gone but for its number
            if (command[2:4] == ["-m", "shoal.worker"] and command[5] == str(pid)) or str(run.directory) in command:
                found.append(f"{process.pid}: {' '.join(command)}")
    return found


# ------------------------------------------------------------------ what is left behind


def leftovers(home: Path) -> list[str]:
    """Unfinished files and folders anywhere under a home: their names begin with a dot."""
    return sorted(str(path.relative_to(home)) for path in home.rglob(".*"))


def shared_memory() -> set[str]:
    folder = Path("/dev/shm")
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()


def batches_of(result: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the accounts of a run without a finish: every batch has to count once an epoch."""
    ledger = result["ledger"]
    if ledger["batches"] != ledger["epochs"] * ledger["batches_of_an_epoch"]:
        yield f"{ledger['batches']} batches in {ledger['epochs']} epochs of {ledger['batches_of_an_epoch']}"
    if ledger["epochs"] != result["epochs"]:
        yield f"{ledger['epochs']} epochs in the ledger, {result['epochs']} in the report"
