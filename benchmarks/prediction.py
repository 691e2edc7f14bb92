"""How long predictions of many rows take, next to reading them; how a run is made is in contestants."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.cases import Measurement, interleaved, ratio, spans, warm
from benchmarks.contestants import Contestant, Shoal, polars_read
from benchmarks.tables import MadeTable

READING = "shoal train"  # from CSV to a fitted ridge: reading is nearly all of it
LIMIT = 3.0


def prediction(shoal: Shoal, table: MadeTable, path: Path, repeats: int) -> list[Measurement]:
    """Predictions of a file that was never read before, without and with its columns beside them."""
    warm(path)
    with tempfile.TemporaryDirectory(prefix="predictions-", dir=shoal.homes) as folder:
        model = Path(folder) / "model.json"
        fit = [*shoal.command, "train", str(path), "--target", "y", "--model", "ridge", "--alpha", "1"]
        shoal.run([*fit, "--out", str(model)])
        race = interleaved(
            {
                READING: shoal.ridge(path),
                "polars.read_csv": polars_read(path),
                "shoal predict": _predict(shoal, model, path),
                "with one column": _predict(shoal, model, path, "--keep", "x0"),
                "with all columns": _predict(shoal, model, path, "--keep", "all"),
            },
            repeats,
        )
    ours = {"": "shoal predict", ", one column kept": "with one column", ", all columns kept": "with all columns"}
    return [
        Measurement(
            f"{table.title}: predicting from CSV to CSV{kept} / reading and fitting", ratio(race, name, READING), "x",
            LIMIT, detail=spans(race) if not kept else "",
        )
        for kept, name in ours.items()
    ]  # fmt: skip


def _predict(shoal: Shoal, model: Path, path: Path, *more: str) -> Contestant:
    out = model.with_name("predictions.csv")
    command = [*shoal.command, "predict", str(model), str(path), "--out", str(out), "--workers", "2", *more]
    return lambda: shoal.run(command)
