"""A home and a small table for every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import frame


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    frame().to_csv(path, index=False)
    return path
