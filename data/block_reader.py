"""One byte range of a text table read into one block: the kernel called, its oddities settled, all rows summed up."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.data.files import Source
from shoal.data.kinds import encoded_marks
from shoal.data.notation.dates import means_no_day
from shoal.data.notation.limits import told_as
from shoal.data.notation.numbers import ODD_SHARE
from shoal.data.notation.spelling import in_one_spelling
from shoal.data.notation.styles import also_fitting, date_of, months
from shoal.data.notation.words import MOST, VALUES, is_word
from shoal.errors import DataError, OutOfMemory
from shoal.files.checksums import Seal, write_whole
from shoal.files.remote import RemoteFile, is_address
from shoal.kernels.csv_kernel import (
    BAD_ROW,
    LEVEL,
    ODDITY,
    PADDING,
    ColumnNotation,
    Dictionary,
    FieldKind,
    ParserState,
    RowFault,
    Status,
    library,
    powers_of_five,
)
from shoal.lazy.classes import dataclass
from shoal.models import Array
from shoal.settings.limits import BLOCK_LEVELS, MANY_LEVELS, ROW_BYTES
from shoal.solve.moments import Moments, by_residue
from shoal.utils import disk_errors, read_at
from shoal.words import plural

OVERLAP = 64 << 10  # read past a range, to finish the row that its end cuts
EXPECTED = {FieldKind.DATE: "a date", FieldKind.TIME: "a time of day"}  # of columns that are not just numbers
SAMPLED_ROWS, SAMPLED_CELLS = 64, 1 << 14  # of a block, that tell about where its columns lie
SHOWN_BAD_ROWS = 100  # located one by one for each block; all are counted

Scratch = Callable[[str, int], npt.NDArray[np.uint8]]  # (name, bytes) -> memory to use again


@dataclass(frozen=True)
class BadRow:
    """A row or value that could not be read: `row` counts from the block's first, `line` from its first line."""

    row: int
    line: int
    what: str


@dataclass
class BlockReport:
    """What the reading of one range found; the block itself is in its file."""

    rows: int
    begin: int
    end: int
    lines: int
    content: int
    checksum: int = 0  # of the block's file
    bad_rows: list[BadRow] = field(default_factory=list)
    bad_count: int = 0
    bad_places: list[int] = field(default_factory=list)
    not_of_kind: list[int] = field(default_factory=list)
    too_ragged: bool = False
    endless: bool = False  # the row after those that were read does not end within ROW_BYTES
    missing: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    least: Array = field(default_factory=lambda: np.zeros(0))
    greatest: Array = field(default_factory=lambda: np.zeros(0))
    largest_square: float = 0.0
    leading_zeros: list[int] = field(default_factory=list)
    levels: list[list[str]] = field(default_factory=list)
    level_missing: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    cells: list[Moments] = field(default_factory=list)
    sample: Array = field(default_factory=lambda: np.zeros((0, 0)))  # some rows of numbers, from all over the block
    repeated: int = 0  # bad rows that are the header once more
    words: dict[int, dict[str, int]] = field(default_factory=dict)  # by column of numbers: how often each came
    unsettled: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by column of dates: other styles that fit


