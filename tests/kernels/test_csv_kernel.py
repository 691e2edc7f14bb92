"""The C kernel against Python's own float(), csv and datetime: same doubles to the bit, same cells, same rows."""

from __future__ import annotations

import csv
import datetime
import io
import math
import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shoal.data import block_reader
from shoal.data.block_reader import BlockReport, read_range
from shoal.data.dialects import Dialect
from shoal.data_pipeline import Layout, Source, number_of
from shoal.errors import TrainingError
from shoal.kernels.csv_kernel import DateOrder, Kind, library
from shoal.worker import Worker
from support.tables import opened, same_bits, small_pieces, table, written

QUIET = settings(
    deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Reading:
    """A text read as one range, with the kinds of its columns given."""

    def __init__(
        self, folder: Path, text: str | bytes, kinds: Sequence[Kind], dialect: Dialect, order: int = 0
    ) -> None:
        path = written(folder, text)
        layout = Layout(
            tuple(f"c{i}" for i in range(len(kinds))), tuple(kinds), (order,) * len(kinds), frozenset(range(len(kinds)))
        )
        source = Source(str(path), path.stat().st_size, dialect, layout, 0, 1)
        target = folder / "block.bin"
        self.report: BlockReport = read_range(source, 0, source.size, 0, str(target), 0, Worker().scratch)
        rows, width = self.report.rows, len(layout.numbers)
        raw = target.read_bytes()
        self.numbers = np.frombuffer(raw[: 8 * rows * width], np.float64).reshape(rows, width)
        self.codes = np.frombuffer(raw[8 * rows * width :], np.int32).reshape(len(layout.levels), rows)

    def texts(self) -> list[list[str]]:
        """Rows of texts, "" where missing."""
        columns = [
            [levels[code] if code >= 0 else "" for code in codes]
            for levels, codes in zip(self.report.levels, self.codes.tolist(), strict=True)
        ]
        return [list(row) for row in zip(*columns, strict=True)]


NO_MISSING = ("",)


def doubles(folder: Path, texts: Sequence[str], dialect: Dialect) -> np.ndarray[Any, Any]:
    """What becomes of numbers; quoted in every third row, so that both ways through the kernel are taken."""
    lines = (f'"{t}";1\n' if i % 3 == 2 else f"{t};1\n" for i, t in enumerate(texts))
    return Reading(folder, "".join(lines), [Kind.NUMBER, Kind.NUMBER], dialect).numbers[:, 0]


def true_doubles(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """Python's own reading; what is infinite there is refused here."""
    values = np.array([float(text) for text in texts])
    return np.where(np.isinf(values), np.nan, values)


def random_decimal(random_: random.Random) -> str:
    digits = "".join(random_.choices("0123456789", k=random_.randint(1, 25)))
    point = random_.choice([None, random_.randint(0, len(digits))])
    text = digits if point is None else f"{digits[:point]}.{digits[point:]}"
    if random_.random() < 0.1:
        text = "0" * random_.randint(1, 20) + text
    if random_.random() < 0.5:
        exponent = random_.choice([random_.randint(-30, 30), random_.randint(-345, 320), random_.randint(-9999, 9999)])
        text += random_.choice("eE") + random_.choice(["", "+"] if exponent >= 0 else [""]) + str(exponent)
    return random_.choice(["", "", "-", "+"]) + text


def halfway(random_: random.Random) -> str:
    """A decimal exactly between two doubles, or a hair beside it."""
    bits = random_.getrandbits(52) | random_.randint(1, 2046) << 52
    low, high = struct.unpack("<dd", struct.pack("<QQ", bits, bits + 1))
    if math.isinf(high):
        return repr(low)
    from decimal import Context, Decimal

    middle = Context(prec=1200).divide(Decimal(low) + Decimal(high), Decimal(2))
    text = format(middle, random_.choice(["f", "e"]))
    if random_.random() < 0.6:
        keep = random_.randint(15, 25)
        text = format(middle, f".{keep}e")
    return text


@pytest.mark.parametrize("decimal", [".", ","])
def test_200_000_random_decimals_are_correctly_rounded(decimal: str, tmp_path: Path) -> None:
    random_ = random.Random(20261116 + ord(decimal))
    texts = [random_decimal(random_) for _ in range(99_000)] + [halfway(random_) for _ in range(1_000)]
    ours = doubles(tmp_path, [t.replace(".", decimal) for t in texts], Dialect(delimiter=";", decimal=decimal))
    theirs = true_doubles(texts)
    differing = np.flatnonzero(ours.view(np.uint64) != theirs.view(np.uint64))
    assert [(texts[i], ours[i], theirs[i]) for i in differing[:5]] == []


def test_every_power_of_ten_with_many_digits(tmp_path: Path) -> None:
    """Where the fast method must hand over: subnormals, the greatest doubles, more than 19 digits."""
    digits = ["1", "9", "17976931348623157", "17976931348623158", "22250738585072014", "4940656458412465", "24703282292062327",
              "9007199254740993", "9007199254740992", "18446744073709551615", "18446744073709551616",
              "9999999999999999999", "123456789012345678901234567890"]  # fmt: skip
    texts = [f"{d}e{e}" for d in digits for e in range(-400, 330)]
    texts += [f"0.{'0' * zeros}{d}" for d in digits for zeros in range(0, 340, 7)]
    assert same_bits(doubles(tmp_path, texts, Dialect(delimiter=";")), true_doubles(texts))


@QUIET
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
@example([5e-324, 2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308, -0.0, 0.1, 1 / 3])
def test_doubles_come_back_from_their_shortest_text(tmp_path: Path, values: list[float]) -> None:
    for text in ("{!r}", "{:.17g}", "{:.30e}", "{:f}"):
        texts = [text.format(value) for value in values]
        assert same_bits(doubles(tmp_path, texts, Dialect(delimiter=";")), true_doubles(texts)), texts


@QUIET
@given(
    st.lists(st.tuples(st.sampled_from(["", "-", "+"]), st.integers(0, 10**16), st.sampled_from(["", ".", ".5", ".062500"])),
             min_size=1, max_size=30),
    st.sampled_from([(",", "."), (".", ","), ("'", "."), (" ", ","), ("_", ".")]),
)  # fmt: skip
def test_thousands_marks(tmp_path: Path, parts: list[tuple[str, int, str]], marks: tuple[str, str]) -> None:
    thousands, decimal = marks
    plain = [f"{sign}{whole}{rest}" for sign, whole, rest in parts]
    grouped = [f"{s}{w:,}".replace(",", thousands) + r.replace(".", decimal) for s, w, r in parts]
    dialect = Dialect(delimiter=";", decimal=decimal, thousands=thousands)
    assert same_bits(doubles(tmp_path, grouped, dialect), true_doubles(plain))


NOT_NUMBERS = ["1e", "e5", "--1", "1-", "+", "1.2.3", "1 2", "0x1p3", "1e5.5", "1,5", "nan1", "١", "1e+", "+-3", "1d5",
               "1f", "1..", "1/2", "1\x00", "infinity", "1_0", "(5)", "5-", "\u22125", "1e1e1"]  # fmt: skip


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_what_is_no_number_is_a_located_bad_row(text: str, tmp_path: Path) -> None:
    report = Reading(tmp_path, f"1;1\n{text};2\n3;3\n", [Kind.NUMBER, Kind.NUMBER], Dialect(delimiter=";")).report
    assert [(bad.row, bad.line) for bad in report.bad_rows] == [(1, 1)]


@pytest.mark.parametrize("text", ["1,234,56", "1,2345", "12,34", ",123", "1,,234", "1234,567", "1,234,", "1,23,456"])
def test_marks_between_other_than_three_digits_make_no_number(text: str, tmp_path: Path) -> None:
    dialect = Dialect(delimiter=";", thousands=",")
    report = Reading(tmp_path, f"1,000;1\n{text};2\n3;3\n", [Kind.NUMBER, Kind.NUMBER], dialect).report
    assert [bad.row for bad in report.bad_rows] == [1]
    assert number_of(text, dialect) is None


# ------------------------------------------------------------------ cells


CELL = st.text(
    st.one_of(st.sampled_from(list("\",;\t|\n\r'\\ ab")), st.characters(blacklist_categories=["Cs"])), max_size=12
).map(lambda s: s.strip(" \t"))


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    width = draw(st.integers(1, 5))
    return draw(st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=12))


def written_by_python(rows: Sequence[Sequence[str]], **options: Any) -> str:
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue()


@settings(QUIET, max_examples=400)
@given(
    tables(), st.sampled_from([",", ";", "\t", "|"]), st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.booleans(),
)  # fmt: skip
def test_tables_that_pythons_csv_wrote(
    tmp_path: Path, rows: list[list[str]], delimiter: str, end: str, quoting: Any, final: bool
) -> None:
    text = written_by_python(rows, delimiter=delimiter, lineterminator=end, quoting=quoting)
    if not final and not (len(rows[-1]) == 1 and text.endswith('"' + end)):
        text = text.removesuffix(end)
    if list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)) != rows:  # the writer left a CR unquoted
        text = written_by_python(rows, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    dialect = Dialect(delimiter=delimiter, missing=NO_MISSING)
    reading = Reading(tmp_path, text, [Kind.LEVEL] * len(rows[0]), dialect)
    assert reading.report.bad_count == 0
    assert reading.texts() == rows


@QUIET
@given(tables())
def test_tables_with_backslash_escapes(tmp_path: Path, rows: list[list[str]]) -> None:
    options: Any = {"quoting": csv.QUOTE_ALL, "doublequote": False, "escapechar": "\\", "lineterminator": "\n"}
    text = written_by_python(rows, **options)
    assert list(csv.reader(io.StringIO(text, newline=""), doublequote=False, escapechar="\\")) == rows
    reading = Reading(tmp_path, text, [Kind.LEVEL] * len(rows[0]), Dialect(escape="\\", missing=NO_MISSING))
    assert reading.texts() == rows


def test_text_after_a_closing_quote_belongs_to_the_field_as_in_pythons_csv(tmp_path: Path) -> None:
    text = '"a"b,1\n"a""b"c,2\n"x"y"z",3\n""d,4\n'
    theirs = [row[0] for row in csv.reader(io.StringIO(text))]
    ours = Reading(tmp_path, text, [Kind.LEVEL, Kind.LEVEL], Dialect())
    assert [row[0] for row in ours.texts()] == theirs


@pytest.mark.parametrize("length", [1, 63, 64, 65, 4095, 4096, 70_000, 600_000])
@pytest.mark.parametrize("quoted", [False, True])
def test_fields_of_any_length(length: int, quoted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_reader, "OVERLAP", 16)
    long = ("ab\n,cd" * length)[:length] if quoted else ("abcdef" * length)[:length]
    cell = f'"{long}"' if quoted else long
    reading = Reading(tmp_path, f"x,1\n{cell},2\ny,3", [Kind.LEVEL, Kind.NUMBER], Dialect(missing=NO_MISSING))
    assert [row[0] for row in reading.texts()] == ["x", long, "y"]
    assert reading.numbers[:, 0].tolist() == [1.0, 2.0, 3.0]


# ------------------------------------------------------------------ where ranges are cut

CUT = (
    'n,text,d\r\n1,plain,2020-01-01\r\n2.5,"with, delimiter",2020-01-02 03:04:05\r\n\r\n'
    '-3e-5,"new\r\nline ""quoted"" 1,2,3\r\n4,5,6\r\n",\r\n12345678901234567890123,,2020-02-29\r\n'
    'short\r\n6,"never closed,2020-01-06\r\n7,"a ""b""",2020-01-07\r\n8,x,2020-01-08'
)
CUT_LF = CUT.replace("\r\n", "\n")
CUT_CR = CUT.replace("\r\n", "\r")


def everything(text: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    monkeypatch.setenv("SHOAL_HOME", str(home))
    dataset = opened(written(home.parent, text), numeric=["n", "d"], missing=[], skip_lines=0)
    manifest = dataset.manifest
    return (
        table(dataset),
        manifest.bad_rows,
        manifest.bad_count,
        dataset.rows,
        [c.levels for c in dataset.level_columns],
    )


@pytest.mark.parametrize("text", [CUT, CUT_LF, CUT_CR], ids=["crlf", "lf", "cr"])
def test_ranges_cut_at_every_byte_give_what_one_range_gives(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = everything(text, tmp_path / "whole", monkeypatch)
    end = text[8 : 9 + text.startswith("n,text,d\r\n")]
    assert [row["n"] for row in whole[0]] == [1.0, 2.5, -3e-5, 12345678901234567890123.0, 7.0, 8.0]
    assert whole[0][2]["text"] == f'new{end}line "quoted" 1,2,3{end}4,5,6{end}'
    assert [line for line, _ in whole[1]] == [10, 11]
    for size in [*range(1, 40), *range(40, len(text) + 2, 7)]:
        with small_pieces(monkeypatch, block=size, overlap=1 + size % 3):
            assert everything(text, tmp_path / f"home{size}", monkeypatch) == whole, size


@settings(QUIET, max_examples=40)
@given(rows=tables(), size=st.integers(1, 60), seed=st.integers(0, 2**32))
def test_random_tables_in_small_ranges(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], size: int, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("pieces")
    width = len(rows[0])
    numbered = [[f"k{i}", *row] for i, row in enumerate(rows)]
    names = ["key", *(f"c{j}" for j in range(width))]
    with pytest.MonkeyPatch.context() as monkeypatch, small_pieces(monkeypatch, size, overlap=1 + seed % 8):
        monkeypatch.setenv("SHOAL_HOME", str(folder))
        cr = any("\r" in cell for row in rows for cell in row)  # which Python's writer may leave unquoted
        quoting: Any = csv.QUOTE_ALL if cr or seed % 2 else csv.QUOTE_MINIMAL
        path = written(folder, written_by_python([names, *numbered], lineterminator="\n", quoting=quoting))
        found = opened(path, categorical=names, missing=[], delimiter=",", quote='"', comment="", skip_lines=0,
                       header=True, encoding="utf-8")  # fmt: skip
    cells = [[cell or "" for cell in row.values()] for row in table(found)]
    assert cells == numbered


# ------------------------------------------------------------------ dates


def seconds(text: str, order: DateOrder = DateOrder.YEAR_FIRST) -> float | None:
    import ctypes

    value = ctypes.c_double()
    raw = text.encode()
    return value.value if library().date_of(raw, len(raw), order, ctypes.byref(value)) else None


@QUIET
@given(st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)), st.integers(-14 * 60, 14 * 60))
def test_dates_as_datetime_reads_them(moment: datetime.datetime, minutes: int) -> None:
    moment = moment.replace(tzinfo=datetime.UTC, microsecond=moment.microsecond // 1000 * 1000)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    day = datetime.datetime(moment.year, moment.month, moment.day, tzinfo=datetime.UTC)
    assert seconds(f"{day:%Y-%m-%d}".zfill(10)) == (day - epoch).total_seconds()
    year, month, dom = f"{moment.year:04d}", moment.month, moment.day
    assert seconds(f"{dom}.{month}.{year}", DateOrder.DAY_FIRST) == (day - epoch).total_seconds()
    assert seconds(f"{month:02d}/{dom:02d}/{year}", DateOrder.MONTH_FIRST) == (day - epoch).total_seconds()
    expected = (moment - epoch).total_seconds()
    stamp = f"{year}-{month:02d}-{dom:02d}T{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
    found = seconds(stamp)
    assert found is not None
    assert abs(found - expected) <= 1e-6 + abs(expected) * 1e-15
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    moved = seconds(stamp + zone)
    assert moved is not None
    assert abs(moved - (expected - 60 * minutes)) <= 1e-6 + abs(expected) * 1e-15


@pytest.mark.parametrize("text", ["2021-02-29", "1900-02-29", "2020-00-01", "2020-13-01", "2020-01-32", "2020-01-01x", "2020-1",
                                  "2020/01-01", "20-01-01", "2020-01-01 24:00", "2020-01-01 12:60", "2020-01-01T", "",
                                  "2020-01-01 12", "02020-01-01", "2020-01-01 12:00:00.5.5"])  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    assert seconds(text) is None


def test_leap_day_of_2000() -> None:
    assert seconds("2000-02-29") == 951782400.0


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_dates_and_times_beside_any_delimiter(delimiter: str, tmp_path: Path) -> None:
    stamps = ["2020-01-01", "2020-01-01 12:00", "2020-01-01 12:00:00", "2020-01-01T12:00:00.25", "2020-01-01 12:00:00Z",
              "2020-01-01 12:00:00+01:30"]  # fmt: skip
    text = "".join(f"{stamp}{delimiter}5\n" for stamp in stamps) + "".join(f"7{delimiter}{stamp}\n" for stamp in stamps)
    first = Reading(tmp_path, text.split("7" + delimiter)[0], [Kind.DATE, Kind.NUMBER], Dialect(delimiter=delimiter))
    assert first.numbers[:, 0].tolist() == [seconds(stamp) for stamp in stamps]


# ------------------------------------------------------------------ safety


def mutated(random_: random.Random, text: bytes) -> bytes:
    data = bytearray(text)
    for _ in range(random_.randint(1, 12)):
        at = random_.randrange(len(data) + 1)
        match random_.randrange(4):
            case 0:
                data[at : at + random_.randint(0, 9)] = b""
            case 1:
                data[at:at] = random_.choice(
                    [b'"', b"\n", b"\r", b",", b"\0", b"\\", b'""', b"\xff", b"1e", b"-", b"2020-01-01 1:"]
                )
            case 2:
                data[at : at + 1] = bytes([random_.randrange(256)])
            case _:
                data[at:at] = data[random_.randrange(len(data) + 1) :][: random_.randint(1, 40)]
    return bytes(data)


def corpus(count: int) -> Iterator[bytes]:
    random_ = random.Random(7)
    for i in range(count):
        yield random_.randbytes(random_.randint(0, 400)) if i % 5 == 0 else mutated(random_, CUT.encode())


def test_fuzzed_bytes_never_crash_and_account_for_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the script that is run with the sanitizers on: every path of the kernel, on what nobody meant to write."""
    for i, content in enumerate(corpus(150)):
        random_ = random.Random(i)
        monkeypatch.setenv("SHOAL_HOME", str(tmp_path / str(i)))
        path = written(tmp_path, content)
        try:
            whole = opened(path)
        except TrainingError:
            continue
        monkeypatch.setenv("SHOAL_HOME", str(tmp_path / f"{i}p"))
        with small_pieces(monkeypatch, random_.randint(1, 50), random_.randint(1, 9)):
            pieces = opened(path)
        assert pieces.rows == whole.rows
        assert pieces.manifest.bad_count == whole.manifest.bad_count
        assert table(pieces) == table(whole)


@settings(QUIET, max_examples=300)
@given(
    st.binary(max_size=300), st.sampled_from(",;\t| a"), st.sampled_from(['"', "'", ""]), st.sampled_from(["", "\\"]),
    st.sampled_from(["\n", "\r"]), st.sampled_from(["", "#"]), st.sampled_from(["", ",", "."]),
    st.lists(st.sampled_from([Kind.SKIP, Kind.NUMBER, Kind.DATE, Kind.LEVEL]), min_size=1, max_size=6), st.sampled_from(DateOrder),
)  # fmt: skip
def test_any_bytes_in_any_dialect(
    tmp_path: Path, content: bytes, delimiter: str, quote: str, escape: str, newline: str, comment: str, thousands: str,
    kinds: list[Kind], order: DateOrder,
) -> None:  # fmt: skip
    decimal = "," if thousands == "." and delimiter != "," else "."
    dialect = Dialect(delimiter=delimiter, quote=quote, escape=escape, newline=newline, comment=comment,
                      thousands=thousands, decimal=decimal)  # fmt: skip
    reading = Reading(tmp_path, content, kinds, dialect, order)
    report = reading.report
    assert report.end - len(content) in (0, 1) or report.too_ragged  # 1: the newline that the last row lacks
    assert report.rows <= content.count(newline.encode()) + 1
    assert np.isfinite(reading.numbers[~np.isnan(reading.numbers)]).all()
    for codes, levels in zip(reading.codes, report.levels, strict=True):
        assert codes.size == 0 or (codes.min() >= -1 and codes.max() < len(levels))
