"""What is in a table, as `inspect` tells it: `shoal inspect --json`, `shoal.inspect`, and what pages draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.lazy.patterns import pattern
from shoal.results.findings import Finding
from shoal.results.plain import plain, read
from shoal.results.target import TargetLook

MEASURED = ("numeric", "datetime")  # types of columns that hold numbers
SHOWN_AS = ("histogram", "frequent", "levels")  # what only some columns have


# In the examples of how numbers are written, 1.234,56 and 12,34,567.89.
_THOUSANDS, _DECIMAL = pattern(r"1\D?(?=234)|12\D34\D(?=567)"), pattern(r"(?:234|567)([.,])\d")


@dataclass(frozen=True)
class ColumnLook:
    """One column: how it is read, what is in it, what is worth knowing of it. `min` and `max` of dates are texts."""

    name: str
    type: str
    missing: int = 0
    distinct: int = 0
    distinct_exact: bool = True
    min: float | str | None = None
    max: float | str | None = None
    flags: tuple[str, ...] = ()
    written: str = ""  # how its dates or numbers are
    orders: tuple[str, ...] = ()  # in which its dates could be meant as well
    words: tuple[tuple[str, int], ...] = ()  # among numbers, with their rows
    limits: tuple[tuple[str, int], ...] = ()  # <… and >… among numbers, with their rows
    totals: tuple[tuple[str, int], ...] = ()  # words of rows that are sums of others
    codes: tuple[tuple[float, int], ...] = ()  # numbers far from the others, which may stand for none
    histogram: tuple[int, ...] | None = None  # of numbers
    frequent: tuple[tuple[str, int], ...] | None = None  # texts, the most frequent first
    levels: tuple[str, ...] | None = None  # of names, in their order; the first is what others are compared with

    @property
    def values_are(self) -> str:
        """What a person sees in it."""
        return "dates" if self.type == "datetime" else "numbers"

    @property
    def written_told(self) -> str:
        """The example of how its values are written, without thousands where it has none: no age is 1.234,56."""
        ends = [abs(end) for end in (self.min, self.max) if isinstance(end, (int, float))]
        return _THOUSANDS.sub("", self.written, 1) if ends and max(ends) < 1000 else self.written

    @property
    def is_measured(self) -> bool:
        return self.type in MEASURED

    @property
    def different(self) -> str:
        """How many values differ: numbers are estimated where they are many, of texts no more are told apart."""
        return f"{self.distinct:,}" if self.distinct_exact else f"{'~' if self.is_measured else '>'}{self.distinct:,}"

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if value is not None or name not in SHOWN_AS}


@dataclass(frozen=True)
class UnreadLine:
    """A row that could not be read: its line and, where a table has several, its file."""

    line: int
    problem: str
    file: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"line": self.line, "problem": self.problem, **({"file": self.file} if self.file else {})}


@dataclass(frozen=True)
class BadRows:
    """Rows that could not be read; among them `repeated` headers, which are no loss."""

    count: int = 0
    repeated: int = 0
    first: tuple[UnreadLine, ...] = ()

    @property
    def lost(self) -> int:
        return self.count - self.repeated


@dataclass(frozen=True, kw_only=True)
class SparseLook:
    """Of a file of sparse rows, whose table has its label as the only column that is described."""

    columns: int  # that have a value in any row
    last: str  # the one with the greatest index
    values: int
    share: float  # of all rows times these columns
    empty_rows: int
    most_in_row: int
    frequent: tuple[tuple[str, int], ...] = ()  # columns with most values, and the rows that have one


@dataclass(frozen=True, kw_only=True)
class TableLook:
    """A whole table. `preview` are its first rows, as the texts of the file, where a page asked."""

    file: str
    rows: int
    dialect: dict[str, Any]
    sheets: tuple[str, ...] = ()
    columns: tuple[ColumnLook, ...] = ()
    bad_rows: BadRows = BadRows()
    largest_row_norm: float = 0.0
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    target: TargetLook | None = None
    sparse: SparseLook | None = None
    preview: tuple[tuple[str, ...], ...] | None = None

    @cached_property
    def named(self) -> dict[str, ColumnLook]:
        """Its columns by their names."""
        return {column.name: column for column in self.columns}

    @property
    def width(self) -> int:
        """How many columns it has; of sparse rows those with a value, and the label."""
        return len(self.columns) + (self.sparse.columns if self.sparse else 0)

    @property
    def decimal_told(self) -> str:
        """What is to be said behind the table's decimal mark."""
        marked = [column.written for column in self.columns if column.written and column.type == "numeric"]
        own = [mark for text in marked for mark in _DECIMAL.findall(text) if mark != self.dialect.get("decimal")]
        others = f", as {len(own):,} {'is' if len(own) == 1 else 'are'} with {own[0]!r}" if len(set(own)) == 1 else ""
        return f" where a column is not written otherwise{others}" if marked else ""

    @property
    def rows_read(self) -> int:
        return self.rows - self.bad_rows.lost

    def is_empty(self, column: ColumnLook) -> bool:
        """Whether a column has no value in any row."""
        return bool(self.rows_read) and column.missing >= self.rows_read

    def __getitem__(self, name: str) -> Any:
        """As of the dictionary that `shoal.inspect` gave before there was a type."""
        return self.as_dict()[name]

    def as_dict(self) -> dict[str, Any]:
        """The object that `inspect --json` prints."""
        said: dict[str, Any] = plain(replace(self, columns=()))  # each says what it has, once
        said["columns"] = [column.as_dict() for column in self.columns]
        said["bad_rows"]["first"] = [line.as_dict() for line in self.bad_rows.first]
        if self.preview is None:  # nobody asked
            del said["preview"]
        if self.sparse is None:
            del said["sparse"]
        return said

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableLook:
        """Raises `Malformed` where a value is not what it should be."""
        return read(cls, values)
