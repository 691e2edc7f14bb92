"""A fit of a few made-up rows before the first real one, in a folder that is gone afterwards: for a process that others
are forked from.

What is made when it is first used (methods of data classes, patterns, tables of codecs, the kernels' libraries) is then
there for every fork, which would make it anew each time: half of the processor time of a small fit.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from shoal.errors import Standing
from shoal.fitting.model_file import save_model
from shoal.runs.folder import Run, read_config, write_json, write_state
from shoal.settings.values import config_from
from shoal.tasks.train import coordinated, train_with

ROWS = 60
TIMES = 2  # the second finds its data set in the cache, as most fits of a team do


def rehearse() -> None:
    """Whatever goes wrong here is told by the fit that it goes wrong for."""
    with contextlib.suppress(Exception), tempfile.TemporaryDirectory(prefix="shoal-rehearsal-") as name:
        fits_in(Path(name))


def fits_in(folder: Path) -> list[Run]:
    table = folder / "table.csv"
    lines = [f"{(7 * i) % 13}.5,{(5 * i) % 11 or ''},{'uvw'[i % 3]},{i % 17}.25" for i in range(ROWS)]
    table.write_text("\n".join(["a,b,kind,y", *lines, ""]))
    return [_fitted(table, folder / f"run-{number}") for number in range(TIMES)]


def _fitted(table: Path, directory: Path) -> Run:
    """As `processes.run` does it, from its documents to its last word."""
    directory.mkdir()
    run = Run(directory)
    write_json(directory / "job.json", {"task": "train"})
    write_json(directory / "config.json", config_from({"file": str(table), "target": "y"}).as_dict())
    config = read_config(run)
    with coordinated(config, kept_in=table.parent) as coordinator:
        trained = train_with(coordinator, config, run.id)
    save_model(run.model_path, trained.model)
    write_json(directory / "result.json", trained.report.as_dict())
    write_state(directory, Standing("finished"))
    return run
