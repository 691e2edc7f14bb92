"""Exports as `benchmarks.reading.exports` makes them: each is read exactly, or something is said of it that is not said of
the table that it means."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import shoal
from support.tables import opened, table

SCRIPTS = Path(__file__).parents[3] / "benchmarks" / "reading"
SEED = 11
TOLD = {  # what a reader cannot know; all others are to be exact
    "codes_9", "codes_99", "codes_999", "colons_between", "fixed_width", "guarded",
    "polish", "words_in_numbers", "words_of_france", "office", "other_office",
}  # fmt: skip


def script(name: str) -> ModuleType:
    """A module of the benchmarks, which are no part of the package."""
    spec = importlib.util.spec_from_file_location(f"reading_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


exports, cells = script("exports"), script("cells")


def said(path: Path) -> set[str]:
    found = opened(path).manifest
    offered = {f"{c.name} {c.words} {c.codes} {c.totals} {c.orders}" for c in shoal.inspect(path).columns
               if c.words or c.codes or c.totals or c.orders}  # fmt: skip
    return {*found.notes, *(row.told for row in found.bad_rows), *offered}


def grid(path: Path) -> Any:
    dataset = opened(path)
    return cells.Grid(list(dataset.columns), [list(row.values()) for row in table(dataset)])


@pytest.mark.parametrize("name", exports.KINDS)
def test_an_export_is_read_as_it_is_meant_or_something_is_said(name: str, tmp_path: Path) -> None:
    messy, clean = exports.made(name, SEED)
    (tmp_path / "messy.csv").write_bytes(messy)
    (tmp_path / "clean.csv").write_text(exports.written(clean, ",", "\n"), "utf-8")
    if cells.same_table(grid(tmp_path / "messy.csv"), cells.Grid(clean[0], clean[1:]), headed=True):
        return
    assert name in TOLD
    assert said(tmp_path / "messy.csv") - said(tmp_path / "clean.csv")
