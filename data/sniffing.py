"""How a text table is written, told from its first bytes; what a dialect is, and reading by one, is in `dialects`."""

from __future__ import annotations

import codecs
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from shoal.data.dialects import (
    DEFAULT_MISSING,
    GROUPED,
    NUMBER,
    SAMPLE_ROWS,
    Dialect,
    as_kernel_bytes,
    body,
    split,
    split_with_places,
)
from shoal.data.formats import digits
from shoal.data.formats.encodings import guess_encoding
from shoal.data.formats.headers import names_of_numbers
from shoal.data.formats.mended import mended_names
from shoal.data.notation.dates import TIME, is_date
from shoal.data.notation.grouping import other_mark
from shoal.data.notation.limits import without_sign
from shoal.data.notation.numbers import marks_of
from shoal.errors import ConfigError, DataError
from shoal.lazy.patterns import pattern
from shoal.settings.limits import ROW_BYTES

T = TypeVar("T")

OF_COLUMNS = ("dates", "limits", "one_spelling")  # knobs of columns, which do not change how the text is split
MOST_TITLES = 8  # lines above a table that have a name and a value each
TOO_LONG = f"Expected rows of text, got lines longer than {ROW_BYTES >> 20} MB. Check the delimiter and line ends."
SEPARATOR_LINE = pattern(rb'"?sep=([^\r\n"])"?(?:\r\n|\r|\n)', re.IGNORECASE)  # for spreadsheets
DELIMITERS = (",", ";", "\t", "|")
LABELLED = pattern(r"[^\d:：=][^:：=]*[:：=] ?\S")  # what a cell above a table says, and of what
# Bytes of no text: not ends of lines and pages, nor what switches between sets of letters (ISO 2022).
CONTROLS = frozenset((*range(0x01, 0x09), 0x0B, *range(0x10, 0x1B), *range(0x1C, 0x20), 0x7F))
MOST_CONTROLS, KINDS_OF_CONTROLS = 0.02, 6  # their share of a text, and how many different ones it may have
LOOKED_AT = 1 << 16  # bytes
LOOKED_OVER = 10_000  # cells of a row, evenly spaced, from which is told how a text is written


def detect(sample: bytes, at_end: bool, overrides: Mapping[str, Any] | None = None) -> Dialect:
    """The dialect of a sample (whole lines from the start of the file); given values are taken as they are."""
    given = _checked(overrides or {})
    encoding = given.pop("encoding", None) or detect_encoding(sample, at_end)
    text = as_kernel_bytes(sample, encoding, at_end)
    if not text.strip():
        raise DataError("Expected a table, got an empty file. Choose a file with a header line and rows.")
    hint = SEPARATOR_LINE.match(text)
    if hint and "delimiter" not in given:
        given["delimiter"] = hint[1].decode("latin-1")
    if hint:
        text = text[hint.end() :]
    dialect = Dialect(encoding=encoding, newline=_newline(text), delimiter=given.get("delimiter", "\x1f"))
    dialect = replace(dialect, **{k: v for k, v in given.items() if k not in ("skip_lines", "header")})
    if "comment" not in given:
        dialect = replace(dialect, comment=_comment(text, dialect))
    dialect = _with_separators(text, dialect, at_end, given)
    table = split(text, dialect, at_end)
    if not table:
        raise DataError(
            "Expected a table, got only comments or empty lines. Choose a file with rows." if at_end else TOO_LONG
        )
    dialect = _with_number_marks(table, dialect, given)
    if "skip_lines" not in given:
        dialect = replace(dialect, skip_lines=_preamble(text, dialect, at_end))
    else:
        dialect = replace(dialect, skip_lines=max(0, given["skip_lines"] - bool(hint)))
    header = given.get("header")
    if header is None:
        header = looks_like_header(split(body(text, dialect), dialect, at_end))
    skip = given.get("skip_lines", dialect.skip_lines + bool(hint))  # lines of the file, the hint among them
    return replace(dialect, header=header, skip_lines=skip)


