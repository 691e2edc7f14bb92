"""How a text table is written (encoding, delimiter, quotes, decimal mark, header ...), and a sample of it read so."""

from __future__ import annotations

import codecs
import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from shoal.errors import ConfigError, DataError
from shoal.kernels.csv_kernel import PADDING, Marks, ParserState, Written, library
from shoal.lazy.classes import dataclass
from shoal.lazy.patterns import pattern
from shoal.settings.limits import MOST_COLUMNS
from shoal.words import LINE_BREAKS, listed, tidy_name

DEFAULT_MISSING = (
    "", "NA", "N/A", "#N/A", "<NA>", "n/a", "NaN", "nan", "NAN", "-nan", "-NaN", "null", "NULL", "Null",
    "None", "?", ".", "-", "--", "#NA", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?",
    "#NUM!", "\\N",
)  # fmt: skip
SINGLE_BYTE = {
    "utf-8", "ascii", "latin-1", "iso8859-1", "cp1252", "iso8859-15", "iso8859-2", "cp1250", "cp1251", "koi8-r",
    "cp866", "cp1253", "iso8859-7", "cp1254", "cp1255", "cp1256", "cp874", "cp1257",
}  # fmt: skip
SAMPLE_ROWS, SAMPLE_CELLS = 300, 4000  # looked at one by one: enough to tell, and little next to starting a process
SAMPLE_LEAST = 5  # rows, however wide
SAMPLE_MOST = 1 << 20  # cells: what has more before its fifth row is no table that anybody can use

NUMBER = pattern(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
HASHED = pattern(r"#\s*[^\W\d]")  # a name behind the mark of a comment
GROUPED = pattern(r"[+-]?[1-9]\d{0,2}([., '\u00a0\u202f\u2009\u2019])\d{3}(\1\d{3})*([.,]\d+)?")


@dataclass(frozen=True)
class Dialect:
    """Everything one must know to read the bytes as a table; marks that are not used are empty."""

    encoding: str = "utf-8"
    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    decimal: str = "."
    thousands: str = ""
    comment: str = ""
    newline: str = "\n"
    skip_lines: int = 0
    header: bool = True
    missing: tuple[str, ...] = DEFAULT_MISSING
    sheet: str = ""  # of a workbook

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote", "escape", "decimal", "thousands", "comment", "newline"):
            mark = getattr(self, name)
            if len(mark.encode()) > 1 or (not mark and name in ("delimiter", "decimal", "newline")):
                raise ConfigError(f"Expected one ASCII character as {name}, got {mark!r}. Give a single character.")
        if self.delimiter in (self.decimal, self.quote, self.newline):
            raise ConfigError(
                f"The delimiter {self.delimiter!r} is also the decimal mark, quote or line end. Choose another one."
            )

    @property
    def text_encoding(self) -> str:
        """The encoding of the bytes that the kernel sees: others are rewritten as UTF-8 first."""
        return self.encoding if self.encoding in SINGLE_BYTE else "utf-8"

    @property
    def rewrites(self) -> bool:
        return self.encoding not in SINGLE_BYTE

    def marks(self) -> Marks:
        names = (
            self.delimiter,
            self.quote,
            self.escape,
            self.decimal,
            self.thousands,
            self.comment,
            self.newline,
        )
        numbers_missing = any(NUMBER.fullmatch(token) or GROUPED.fullmatch(token) for token in self.missing)
        return Marks(*(ord(mark) if mark else 0 for mark in names), numbers_missing)

    def text(self, raw: bytes, written: int) -> str:
        """A field's bytes as the text they stand for."""
        text = raw.decode(self.text_encoding, errors="replace")
        return self._unescaped(text) if written == Written.ESCAPED else text

    def texts(
        self, data: memoryview, starts: list[int], ends: list[int], written: list[int], used: list[bool]
    ) -> list[str]:
        """The texts of many fields, "" for those not used; nearly all stand there as they are."""
        encoding = self.text_encoding
        found = [str(data[a:b], encoding, "replace") if u else "" for a, b, u in zip(starts, ends, used, strict=True)]
        for place in [i for i, how in enumerate(written) if how == Written.ESCAPED and used[i]]:
            found[place] = self._unescaped(found[place])
        return found

    def _unescaped(self, text: str) -> str:
        """The text within quotes; where one opens behind a blank, those within are letters: "the "old" inn"."""
        out, inside, letters, i = [], True, False, 1
        while i < len(text):
            mark = text[i]
            if inside and self.escape and mark == self.escape and i + 1 < len(text):
                i += 1
                out.append(text[i])
            elif inside and mark == self.quote and text[i + 1 : i + 2] == self.quote:
                i += 1
                out.append(mark)
            elif inside and mark == self.quote:
                letters = letters or (
                    text[i - 1] == " " and text[i + 1 : i + 2].isalnum() and text.endswith(self.quote)
                )
                inside = letters and i + 1 < len(text)
                out += [mark] if inside else []
            else:
                out.append(mark)
            i += 1
        return "".join(out)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "missing": list(self.missing)}


def dialect_from(values: Mapping[str, Any]) -> Dialect:
    return Dialect(**{**values, "missing": tuple(values["missing"])})


