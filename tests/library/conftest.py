"""A home of each test, a small table, and a finished run to copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gates.orders import Orders
from support.library import finished_run
from support.runs import run_home, small_table


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as found:
        found.mkdir()
        yield found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Orders:
    return Orders(tmp_path / "gates", monkeypatch)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("finished"))
