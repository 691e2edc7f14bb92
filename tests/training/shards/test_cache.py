"""Shards that are found again, and those that were damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.engines.inline import InlineEngine
from shoal.errors import DamagedFile
from shoal.passes.shards import Gather, dealt_path
from shoal.solve.least_squares import Standardisation
from shoal.training.objectives.shards import derive
from shoal.worker import Worker
from support.gradient.shards import ENCODING, all_rows, contents, coordinator, derived, rows_and_units
from support.harm.damage import flip, swap, zero_page


class Lazy(InlineEngine):
    """An engine that must not be asked."""

    def sweep(self, requests: Iterable[Any]) -> Iterator[Any]:
        raise AssertionError("the shards are made again")


def test_shards_are_found_again_and_others_for_other_questions(dataset: Dataset, home: Path) -> None:
    split = Split(every=5)
    _, _, units = rows_and_units(split)
    first = derived(home, dataset, split)
    with Lazy() as engine:
        assert derive(coordinator(engine, home), dataset, ENCODING, split, units) == first
    off = units.scale.copy()
    off[0] *= 1 + 1e-15
    others = [
        derived(home, dataset, split, units=units, seed=1),
        derived(home, dataset, split, units=units, shards=3),
        derived(home, dataset, split, units=units, dtype="float64"),
        derived(home, dataset, split, units=units, partition="contiguous"),
        derived(home, dataset, Split(every=6), units=units),
        derived(home, dataset, split, units=Standardisation(units.centre, off, units.constant, units.y_mean, True)),
        derived(home, dataset, split, units=Standardisation(units.centre, units.scale, units.constant, 1.0, True)),
    ]
    assert len({shards.directory for shards in (first, *others)}) == 8


def relabelled(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(
        path.read_text().replace('"dtype": "float32"', '"dtype": "float64"').replace('"width": 6', '"width": 5')
    )


DAMAGE: list[Callable[[Path], object]] = [
    relabelled,
    lambda d: os.truncate(d / "shard-000001.bin", 100),
    lambda d: (d / "shard-000002.bin").unlink(),
    lambda d: os.truncate(d / "held.bin", 10),
    lambda d: (d / "manifest.json").unlink(),
    lambda d: (d / "manifest.json").write_text("[]"),
    lambda d: (d / "manifest.json").write_text("{"),
    lambda d: (d / "manifest.json").write_text(json.dumps({"rows": [1]})),
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_shards_are_made_anew(damage: Callable[[Path], object], dataset: Dataset, home: Path) -> None:
    first = derived(home, dataset, Split(every=5), shards=4)
    expected = contents(first)
    rows = all_rows(first)  # maps the files: they must not be read through these maps any more
    damage(Path(first.directory))
    again = derived(home, dataset, Split(every=5), shards=4)
    assert (again, contents(again)) == (first, expected)
    assert all_rows(again).tobytes() == rows.tobytes()


CHANGED: list[Callable[[Path], object]] = [
    lambda d: flip(d / "shard-000001.bin", random.Random(1)),
    lambda d: zero_page(d / "shard-000002.bin", random.Random(1)),
    lambda d: swap(d / "shard-000001.bin", d / "shard-000002.bin"),
]


@pytest.mark.parametrize("change", CHANGED)
def test_changed_rows_are_damage_when_a_process_maps_them(
    change: Callable[[Path], object], dataset: Dataset, home: Path
) -> None:
    shards = derived(home, dataset, shards=4)
    all_rows(shards)  # who has mapped them already looks again
    change(Path(shards.directory))
    with pytest.raises(DamagedFile):
        all_rows(shards)


def test_changed_test_rows_are_damage_too(dataset: Dataset, home: Path) -> None:
    shards = derived(home, dataset, Split(every=5), shards=4)
    assert shards.held() is not None
    flip(Path(shards.directory) / "held.bin", random.Random(1))
    with pytest.raises(DamagedFile, match="held"):
        shards.held()


def test_rows_that_were_dealt_are_proven_when_they_are_gathered(
    dataset: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in ("hash", "contiguous"):
        real = Gather.answer

        harmed: list[str] = []

        def after_damage(gather: Gather, worker: Worker, real: Any = real, harmed: list[str] = harmed) -> Any:
            if not harmed:
                harmed.append(dealt_path(gather.folder, 0))
                flip(Path(harmed[0]), random.Random(3))
            return real(gather, worker)

        with monkeypatch.context() as patched:
            patched.setattr(Gather, "answer", after_damage)
            with pytest.raises(DamagedFile, match="dealt-000000"):
                derived(home, dataset, shards=4, partition=partition)


def test_a_file_cut_short_is_an_error_and_not_the_end_of_the_process(dataset: Dataset, home: Path) -> None:
    shards = derived(home, dataset, shards=4)
    shards.open(1)
    os.truncate(Path(shards.directory) / "shard-000001.bin", 100)
    with pytest.raises(DamagedFile, match=r"expected \d+ bytes, got 100"):
        shards.open(1)
    shutil.rmtree(shards.directory)
    with pytest.raises(DamagedFile, match="expected a file"):
        shards.open(1)


def test_rows_are_read_only_and_mapped_once(dataset: Dataset, home: Path) -> None:
    shards = derived(home, dataset, shards=2)
    X, y = shards.open(0)
    assert X.flags.c_contiguous
    assert not X.flags.writeable
    assert not y.flags.writeable
    assert shards.open(0)[0] is X