class _Reading:
    """One call of the kernel: the buffers it fills and what it says."""

    def __init__(self, source: Source, scratch: Scratch, begin: int, end: int) -> None:
        self.source, self.scratch, self.begin, self.end = source, scratch, begin, end
        self.before = 1 if begin > source.data_start else 0  # the byte before tells whether a row starts here
        self.layout, self.dialect = source.layout, source.dialect
        self.length = 0
        self.room = 1 << 14
        self.words: dict[int, dict[str, int]] = {}
        self.repeated: set[int] = set()  # bad rows that are the names of the columns once more

    def load(self, overlap: int) -> None:
        """Bring the range, a little more than it and the padding into the buffer."""
        start = self.begin - self.before
        wanted = min(self.end + overlap, self.source.size) - start
        self.buffer = self.scratch("text", wanted + PADDING)
        try:
            if is_address(self.source.path):
                RemoteFile(self.source.path).read_at(self.buffer.data[:wanted], start)
            else:
                with open(self.source.path, "rb", buffering=0) as file:
                    read_at(file.fileno(), self.buffer.data[:wanted], start)
        except EOFError:
            raise DataError("The file became shorter while it was read. Leave it alone and try again.") from None
        except OSError as error:
            raise DataError(f"The file could not be read to its end: {error.strerror}. Try again.") from None
        self.length = wanted
        self.buffer[wanted] = ord(self.dialect.newline)
        self.buffer[wanted + 1 : wanted + PADDING] = 0

    def run(self, exact: int | None) -> int:
        """Read the rows that start in the range; `exact` is where the first one starts, if that is known."""
        overlap = OVERLAP
        while True:
            self.load(overlap)
            self.parser = parser = self._prepare(exact)
            status = library().parse(ctypes.byref(parser))
            if status == Status.NEED_MORE and overlap < ROW_BYTES:
                overlap = min(8 * overlap, ROW_BYTES)
            elif status == Status.TOO_MANY_ODDITIES and not self.strangers():
                self.room *= 16
            else:
                return int(status)
            library().free_dictionaries(ctypes.byref(parser))

    def _prepare(self, exact: int | None) -> ParserState:
        columns = len(self.layout.kinds)
        numbers, levels = len(self.layout.numbers), len(self.layout.levels)
        rows = self.length // columns + 1000  # more cannot be, but for rows that are too short
        self.numbers = self.scratch("numbers", 8 * rows * numbers).view(np.float64).reshape(rows, numbers)
        self.codes = self.scratch("codes", 4 * rows * levels).view(np.int32).reshape(levels, rows)
        self.oddities = np.empty(self.room, ODDITY)
        self.bad = np.empty(rows, BAD_ROW)  # all of them: one left out would pass for a row of missing values
        self.leading_zeros = np.zeros(columns, np.int64)
        self.kinds = np.array(self.layout.kinds, np.int32)
        self.slots = self.layout.slots()
        self.styles = np.array(self.layout.read_styles(), np.int32)
        tokens = [token.encode(self.dialect.text_encoding, "replace") for token in self.dialect.missing if token]
        self.ends = np.cumsum([len(t) for t in tokens], dtype=np.int32) if tokens else np.zeros(1, np.int32)
        limits = [MANY_LEVELS if self.layout.names[i] in self.layout.many else BLOCK_LEVELS for i in self.layout.levels]
        self.dictionaries = (Dictionary * max(1, levels))(*(Dictionary(limit=limit) for limit in limits))
        at_end = self.begin - self.before + self.length >= self.source.size
        parser = ParserState(
            buffer=self.buffer.ctypes.data, length=self.length, at_end=at_end,
            stop=self.end - self.begin + self.before, marks=self.dialect.marks(), columns=columns,
            kind=self.kinds.ctypes.data, slot=self.slots.ctypes.data, date_style=self.styles.ctypes.data,
            months=months(self.dialect.text_encoding).table,
            notations=self._notations(),
            missing_tokens=b"".join(tokens), missing_ends=self.ends.ctypes.data, missing_count=len(tokens),
            numbers=self.numbers.ctypes.data, number_stride=numbers,
            codes=self.codes.ctypes.data, code_stride=rows, row_room=rows,
            oddities=self.oddities.ctypes.data, oddity_room=len(self.oddities),
            bad_rows=self.bad.ctypes.data, bad_room=len(self.bad),
            leading_zeros=self.leading_zeros.ctypes.data,
            dictionaries=self.dictionaries, level_columns=levels,
            powers_of_five=powers_of_five().ctypes.data,
        )  # fmt: skip
        self.first = self._first_row(parser, exact)
        parser.position = self.first - self.begin + self.before
        return parser

    def _notations(self) -> ctypes.Array[ColumnNotation] | None:
        if not self.layout.notations:
            return None
        table = (ColumnNotation * len(self.layout.kinds))()
        self.kept = []  # what the kernel is given pointers to
        for column, notation in self.layout.notations.items():
            marks = list(encoded_marks(notation, self.dialect.text_encoding))
            ends = np.cumsum([len(raw) for raw, _ in marks], dtype=np.int32)
            texts, roles = b"".join(raw for raw, _ in marks), bytes(role for _, role in marks)
            self.kept += [ends, texts, roles]
            table[column] = ColumnNotation(
                texts, ends.ctypes.data, roles, len(marks), ord(notation.decimal), notation.pairs
            )
        return table

    def _first_row(self, parser: ParserState, exact: int | None) -> int:
        """Where the first row of the range starts: known, at its beginning, or guessed; its end if there is none."""
        if exact is not None or not self.before:
            return self.begin if exact is None else exact
        guess = library().guess_row_start(ctypes.byref(parser), 0)
        return self.begin - self.before + int(guess) if guess >= 0 else self.end

    def position(self) -> int:
        """Where in the file the parser stands."""
        return self.begin - self.before + int(self.parser.position)

    def content(self) -> int:
        start = self.buffer.ctypes.data + self.before
        return int(library().content_hash(start, self.end - self.begin))

    def odd_texts(self) -> Iterator[tuple[Any, str]]:
        for odd in self.oddities[: self.parser.oddity_count]:
            raw = self.buffer[odd["offset"] : odd["offset"] + odd["length"]].tobytes()
            yield odd, self.dialect.text(raw, odd["written"])

    def strangers(self) -> list[int]:
        """Columns that have too many values of another kind to be of theirs."""
        wrong: dict[int, Counter[str]] = {}
        for odd, text in self.odd_texts():
            column = int(odd["column"])
            absent = text.isspace() or text in self.layout.absent.get(column, ())
            if not absent and self._value(odd, text) is None:
                wrong.setdefault(column, Counter())[told_as(text)] += 1
        return [
            c for c, texts in wrong.items()
            if self._is_dated_otherwise(c, texts) or (c not in self.layout.fixed and self._is_stranger(c, texts))
        ]  # fmt: skip

    def _is_dated_otherwise(self, column: int, texts: Counter[str]) -> bool:
        """Whether a row tells in which order dates are written that could be read in several."""
        others = self.layout.others.get(column, ())
        return any(date_of(text, style) is not None for text in texts for style in others)

    def _is_stranger(self, column: int, texts: Counter[str]) -> bool:
        count, present = texts.total(), max(1, int(self.parser.rows) - self._missing_of(column))
        if count <= ODD_SHARE * present:
            return False
        if len(texts) > MOST or 2 * count > present or not all(self._may_be_none(column, text) for text in texts):
            return True
        values = self.numbers[: self.parser.rows, self.slots[column]]
        return len(np.unique(values[~np.isnan(values)])) < VALUES

    def _missing_of(self, column: int) -> int:
        values = self.numbers[: self.parser.rows, self.slots[column]]
        odd = int((self.oddities["column"][: self.parser.oddity_count] == column).sum())
        return int(np.isnan(values).sum()) - odd

    def _value(self, odd: Any, text: str) -> float | None:
        return self.layout.number(int(odd["column"]), text, self.dialect)

    def settle_oddities(self) -> list[BadRow]:
        """Write the values that only the general reader understands; blank the rows with what nobody does."""
        bad: dict[int, BadRow] = {}
        names: dict[int, bool] = {}  # of bad rows: whether all that is odd in them is the name of its column
        for odd, text in self.odd_texts():
            value = self._value(odd, text)
            row, column = int(odd["row"]), int(odd["column"])
            if value is not None:
                self.numbers[row, self.slots[column]] = value
            elif not text.isspace() and text not in self.layout.absent.get(column, ()):
                named = f" {self.layout.names[column]}".endswith(f" {text.strip()}")  # the second of two lines
                names[row] = names.get(row, True) and named
                if not named:
                    self._count(column, told_as(text))
                kind = EXPECTED.get(self.kinds[column], "a number")
                shown = text if len(text) <= 40 else text[:40] + "..."
                bad.setdefault(row, BadRow(row, int(odd["line"]),
                               f"column '{self.layout.names[column]}': expected {kind}, got '{shown}'"))  # fmt: skip
        self.repeated = {row for row, named in names.items() if named}
        for row in bad:
            self.numbers[row] = np.nan
            self.codes[:, row] = -1
        return list(bad.values())

    def _may_be_none(self, column: int, text: str) -> bool:
        return is_word(text) or (self.kinds[column] == FieldKind.DATE and means_no_day(text))

    def _count(self, column: int, text: str) -> None:
        counts = self.words.setdefault(column, {})
        if self._may_be_none(column, text) and (text in counts or len(counts) < MOST):
            counts[text] = counts.get(text, 0) + 1

    def settle_absent(self) -> None:
        """What means that there is no value, in one column alone."""
        for column, texts in self.layout.absent.items():
            slot, rows = self.slots[column], int(self.parser.rows)
            if self.kinds[column] == FieldKind.LEVEL:
                places = [place for place, text in enumerate(self._texts(slot)) if text in texts]
                codes = self.codes[slot, :rows]
                codes[np.isin(codes, places)] = -1
                continue
            values = [value for text in texts if (value := self.layout.number(column, text, self.dialect)) is not None]
            numbers = self.numbers[:rows, slot]
            numbers[np.isin(numbers, values)] = np.nan

    def unsettled(self) -> dict[int, tuple[int, ...]]:
        """Other styles in which all dates of a column could be read."""
        rows, layout = int(self.parser.rows), self.layout
        return {
            column: also_fitting(self.numbers[:rows, self.slots[column]], layout.styles[column], others)
            for column, others in layout.others.items() if layout.kinds[column] == FieldKind.DATE
        }  # fmt: skip

    def ragged(self) -> list[BadRow]:
        rows, expected = self.bad[: min(self.parser.bad_count, len(self.bad))], len(self.layout.kinds)
        return [
            BadRow(int(b["row"]), int(b["line"]),
                   "a quote is opened and never closed" if b["reason"] == RowFault.NEVER_CLOSED
                   else f"expected {plural(expected, 'field')}, got {b['fields']}")
            for b in rows
        ]  # fmt: skip

    def levels(self) -> list[list[str]]:
        """The distinct texts of each text column, in the order of their codes; "" for bad rows or blanks only."""
        found = [self._texts(slot) for slot in range(len(self.layout.levels))]
        for slot, texts in enumerate(found):
            if blank := [place for place, text in enumerate(texts) if text.isspace()]:
                codes = self.codes[slot, : self.parser.rows]
                codes[np.isin(codes, blank)] = -1
                found[slot] = ["" if text.isspace() else text for text in texts]
        return found

    def _texts(self, slot: int) -> list[str]:
        dictionary = self.dictionaries[slot]
        if not dictionary.count:
            return []
        entries = np.frombuffer(ctypes.string_at(dictionary.levels, dictionary.count * LEVEL.itemsize), LEVEL)
        codes = self.codes[slot, : self.parser.rows]
        used = np.bincount(codes[codes >= 0], minlength=len(entries)) > 0
        parts = (entries["offset"], entries["offset"] + entries["length"], entries["written"], used)
        found = self.dialect.texts(self.buffer.data, *(part.tolist() for part in parts))
        return list(map(in_one_spelling, found)) if self.layout.levels[slot] in self.layout.one_spelling else found


