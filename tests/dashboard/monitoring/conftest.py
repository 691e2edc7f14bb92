"""A home of its own, and a server that lets nobody in without a token."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.dashboard.http import printed_address


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_address._UnusedToken, "token", "secret")
