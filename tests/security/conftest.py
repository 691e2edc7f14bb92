"""A home of its own for every test, and the server's routes behind the gate without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware

from shoal.dashboard import server
from shoal.dashboard.http.gate import Gate


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def app(home: Path) -> Starlette:
    """As Streamlit puts it together, without its own routes."""
    return Starlette(routes=server.routes(), middleware=[Middleware(Gate)])
