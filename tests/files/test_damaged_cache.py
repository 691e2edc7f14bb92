"""One damaged byte of a cached data set never becomes an answer: it is made again from the file, or said."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.engines.base import Engine
from shoal.engines.inline import InlineEngine
from shoal.engines.processes import ProcessEngine
from shoal.errors import DamagedFile, DataError
from shoal.home import MANIFEST, cache_directory
from shoal.passes.blocks import opened as kept
from shoal.settings.values import config_from
from shoal.tasks.train import train_with
from support.harm.damage import flip, swap, zero_page
from support.tables import opened, shoal, written

ROWS = 4000


def text() -> str:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, ROWS))
    town = rng.choice(["Bonn", "Rom", "Wien"], ROWS)
    y = a - 2 * b + (town == "Rom") + rng.normal(size=ROWS)
    rows = zip(a, b, town, y, strict=True)
    return "a,b,town,y\n" + "".join(f"{p:.6f},{q:.6f},{t},{v:.6f}\n" for p, q, t, v in rows)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.data.files.block_bytes", lambda numbers: 16_000)


def fitted(path: Path, engine: Engine, **knobs: Any) -> tuple[dict[str, float], tuple[str, ...]]:
    """Coefficients to the last bit, and the warnings; the test rows have a pass over the blocks too."""
    from shoal.home import home

    config = config_from({"file": str(path), "target": "y", "test_every": 5, **knobs})
    report = train_with(Coordinator(engine, home()), config).report
    return {**report.coefficients, "": report.intercept, "mae": report.test.mae}, report.warnings


def damaged_notes(warnings: tuple[str, ...]) -> list[str]:
    return [note for note in warnings if "was damaged and has been made again" in note]


def columns_renamed(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_text(path.read_text().replace('"Bonn"', '"Boon"', 1))


def names_changed(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_text(path.read_text().replace('"name":"a"', '"name":"c"', 1))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flip": lambda d: flip(d / "block-000001.bin", random.Random(1)),
    "page": lambda d: zero_page(d / "block-000001.bin", random.Random(2)),
    "short": lambda d: os.truncate(d / "block-000001.bin", 4096),
    "gone": lambda d: (d / "block-000001.bin").unlink(),
    "swap": lambda d: swap(d / "block-000001.bin", d / "block-000002.bin"),
    "levels": lambda d: flip(d / "levels.npz", random.Random(3)),
    "levels gone": lambda d: (d / "levels.npz").unlink(),
    "a level": columns_renamed,
    "a name": names_changed,
    "manifest": lambda d: flip(d / MANIFEST, random.Random(4)),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.usefixtures("small_blocks")
def test_damage_is_mended_once_and_changes_no_bit(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, text())
    with InlineEngine() as engine:
        expected, said = fitted(path, engine)
        assert damaged_notes(said) == []
        (folder,) = (p for p in cache_directory().iterdir() if (p / MANIFEST).exists())
        assert len(list(folder.glob("block-*.bin"))) > 3
        DAMAGE[kind](folder)
        kept.cache_clear()  # as another process would: this one has levels in memory, which are what they were
        found, said = fitted(path, engine)
        assert found == expected
        assert len(damaged_notes(said)) == 1
        found, said = fitted(path, engine)  # said once
        assert (found, damaged_notes(said)) == (expected, [])


@pytest.mark.usefixtures("small_blocks")
def test_a_worker_that_comes_upon_damage_says_so_and_all_is_done_again(tmp_path: Path) -> None:
    path = written(tmp_path, text())
    with ProcessEngine(2) as engine:
        expected, _ = fitted(path, engine)
        (folder,) = (p for p in cache_directory().iterdir() if (p / MANIFEST).exists())
        for _ in range(2):  # also in the processes that have it mapped already
            flip(folder / "block-000003.bin", random.Random(6))
            found, said = fitted(path, engine)
            assert found == expected
            assert len(damaged_notes(said)) == 1


@pytest.mark.usefixtures("small_blocks")
def test_moments_are_proven(tmp_path: Path) -> None:
    path = written(tmp_path, text())
    with InlineEngine() as engine:
        knobs = {"exclude": ["town"], "test_every": 0}
        expected, _ = fitted(path, engine, **knobs)
        (folder,) = (p for p in cache_directory().iterdir() if (p / MANIFEST).exists())
        flip(folder / "moments.npz", random.Random(7))
        found, said = fitted(path, engine, **knobs)
        assert repr(found) == repr(expected)
        assert len(damaged_notes(said)) == 1


def test_twice_in_a_row_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, text())
    with InlineEngine() as engine:
        fitted(path, engine)
        (folder,) = (p for p in cache_directory().iterdir() if (p / MANIFEST).exists())
        commit = "shoal.data.cache.Cache.commit"
        real = __import__("shoal.data.cache", fromlist=["Cache"]).Cache.commit

        def failing_disk(cache: Any, directory: Path, key: str) -> Dataset:
            dataset: Dataset = real(cache, directory, key)
            flip(folder / "block-000000.bin", random.Random(9))
            return dataset

        monkeypatch.setattr(commit, failing_disk)
        flip(folder / "block-000000.bin", random.Random(8))
        with pytest.raises(DamagedFile, match="the disk or the memory of this machine may be failing"):
            fitted(path, engine)


def test_damage_without_the_file_is_a_sentence(tmp_path: Path) -> None:
    path = written(tmp_path, text())
    with InlineEngine() as engine:
        fitted(path, engine)
        (folder,) = (p for p in cache_directory().iterdir() if (p / MANIFEST).exists())
        flip(folder / "block-000000.bin", random.Random(8))
        path.unlink()
        with pytest.raises(DataError, match="Expected a file at"):
            fitted(path, engine)


def test_the_manifest_and_the_entry_of_another_table_are_damage(tmp_path: Path) -> None:
    one, two = written(tmp_path, "a,b\n1,2\n3,4\n", "one.csv"), written(tmp_path, "a,b\n5,6\n7,8\n", "two.csv")
    folders = [opened(path).directory for path in (one, two)]
    swap(*(folder / MANIFEST for folder in folders))
    assert [opened(path).numbers(opened(path).blocks[0])[0, 0] for path in (one, two)] == [1.0, 5.0]
    swap(*sorted((cache_directory() / "index").glob("*.json")))
    assert [opened(path).numbers(opened(path).blocks[0])[0, 0] for path in (one, two)] == [1.0, 5.0]


def test_a_changed_profile_is_made_again(tmp_path: Path) -> None:
    path = written(tmp_path, text())
    first = shoal("inspect", path, "--json").json
    (saved,) = cache_directory().glob("*/profile.json")
    saved.write_text(saved.read_text().replace('"distinct": ', '"distinct": 1', 1))
    assert shoal("inspect", path, "--json").json == first


def test_what_was_made_again_meanwhile_is_not_removed_once_more(tmp_path: Path) -> None:
    """Two processes come upon the same damage; the second one to say so finds it mended."""
    from shoal.data.cache import Cache
    from shoal.home import home

    dataset = opened(written(tmp_path, text()))
    flip(dataset.directory / "block-000000.bin", random.Random(1))
    with pytest.raises(DamagedFile) as seen:
        dataset.numbers(dataset.blocks[0])
    first, second = Cache(home()), Cache(home())
    first.discard(seen.value)
    assert not dataset.directory.exists()
    again = opened(tmp_path / "table.csv")
    second.discard(seen.value)
    assert again.is_whole()
    assert second.repairs == []


def test_a_data_set_of_the_version_before_is_made_anew_and_may_be_cleaned_up(tmp_path: Path) -> None:
    from shoal.library.cleaning import Criteria, plan

    path = written(tmp_path, text())
    dataset = opened(path)
    old = dataset.directory.with_name("0" * 24)
    shutil.copytree(dataset.directory, old)
    manifest = json.loads((old / MANIFEST).read_text())
    (old / MANIFEST).write_text(json.dumps({k: v for k, v in manifest.items() if k != "checksum"} | {"format": 2}))
    assert [item.path for item in plan("data", Criteria(unused=True)).items if item.path == old] == [old]
    with pytest.raises(DamagedFile, match="got none"):
        Dataset(old)
