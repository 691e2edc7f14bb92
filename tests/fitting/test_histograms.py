"""Histograms and counts of columns: those of NumPy, whatever the blocks and workers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shoal.dashboard.tables.samples import SAMPLES
from shoal.files import sealed
from shoal.fitting.histograms import BINS, histogram
from shoal.settings.values import config_from
from shoal.tasks.train import look
from support.tables import written


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize("key", list(SAMPLES))
def test_histograms_and_counts_are_those_of_numpy(key: str) -> None:
    path = SAMPLES[key].ensure()
    found = look(config_from({"file": str(path), "engine": "inline"}))
    data = pd.read_csv(path)
    for column in found["columns"]:
        values = data[column["name"]].dropna()
        if column["type"] == "numeric":
            assert column["histogram"] == np.histogram(values, BINS)[0].tolist()
        elif column["type"] == "categorical":
            assert dict(column["frequent"]) == dict(Counter(values))
    assert sum("histogram" in c for c in found["columns"]) > 2


def test_histograms_add_up_over_blocks_and_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.settings.limits.BLOCK_BYTES", 1 << 14, raising=True)
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.normal(size=20_000).round(4), "t": rng.choice(list("abcdefghijklmn"), 20_000)})
    data.loc[::7, "x"] = np.nan
    data.to_csv(tmp_path / "t.csv", index=False)
    for engine in ("inline", "processes"):
        monkeypatch.setenv("SHOAL_HOME", str(tmp_path / engine))
        x, t = look(config_from({"file": str(tmp_path / "t.csv"), "engine": engine, "workers": 2}))["columns"]
        assert x["histogram"] == np.histogram(data["x"].dropna(), BINS)[0].tolist()
        wanted = sorted(Counter(data["t"]).items(), key=lambda pair: (-pair[1], pair[0]))[:10]
        assert [tuple(pair) for pair in t["frequent"]] == wanted


@pytest.mark.parametrize(
    ("values", "counts"),
    [([3.0, 3.0], [2]), ([], [0]), ([-1.7e308, 0.0, 1.7e308], [1, *[0] * 9, 1, *[0] * 8, 1]), ([0.0, np.inf], [])],
)
def test_histograms_of_odd_columns(values: list[float], counts: list[int]) -> None:
    array = np.array(values)
    ends = (float(array.min()), float(array.max())) if values else (None, None)
    assert histogram(array, *ends).tolist() == counts


def test_a_profile_of_an_earlier_format_is_made_anew(tmp_path: Path, home: Path) -> None:
    path = written(tmp_path, "x,t\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(30)))
    config = config_from({"file": str(path), "engine": "inline"})
    found = look(config)
    saved = next(home.glob("cache/*/profile.json"))
    kept = saved.read_text()
    for damage in ('{"x": [30, true, true]}', "{", "[]"):
        saved.write_text(damage)
        assert look(config) == found
        assert saved.read_text() == kept
    changed = json.loads(kept)
    changed["columns"]["x"]["distinct"] = 77
    sealed.write(saved, changed, of=saved.parent.name)
    assert look(config)["columns"][0]["distinct"] == 77  # one of this format is used


def test_counts_are_those_of_numpy() -> None:
    random = np.random.default_rng(3)
    for scale in (1e-9, 1.0, 1e12):
        for values in (
            random.normal(size=50) * scale,
            np.arange(40) * 0.1 * scale,
            np.round(random.normal(size=30), 1),
        ):
            low, high = float(values.min()), float(values.max())
            assert histogram(values, low, high).tolist() == np.histogram(values, BINS, (low, high))[0].tolist()
