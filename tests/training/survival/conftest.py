"""Undisturbed runs to compare with, and no run that goes on after a test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from shoal.runs.launch import launch
from support.chaos import EPOCHS, Yard, bits, sync_run, with_finish, write_table
from support.gates.orders import Orders
from support.processes import command_of
from support.runs import SLOW, ended


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("survival")
    data = write_table(folder / "table.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(folder / "home"))
        patch.setenv("SHOAL_SLOTS", "4")
        steps = launch(sync_run(data, engine="inline", epochs=EPOCHS))
        assert ended(steps) == "finished", steps.error
        finish = launch(with_finish(data, engine="inline"))
        assert ended(finish) == "finished", finish.error
        yield Yard(folder / "home", data, steps, bits(steps), bits(finish))


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    return Orders(tmp_path / "gates", monkeypatch)


@pytest.fixture(autouse=True)
def _no_run_goes_on(yard: Yard) -> Iterator[None]:
    yield
    shutil.rmtree(Path(os.environ["SHOAL_HOME"]) / "queue", ignore_errors=True)
    for process in psutil.Process().children():
        if "shoal.processes.run" in command_of(process):
            process.kill()
            process.wait(SLOW)
