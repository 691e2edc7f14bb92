"""One small table, written in any dialect."""

from __future__ import annotations

import csv
import io
from typing import Any

from support.tables import Cell

ROWS = [[1.0, 2.5, "x"], [2.0, None, "y"], [3.0, -7.25, "x"], [4.0, 1e-3, "zz top"]]
NAMES = ["n", "value", "text"]


def text_of(
    rows: list[list[Cell]] = ROWS, header: list[str] | None = NAMES, delimiter: str = ",", end: str = "\n",
    decimal_mark: str = ".", quoting: Any = csv.QUOTE_MINIMAL,
) -> str:  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    if header:
        writer.writerow(header)
    for row in rows:
        writer.writerow([
            "" if cell is None else cell if isinstance(cell, str) else repr(cell).replace(".", decimal_mark)
            for cell in row
        ])  # fmt: skip
    return out.getvalue()


PLAIN = text_of()
