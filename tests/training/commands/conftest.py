"""Runs that look for commands at every opportunity and put every round on record."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.training import conductor, recorder
from shoal.training.conductor import Conductor
from support.training import Bench, Post, Trainer, generated


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def data(place: Path) -> Path:
    return generated(place)


@pytest.fixture(autouse=True)
def _home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(place / "home"))
    monkeypatch.setattr(recorder, "BUDGET", math.inf)  # every round is put on record
    monkeypatch.setattr(conductor, "COMMANDS", 0.0)  # commands are looked for at every opportunity


@pytest.fixture
def run(tmp_path: Path) -> Trainer:
    return Trainer(tmp_path)


@pytest.fixture
def bench(run: Trainer) -> Bench:
    return run.bench()


@pytest.fixture
def post(bench: Bench) -> Post:
    """Leaves a command in the store, as another process would; the run looks at once, before it can come to its end."""

    def posting(name: str, **arguments: Any) -> Callable[[Conductor], Any]:
        def act(r: Conductor) -> None:
            bench.storage.post(name, arguments)
            r.commands.take()

        return act

    return posting
