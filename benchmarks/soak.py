"""`python -m benchmarks.soak`: kill workers and run processes again and again; writes docs/soak.md when done in full.

How harm is done is in `tests.chaos`; here it is done often, and what came of it is counted.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.runs.launch import Run, launch, resume
from shoal.settings.config import RunConfig
from support import chaos as chaos
from support.records import read_log
from support.runs import ended, rounds, until

ROOT = Path(__file__).parent.parent
KILLS, RESUMES = 200, 50  # in full
KILLS_A_RUN, RESUMES_A_RUN = 12, 5
WORKERS = (1, 2, 3)
EPOCHS = 60
LONG = {"epochs": 12, "finish_passes": 1200}  # time enough to be killed several times
CHECKPOINTS = 0.5  # seconds between two
MOST_FAULTS = 20  # then it is no use to go on
BEGUN = ("Training begins.", "Resuming from")  # what the log says when the steps of a life begin


@dataclass
class Findings:
    """What was counted; `faults` says in words what should not have been."""

    kills: int = 0
    tasks_redone: int = 0
    most_redone: int = 0
    recoveries: list[float] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)  # of each run that lost some
    resumes: int = 0
    moments: dict[str, int] = field(default_factory=lambda: dict.fromkeys(chaos.MOMENTS, 0))
    stopped_workers: int = 0
    restarts: list[float] = field(default_factory=list)
    rounds_lost: list[int] = field(default_factory=list)
    runs_of_resumes: int = 0
    small_leftovers: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return len(self.workers) + self.runs_of_resumes


class Soak:
    """Harm to runs of one table, and the books on it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.home, self.data = folder / "home", chaos.write_table(folder / "table.csv")
        self.chance, self.found = random.Random(seed), Findings()
        self.memory = chaos.shared_memory()

    def reference(self, config: RunConfig) -> dict[str, Any]:
        run = launch(config)
        if ended(run) != "finished":
            raise SystemExit(f"The undisturbed run is {run.state}: {run.cause}")
        return chaos.bits(run)

    # ---------------------------------------------------------------- workers

    def kill_workers(self, wanted: int) -> None:
        found, knobs = self.found, {"epochs": EPOCHS}
        expected = self.reference(chaos.sync_run(self.data, engine="inline", **knobs))
        for workers in itertools.cycle(WORKERS):
            if found.kills >= wanted:
                return
            run = launch(chaos.sync_run(self.data, workers=workers, **knobs))
            kills = chaos.kill_workers(run, self.chance, min(KILLS_A_RUN, wanted - found.kills), (0.05, 1.0))
            if self._ended_well(run, expected):
                self._count_losses(run, kills)
            found.workers.append(workers)
            self._tell(f"{found.kills} of {wanted} workers killed")
            shutil.rmtree(run.directory)

    def _count_losses(self, run: Run, kills: list[chaos.Kill]) -> None:
        """Kills that the run had to do something about: those after its last step are not among its events."""
        found, lost = self.found, chaos.events(run, "lost")
        redone = [event.data["tasks_redone"] for event in lost]
        found.kills += len(lost)
        found.tasks_redone += sum(redone)
        found.most_redone = max(found.most_redone, *redone, 0)
        found.recoveries += chaos.recoveries(run, kills)
        result = run.result or {}
        found.faults += [f"{run.id}: {wrong}" for wrong in chaos.batches_of(result)]
        if not len(kills) - len(WORKERS) <= len(lost) <= len(kills):
            found.faults.append(f"{run.id}: {len(kills)} workers were killed, and {len(lost)} losses noticed")
        if any(event.data["signal"] != 9 for event in lost):
            found.faults.append(f"{run.id}: a loss was put down to something else than signal 9")
        if found.most_redone > result["resolved"]["shards"]:
            found.faults.append(f"{run.id}: more than a round was redone")

    # ---------------------------------------------------------------- run processes

    def kill_runs(self, wanted: int) -> None:
        found = self.found
        expected = self.reference(chaos.with_finish(self.data, engine="inline", **LONG))
        while found.resumes < wanted:
            shutil.rmtree(self.home / "cache", ignore_errors=True)  # the file is read anew: more to interrupt
            run = launch(chaos.with_finish(self.data, checkpoint_seconds=CHECKPOINTS, **LONG))
            for _ in range(min(RESUMES_A_RUN, wanted - found.resumes)):
                if not self._kill_and_resume(run):
                    break
            self._ended_well(run, expected)
            found.runs_of_resumes += 1
            self._tell(f"{found.resumes} of {wanted} runs killed and resumed")
            shutil.rmtree(run.directory)

    def _kill_and_resume(self, run: Run) -> bool:
        """Whether the run was still there to be killed."""
        ahead = self._ahead(run)
        moment = self.chance.choices(ahead, range(len(ahead), 0, -1))[0]  # rather the next than the last
        if not chaos.reach(run, moment):
            return False
        time.sleep(0.0 if moment == "first checkpoint" else self.chance.uniform(0, 0.4))
        if self.chance.random() < 0.3:
            self._stop_a_worker(run)
        pid = chaos.kill_run(run)
        if run.state != "interrupted":
            return False
        self.found.faults += [f"{run.id}: left behind after its death: {left}" for left in chaos.orphans(run, pid)]
        self.found.moments[moment] += 1
        self._resume(run)
        return True

    def _ahead(self, run: Run) -> Sequence[str]:
        """Moments that are still to come: there is one first checkpoint, and a finish is not left again."""
        if not run.checkpoints_path.exists():
            return chaos.MOMENTS
        return ("preparing", "finish") if chaos.phase(run) == "finish" else ("preparing", "training", "finish")

    def _stop_a_worker(self, run: Run) -> None:
        workers = chaos.joined(run)
        if workers:
            self.chance.choice(workers).process.suspend()
            self.found.stopped_workers += 1

    def _resume(self, run: Run) -> None:
        before = rounds(run)
        said, started = len(list(read_log(run.directory))), time.monotonic()
        resume(run)
        until(lambda: _begun(run, said) or not run.is_active)
        if not run.is_active:
            return
        self.found.resumes += 1
        self.found.restarts.append(time.monotonic() - started)
        self.found.rounds_lost.append(max(0, before - _begun(run, said)[0]))

    # ---------------------------------------------------------------- what is left

    def _ended_well(self, run: Run, expected: dict[str, Any]) -> bool:
        state, found = ended(run), self.found
        if state != "finished":
            found.faults.append(f"{run.id} is {state}: {run.cause}")
            return False
        left = chaos.leftovers(self.home)
        found.small_leftovers += sum(".json-" in name for name in left)
        found.faults += [f"{run.id}: left behind: {name}" for name in left if ".json-" not in name]
        found.faults += [f"{run.id}: left in memory: {name}" for name in sorted(chaos.shared_memory() - self.memory)]
        if chaos.bits(run) != expected:
            found.faults.append(f"{run.id}: other bits than the undisturbed run")
        return True

    def _tell(self, text: str) -> None:
        faults = f", {len(self.found.faults)} faults: {self.found.faults[-1]}" if self.found.faults else ""
        print(f"{text}{faults}", file=sys.stderr, flush=True)
        if len(self.found.faults) > MOST_FAULTS:
            raise SystemExit("\n".join(["Too many faults to go on:", *self.found.faults]))