def split(sample: bytes, dialect: Dialect, at_end: bool, rows: int | None = SAMPLE_ROWS) -> list[list[str]]:
    """The cells of a sample as text, by the kernel that reads the whole file."""
    return [[text for text, _ in row] for row in split_with_places(sample, dialect, at_end, rows)]


def split_with_places(sample: bytes, dialect: Dialect, at_end: bool, rows: int | None) -> list[list[tuple[str, int]]]:
    buffer = np.zeros(len(sample) + PADDING, np.uint8)
    buffer[: len(sample)] = np.frombuffer(sample, np.uint8)
    buffer[len(sample)] = ord(dialect.newline)
    cells = np.empty((min(len(sample) + 1, SAMPLE_MOST if rows is not None else len(sample) + 1), 4), np.int64)
    # A few cells are enough, unless the rows are so wide that these are not a few rows.
    room = SAMPLE_CELLS if rows is not None else len(cells)
    while True:
        parser = ParserState(
            buffer=buffer.ctypes.data, length=len(sample), at_end=at_end, marks=dialect.marks(),
            row_room=rows if rows is not None else len(cells),
        )  # fmt: skip
        count = library().split(ctypes.byref(parser), cells.ctypes.data, min(room, len(cells)))
        if parser.rows >= SAMPLE_LEAST or room >= len(cells):
            break
        room *= 2
    if not parser.rows and sample.count(dialect.delimiter.encode()) >= SAMPLE_MOST:
        raise DataError(too_many_columns(SAMPLE_MOST))
    table: list[list[tuple[str, int]]] = []
    encoding, current = dialect.text_encoding, list[tuple[str, int]]()
    for row, offset, length, written in cells[:count].tolist():
        if row == len(table):
            table.append(current := [])
        raw = sample[offset : offset + length]
        plain = written != Written.ESCAPED  # as nearly all cells stand there, of which there may be very many
        current.append((raw.decode(encoding, "replace") if plain else dialect.text(raw, written), offset))
    return [row for row in table if len(row) > 1 or row[0][0] or row[0][1]]


def too_many_columns(count: int) -> str:
    return (
        f"Expected at most {MOST_COLUMNS:,} columns, got {count:,} or more in a line. "
        "Check the delimiter and line ends, or leave columns out of the file."
    )


def as_kernel_bytes(sample: bytes, encoding: str, at_end: bool) -> bytes:
    """The sample as the kernel sees it: no byte-order mark, one byte for every mark."""
    if encoding in SINGLE_BYTE:
        return sample.removeprefix(codecs.BOM_UTF8) if encoding == "utf-8" else sample
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    return decoder.decode(sample, final=at_end).removeprefix("\ufeff").encode()


def body(text: bytes, dialect: Dialect) -> bytes:
    """The sample from its first row on."""
    return text[offset_of_line(text, dialect.skip_lines, dialect.newline) :]


def offset_of_line(text: bytes, line: int, newline: str) -> int:
    offset = 0
    for _ in range(line):
        offset = text.find(newline.encode(), offset) + 1
        if offset == 0:
            return len(text)
    return offset


def column_names(
    first: Sequence[str], width: int, header: bool, last_is_empty: bool, empty: Collection[int] = ()
) -> tuple[list[str], list[str]]:
    """One name a column, all different, and what had to be done to the header for that.

    `empty`: columns that have nothing in them and are not spoken of.
    """
    if not header:
        return [str(i) for i in range(width)], []
    names, notes = list(map(tidy_name, first)), []
    if broken := sum(LINE_BREAKS.search(name.strip()) is not None for name in first):
        one = broken == 1
        notes.append(
            f"The {'name' if one else 'names'} of {broken} {'column goes' if one else 'columns go'} over several "
            "lines, which are joined by blanks."
        )
    if len(names) == width - 1:
        names = [*names, ""] if last_is_empty else ["row_name", *names]
        notes.append(f"The header has {len(first)} names for {width} columns; the missing name was added.")
    elif len(names) != width:
        notes.append(f"The header has {len(first)} names, the rows have {width} cells; names were cut or numbered.")
        names = (names + [""] * width)[:width]
    if all(HASHED.match(name) for name in names if name):  # as some banks mark every name
        names = [name.removeprefix("#").strip() for name in names]
    unique: dict[str, None] = {}
    nameless: list[str] = []
    for i, name in enumerate(names):
        name = name.removeprefix("#").strip() if i == 0 and HASHED.match(name) else name
        if not name:
            name = str(i)
            nameless += [f"'{name}'"] if i not in empty else []
        chosen, k = name, 0
        while chosen in unique:
            k += 1
            chosen = f"{name}.{k}"
        if chosen != name:
            notes.append(f"The name '{name}' comes twice; the later column is called '{chosen}'.")
        unique[chosen] = None
    if nameless:
        one = len(nameless) == 1
        notes.append(
            f"{'Column' if one else 'Columns'} {listed(nameless, 8)} {'has' if one else 'have'} no name in the header "
            f"and {'is' if one else 'are'} called by {'its place' if one else 'their places'}, counted from 0."
        )
    return list(unique), notes
