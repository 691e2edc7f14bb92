"""Predictions written as their table is: with its delimiter, decimal mark and encoding, so that the same spreadsheet
opens both. Only numbers that were predicted change their mark; cells of the table stay as they are."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any

from shoal.lazy.classes import dataclass

ROWS = 10_000  # at a time
_NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class TableStyle:
    """The marks of a table that is text."""

    delimiter: str
    decimal: str
    encoding: str

    @property
    def is_usual(self) -> bool:
        """Whether predictions are written so anyway."""
        return (self.delimiter, self.decimal) == (USUAL.delimiter, USUAL.decimal)

    def __str__(self) -> str:
        between = {"\t": "tab", " ": "space"}.get(self.delimiter, self.delimiter)
        return f"{between} and 0{self.decimal}5"


USUAL = TableStyle(",", ".", "utf-8")


def table_style(dialect: Mapping[str, Any], said: Iterable[str]) -> TableStyle:
    """How a table is written, by the dialect of its data set; the usual one of a table that is no text, such as
    Parquet. What is `said` in predictions, such as classes, may need another encoding than that of their table.
    """
    encoding = dialect["encoding"]
    try:
        "".join(said).encode(encoding)
    except UnicodeEncodeError:
        encoding = "utf-8"
    return TableStyle(dialect["delimiter"], dialect["decimal"], encoding)


class Rewriting:
    """Lines of CSV in the style of a table; `made` columns at the end of each are predictions."""

    def __init__(self, style: TableStyle, made: int) -> None:
        self.style, self.made = style, made
        # Spreadsheets take UTF-8 for what it is by the mark at its beginning.
        encoding = "utf-8-sig" if style.encoding == "utf-8" and not style.is_usual else style.encoding
        self._encoder = codecs.getincrementalencoder(encoding)("replace")

    def __call__(self, lines: bytes) -> bytes:
        """The next lines, whole ones."""
        return self._rows(csv.reader(io.StringIO(lines.decode(), newline="")))

    def pieces(self, path: Path) -> Iterator[bytes]:
        """All lines of a file."""
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            while made := self._rows(islice(rows, ROWS)):
                yield made

    def _rows(self, rows: Iterable[list[str]]) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.style.delimiter, lineterminator="\r\n")
        for row in rows:
            writer.writerow([*row[: -self.made], *map(self._marked, row[-self.made :])])
        return self._encoder.encode(out.getvalue())

    def _marked(self, cell: str) -> str:
        return cell.replace(".", self.style.decimal) if _NUMBER.fullmatch(cell) else cell


class RewrittenFile:
    """A file that is given lines of CSV and holds them rewritten."""

    def __init__(self, file: IO[bytes], rewriting: Rewriting) -> None:
        self.file, self.rewriting = file, rewriting

    def write(self, lines: bytes) -> None:
        self.file.write(self.rewriting(lines))