def _begun(run: Run, said: int) -> list[int]:
    """The round that a life began from, once it has; `said` lines of the log are from the lives before."""
    texts = [entry["text"] for entry in read_log(run.directory)][said:]
    return [int("".join(filter(str.isdigit, text)) or 0) for text in texts if text.startswith(BEGUN)]


# ------------------------------------------------------------------ the page


def page(found: Findings, seconds: float, seed: int) -> str:
    moments = ", ".join(f"{count} x {moment}" for moment, count in found.moments.items())
    with_ = " or ".join(map(str, sorted(set(found.workers)))) + " workers"
    resumes = f"{found.resumes} in {found.runs_of_resumes} runs: {moments}"
    rows = [
        ("runs", f"{found.runs}"),
        ("other bits, wrong ledgers, processes or files left behind", f"{len(found.faults)}"),
        ("how long it took", f"{seconds:.0f} s"),
        ("**workers** killed (SIGKILL)", f"{found.kills} in {len(found.workers)} runs with {with_}"),
        ("from the kill until a new worker had joined in its place", _spread(found.recoveries, "s")),
        ("tasks done again in all; for one kill at most", f"{found.tasks_redone}; {found.most_redone}, a round has 16"),
        ("**run processes** killed (SIGKILL) and resumed", resumes),
        ("of these with a stopped worker (SIGSTOP), which has to go as well", f"{found.stopped_workers}"),
        ("from `resume` until training went on, file read anew where need be", _spread(found.restarts, "s")),
        (f"rounds done again after that (a checkpoint every {CHECKPOINTS:g} s)", _spread(found.rounds_lost, "")),
        ("files of a few bytes left in run folders", f"{found.small_leftovers}"),
    ]
    table = ["| what | found |", "| --- | --- |", *(f"| {what} | {value} |" for what, value in rows)]
    faults = ["", "Faults:", "", *(f"- {fault}" for fault in found.faults)] if found.faults else []
    return "\n".join([*_introduction(seed), "", *table, *faults, ""])


def _introduction(seed: int) -> list[str]:
    return [
        "# Soak test",
        "",
        "Written by `make soak`: detached runs in mode sync on 20,000 rows x 10 columns, harmed at random times.",
        "Each is compared with an undisturbed run in one process: weights, coefficients and scores to the last bit.",
        f"Python {platform.python_version()}, {os.cpu_count()} cores, seed {seed}. Ranges: lowest / median / highest.",
    ]


def _spread(values: Sequence[float], unit: str) -> str:
    if not values:
        return "none"
    shown = (f"{v:.{2 if unit else 0}f}" for v in (min(values), statistics.median(values), max(values)))
    return f"{' / '.join(shown)} {unit}".rstrip()


# ------------------------------------------------------------------ the program


@contextmanager
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="shoal-soak-") as folder:
        os.environ |= {"SHOAL_HOME": f"{folder}/home", "SHOAL_SLOTS": str(max(WORKERS))}
        yield Path(folder)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS, help=f"workers to kill (default {KILLS})")
    parser.add_argument("--resumes", type=int, default=RESUMES, help=f"runs to kill and resume (default {RESUMES})")
    parser.add_argument("--seed", type=int, default=0, help="of the times and victims (default 0)")
    return parser.parse_args()


def main() -> None:
    options, started = arguments(), time.monotonic()
    with home() as folder:
        soak = Soak(folder, options.seed)
        soak.kill_workers(options.kills)
        soak.kill_runs(options.resumes)
    text = page(soak.found, time.monotonic() - started, options.seed)
    print(text)
    if options.kills >= KILLS and options.resumes >= RESUMES:
        (ROOT / "docs" / "soak.md").write_text(text)
        print("Written to docs/soak.md")
    sys.exit(bool(soak.found.faults))


if __name__ == "__main__":
    main()
