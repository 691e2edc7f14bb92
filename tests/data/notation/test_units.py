"""Words behind numbers that are one unit in its forms are read as one; different units never are, and are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import shoal as api
from shoal.data.notation.numbers import notation_from, notation_of
from support.tables import column, opened, written

NUMBERS = [*range(1, 31), 101, 112, 122, 1, 1, 2]


def slavic(one: str, few: str, many: str) -> Callable[[int], str]:
    return lambda n: one if n == 1 else few if n % 10 in (2, 3, 4) and n % 100 not in (12, 13, 14) else many


def two(one: str, other: str) -> Callable[[int], str]:
    return lambda n: one if n == 1 else other


FORMS: dict[str, Callable[[int], str]] = {
    "days": two("day", "days"),
    "dni": two("dzień", "dni"),
    "lata": slavic("rok", "lata", "lat"),
    "Tage": two("Tag", "Tage"),
    "Jahre": two("Jahr", "Jahre"),
    "ans": two("an", "ans"),
    "años": two("año", "años"),
    "capitals": two("DAY", "DAYS"),
    "several words": two("year old", "years old"),
    "known short": two("hr", "hrs"),
    "currency": two("euro", "euros"),
    "not known, two forms": two("Kind", "Kinder"),
    "not known, three forms": slavic("sztuka", "sztuki", "sztuk"),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_one_unit_are_numbers_by_kernel_and_python(name: str, tmp_path: Path) -> None:
    cells = [f"{n} {FORMS[name](n)}" for n in NUMBERS]
    notation = notation_of(cells)
    assert notation is not None
    assert [notation.number(cell) for cell in cells] == NUMBERS
    assert notation_from(notation.example) == notation
    dataset = opened(written(tmp_path, "stay,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells))))
    assert column(dataset, "stay") == NUMBERS
    assert not dataset.manifest.bad_count
    assert [notation.example in note for note in dataset.notes] == [True]


@pytest.mark.parametrize("cells", [
    ["1 kg", "500 g", "2 kg"], ["1 m", "30 cm", "5 m"], ["1 h", "30 min", "20 min"], ["1 year", "18 months", "6 months"],
    ["1 month", "30 minutes", "20 minutes"], ["1 megabit", "2 megabyte", "3 megabyte"], ["5 ms", "3 m", "2 m"],
    ["5 kW", "3 kWh", "3 kW"], ["1 mph", "3 mpg", "3 mpg"], ["1 ton", "2 tonnes", "3 tonnes"], ["1 USD", "2 UAH", "3 UAH"],
    ["2 sztuka", "2 sztuki", "5 sztuki"], ["1 week", "2 weekends", "3 weekends"],
])  # fmt: skip
def test_different_units_are_never_joined(cells: list[str]) -> None:
    assert notation_of(cells) is None
    assert notation_of(cells * 20) is None


@pytest.mark.parametrize("units", [("year", "months"), ("apples", "pears"), ("kg", "g")])
def test_different_units_are_told_as_text_and_as_numbers(units: tuple[str, str], tmp_path: Path) -> None:
    rows = "".join(f"{i % 7 + 1} {units[i % 2]},{i}\n" for i in range(40))
    path = written(tmp_path, "stay,y\n" + rows)
    shown = f"('1 {units[0]}', '2 {units[1]}')"
    assert [shown in note and "is read as text" in note for note in opened(path).notes] == [True]
    assert [shown in note and "cannot be read so" in note for note in opened(path, numeric=["stay"]).notes] == [True]


def test_a_form_that_comes_late_or_in_rows_to_predict_is_known(tmp_path: Path) -> None:
    """One row is enough, of whatever form: `1 dzień` where a model was made of `5 dni` alone."""
    rows = "".join(f"{i % 50 + 2} dni;{3 * (i % 50 + 2) + 1}\n" for i in range(6_000))
    path = written(tmp_path, "stay;y\n" + rows + "1 dzień;4\n")
    assert column(opened(path), "stay")[-1] == 1
    model = api.fit(path, target="y")
    new = written(tmp_path, "stay\n1 dzień\n", "new.csv")
    assert model.predict(new) == pytest.approx([4.0])
