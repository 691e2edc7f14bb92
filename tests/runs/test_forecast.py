"""What a run will need, against what real runs really needed; and what is said where it will not fit."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from shoal.results.answers.table import ColumnLook, TableLook
from shoal.runs.forecast import Forecast, FreeResources, TableShape, forecast, readable
from shoal.runs.launch import Run, launch, launch_job
from shoal.settings.config import RunConfig
from shoal.settings.limits import MB, SOLVING, memory_for_exact
from shoal.settings.values import config_from
from shoal.solve.moments import plan_cells
from support.processes import tree_memory

GB = 1 << 30
ROOMY = FreeResources(64 * GB, 640 * GB, 2)


# ------------------------------------------------------------------ real runs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write_table(path: Path, rows: int, width: int, levels: int = 0) -> Path:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, width)).round(2)
    y = (X.sum(axis=1) + rng.normal(size=rows)).round(2)
    table = np.column_stack([X, y]).astype(str)
    names = [*(f"c{i}" for i in range(width)), "y"]
    if levels:
        table = np.column_stack([table, rng.integers(levels, size=rows).astype(str)])
        table[:, -1] = np.char.add("level ", table[:, -1])
        names.append("t")
    path.write_text("\n".join([",".join(names), *map(",".join, table)]) + "\n")
    return path


def peaks(run: Run, home: Path) -> tuple[int, int]:
    """The most memory that the processes of a run held together, and the most bytes under the home folder."""
    memory = disk = 0
    deadline = time.monotonic() + 60
    while run.is_active:
        assert time.monotonic() < deadline
        if pid := run.pid:
            try:
                memory = max(memory, tree_memory(psutil.Process(pid)))
            except psutil.NoSuchProcess:
                break
        disk = max(disk, on_disk(home))
        time.sleep(0.005)
    return memory, max(disk, on_disk(home))


def on_disk(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):  # what goes meanwhile is passed by
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


CASES: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {
    "exact, small": ((500, 4, 0), {}),
    "exact, wide": ((800, 600, 0), {}),
    "exact, many levels, test rows": ((60_000, 2, 300), {"test_every": 5, "max_levels": 400}),
    "gradient": ((60_000, 40, 0), {"solver": "gradient", "workers": 2, "epochs": 1, "tolerance": 0}),
    "gradient, one process": (
        (30_000, 60, 0),
        {"solver": "gradient", "engine": "inline", "epochs": 1, "tolerance": 0, "mode": "local"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_needs_about_what_was_foreseen(case: str, home: Path, tmp_path: Path) -> None:
    size, knobs = CASES[case]
    config = config_from({"file": str(write_table(tmp_path / "t.csv", *size)), "target": "y", **knobs})
    look = launch_job("inspect", RunConfig(file=config.file))
    while look.is_active:
        time.sleep(0.02)
    assert look.result is not None, look.error
    before = on_disk(home)
    foreseen = forecast(TableLook.from_dict(look.result), config)
    assert foreseen.state == "fine"
    run = launch(config)
    memory, disk = peaks(run, home)
    assert run.state == "finished", run.error
    assert run.result is not None
    assert foreseen.shape.design == len(run.result["coefficients"])
    # Load on the machine decides how much of it is seen; being above by half does no harm, below it does.
    assert memory < 1.35 * foreseen.memory, f"{readable(memory)} needed, {readable(foreseen.memory)} foreseen"
    assert foreseen.memory < 2.2 * memory, f"{readable(memory)} needed, {readable(foreseen.memory)} foreseen"
    assert disk - before < 1.2 * foreseen.disk + MB
    assert foreseen.disk < 2.5 * (disk - before) + MB


# ------------------------------------------------------------------ the numbers themselves


def column(name: str, type_: str = "numeric", missing: int = 0, distinct: int = 50) -> ColumnLook:
    return ColumnLook(name, type_, missing, distinct)


def table(rows: int = 100_000, numbers: int = 30, *more: ColumnLook) -> TableLook:
    columns = (column("y"), *(column(f"c{i}") for i in range(numbers)), *more)
    return TableLook(file="", rows=rows, dialect={}, columns=columns)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file of which only the size counts."""
    path = tmp_path / "t.csv"
    with path.open("wb") as out:
        out.truncate(100 * MB)
    return str(path)


def foreseen(file: str, found: TableLook | None = None, machine: FreeResources = ROOMY, **knobs: Any) -> Forecast:
    return forecast(found or table(), config_from({"file": file, "target": "y", **knobs}), machine)


def test_columns_are_counted_as_the_design_makes_them() -> None:
    gap, text, wide = column("g", missing=3), column("t", "categorical", 2, 5), column("w", "text", 0, 500)
    found = table(1000, 2, gap, text, wide)
    config = config_from({"target": "y"})
    shape = TableShape.of(found, config, 0)
    assert (shape.base, shape.design) == (2 + 2 + 6, 2 + 1 + 5)  # the wide one has too many levels
    assert TableShape.of(found, dataclasses.replace(config, coding="full"), 0).design == 2 + 1 + 6
    assert TableShape.of(found, dataclasses.replace(config, indicators=True), 0).design == 2 + 2 + 5
    assert TableShape.of(found, dataclasses.replace(config, impute="drop"), 0).base == 2 + 1 + 5
    assert TableShape.of(found, dataclasses.replace(config, max_levels=500), 0).design == 2 + 1 + 5 + 499
    assert TableShape.of(found, dataclasses.replace(config, features=("c0",)), 0).design == 1
    assert TableShape.of(found, dataclasses.replace(config, exclude=("t", "w")), 0).design == 3


