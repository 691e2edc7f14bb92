"""A first look at tables of very many columns: each is told as by NumPy, whatever its neighbours are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import shoal

WIDTH, ROWS = 12_001, 12  # more columns than are looked over to tell how a text is written


def cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}".replace(".", ",")


def test_columns_of_a_very_wide_table_are_told_one_by_one(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    values = np.round(random.normal(size=(ROWS, WIDTH)), 3)
    values[:, ::7] = np.round(values[:, ::7] * 3)  # few different whole ones
    values[3, ::11] = np.nan
    values[:, 5], values[:, 6], values[0, 8], values[1, 8] = 2.5, np.nan, 0.0, -0.0
    values[:, 9] = np.arange(ROWS)
    town = random.choice(["Bonn", "Rom"], ROWS)
    names = [*(f"c{i}" for i in range(WIDTH)), "town"]
    rows = (";".join([*map(cell, row), place]) for row, place in zip(values.tolist(), town, strict=True))
    (tmp_path / "wide.csv").write_text("\n".join([";".join(names), *rows, ""]))

    found = shoal.inspect(tmp_path / "wide.csv")
    assert (found.dialect["delimiter"], found.dialect["decimal"], found.dialect["header"]) == (";", ",", True)
    assert [column.name for column in found.columns] == names
    for column, own in zip(found.columns[:-1], values.T, strict=True):
        present = own[~np.isnan(own)]
        assert (column.missing, column.distinct) == (np.isnan(own).sum(), len(np.unique(present)))
        if len(np.unique(present)) > 1:
            bars, _ = np.histogram(present, 20)
            assert list(column.histogram) == bars.tolist()
    assert found.columns[-1].levels == ("Bonn", "Rom")
