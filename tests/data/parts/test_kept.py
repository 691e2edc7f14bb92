"""Parts in the cache: only what is new is read, what changes is noticed, and what is damaged is made again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.engines.inline import InlineEngine
from shoal.errors import ConfigError, DataError, SourceChanged
from shoal.passes.blocks import ReadRange
from shoal.settings.values import config_from
from support.tables import column, table

LINES = 6000  # of text in a part: enough to be worth keeping


class Watched(InlineEngine):
    """Says which files it was asked to read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def sweep(self, requests: Iterable[Any]) -> Iterator[Any]:
        asked = list(requests)
        self.read += [Path(request.source.path).name for request in asked if isinstance(request, ReadRange)]
        return super().sweep(asked)


def part(folder: Path, number: int, word: str = "word") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"part-{number}.csv"
    lines = (f"{i * number % 97},{i % 7}.25,{word}{(i + number) % 3}\n" for i in range(LINES))
    path.write_text("a,b,c\n" + "".join(lines))
    return path


def read(file: str | Path, home: Path, **knobs: Any) -> tuple[Dataset, list[str]]:
    with Watched() as engine:
        return Coordinator(engine, home).open(config_from({"file": str(file), **knobs})), engine.read


def test_only_new_and_changed_parts_are_read(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "p"
    for number in range(3):
        part(folder, number)
    assert read(folder, home)[1] == ["part-0.csv", "part-1.csv", "part-2.csv"]
    assert read(folder, home)[1] == []
    part(folder, 3, "late")
    grown, asked = read(folder, home)
    assert asked == ["part-3.csv"]
    part(folder, 1, "other")
    changed, asked = read(folder, home)
    assert asked == ["part-1.csv"]
    assert grown.directory != changed.directory
    assert set(column(changed, "c")) == {f"{word}{i}" for word in ("word", "other", "late") for i in range(3)}
    (folder / "part-0.csv").unlink()
    fewer, asked = read(folder, home)
    assert asked == []
    assert fewer.rows == 3 * LINES
    anew, asked = read(folder, tmp_path / "elsewhere")
    assert len(asked) == 3
    assert table(anew) == table(fewer)
    assert (anew.directory / "moments.npz").read_bytes() == (fewer.directory / "moments.npz").read_bytes()


def test_small_parts_share_a_block(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.csv").write_text("a,b\n" + "".join(f"{i + number},{i}\n" for i in range(5)))
    dataset, asked = read(folder, home)
    assert len(asked) == 40
    assert len(dataset.blocks) == 1
    assert column(dataset, "a") == [i + number for number in range(40) for i in range(5)]
    assert [Path(one.file).name for one in dataset.manifest.parts] == [f"{number}.csv" for number in range(40)]
    assert [one.rows for one in dataset.manifest.parts] == [5] * 40


def test_many_parts_take_few_descriptors(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "p"
    for number in range(12):
        part(folder, number)
    most = 0

    def counted(self: Dataset, block: Any, slot: int) -> Any:
        nonlocal most
        most = max(most, len(os.listdir("/proc/self/fd")))
        return original(self, block, slot)

    before, original = len(os.listdir("/proc/self/fd")), Dataset.level_map
    monkeypatch.setattr(Dataset, "level_map", counted)
    read(folder, home)
    assert most - before < 12


@pytest.mark.parametrize("what", ["changed", "came", "went"])
def test_a_part_that_changes_meanwhile_is_no_answer(tmp_path: Path, home: Path, what: str) -> None:
    folder = tmp_path / "p"
    for number in range(2):
        part(folder, number)

    class Meddling(InlineEngine):
        def sweep(self, requests: Iterable[Any]) -> Iterator[Any]:
            yield from super().sweep(requests)
            if what == "came":
                part(folder, 2)
            elif what == "went":
                (folder / "part-1.csv").unlink()
            else:
                part(folder, 1, "other")

    with Meddling() as engine, pytest.raises((SourceChanged, DataError), match=r"part-[12]\.csv"):
        Coordinator(engine, home).open(config_from({"file": str(folder)}))
    remains = [entry for entry in (home / "cache").iterdir() if entry.name.startswith(".")]
    assert remains == []


def test_damage_is_mended_in_table_and_part(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "p"
    part(folder, 1).write_bytes(part(folder, 0).read_bytes() * 1)
    part(folder, 1, "big")
    expected = shoal.fit(folder, "b", test_every=5).coefficients
    for block in (home / "cache").glob("*/block-*.bin"):
        with block.open("r+b") as file:
            file.seek(100)
            file.write(b"\xff" * 8)
    found = shoal.fit(folder, "b", test_every=5)
    assert found.coefficients == expected


def test_bits_do_not_depend_on_how_often_it_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    for number in range(3):
        part(folder, number)
    first = shoal.fit(folder, "b", test_every=5)
    part(folder, 3)
    shoal.fit(folder, "b", test_every=5)
    (folder / "part-3.csv").unlink()
    assert shoal.fit(folder, "b", test_every=5).coefficients == first.coefficients


def test_another_split_of_parts_that_are_known(tmp_path: Path) -> None:
    """Sums are kept for other residues than are asked for now: they are made again from the rows."""
    folder = tmp_path / "p"
    for number in range(2):
        part(folder, number)
    shoal.fit(folder, "b", exclude=["c"], test_every=5)
    part(folder, 2)
    found = shoal.fit(folder, "b", exclude=["c"], test_every=7)
    whole = tmp_path / "whole.csv"
    body = "".join((folder / f"part-{n}.csv").read_text().removeprefix("a,b,c\n") for n in range(3))
    whole.write_text("a,b,c\n" + body)
    expected = shoal.fit(whole, "b", exclude=["c"], test_every=7)
    np.testing.assert_allclose(found.intercept, expected.intercept, rtol=1e-12)
    np.testing.assert_allclose(found.coefficients["a"], expected.coefficients["a"], rtol=1e-9)


def test_nothing_is_named_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Expected files that '.*none-\*.csv' stands for, found none"):
        shoal.inspect(tmp_path / "none-*.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="Expected files with a table in the folder"):
        shoal.inspect(tmp_path / "empty")
    path = part(tmp_path / "p", 0)
    with pytest.raises(ConfigError, match=r"'part-0.csv' is named twice"):
        shoal.inspect([path, path])
    with pytest.raises(DataError, match="No such file"):
        shoal.inspect([path, tmp_path / "gone.csv"])
    star = tmp_path / "a*.csv"
    star.write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "ab.csv").write_text("a,b\n5,6\n")
    assert shoal.inspect(star)["rows"] == 2  # a file of that name is that file


def test_the_same_files_elsewhere_are_spoken_of_as_they_lie_there(tmp_path: Path, home: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for number in range(2):
        part(there, number)
    (there / "README.txt").write_text("about these\n")
    (there / "part-9.csv").write_text("")
    here.mkdir()
    for number in range(2):
        os.rename(part(here, number), here / f"other-{number}.csv")
    first, _ = read(there, home)
    assert "Other files of the folder are left out: README.txt." in first.notes
    second, _ = read(here, home)
    assert second.manifest.content == first.manifest.content
    assert list(second.notes) == []
    assert [Path(one.file) for one in second.manifest.parts] == [here / "other-0.csv", here / "other-1.csv"]
    assert read(there, home)[0].notes == first.notes
