"""Numbers, sizes and times for the eye; lists in one line against Python's own reader of CSV."""

from __future__ import annotations

import csv
import random

import pytest

from shoal.words import (
    ago,
    compared,
    epochs_told,
    file_size,
    list_items,
    list_text,
    number,
    power_of_ten,
    shortened,
    term_shown,
    tiny,
)  # fmt: skip


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (48_219, "48 kB"), (9_960_000, "10 MB"), (999_600, "1.0 MB"),
     (64e9, "64 GB"), (2.5e12, "2.5 TB")],
)  # fmt: skip
def test_sizes_for_the_eye(count: float, text: str) -> None:
    assert file_size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "just now"), (59, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (86_400, "1 day ago")],
)
def test_times_for_the_eye(seconds: float, text: str) -> None:
    assert ago(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.88531, "0.8853"), (12345.6, "12,346"), (3e15, "3.000e+15"), (-0.5, "-0.5")]
)
def test_numbers_for_the_eye(value: float | None, text: str) -> None:
    assert number(value) == text


def test_more_digits_are_grouped_as_fewer_are() -> None:
    assert [number(value, 6) for value in (57656.42, 4088327.0, 1968.0, 0.123456789)] == [
        "57,656.4", "4,088,327", "1968", "0.123457",
    ]  # fmt: skip


def test_small_numbers_are_written_as_people_do() -> None:
    assert power_of_ten(3.4e-17).replace("\N{NO-BREAK SPACE}", " ") == "3 × 10⁻¹⁷"


def test_epochs_and_distances_for_the_eye() -> None:
    assert [epochs_told(3.24, 10), epochs_told(1234.5, 100_000, "/"), epochs_told(21.0, 20)] == [
        "3.24 of 10", "1,234/100,000", "21",
    ]  # fmt: skip
    assert [tiny(3.26e-8), tiny(0.0)] == ["3.3e-08", "0"]


def test_long_names_keep_both_ends() -> None:
    start, end = (f"surface_of_the_flat_as_measured_by_the_landlord_at_the_{word}" for word in ("start", "end"))
    assert shortened(start, 28) != shortened(end, 28)
    assert {len(shortened(name, 28)) for name in (start, end)} == {28}
    assert shortened("rooms", 28) == "rooms"
    assert shortened("x" * 28, 28) == "x" * 28


def test_no_value_is_called_so_in_the_names_of_columns_of_the_design() -> None:
    named = {"a=__missing__": "a=(no value)", "a=__missing__:b": "a=(no value):b", "a=__missing__2": "a=__missing__2"}
    assert {name: term_shown(name) for name in named} == named


def test_long_names_make_no_wall_of_what_levels_are_compared_with() -> None:
    asked = f"Thinking about {'x' * 200}, do you agree?"
    said = compared({asked: "Agree", "city": "Ulm", "kind": "__missing__"})
    assert said == (
        "Levels of text columns are compared with Thinking about …x, do you agree?: Agree, city: Ulm, kind: no value."
    )


def test_many_columns_that_are_compared_with_the_same_share_a_place() -> None:
    questions = {f"Q{i}": "Agree" for i in range(100)} | {f"F{i}": "Always" for i in range(2)} | {"city": "Ulm"}
    assert compared(questions) == (
        "Levels of text columns are compared with Q0 and 99 more: Agree, F0 and 1 more: Always, city: Ulm."
    )


# ------------------------------------------------------------------ lists in one line


@pytest.mark.parametrize(
    "text", ["a", "a,b", ",a,", 'b.d.,"CRP [mg/l]=<0,5",---', '"a ""b"", c",d', '"a,b"', '5" pipe,6" pipe', '"",a']
)
def test_lists_are_read_as_a_line_of_csv(text: str) -> None:
    assert list_items(text) == next(csv.reader([text]))


def test_blanks_around_quotes_and_what_goes_on_after_them() -> None:
    assert list_items('a, "b, c" ,d') == ["a", "b, c", "d"]
    assert list_items('"a, b":c,d:e') == ['"a, b":c', "d:e"]  # a pair, whose quotes are its own
    assert list_items('"never closed,b') == ['"never closed', "b"]


def test_only_what_needs_quotes_has_them() -> None:
    assert list_text(["a b", "<0,5", 'x"', '"a:b":c']) == 'a b,"<0,5",x","a:b":c'


def test_any_items_come_back() -> None:
    chance = random.Random(5)
    for _ in range(20_000):
        items = ["".join(chance.choices('",: a', k=chance.randrange(6))) for _ in range(chance.randrange(1, 4))]
        assert list_items(list_text(items)) == items