def read_range(
    source: Source, begin: int, end: int, exact: int | None, target: str, residues: int, scratch: Scratch
) -> BlockReport:
    """Read the rows that start in [begin, end) into the file `target`, and say all there is to say about them.

    `residues`: sums of the numeric columns are kept for rows 0, K, 2K .., rows 1, K+1 .., and so on; 0 for none.
    """
    reading = _Reading(source, scratch, begin, end)
    status = reading.run(exact)
    try:
        return _finish(reading, status, target, residues)
    finally:
        library().free_dictionaries(ctypes.byref(reading.parser))


def _finish(reading: _Reading, status: int, target: str, residues: int) -> BlockReport:
    if status == Status.NO_MEMORY:
        raise OutOfMemory("Not enough memory to read a block of the file. Close other programs and try again.")
    rows = int(reading.parser.rows)
    strangers = reading.strangers() if reading.parser.oddity_count else []
    if strangers or status in (Status.NO_ROOM, Status.NEED_MORE):
        report = BlockReport(rows, reading.first, reading.position(), reading.parser.lines, reading.content())
        report.not_of_kind, report.too_ragged = strangers, status == Status.NO_ROOM
        report.endless = status == Status.NEED_MORE
        report.bad_rows = reading.ragged()[:SHOWN_BAD_ROWS]
        return report
    unsettled = reading.unsettled()  # by dates of the column's own style alone: others tell their order
    bad = [*reading.ragged(), *reading.settle_oddities()]
    reading.settle_absent()
    levels = reading.levels()
    numbers, codes = reading.numbers[:rows], reading.codes[:, :rows]
    proof = write_block(target, numbers, codes)
    report = _summary(reading, numbers, bad, reading.first, reading.position(), residues)
    report.checksum, report.unsettled = proof.checksum, unsettled
    report.levels, report.words, report.repeated = levels, reading.words, len(reading.repeated)
    report.level_missing = [int((column == -1).sum()) for column in codes]
    report.refused = [int(d.refused) for d in reading.dictionaries[: len(codes)]]
    return report


