"""Sheets of Excel workbooks as CSV text, row by row; what the text means is found where all text is looked at.

A formula is the value that was stored with it. Numbers, dates and truth values are written as such, whatever the sheet
shows them as.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import itertools
import warnings
import zipfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from shoal.data.formats.workbook_parts import BoundedParts
from shoal.errors import ConfigError, DataError, ResourceError
from shoal.settings.limits import SHEET_ROWS, most_unpacked
from shoal.words import did_you_mean, file_size, listed

FIRST_ROWS = 1000  # that tell how wide the table is
WORKBOOK = "xl/workbook.xml"
MIDNIGHT = datetime.time()


def is_workbook(path: Path) -> bool:
    """Whether a zip archive is a workbook."""
    with contextlib.suppress(OSError, zipfile.BadZipFile), path.open("rb") as file, zipfile.ZipFile(file) as archive:
        return WORKBOOK in archive.NameToInfo
    return False


def chosen_sheet(path: Path, wanted: str) -> tuple[str, list[str]]:
    """The sheet that is read: the one that was asked for by name or number, else the first with a table."""
    with _opened(path) as book, _damage_told(path):
        names = [sheet.title for sheet in book.worksheets]
        if wanted:
            return _found(wanted, names), []
        visible = [sheet.title for sheet in book.worksheets if sheet.sheet_state == "visible"] or names
        filled = [name for name in visible if any(_rows(book[name], 100))]
        if not filled:
            raise DataError(
                f"Expected a sheet with a table in '{path.name}', got empty ones only. Choose another file."
            )
        chosen = next((name for name in filled if _has_table(book[name])), filled[0])
        others = [name for name in names if name != chosen]
        if not others:
            return chosen, []
        why = f", since '{filled[0]}' has no table" if chosen != filled[0] else ""
        return chosen, [
            f"The workbook has {len(names)} sheets; '{chosen}' is read{why}. Others (sheet): {listed(others, 8)}."
        ]


def _has_table(sheet: Any) -> bool:
    """Whether several rows of a sheet have several cells, unlike a title or some notes."""
    return sum(sum(map(bool, row)) > 1 for row in _rows(sheet, 100)) > 1


def sheet_names(path: Path) -> list[str]:
    with _opened(path) as book:
        return [sheet.title for sheet in book.worksheets]


def _found(wanted: str, names: Sequence[str]) -> str:
    alike = {name.strip().casefold(): name for name in reversed(names)}
    if wanted in names:
        return wanted
    if wanted.strip().casefold() in alike:
        return alike[wanted.strip().casefold()]
    if wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        return names[int(wanted) - 1]
    meant = did_you_mean(wanted, names) or " Choose one of them."
    raise ConfigError(f"Expected one of the sheets {listed(names, 12)}, got '{wanted}'.{meant}", knobs=["sheet"])


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The workbook, whose parts may be no larger than any packed file may become."""
    try:
        from openpyxl.reader.excel import ExcelReader
    except ImportError:
        raise ResourceError("Expected the package openpyxl, which reads workbooks; it is not installed.") from None
    _check_size(path)
    # What it says of styles, extensions and the like of a workbook says nothing of its values.
    warnings.filterwarnings("ignore", category=UserWarning, module="openpyxl")
    with path.open("rb") as file:  # openpyxl goes by the name of what it opens itself
        try:  # as `openpyxl.load_workbook` does, which would take an archive without bounds
            reader = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
            reader.archive = BoundedParts(file, path.name)
            reader.read()
            book = reader.wb
        except DataError:
            raise
        except Exception as error:  # damaged archives and documents raise whatever they like
            raise _damaged(path, error) from error
        try:
            yield book
        finally:
            book.close()


def _check_size(path: Path) -> None:
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise _damaged(path, error) from None
    packed = path.stat().st_size
    if size > most_unpacked(packed):
        raise DataError(
            f"Expected '{path.name}', which has {file_size(packed)}, to unpack to {file_size(most_unpacked(packed))} "
            f"at most, but its parts have {file_size(size)}. Save the sheet as CSV and use that."
        )


def _damaged(path: Path, error: Exception) -> DataError:
    what = str(error) or type(error).__name__
    return DataError(f"'{path.name}' is not a whole Excel workbook: {what}. Save it again, or save the sheet as CSV.")


@contextlib.contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    """A sheet that cannot be read to its end is damaged, whatever is raised for it."""
    try:
        yield
    except (ConfigError, DataError, MemoryError, OSError):
        raise
    except Exception as error:
        raise _damaged(path, error) from error


def _rows(sheet: Any, most: int | None = None) -> Iterator[list[str]]:
    """The rows as texts up to their last cell with something in it; empty rows are empty."""
    sheet.reset_dimensions()  # what the file says of its size is often wrong
    parts: BoundedParts = sheet.parent._archive
    for count, row in enumerate(itertools.islice(sheet.iter_rows(values_only=True), most)):
        if count == SHEET_ROWS:
            raise DataError(
                f"Expected at most {SHEET_ROWS:,} rows in a sheet, as Excel has them, but '{sheet.title}' of "
                f"'{parts.name}' goes on. Save it as CSV and use that."
            )
        parts.row_ended()
        cells = [_text(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        yield cells


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        moment = value + datetime.timedelta(microseconds=500)  # days as doubles: what is left of a second is rounding
        moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        return moment.date().isoformat() if moment.time() == MIDNIGHT else moment.isoformat(" ")
    if isinstance(value, datetime.timedelta):
        return repr(value.total_seconds() / 86400)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def _lines(path: Path, sheet: str) -> Iterator[bytes]:
    """The rows as lines of one width; a row with more cells than the first ones have keeps them."""
    with _opened(path) as book, _damage_told(path):
        rows = _rows(book[sheet])
        first = list(itertools.islice(rows, FIRST_ROWS))
        width = max(map(len, first), default=0)
        made = io.StringIO()
        write = csv.writer(made, lineterminator="\n").writerow
        for row in itertools.chain(first, rows):
            if row:
                write(row + [""] * (width - len(row)))
            else:
                made.write("\n")
            if made.tell() > 1 << 16:
                yield made.getvalue().encode("utf-8", "replace")
                made.seek(made.truncate(0))
        yield made.getvalue().encode("utf-8", "replace")


class SheetText(io.RawIOBase):
    """The text of a sheet as a file."""

    def __init__(self, path: Path, sheet: str) -> None:
        self.lines: Iterator[bytes] = _lines(path, sheet)
        self.rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        while not self.rest:
            piece = next(self.lines, None)
            if piece is None:
                return 0
            self.rest = memoryview(piece)
        count = min(len(target), len(self.rest))
        target[:count], self.rest = self.rest[:count], self.rest[count:]
        return count

    def close(self) -> None:
        if isinstance(self.lines, Generator):
            self.lines.close()
        super().close()


def sheet_text(path: Path, sheet: str) -> IO[bytes]:
    return io.BufferedReader(SheetText(path, sheet))
