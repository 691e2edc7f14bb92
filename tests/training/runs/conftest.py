"""Runs that put every round on record, by any number of workers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.engines.base import Engine
from shoal.training import recorder
from support.training import Trainer, opened


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and a home that the tests of this file share: nothing is read twice."""
    return tmp_path_factory.mktemp("training")


@pytest.fixture(autouse=True)
def _home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(place / "home"))
    monkeypatch.setattr(recorder, "BUDGET", math.inf)  # every round is put on record


@pytest.fixture
def run(tmp_path: Path) -> Trainer:
    return Trainer(tmp_path)


@pytest.fixture(scope="module")
def engines() -> Iterator[Callable[[int], Engine]]:
    """Engines by the number of their workers, 0 for this process; each is started once."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(opened(workers)) for workers in range(4)].__getitem__