def test_levels_that_are_kept_sparse_need_no_matrix_of_columns(file: str) -> None:
    found = table(1_000_000, 2, column("t", "text", 0, 19_000))
    small = FreeResources(memory=1 << 30, disk=1 << 40, cores=2)
    ridge = {"model": "ridge", "alpha": 1.0}
    assert foreseen(file, found, small, **ridge, max_levels=20_000).state == "refused"
    sparse = foreseen(file, found, small, **ridge, max_levels="unlimited")
    assert sparse.state in ("fine", "tight")
    assert foreseen(file, found, small, **ridge, max_levels=20_001).memory == sparse.memory
    assert (
        "fewer columns" in foreseen(file, found, FreeResources(1 << 28, 1 << 40, 2), **ridge, max_levels=30_000).advice
    )


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"workers": 2}, {"workers": 4}),
        ({"solver": "gradient", "precision": "float32"}, {"solver": "gradient", "precision": "float64"}),
        ({"solver": "gradient", "workers": 1}, {"solver": "gradient", "workers": 3}),
        ({"solver": "gradient", "shards": 32}, {"solver": "gradient", "shards": 4}),
    ],
    ids=str,
)
def test_more_of_anything_needs_no_less_memory(file: str, less: dict[str, Any], more: dict[str, Any]) -> None:
    assert foreseen(file, **less).memory < foreseen(file, **more).memory


@pytest.mark.parametrize("solver", ["exact", "gradient"])
def test_a_larger_table_needs_no_less(file: str, solver: str) -> None:
    sizes = [(1000, 5), (100_000, 5), (100_000, 200), (100_000, 1500), (2_000_000, 1500)]
    found = [foreseen(file, table(*size), solver=solver) for size in sizes]
    assert sorted(f.disk for f in found) == [f.disk for f in found]
    assert found[-1].memory > found[0].memory
    by_width = [foreseen(file, table(100_000, width), solver=solver).memory for width in (30, 100, 1000, 1900)]
    assert sorted(by_width) == by_width


def test_an_exact_fit_needs_no_disk_and_gradient_steps_a_copy_of_the_rows(file: str) -> None:
    assert foreseen(file).disk == 0
    found = foreseen(file, solver="gradient", precision="float64")
    assert found.disk == pytest.approx(2 * 100_000 * 31 * 8, rel=0.01)


# ------------------------------------------------------------------ what is said


def test_all_is_well(file: str) -> None:
    found = foreseen(file, workers=2, solver="gradient")
    assert (found.state, found.advice) == ("fine", "")
    assert found.verdict == (
        f"About {readable(found.memory)} of memory on 2 workers and {readable(found.disk)} of disk; "
        "69 GB of memory and 687 GB of disk are free."
    )
    assert "disk" not in foreseen(file).verdict


@pytest.mark.parametrize(
    ("machine", "knobs", "state", "advice"),
    [
        (FreeResources(200 * MB, 640 * GB, 2), {"workers": 8}, "memory", "use fewer workers"),
        (FreeResources(64 * GB, 10 * MB, 2), {"solver": "gradient"}, "disk", "Solve exactly"),
        (FreeResources(150 * MB, 640 * GB, 2), {"workers": 2}, "tight", "most of what is free"),
    ],
)
def test_too_little_is_said_with_a_way_out(
    file: str, machine: FreeResources, knobs: dict[str, Any], state: str, advice: str
) -> None:
    found = foreseen(file, machine=machine, **knobs)
    assert found.state == state
    assert advice in found.advice


def test_what_the_exact_solver_refuses_is_said_before(file: str) -> None:
    wide = table(10_000, 9000)
    found = foreseen(file, wide, FreeResources(2 * GB, 640 * GB, 2))
    with pytest.raises(Exception, match="exact solver needs"):
        plan_cells(found.shape.base + 1, 2, memory_for_exact(2 * GB), SOLVING, least=2)
    assert found.state == "refused"
    assert "gradient steps" in found.advice
    assert not foreseen(file, wide, FreeResources(2 * GB, 640 * GB, 2), solver="gradient").refused
    assert not foreseen(file, wide, FreeResources(16 * GB, 640 * GB, 2)).refused
    assert plan_cells(found.shape.base + 1, 2, memory_for_exact(16 * GB), SOLVING, least=2)


@pytest.mark.parametrize("knobs", [{"weights": "c2"}, {"model": "logistic"}, {"model": "poisson"}])
def test_rows_that_are_always_summed_are_foreseen_as_such(file: str, knobs: dict[str, Any]) -> None:
    """More columns than rows: a plain fit takes the rows, while weights and other losses need matrices of all columns."""
    wide, machine = table(300, 20_000), FreeResources(16 * GB, 640 * GB, 2)
    assert foreseen(file, wide, machine).state == "fine"
    found = foreseen(file, wide, machine, **knobs)
    assert (found.state, "gradient" in found.advice) == ("refused", False)


def test_the_choice_of_a_penalty_is_foreseen_with_the_fit(file: str) -> None:
    wide = table(100, 20_000)
    given, chosen = (foreseen(file, wide, model="ridge", alpha=alpha).parts["solving"] for alpha in (1.0, None))
    assert chosen > 2 * given


@pytest.mark.parametrize(
    ("count", "text"), [(0, "less than 1 MB"), (1e6, "1.0 MB"), (12.3e6, "12 MB"), (999e6, "999 MB"), (76e9, "76 GB")]
)
def test_bytes_for_the_eye(count: float, text: str) -> None:
    assert readable(count) == text
