"""`python -m benchmarks.soak`: kill processes of every kind again and again, in all modes; writes docs/soak.md.

What is killed, and how it is compared, is in `soaking`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.soaking import CHECKPOINTS, MODES, NEAR, WORKERS, Findings, Soak

PAGE = Path(__file__).parent.parent / "docs" / "soak.md"
KILLS = 1000  # in all
SHARES = {
    "workers": 0.56, "runs": 0.24, "jobs": 0.08, "schedulers": 0.04, "warm": 0.05, "searches": 0.02, "dashboards": 0.02,
}  # fmt: skip


def shares(kills: int) -> dict[str, int]:
    """How many of each kind, at least one; of workers and runs as many in each mode."""
    return {kind: max(1, round(kills * share)) for kind, share in SHARES.items()}


def harms(soak: Soak, kills: int) -> Iterator[Callable[[], None]]:
    wanted = shares(kills)
    for mode in MODES:
        yield partial(soak.kill_workers, max(1, wanted["workers"] // len(MODES)), mode)
        yield partial(soak.kill_runs, max(1, wanted["runs"] // len(MODES)), mode)
    yield partial(soak.kill_jobs, wanted["jobs"])
    yield partial(soak.kill_schedulers, wanted["schedulers"])
    yield partial(soak.kill_warm, wanted["warm"])
    yield partial(soak.kill_searches, wanted["searches"])
    yield partial(soak.kill_dashboards, wanted["dashboards"])


# ------------------------------------------------------------------ the page


def page(found: Findings, seconds: float, seed: int, homes: int = 1) -> str:
    kinds = [f"| {kind} | {count} | {found.ends[kind]} |" for kind, count in found.kills.items()]
    moments = ", ".join(f"{count} x {moment}" for moment, count in found.moments.items())
    facts = [
        f"- {found.kills.total():,} kills in {seconds:.0f} s: **{len(found.stuck)} stuck, {len(found.wrong)} wrong**.",
        f"- From the kill of a worker until a new one had joined in its place: {_spread(found.recoveries)}.",
        f"- From `resume` until training went on, file read anew where need be: {_spread(found.restarts)}.",
        f"- {found.given_up} runs were given up, since one request of a pass over all rows had lost three workers in "
        "a row. They said so, were resumed, and are compared like the others.",
        f"- Moments of killed runs (a checkpoint every {CHECKPOINTS:g} s): {moments}; {found.stopped_workers} of them "
        "with a stopped worker (SIGSTOP), which has to go as well.",
        f"- {found.stopped_warm} warm processes were stopped (SIGSTOP) in place of a kill.",
    ]
    faults = [f"- {fault}" for fault in (*found.stuck, *found.wrong)]
    faults = ["", "Faults:", "", *faults] if faults else []
    table = ["| killed (SIGKILL) | kills | ends compared |", "| --- | --- | --- |", *kinds]
    return "\n".join([*_introduction(seed, homes), "", *table, "", *facts, *faults, ""])


def _introduction(seed: int, homes: int) -> list[str]:
    return [
        "# Soak test",
        "",
        "Written by `make soak`: processes killed at random times, detached runs on 20,000 rows x 10 columns with "
        f"{', '.join(map(str, WORKERS))} workers.",
        "",
        "- Modes sync and local are compared with an undisturbed run in one process: weights, coefficients and scores "
        f"to the last bit. Modes ssp and async have to end within {NEAR:g} of the exact optimum.",
        "- Jobs (exact fits, looks at a file) have the same answer when they are done again; runs behind a killed "
        "scheduler start in their order; a killed search does all its trials; a killed dashboard harms no run.",
        "- Many exact fits at a time are forks of a warm process: a kill or a stop (SIGSTOP) of that interrupts none, "
        "and one of a fork only that fit, which is resumed. All have the same coefficients to the last bit.",
        "- No process, unfinished file or shared memory may be left behind. Stuck is what has not ended after 300 s.",
        "",
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {homes} at a time, seed {seed}. "
        "Ranges: lowest / median / highest.",
    ]


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "none"
    return " / ".join(f"{value:.2f}" for value in (min(values), statistics.median(values), max(values))) + " s"


# ------------------------------------------------------------------ the program


@contextmanager
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="shoal-soak-") as folder:
        os.environ |= {"SHOAL_HOME": f"{folder}/home", "SHOAL_SLOTS": str(max(WORKERS))}
        Path(folder, "home").mkdir()
        yield Path(folder)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS, help=f"processes to kill in all (default {KILLS:,})")
    parser.add_argument("--seed", type=int, default=0, help="of the times and victims (default 0)")
    parser.add_argument("--homes", type=int, default=1, help="homes in which kinds are killed side by side (default 1)")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page that is written (default docs/soak.md)")
    return parser.parse_args()


def soaked(seed: int, kills: int, part: int, homes: int) -> Findings:
    """Every so many kinds of harm, in a home of their own."""
    with home() as folder:
        soak = Soak(folder, seed + part)
        for harm in itertools.islice(harms(soak, kills), part, None, homes):
            harm()
        return soak.found


def main() -> None:
    options, started = arguments(), time.monotonic()
    with ProcessPoolExecutor(options.homes, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(soaked, options.seed, options.kills, part, options.homes) for part in range(options.homes)]
        found = functools.reduce(Findings.together, (part.result() for part in parts))
    text = page(found, time.monotonic() - started, options.seed, options.homes)
    options.out.write_text(text)
    print(f"{text}\nWritten to {options.out}")
    sys.exit(bool(found.stuck or found.wrong))


if __name__ == "__main__":
    main()
