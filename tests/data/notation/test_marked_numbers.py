"""Numbers with a currency, a unit or grouped digits: read exactly, the way they are written told and kept."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.data.notation.numbers import notation_from, notation_of
from support.tables import column, opened, shoal, small_pieces, written


def grouped(cents: int, thousands: str, decimal: str, pairs: bool = False) -> str:
    """Whole cents as text, by slicing digits: no reader of ours is asked."""
    whole, rest = f"{abs(cents) // 100}", f"{abs(cents) % 100:02d}"
    head, groups = (whole[:-3], [whole[-3:]]) if len(whole) > 3 else ("", [whole])
    size = 2 if pairs else 3
    while head:
        groups.insert(0, head[-size:])
        head = head[:-size]
    return f"{thousands.join(groups)}{decimal}{rest}"


def signed(cents: int, text: str) -> str:
    return f"-{text}" if cents < 0 else text


NO_BREAK, APOSTROPHE = "\u00a0", "\u2019"
Write = Callable[[int], str]
WAYS: dict[str, tuple[str, Write]] = {  # what an example of the notation looks like, and how whole cents are written so
    "euro in front": ("€ 1.234,56", lambda c: signed(c, f"€ {grouped(c, '.', ',')}")),
    "euro behind": ("1.234,56 €", lambda c: signed(c, f"{grouped(c, '.', ',')} €")),
    "dollars": ("$ 1,234.56", lambda c: signed(c, f"${grouped(c, ',', '.')}")),
    "dollars, sign after the mark": ("$ 1,234.56", lambda c: f"$ {signed(c, grouped(c, ',', '.'))}"),
    "accounting": ("$ 1,234.56", lambda c: f"$({grouped(c, ',', '.')})" if c < 0 else f"${grouped(c, ',', '.')}"),
    "parentheses": ("1,234.56", lambda c: f"({grouped(c, ',', '.')})" if c < 0 else grouped(c, ",", ".")),
    "minus behind": ("1.234,56", lambda c: grouped(c, ".", ",") + "-" * (c < 0)),
    "typographers' minus": ("1,234.56", lambda c: "\u2212" * (c < 0) + grouped(c, ",", ".")),
    "code": ("EUR 1,234.56", lambda c: signed(c, f"EUR {grouped(c, ',', '.')}")),
    "percent": ("1.234,56 %", lambda c: signed(c, f"{grouped(c, '', ',')} %")),
    "percent, no blank": ("1234.56 %", lambda c: signed(c, f"{grouped(c, '', '.')}%")),
    "square metres": ("1.234,56 m²", lambda c: signed(c, f"{grouped(c, '.', ',')} m²")),
    "a unit with a digit": ("1,234.56 m2", lambda c: signed(c, f"{grouped(c, ',', '.')} m2")),
    "months": ("1234.56 months", lambda c: signed(c, f"{grouped(c, '', '.')} months")),
    "crowns": ("1 234,56 kr.", lambda c: signed(c, f"{grouped(c, ' ', ',')} kr.")),
    "no-break spaces": ("1 234,56 zł", lambda c: signed(c, f"{grouped(c, NO_BREAK, ',')}{NO_BREAK}zł")),
    "narrow no-break spaces": ("1 234,56", lambda c: signed(c, grouped(c, "\u202f", ","))),
    "swiss": ("CHF 1'234.56", lambda c: signed(c, f"CHF {grouped(c, APOSTROPHE, '.')}")),
    "indian": ("₹ 12,34,567.89", lambda c: signed(c, f"₹{grouped(c, ',', '.', pairs=True)}")),
    "decimal commas": ("1.234,56", lambda c: signed(c, grouped(c, "", ","))),
}  # fmt: skip


def amounts(seed: int, count: int = 120) -> list[int]:
    random_ = random.Random(seed)
    return [random_.choice((-1, 1, 1)) * random_.randrange(10 ** random_.randint(1, 11)) for _ in range(count)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("delimiter", "encoding"), [(",", "utf-8"), (";", "utf-8"), ("\t", "utf-16"), (";", "cp1252")])
def test_every_value_is_exact(way: str, delimiter: str, encoding: str, tmp_path: Path) -> None:
    example, write = WAYS[way]
    cents = amounts(len(way))
    try:
        lines = [f'{i}{delimiter}"{write(c)}"{delimiter}x{i % 3}\n' for i, c in enumerate(cents)]
        raw = "".join([delimiter.join(("id", "price", "kind")) + "\n", *lines]).encode(encoding)
    except UnicodeEncodeError:
        pytest.skip(f"{encoding} cannot write this")
    dataset = opened(written(tmp_path, raw))
    assert column(dataset, "price") == [c / 100 for c in cents]
    assert dataset.manifest.bad_count == 0
    if dataset.columns["price"].written:
        assert dataset.columns["price"].written == example
        assert any(f"'price' holds numbers written like {example}" in note for note in dataset.manifest.notes)
        assert not any(note.endswith("..") for note in dataset.manifest.notes)
    else:  # the marks are those of the whole file
        assert (dataset.manifest.dialect["decimal"], dataset.manifest.dialect["thousands"]) != (".", "")


@pytest.mark.parametrize("way", ["euro in front", "accounting", "no-break spaces", "indian"])
def test_ranges_of_a_few_bytes_give_the_same_numbers(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cents = amounts(7, 30)
    text = "id;price\n" + "".join(f"{i};{WAYS[way][1](c)}\n" for i, c in enumerate(cents))
    with small_pieces(monkeypatch, block=11):
        dataset = opened(written(tmp_path, text))
    assert column(dataset, "price") == [c / 100 for c in cents]


@pytest.mark.parametrize("example", sorted({example for example, _ in WAYS.values()}))
def test_an_example_says_how_numbers_are_written(example: str) -> None:
    notation = notation_from(example)
    assert notation is not None
    assert notation.example == example
    assert notation.number(example) in (1234.56, 1234567.89)


@pytest.mark.parametrize("cells", [
    ["A01", "A02", "A03"], ["12 Main", "14 High", "3 Mill"], ["1.2.3", "1.2.4", "2.0.1"], ["5-10", "10-15", "15-20"],
    ["1st", "2nd", "3rd"], ["$5", "€6", "£7"], ["5 km", "3 mi", "2 km"], ["<5", ">7", "8"], ["0x10", "0x11", "0x12"],
    ["030 1234", "030 999", "040 12345"], ["1,23,4", "2,3,4", "5"], ["12:30", "13:45", "1:00"], ["(1)", "(2)", "(3)"],
    ["1_000", "2_000", "3_000"], ["5+", "6+", "7+"], ["1/2", "3/4", "5/6"], ["x5", "x6", "x7"], ["", "a", "b"],
])  # fmt: skip
def test_what_is_no_number_stays_text(cells: list[str]) -> None:
    assert notation_of(cells) is None


@pytest.mark.parametrize(
    "text", ["Rs.500", "1.23", "1.2345", "0.123", "--5", "(5", "5)", "(-5)", "€", "", "5 5", "1.5", "5 €€ x"]
)
def test_other_texts_in_such_a_column_are_no_numbers(text: str, tmp_path: Path) -> None:
    """By the kernel and by Python's reader alike: 1.234 is grouped here, 1.5 is not."""
    rows = [f"{i};€ {i}.234,50" for i in range(1, 60)]
    dataset = opened(written(tmp_path, "id;price\n" + "\n".join([*rows, f'99;"{text}"']) + "\n"))
    assert column(dataset, "price")[:59] == [i * 1000 + 234.5 for i in range(1, 60)]
    assert dataset.manifest.bad_count == (text != "")