def _summary(reading: _Reading, numbers: Array, bad: list[BadRow], begin: int, end: int, residues: int) -> BlockReport:
    columns = numbers.shape[1]
    report = BlockReport(len(numbers), begin, end, 0, reading.content())
    report.missing = np.zeros(columns, np.int64)
    report.least, report.greatest = np.full(columns, np.inf), np.full(columns, -np.inf)
    report.largest_square = library().column_statistics(
        numbers.ctypes.data, len(numbers), columns,
        report.missing.ctypes.data, report.least.ctypes.data, report.greatest.ctypes.data,
    )  # fmt: skip
    bad.sort(key=lambda b: b.row)
    report.bad_rows = [b for b in bad if b.row not in reading.repeated][:SHOWN_BAD_ROWS]
    report.bad_count = len(bad)
    report.bad_places = [b.row for b in bad]
    report.lines = int(reading.parser.lines)
    report.leading_zeros = reading.leading_zeros.tolist()
    report.sample = sampled(numbers)
    if residues:
        report.cells = by_residue(numbers, residues)
    return report


def sampled(numbers: Array) -> Array:
    """Rows at equal distances, few enough to be sent along."""
    wanted = max(1, min(SAMPLED_ROWS, SAMPLED_CELLS // max(1, numbers.shape[1])))
    return numbers[:: max(1, len(numbers) // wanted)][:wanted].copy()


def write_block(target: str, numbers: Array, codes: npt.NDArray[np.int32]) -> Seal:
    """The rows' doubles, row by row, then the codes, column by column."""
    with disk_errors():
        return write_whole(target, (numbers, np.ascontiguousarray(codes)))
