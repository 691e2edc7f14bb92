"""A point or comma before three digits: a decimal mark or one between thousands, told by what stands beside it, or said."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables import Cell, column, opened, written

# name: (text, the values of column 'n', words of a note; none if there is to be no note)
FILES: dict[str, tuple[str, list[Cell], str]] = {
    "whole numbers far above": ('"k";"n"\n"a";"574"\n"b";"1.023"\n"c";"1.306"\n', [574.0, 1023.0, 1306.0], "read as thousands. If the point is a decimal one, say so (decimal: .)"),
    "with a currency": ("k;n\na;€ 574\nb;€ 1.023\nc;€ 12.306\n", [574.0, 1023.0, 12306.0], "read as thousands"),
    "another column tells": ("k;n\n574;1.250\n1.023;2.500\n1.306;3.120\n", [1250.0, 2500.0, 3120.0], "Columns 'k', 'n' have"),
    "decimal commas elsewhere": ("k;n\n1,5;1.250\n2;2.500\n3,25;3.125\n", [1250.0, 2500.0, 3125.0], "written like 1.234,56"),
    "below one": ("k;n\na;1.250\nb;2.500\nc;0.125\n", [1.25, 2.5, 0.125], ""),
    "fewer digits": ("k;n\na;574\nb;1.023\nc;1.5\n", [574.0, 1.023, 1.5], ""),
    "decimal points elsewhere": ("k;n\n1.5;1.250\n2;2.500\n3.25;3.125\n", [1.25, 2.5, 3.125], ""),
    "nothing tells": ("k;n\na;1.250\nb;2.500\nc;3.125\n", [1.25, 2.5, 3.125], "Column 'n' has numbers such as 1.250, read as decimals. If the point groups thousands, say so (thousands: .)."),
    "whole numbers near": ("k,n\na,2\nb,1.125\nc,3\nd,1.375\n", [2.0, 1.125, 3.0, 1.375], "read as decimals"),
    "commas": ("k;n\na;1,459\nb;1,329\nc;1,500\n", [1459.0, 1329.0, 1500.0], "read as thousands. If the comma is a decimal one, say so (decimal: ,)."),
    "decimal commas beside a unit": ("k\tn\n0,74 kg\t7,000\n12,5 kg\t12,000\n3,25 kg\t31,500\n", [7.0, 12.0, 31.5], "written like 1.234,56"),
    "a word of points": ("k;j;n\n1,5;1980;9.500\n2;..;12.250\n3,25;1999;1.250\n", [9500.0, 12250.0, 1250.0], "written like 1.234,56"),
    "a unit without marks": ("k;n\n1,5;89 m²\n2;950 m²\n3,25;120 m²\n", [89.0, 950.0, 120.0], "written like 1.234,56 m²"),
    "commas in quotes": ('k,n\na,"7,465"\nb,159\nc,"18,783"\n', [7465.0, 159.0, 18783.0], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_thousands_are_told_from_decimals_or_said(name: str, tmp_path: Path) -> None:
    text, values, words = FILES[name]
    dataset = opened(written(tmp_path, text))
    assert column(dataset, "n") == values
    notes = " ".join(dataset.manifest.notes)
    assert words in notes if words else not notes


def test_what_was_assumed_can_be_said_otherwise(tmp_path: Path) -> None:
    sure = written(tmp_path, FILES["whole numbers far above"][0], "sure.csv")
    assert column(opened(sure, decimal="."), "n") == column(opened(sure, thousands=""), "n") == [574.0, 1.023, 1.306]
    undecided = written(tmp_path, FILES["nothing tells"][0], "open.csv")
    assert column(opened(undecided, thousands="."), "n") == [1250.0, 2500.0, 3125.0]
    commas = written(tmp_path, FILES["commas"][0], "commas.csv")
    assert column(opened(commas, decimal=","), "n") == [1.459, 1.329, 1.5]
    assert opened(undecided, decimal=".").manifest.notes == opened(undecided, thousands="").manifest.notes == ()
