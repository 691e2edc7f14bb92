"""The parts of a workbook's archive, which may hold only so many things: a few bytes of markup become an object each.

Bytes are bounded where the archive is opened; nothing here knows what a sheet is.
"""

from __future__ import annotations

import zipfile
from typing import IO, Any

from shoal.errors import DataError
from shoal.settings.limits import most_marks

SHARED_TEXTS = "sharedStrings.xml"
ROW_MARKS = 500_000  # between two rows of a sheet, or after the last: the widest row that Excel writes has 115,000
PART_MARKS = 200_000  # of styles, names and the like, which become the largest objects


class BoundedParts(zipfile.ZipFile):
    """An archive whose parts count the marks ('<' and '=': elements and attributes) that are read of them.

    What is read as a whole has few. Of what is read piece by piece, shared texts have as many as their packed size
    explains; a sheet may have any number in all, but each row is gone when the next one comes: `row_ended` counts anew.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file)
        self.name = name
        self._sheet: _CountedPart | None = None

    def read(self, name: Any, pwd: bytes | None = None) -> bytes:
        with super().open(name, pwd=pwd) as part:
            return _CountedPart(part, PART_MARKS, self._what(name)).read()

    def open(self, name: Any, mode: Any = "r", pwd: bytes | None = None, *, force_zip64: bool = False) -> Any:
        part = super().open(name, mode, pwd, force_zip64=force_zip64)
        info = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        if info.filename.endswith(SHARED_TEXTS):
            return _CountedPart(part, most_marks(info.compress_size), self._what(name))
        self._sheet = _CountedPart(part, ROW_MARKS, f"a row in {self._what(name)}")
        return self._sheet

    def row_ended(self) -> None:
        if self._sheet is not None:
            self._sheet.marks = 0

    def _what(self, part: Any) -> str:
        return f"'{getattr(part, 'filename', part)}' of '{self.name}'"


class _CountedPart:
    """A part as a file to be read, until it has more than so many marks."""

    def __init__(self, part: IO[bytes], most: int, what: str) -> None:
        self.part, self.most, self.what, self.marks = part, most, what, 0

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        data = self.part.read(size)
        self.marks += data.count(b"<") + data.count(b"=")
        if self.marks > self.most:
            raise DataError(
                f"Expected at most {self.most:,} elements and attributes in {self.what}, got more: they would take far "
                "more memory than the file has bytes. Save the sheet as CSV and use that."
            )
        return data

    @property
    def closed(self) -> bool:
        return self.part.closed

    def close(self) -> None:
        self.part.close()

    def __enter__(self) -> _CountedPart:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
