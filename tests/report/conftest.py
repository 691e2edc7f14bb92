"""Models with their reports, each made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from support.report import Made


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path_factory.getbasetemp() / "home"))


# ------------------------------------------------------------------ models


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """A model and its page, each made once."""
    known: dict[str, Made] = {}

    def made(frame: Callable[[], pd.DataFrame], target: str, **knobs: Any) -> Made:
        key = f"{frame.__name__} {target} {sorted(knobs.items())}"
        if key not in known:
            known[key] = Made(tmp_path_factory.mktemp("report"), frame(), target, knobs)
        return known[key]

    return made
