"""Numbers and dates of the kernel: correctly rounded, or a located bad row."""

from __future__ import annotations

import datetime
import math
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.data.dialects import Dialect
from shoal.data.kinds import number_of
from shoal.data.notation.styles import date_of
from shoal.kernels.csv_kernel import DateStyle, FieldKind
from support.data.csv_kernel import QUIET, Reading
from support.tables import same_bits


def doubles(folder: Path, texts: Sequence[str], dialect: Dialect) -> np.ndarray[Any, Any]:
    """What becomes of numbers; quoted in every third row, alone and among others, and at the end of lines of two kinds,
    so that all ways through the kernel are taken: they have to come to the same. Of very many, every seventh among
    others: what Python settles takes its time there."""
    lines = (f'"{t}";1\n' if i % 3 == 2 else f"{t};1\n" for i, t in enumerate(texts))
    alone = Reading(folder, "".join(lines), [FieldKind.NUMBER, FieldKind.NUMBER], dialect).numbers[:, 0]
    step = 7 if len(texts) > 10_000 else 1
    some, own = texts[::step], alone[::step]
    for end in ("\n", "\r\n"):
        lines = (f'{t};1;"{t}";{t};{t}{end}' if i % 3 == 2 else f"{t};1;{t};-25;{t}{end}" for i, t in enumerate(some))
        among = Reading(folder, "".join(lines), 5 * [FieldKind.NUMBER], dialect).numbers
        assert all(same_bits(among[:, place], own) for place in (0, 2, 4))
    return alone


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


NOT_NUMBERS = ["1e", "e5", "--1", "+", "1.2.3", "1 2", "0x1p3", "1e5.5", "1,5", "nan1", "١", "1e+", "+-3", "1d5",
               "1f", "1..", "1/2", "1\x00", "infinity", "1_0", "1e1e1"]  # fmt: skip


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_what_is_no_number_is_a_located_bad_row(text: str, tmp_path: Path) -> None:
    report = Reading(
        tmp_path, f"1;1\n{text};2\n3;3\n", [FieldKind.NUMBER, FieldKind.NUMBER], Dialect(delimiter=";")
    ).report
    assert [(bad.row, bad.line) for bad in report.bad_rows] == [(1, 1)]


@pytest.mark.parametrize("text", ["5-", "(5)", "\u22125"])
def test_other_signs_of_a_negative_number(text: str, tmp_path: Path) -> None:
    assert doubles(tmp_path, ["1", text, "3"], Dialect(delimiter=";")).tolist() == [1.0, -5.0, 3.0]


@pytest.mark.parametrize("text", ["1,234,56", "1,2345", "12,34", ",123", "1,,234", "1234,567", "1,234,", "1,23,456"])
def test_marks_between_other_than_three_digits_make_no_number(text: str, tmp_path: Path) -> None:
    dialect = Dialect(delimiter=";", thousands=",")
    report = Reading(tmp_path, f"1,000;1\n{text};2\n3;3\n", [FieldKind.NUMBER, FieldKind.NUMBER], dialect).report
    assert [bad.row for bad in report.bad_rows] == [1]
    assert number_of(text, dialect) is None


# ------------------------------------------------------------------ dates


def days(text: str, style: DateStyle = DateStyle.YEAR_FIRST) -> float | None:
    return date_of(text, style)


@QUIET
@given(st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9998, 12, 31)), st.integers(-14 * 60, 14 * 60))
def test_dates_as_datetime_reads_them(moment: datetime.datetime, minutes: int) -> None:
    moment = moment.replace(tzinfo=datetime.UTC, microsecond=moment.microsecond // 1000 * 1000)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    day = datetime.datetime(moment.year, moment.month, moment.day, tzinfo=datetime.UTC)
    assert days(f"{day:%Y-%m-%d}".zfill(10)) == (day - epoch).days
    year, month, dom = f"{moment.year:04d}", moment.month, moment.day
    assert days(f"{dom}.{month}.{year}", DateStyle.DAY_FIRST) == (day - epoch).days
    assert days(f"{month:02d}/{dom:02d}/{year}", DateStyle.MONTH_FIRST) == (day - epoch).days
    expected = (moment - epoch).total_seconds() / 86400
    stamp = f"{year}-{month:02d}-{dom:02d}T{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
    found = days(stamp)
    assert found is not None
    assert abs(found - expected) <= 1e-11 + abs(expected) * 1e-15
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    moved = days(stamp + zone)
    assert moved is not None
    assert abs(moved - (expected - minutes / 1440)) <= 1e-11 + abs(expected) * 1e-15


@pytest.mark.parametrize("text", ["2021-02-29", "1900-02-29", "2020-00-01", "2020-13-01", "2020-01-32", "2020-01-01x", "2020-1",
                                  "2020/01-01", "20-01-01", "2020-01-01 24:00", "2020-01-01 12:60", "2020-01-01T", "",
                                  "2020-01-01 12", "02020-01-01", "2020-01-01 12:00:00.5.5"])  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    assert days(text) is None


def test_leap_day_of_2000() -> None:
    assert days("2000-02-29") == 951782400 / 86400


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_dates_and_times_beside_any_delimiter(delimiter: str, tmp_path: Path) -> None:
    stamps = ["2020-01-01", "2020-01-01 12:00", "2020-01-01 12:00:00", "2020-01-01T12:00:00.25", "2020-01-01 12:00:00Z",
              "2020-01-01 12:00:00+01:30"]  # fmt: skip
    text = "".join(f"{stamp}{delimiter}5\n" for stamp in stamps) + "".join(f"7{delimiter}{stamp}\n" for stamp in stamps)
    first = Reading(
        tmp_path, text.split("7" + delimiter)[0], [FieldKind.DATE, FieldKind.NUMBER], Dialect(delimiter=delimiter)
    )
    assert first.numbers[:, 0].tolist() == [days(stamp) for stamp in stamps]