def _checked(overrides: Mapping[str, Any]) -> dict[str, Any]:
    known = {f.name for f in fields(Dialect)}
    overrides = dict(overrides)
    more = tuple(overrides.pop("also_missing", None) or ())
    for name in OF_COLUMNS:
        overrides.pop(name, None)
    for name in overrides:
        if name not in known:
            raise ConfigError(f"Expected one of {', '.join(sorted(known))}, got '{name}'. Correct the name.")
    given = {k: v for k, v in overrides.items() if v is not None}
    if "missing" in given or more:
        given["missing"] = tuple(dict.fromkeys(("", *given.get("missing", DEFAULT_MISSING), *more)))
    if given.get("delimiter") in ("\\t", "tab"):
        given["delimiter"] = "\t"
    if "encoding" in given:
        try:
            "".encode(given["encoding"])  # base64 and the like are codecs too, but not of text
            given["encoding"] = codecs.lookup(given["encoding"]).name
        except LookupError:
            raise ConfigError(
                f"Expected the name of an encoding such as utf-8 or latin-1, got '{given['encoding']}'."
            ) from None
    return given


# ------------------------------------------------------------------ encoding


def detect_encoding(sample: bytes, at_end: bool) -> str:
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if sample.startswith(mark) and name != "utf-8":
            return name
    even, odd = sample[0:4096:2].count(0), sample[1:4096:2].count(0)
    half = max(1, len(sample[:4096]) // 2)
    if max(even, odd) > 0.4 * half and min(even, odd) < 0.1 * half:
        return "utf-16-be" if even > odd else "utf-16-le"
    if sample.count(0) > 0.05 * len(sample):
        raise DataError(
            "Expected a text table (CSV), got a binary file: many of its bytes are zero. "
            "Save it as CSV or Parquet and try again."
        )
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(sample, final=at_end)
    except UnicodeDecodeError:
        _check_text(sample[:LOOKED_AT])
        return guess_encoding(sample)
    return digits.CODEC if digits.may_have(sample) and digits.written_so(text[:LOOKED_AT]) else "utf-8"


def _check_text(sample: bytes) -> None:
    """Refuse what is in no encoding: many control characters of many kinds; a delimiter such as \\x1f is one kind."""
    controls = [byte for byte in sample if byte in CONTROLS]
    if len(controls) > MOST_CONTROLS * len(sample) and len(set(controls)) >= KINDS_OF_CONTROLS:
        raise DataError(
            "Expected a text table (CSV), got a binary file: many of its bytes are no letters in any encoding. "
            "Save it as CSV or Parquet and try again; if it is text all the same, say its encoding."
        )


# ------------------------------------------------------------------ separators


def _newline(text: bytes) -> str:
    """LF (with or without CRs before it), or a lone CR where those are in the majority."""
    text = re.sub(rb'"[^"]*"', b"", text)  # line ends inside quotes are text
    text = re.sub(rb"\r+\n", b"\n", text)
    return "\r" if text.count(b"\r") > text.count(b"\n") else "\n"


def _comment(text: bytes, dialect: Dialect) -> str:
    """'#' if the first lines are comments, and not a header that happens to start with '#'."""
    lines = [line for line in text.split(dialect.newline.encode()) if line.strip()]
    marked = [line.startswith(b"#") for line in lines[:SAMPLE_ROWS]]
    if not marked or not marked[0] or all(marked):
        return ""
    if sum(marked) == 1 and any(lines[0].count(d.encode()) == lines[1].count(d.encode()) > 0 for d in DELIMITERS):
        return ""
    return "#"


def _with_separators(text: bytes, dialect: Dialect, at_end: bool, given: Mapping[str, Any]) -> Dialect:
    known = (given["delimiter"],) if "delimiter" in given else (*DELIMITERS, " ")
    delimiters = [d for d in known if d != given.get("decimal")]
    quotes = [given["quote"]] if "quote" in given else ['"', *("'" if _single_quoted(text) else "")]
    best, best_score = dialect, -1.0
    for delimiter in delimiters:
        decimal = given.get("decimal", "," if delimiter == "." else ".")
        for quote in [*quotes, *([""] if delimiter == "\t" and "quote" not in given else [])]:
            for escape in (given["escape"],) if "escape" in given else _escapes(text, quote):
                tried = replace(dialect, delimiter=delimiter, quote=quote, escape=escape, decimal=decimal)
                score = _tidiness(split(text, tried, at_end, 100), delimiter)
                if score > best_score * (1.0 if quote else 1.02) + 1e-9:  # quotes as letters: only if that tidies up
                    best, best_score = tried, score
    return best


def _escapes(text: bytes, quote: str) -> tuple[str, ...]:
    """The escapes that may stand before a quote, the likelier first: before a letter it closes none."""
    if not quote or f"\\{quote}".encode() not in text:
        return ("",)
    within = re.search(rb"\\%b[^%b,;\t|\r\n]" % (quote.encode(), quote.encode()), text)
    return ("\\", "") if within else ("", "\\")


def _single_quoted(text: bytes) -> bool:
    if b"'" not in text:
        return False
    return re.search(rb"(^|[,;\t|\n\r])'[^'\n]*'([,;\t|\n\r]|$)", text) is not None


def _tidiness(table: Sequence[Sequence[str]], delimiter: str) -> float:
    """How much a table looks like one: rows of one length, cells that are numbers, dates or short plain texts."""
    if not table:
        return 0.0
    width = usual_width(table)
    if width == 1:
        return 0.05
    regular = [row for row in table if len(row) == width]
    cells = [cell for row in regular for cell in _some(row)]
    typed = sum(_cell_quality(cell) for cell in cells) / len(cells)
    if delimiter == " " and typed < 0.9:  # prose, unless all lines have the same number of words
        in_quotes = any(" " in cell for cell in cells)  # blanks within cells, which only quotes can have kept
        named = len(table[0]) == width - 1 and in_quotes  # as R writes names of rows: the header has none for them
        tidy = len(regular) + named == len(table) > (2 if in_quotes else 4)
        return 0.06 if tidy and (width > 2 or in_quotes) else 0.0
    headed = delimiter != " " or len(table[0]) in (width, width - 1)  # 3 Maj 2021,5 below day,sold has other fields
    return (len(regular) / len(table)) ** 2 * (0.2 + 0.8 * typed) * (1 - 0.5 / width) * (1.0 if headed else 0.8)


def _some(row: Sequence[T]) -> Sequence[T]:
    """All of a row, or as many of a very long one as tell the same."""
    return row[:: -(-len(row) // LOOKED_OVER)] if len(row) > LOOKED_OVER else row


def _cell_quality(cell: str) -> float:
    if cell in DEFAULT_MISSING or NUMBER.fullmatch(cell) or GROUPED.fullmatch(cell) or is_date(cell):
        return 1.0
    untidy = any(d in cell for d in DELIMITERS) or '"' in cell
    if len(cell) > 1 and cell[0] == cell[-1] == "'":
        return 0.5  # which are quotes, if all is as tidy with them
    return 0.1 if untidy and marks_of(without_sign(cell)) is None else 0.7  # <0,5 and 0,78 mg are tidy


def usual_width(table: Sequence[Sequence[str]]) -> int:
    """The commonest number of cells in a row; the first row's where there is a tie."""
    counts = Counter(len(row) for row in table)
    most = max(counts.values())
    return len(table[0]) if counts[len(table[0])] == most else max(w for w, n in counts.items() if n == most)


# ------------------------------------------------------------------ numbers


def _with_number_marks(table: Sequence[Sequence[str]], dialect: Dialect, given: Mapping[str, Any]) -> Dialect:
    cells = [cell for row in table[1:] or table for cell in _some(row)]
    commas = [c for c in cells if re.fullmatch(r"[+-]?\d*,\d+([eE][+-]?\d+)?", c)]
    points = [c for c in cells if re.fullmatch(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", c)]
    grouped = [c for c in cells if GROUPED.fullmatch(c)]
    decimal = given.get("decimal")
    if decimal is None:
        only_thousands = all(re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", c) for c in commas)
        both = [c for c in grouped if re.search(r"\..*,\d+$", c)]
        decimal = "," if both or (len(commas) > len(points) and not only_thousands) else "."
    if decimal == dialect.delimiter:
        decimal = "."
    thousands = given.get("thousands")
    if thousands == decimal and "decimal" not in given:
        decimal = other_mark(thousands)
    if thousands is None:
        found = Counter(m[1] for c in grouped if (m := GROUPED.fullmatch(c)) and m[1] != decimal and m[1].isascii())
        found.pop(dialect.delimiter if dialect.delimiter != "," else "", None)
        thousands = found.most_common(1)[0][0] if found else ""
    return replace(dialect, decimal=decimal, thousands=thousands)


# ------------------------------------------------------------------ first rows


def _preamble(text: bytes, dialect: Dialect, at_end: bool) -> int:
    """How many lines stand above the table: titles and the like, of another width than the rows."""
    table = split_with_places(text, dialect, at_end, SAMPLE_ROWS)
    width = usual_width([[t for t, _ in row] for row in table])
    first = next((i for i, row in enumerate(table) if len(row) == width), 0)
    if first and abs(len(table[first - 1]) - width) == 1 and len(table[first - 1]) > 1:
        names = [t for t, _ in table[first - 1]]
        while len(names) > 1 and not names[-1]:
            names.pop()
        headed = looks_like_header([[t for t, _ in row] for row in table[first:]])
        if not headed and all(t and not NUMBER.fullmatch(t) for t in names):
            first -= 1  # a header with one name fewer or more than the rows have cells
        elif not headed and _is_mended_header(text, table[first - 1], table[first], width, dialect):
            first -= 1
    elif first and not looks_like_header([[t for t, _ in row] for row in table[first:]]):
        first -= _is_mended_header(text, table[first - 1], table[first], width, dialect)
    title = first
    while (
        width > 2
        and title < len(table) // 2
        and _is_title(table[title], width, _gap_below(text, table, title, dialect))
    ):
        title += 1
    if title < len(table) and _names_columns([[t for t, _ in row] for row in table[title : title + 2]], width):
        first = title
    if first == 0 or first > len(table) // 2 + 1:
        return 0
    return text.count(dialect.newline.encode(), 0, table[first][0][1])


def _gap_below(text: bytes, table: Sequence[Sequence[tuple[str, int]]], place: int, dialect: Dialect) -> bool:
    """Whether an empty line stands between a row and the next one, as below titles and never within names; a row of
    delimiters alone is one, and may be some titles further down."""
    if place + 1 >= len(table):
        return False
    below = itertools.takewhile(lambda row: 2 * sum(bool(text) for text, _ in row) < len(row), table[place + 1 :])
    if any(not any(text for text, _ in row) for row in itertools.islice(below, MOST_TITLES)):
        return True
    between = text[table[place][-1][1] : table[place + 1][0][1]]
    return between.count(dialect.newline.encode()) > 1


def _is_title(row: Sequence[tuple[str, int]], width: int, apart: bool) -> bool:
    """Whether a line of all delimiters has one cell only, as a spreadsheet's title has, or a few that say what they
    are (Station: Tokyo) or stand `apart` from the rows below."""
    if len(row) != width:
        return False
    filled = [text for text, _ in itertools.takewhile(lambda cell: cell[0], row)]
    if any(text for text, _ in row[len(filled) :]):
        return False
    return len(filled) <= 1 or (2 * len(filled) < width and (apart or all(map(LABELLED.match, filled))))


def _names_columns(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the first of the rows has names: for most columns, or for groups of those named below."""
    filled = [sum(map(bool, row)) for row in rows]
    if filled[0] > width // 2:
        return True
    if len(rows) < 2 or filled[0] < 2 or filled[1] <= width // 2 or len(rows[1]) != width:
        return False
    return not any(is_value(cell) for row in rows for cell in row)


def _is_mended_header(
    text: bytes, above: Sequence[tuple[str, int]], first: Sequence[tuple[str, int]], width: int, dialect: Dialect
) -> bool:
    """Whether the line right above the first row has the names of its columns, but is damaged."""
    end = dialect.newline.encode()
    start = text.rfind(end, 0, above[0][1]) + 1
    if text.count(end, start, first[0][1]) != 1:
        return False
    line = text[start : text.find(end, start)].decode(dialect.text_encoding, "replace")
    return mended_names(line, width, dialect.delimiter, dialect.quote) is not None


def looks_like_header(table: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: texts above numbers, or texts that do not come again."""
    first, rows = table[0], table[1:]
    if not rows:
        return all(cell and not NUMBER.fullmatch(cell) for cell in first)
    named = numbered = 0
    for j, name in _some(list(enumerate(first))):
        cells = [row[j] for row in rows if j < len(row) and row[j] not in DEFAULT_MISSING]
        if cells and sum(map(is_value, cells)) > 0.5 * len(cells):
            named += name not in DEFAULT_MISSING and not is_value(name)
            numbered += is_value(name)
    if named or numbered:
        years = _are_years([name for name in first if is_value(name)])
        return named >= numbered or years or names_of_numbers(first, rows, is_value)
    repeated = any(name and name in {row[j] for row in rows if j < len(row)} for j, name in enumerate(first))
    return not repeated and all(not is_value(name) for name in first) and len(set(first)) == len(first)


def _are_years(cells: Sequence[str]) -> bool:
    """Whether numbers in the first row are years that go up: names of columns, as in country, 2019, 2020."""
    if len(cells) < 2 or not all(re.fullmatch(r"(1[6-9]|20|21)\d\d", cell) for cell in cells):
        return False
    years = [int(cell) for cell in cells]
    return len({later - earlier for earlier, later in itertools.pairwise(years)}) == 1 and years[0] < years[1]


def is_value(cell: str) -> bool:
    return any(pattern.fullmatch(cell) for pattern in (NUMBER, GROUPED, TIME)) or is_date(cell)
