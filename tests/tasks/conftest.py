"""A home of each test, and a table of numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables import frame_of, rows


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    frame_of(*rows()).to_csv(path, index=False, float_format="%.17g")
    return path
