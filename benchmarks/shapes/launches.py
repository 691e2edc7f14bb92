"""A hundred small runs, started one after the other as a page does: what a start costs, and when all are done."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

from benchmarks.cases import Measurement, span
from benchmarks.contestants import Shoal

RUNS = 100
SCRIPT = f"""
import json, sys, time
from shoal.runs.launch import launch, list_runs
from shoal.runs.documents import ENDED
from shoal.settings.values import config_from
seconds, begun = [], time.perf_counter()
for alpha in range({RUNS}):
    start = time.perf_counter()
    launch(config_from({{"file": sys.argv[1], "target": "y", "model": "ridge", "alpha": alpha + 1.0}}))
    seconds.append(time.perf_counter() - start)
listing = time.perf_counter()
list_runs()
listing = time.perf_counter() - listing
while not all(run.state in ENDED for run in list_runs()):
    time.sleep(0.2)
states = [run.state for run in list_runs()]
assert states == ["finished"] * {RUNS}, states
print(json.dumps([seconds, listing, time.perf_counter() - begun]))
"""


def launches(shoal: Shoal, path: Path, repeats: int) -> list[Measurement]:
    found = [json.loads(shoal.run([sys.executable, "-c", SCRIPT, str(path)]).output) for _ in range(repeats)]
    starts = [median(seconds) for seconds, _, _ in found]
    last = [seconds[-1] for seconds, _, _ in found]
    rates = [RUNS / whole for _, _, whole in found]
    lists = [listing for _, listing, _ in found]
    what = f"{RUNS} small fits, each a run of its own"
    return [
        Measurement(f"{what}: to start one", 1e3 * median(starts), "ms", 50, detail=f"the last of all {span(last)}"),
        Measurement(f"{what}: done a second", median(rates), "", 2, at_least=True, detail=f"listed in {span(lists)}"),
    ]
