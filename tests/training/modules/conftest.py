"""Runs of modules that put every round on record."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from shoal.training import recorder
from support.training import Trainer


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(recorder, "BUDGET", math.inf)


@pytest.fixture
def run(tmp_path: Path) -> Trainer:
    return Trainer(tmp_path)