def test_a_point_that_groups_digits_is_told_from_a_decimal_one(tmp_path: Path) -> None:
    """950 and 1.234, never 1.5: thousands. 9.5 and 1.234: decimals."""
    whole = [950 + 37 * i for i in range(40)]
    lines = [f"{f'{v:,}'.replace(',', '.')};{v / 1000}" for v in whole]
    dataset = opened(written(tmp_path, "a;b\n" + "\n".join(lines) + "\n"))
    assert column(dataset, "a") == whole
    assert column(dataset, "b") == [v / 1000 for v in whole]
    given = opened(written(tmp_path, "a;b\n" + "\n".join(lines) + "\n"), decimal=".")
    assert column(given, "a")[:3] == [950, 987, 1.024]


def crowns(cents: int) -> str:
    """Whole ones with a dash in place of cents: 1.234,- is no number below zero."""
    text = grouped(cents, ".", ",")
    return signed(cents, f"{text[:-2]}-" if text.endswith(",00") else text)


@pytest.mark.parametrize("write", [
    lambda c: f"kr. {crowns(c)}", lambda c: f"{crowns(c)} kr", crowns,
    lambda c: crowns(c).replace(",-", ",--"), lambda c: crowns(c).replace(",-", ".-"),
])  # fmt: skip
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_dash_in_place_of_cents_is_no_minus(write: Write, whole: bool, encoding: str, tmp_path: Path) -> None:
    cents = [c // 100 * 100 if whole or i % 2 else c for i, c in enumerate(amounts(3))]
    text = "id;price\n" + "".join(f"{i};{write(c)}\n" for i, c in enumerate(cents))
    dataset = opened(written(tmp_path, text.encode(encoding)))
    assert column(dataset, "price") == [c / 100 for c in cents]
    assert dataset.manifest.bad_count == 0


def test_a_mark_that_an_encoding_has_in_part_is_none_of_its_marks(tmp_path: Path) -> None:
    """A comma and a long dash would be a comma in Latin-1, which is the decimal mark there."""
    text = "id;price\n" + "".join(f"{i};€ {i},5\n" for i in range(1, 40))
    dataset = opened(written(tmp_path, text.encode("iso-8859-15")), encoding="iso-8859-15")
    assert column(dataset, "price") == [i + 0.5 for i in range(1, 40)]


def test_inspect_shows_how_numbers_are_written(tmp_path: Path) -> None:
    path = written(tmp_path, "id;price\n1;€ 1.234,50\n2;€ 7,25\n")
    assert [c["written"] for c in shoal("inspect", path, "--json").json["columns"]] == ["", "€ 1.234,56"]
    assert "€ 1.234,56" in shoal("inspect", path).out
