"""A home of its own for every page that is tested without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SHOAL_DATA", raising=False)
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the server that people may open files from."""
    path = tmp_path / "allowed"
    path.mkdir()
    monkeypatch.setenv("SHOAL_DATA", str(path))
    return path
