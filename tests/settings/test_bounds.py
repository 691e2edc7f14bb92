"""docs/limits.md has the bounds that the program has: its table is compared with the constants that it names."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
ROW = re.compile(r"\| .+ \| ([\d,.]+)( MB| s| bytes| characters|) \| .+ \| `([\w.]+)\.([A-Z_]+)` \|")
ROWS = [match.groups() for line in PAGE.read_text().splitlines() if (match := ROW.fullmatch(line))]


def test_every_row_of_the_table_is_read() -> None:
    table = PAGE.read_text().partition("| of | at most |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(ROWS) == len(table) > 30


@pytest.mark.parametrize(("bound", "unit", "module", "name"), ROWS, ids=[f"{row[2]}.{row[3]}" for row in ROWS])
def test_a_bound_is_what_the_page_says(bound: str, unit: str, module: str, name: str) -> None:
    scale = 1 << 20 if unit == " MB" else 1
    assert getattr(importlib.import_module(f"shoal.{module}"), name) == float(bound.replace(",", "")) * scale
