"""A home of each test, and a data set in several blocks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from shoal.data.dataset import Dataset
from support.gradient.shards import frame
from support.tables import opened, small_pieces, written


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def cut_into_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: pd.DataFrame) -> Dataset:
    path = written(tmp_path, table.to_csv(index=False))
    with small_pieces(monkeypatch, 6000, 500):
        dataset = opened(path)
    assert len(dataset.blocks) > 8
    return dataset


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    return cut_into_blocks(tmp_path, monkeypatch, frame())
