"""Many fits started at a time by one process: they come from a warm one, on which nothing depends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from shoal.runs import spawning
from shoal.runs.launch import Run, launch
from shoal.settings.values import config_from
from support.runs import run_home, small_table, until


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In a home of its own, where the first fit is one of many already; the warm process is gone at the end."""
    monkeypatch.setattr(spawning, "MANY", 0)
    monkeypatch.setattr(spawning, "IDLE", 0.2)
    with run_home(tmp_path / "home", monkeypatch):
        yield small_table(tmp_path)
        until(lambda: spawning._warmth._warm is None)


def fits(table: Path, count: int) -> list[Run]:
    return [launch(config_from({"file": str(table), "target": "y"})) for _ in range(count)]


def warm_number() -> int:
    warm = spawning._warmth._warm
    assert warm is not None
    return warm._process.pid


def assert_right(runs: list[Run], table: Path) -> None:
    until(lambda: all(run.state == "finished" for run in runs))
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    X = np.column_stack([np.ones(len(rows)), rows[:, :3]])
    known = np.linalg.lstsq(X, rows[:, 3], rcond=None)[0]
    for run in runs:
        assert run.result is not None
        found = run.result["coefficients"]
        np.testing.assert_allclose([run.result["intercept"], *(found[name] for name in "abc")], known, rtol=1e-9)


def test_they_are_right_and_the_warm_process_is_gone_when_idle(table: Path) -> None:
    assert_right(fits(table, 5), table)


def test_a_warm_process_that_is_killed_loses_nothing(table: Path) -> None:
    runs = fits(table, 3)
    os.kill(warm_number(), signal.SIGKILL)  # it has hardly begun to import
    until(lambda: any(run.is_alive for run in runs))
    assert_right(runs, table)


def test_other_settings_are_not_those_of_the_warm_process(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fits(table, 1)
    monkeypatch.setenv("SHOAL_SLOTS", "2")
    told = set(spawning._warmth._told)
    runs = fits(table, 1)
    assert set(spawning._warmth._told) <= told
    assert_right([*first, *runs], table)
