"""What is measured, and the aim that each figure is held against; how runs are made is in contestants."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.contestants import Contestant, Shoal, duckdb_read, imports, pandas_sklearn, polars_read, timings
from benchmarks.processes import ProcessOutcome
from benchmarks.tables import MadeTable

MEGABYTE = 1e6
Race = dict[str, list[ProcessOutcome]]

NEW_ALPHAS = """
import json, sys, time
import shoal
model = shoal.fit(sys.argv[1], target="y", model="ridge", alpha=1.0, workers=2)
seconds = []
for alpha in range(2, int(sys.argv[2]) + 2):
    start = time.perf_counter()
    model = model.refit(alpha=float(alpha))
    seconds.append(time.perf_counter() - start)
print(json.dumps(seconds))
"""


@dataclass(frozen=True)
class Measurement:
    """One line of the table: a figure and its aim, at most or at least `limit`."""

    what: str
    value: float
    unit: str
    limit: float
    at_least: bool = False
    detail: str = ""

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def interleaved(contestants: Mapping[str, Contestant], repeats: int) -> Race:
    """Everyone once, then everyone again: whatever else the machine does hits all alike."""
    race: Race = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, contestant in contestants.items():
            race[name].append(contestant())
    return race


def warm(path: Path) -> None:
    """Read the file once, so that it comes from the page cache for everyone."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def elapsed(outcome: ProcessOutcome) -> float:
    return outcome.seconds


def ingest(outcome: ProcessOutcome) -> float:
    return timings(outcome)["ingest"]


def ratio(race: Race, ours: str, theirs: str, seconds: Callable[[ProcessOutcome], float] = elapsed) -> float:
    """The median over rounds of our seconds by theirs; both of a round were run one after the other."""
    return median(seconds(a) / seconds(b) for a, b in zip(race[ours], race[theirs], strict=True))


def spans(race: Race, seconds: Callable[[ProcessOutcome], float] = elapsed) -> str:
    return "; ".join(f"{name} {span([seconds(o) for o in outcomes])}" for name, outcomes in race.items())


def span(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.3g} s ({min(seconds):.3g} to {max(seconds):.3g})"


# ------------------------------------------------------------------ the cases


def speed(shoal: Shoal, table: MadeTable, path: Path, repeats: int) -> list[Measurement]:
    """CSV to fitted ridge against polars and DuckDB, which only read, and pandas + scikit-learn, which fit as well."""
    warm(path)
    race = interleaved(
        {
            "shoal": shoal.ridge(path),
            "polars": polars_read(path),
            "DuckDB": duckdb_read(path),
            "pandas + scikit-learn": pandas_sklearn(path),
        },
        repeats,
    )
    detail, what = spans(race), f"{table.title}: CSV to fitted ridge"
    return [
        Measurement(f"{what} / polars.read_csv alone", ratio(race, "shoal", "polars"), "x", 1, detail=detail),
        Measurement(f"{what} / DuckDB reading alone", ratio(race, "shoal", "DuckDB"), "x", 1),
        Measurement(f"{what} / pandas + scikit-learn", ratio(race, "shoal", "pandas + scikit-learn"), "x", 1 / 3),
    ]


def new_alpha(shoal: Shoal, table: MadeTable, path: Path, repeats: int) -> list[Measurement]:
    """Other alphas in the Python process that fitted the file; all scores but MAE, which needs the rows."""
    seconds = json.loads(shoal.run([sys.executable, "-c", NEW_ALPHAS, str(path), str(repeats)]).output)
    detail = f"{span(seconds)}; the first {seconds[0]:.3g} s"
    return [Measurement(f"{table.title}: a new alpha, MAE aside", 1e3 * median(seconds), "ms", 20, detail=detail)]


def scaling(shoal: Shoal, table: MadeTable, path: Path, repeats: int) -> list[Measurement]:
    warm(path)
    race = interleaved({"1 worker": shoal.ridge(path, workers=1), "2 workers": shoal.ridge(path, workers=2)}, repeats)
    gain = ratio(race, "1 worker", "2 workers", ingest)
    what = f"{table.title}: ingest, 1 worker / 2 workers"
    return [Measurement(what, gain, "x", 1.7, at_least=True, detail=spans(race, ingest))]


def memory(shoal: Shoal, table: MadeTable, path: Path) -> Measurement:
    peak = shoal.train(path, workers=2, watch_memory=True).peak_memory / MEGABYTE
    return Measurement(f"{table.title}: peak memory of all processes", peak, "MB", 600)


def growth(short: Measurement, long: Measurement) -> Measurement:
    return Measurement("memory on the file four times longer / on the file", long.value / short.value, "x", 1.2)


def start_up(shoal: Shoal, table: MadeTable, path: Path, repeats: int) -> list[Measurement]:
    race = interleaved({"shoal": shoal.ridge(path), "imports": imports()}, repeats)
    what = f"{table.title}: CSV to fitted ridge / importing pandas and scikit-learn"
    return [Measurement(what, ratio(race, "shoal", "imports"), "x", 1.5, detail=spans(race))]


def hygiene(shoal: Shoal) -> Measurement:
    what = f"processes, segments and temporary files left by {shoal.runs} runs"
    return Measurement(what, len(shoal.left_behind), "", 0, detail="; ".join(shoal.left_behind[:5]))
