"""A home of each test, and a finished run to copy into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.library import finished_run
from support.runs import run_home


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as found:
        found.mkdir()
        yield found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("finished"))
