"""Blocks made again from their source are the ones that were lost, bit by bit: of text, of Parquet, of several files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset, block_path
from shoal.data.dialects import Dialect
from shoal.data.files import Source
from shoal.data.kinds import Layout
from shoal.data.notation.numbers import Notation
from shoal.data.recipes.remaking import refilled
from shoal.data.recipes.sources import as_plain, source_from
from shoal.engines.inline import InlineEngine
from shoal.errors import SourceChanged
from shoal.kernels.csv_kernel import FieldKind
from shoal.settings import limits
from shoal.settings.config import RunConfig


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    chance = np.random.default_rng(seed)
    made = pd.DataFrame(chance.normal(size=(rows, 2)), columns=["x", "y"])
    made["c"] = chance.choice(["a", "b", "two\nlines, and a comma"], size=rows)
    made.loc[::7, "x"] = np.nan
    return made


def text(folder: Path) -> Path:
    frame(3000).to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def columns(folder: Path) -> Path:
    frame(3000).to_parquet(folder / "t.parquet", row_group_size=700)
    return folder / "t.parquet"


def parts(folder: Path) -> Path:
    """Small ones, of which blocks are put together, and one with levels that the others do not have."""
    (folder / "parts").mkdir()
    for number in range(4):
        made = frame(200, number)
        made.loc[0, "c"] = f"only {number}"
        made.to_csv(folder / "parts" / f"part-{number}.csv", index=False)
    return folder / "parts"


def read(path: Path, folder: Path) -> Dataset:
    with InlineEngine() as engine:
        return Coordinator(engine, folder / "home").open(RunConfig(file=str(path), target="y"))


@pytest.mark.parametrize("table", [text, columns, parts])
def test_what_is_lost_or_damaged_is_made_again(
    table: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BLOCK_BYTES", 20_000)
    dataset = refilled(read(table(tmp_path), tmp_path))
    assert len(dataset.blocks) >= 1
    for block in dataset.blocks:
        path = block_path(dataset.directory, block.index)
        before = path.read_bytes()
        path.unlink()
        dataset.numbers(block)
        assert path.read_bytes() == before
        path.write_bytes(b"?" * len(before))
        dataset.codes(block, 0)
        assert path.read_bytes() == before


def test_rows_that_are_not_what_they_were_are_refused(tmp_path: Path) -> None:
    path = text(tmp_path)
    dataset = refilled(read(path, tmp_path))
    path.write_text(path.read_text().replace("0.1", "0.2"))
    block_path(dataset.directory, 0).unlink()
    with pytest.raises(SourceChanged, match=r"'t\.csv' is not what it was when it was first read"):
        dataset.numbers(dataset.blocks[0])


def test_a_source_is_written_with_all_that_it_says() -> None:
    layout = Layout(
        ("a", "b", "c", "d"), (FieldKind.NUMBER, FieldKind.DATE, FieldKind.LEVEL, FieldKind.SKIP), (0, 3, 0, 0),
        frozenset({1}), {0: Notation(",", ".", True, "€", True)}, {2: ("-", "?")}, {1: "31/12/2021"}, {1: (1, 2)},
        frozenset({3}), (1, 0, 2, 3), frozenset({"c"}), {0: "half"}, frozenset({2}), frozenset({2}),
    )  # fmt: skip
    source = Source("file.csv", 100, Dialect(delimiter=";", decimal=",", missing=("-",)), layout, 9, 2)
    plain = json.loads(json.dumps(as_plain(source)))
    assert source_from(plain) == source
    assert set(plain["layout"]) == {field.name for field in dataclasses.fields(Layout)}
    assert set(plain) | {"notes"} == {field.name for field in dataclasses.fields(Source)}
