"""Exports whose cells are nearly numbers or dates, and frames around tables: read as they are meant, or said."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from support.tables import opened, written

ROWS = 24
PLAIN = [f"{3 * i + 0.5}" for i in range(ROWS)]

TOLD: dict[str, tuple[list[str], str]] = {
    "detection limits": ([*PLAIN[:9], *["<0.01", "> 100"] * 9], "numbers are limits ('<0.01', '> 100')"),
    "flags of statistics": (["7.1 b", ":", ": z", "5.2 ep", *PLAIN[:12], *["8.3 b"] * 8], "marks beside them ('"),
    "footnotes": (
        ["12[1]", "13*", "14 (a)", "~15", *PLAIN[:12], *["17*"] * 8],
        "marks beside them ('12[1]', '14 (a)', '~15' and 1 more)",
    ),
    "ratings": ([f"{i % 5}/5" for i in range(ROWS)], "are two numbers each"),
    "blood pressure": ([f"{110 + i}/{70 + i}" for i in range(ROWS)], "are two numbers each"),
    "ranges": ([f"{i}-{i + 10}" for i in range(ROWS)], "are ranges"),
    "long durations": ([f"{25 + i}:{i:02d}:30" for i in range(ROWS)], "are lengths of time"),
    "durations in words": ([f"{i} h {2 * i} min" for i in range(ROWS)], "are lengths of time"),
    "quarters": ([f"2021-Q{i % 4 + 1}" for i in range(ROWS)], "are months, quarters or weeks"),
    "weeks": ([f"2021-W{i + 1:02d}" for i in range(ROWS)], "are months, quarters or weeks"),
    "months": ([f"2021-{i % 12 + 1:02d}" for i in range(ROWS)], "are months, quarters or weeks"),
    "months in words": ([("Jan", "Feb", "Mär")[i % 3] + "-21" for i in range(ROWS)], "are months of years"),
    "eras": ([f"令和{i % 5 + 1}年{i % 12 + 1}月{i + 1}日" for i in range(ROWS)], "begin as dates do"),
    "dates in sentences": ([f"am {i + 1}. Juli 2021 gegen Mittag" for i in range(ROWS)], "look like dates"),
    "degrees": ([f"52°{i + 10}'30\"N" for i in range(ROWS)], "are degrees with minutes"),
    "hexadecimal": ([f"0x{i + 200:04X}" for i in range(ROWS)], "are hexadecimal"),
    "powers of ten": ([f"{i + 1.5} × 10{'⁻²³⁴'[i % 4]}²" for i in range(ROWS)], "are numbers times a power of ten"),
    "powers in one line": ([f"{i + 1.5}x10^{i % 4 + 2}" for i in range(ROWS)], "are numbers times a power of ten"),
    "tolerances": ([f"±0.0{i}" for i in range(ROWS)], "have a tolerance"),
    "behind apostrophes": ([f"'{i:05d}" for i in range(ROWS)], "are numbers behind an apostrophe"),
    "feet and inches": ([f"{4 + i % 3}'{i % 12}" for i in range(ROWS)], "are feet and inches"),
    "fractions in one sign": ([f"{i}{'½¼¾'[i % 3]}" for i in range(ROWS)], "are two numbers each"),
    "inches": ([f"{i} {'1357'[i % 4]}/8" for i in range(ROWS)], "are two numbers each"),
    "times with points": ([f"{i:02d}.{2 * i:02d}.00" for i in range(ROWS)], "look like times of day"),
    "days of weeks": ([f"2021-W{i + 1:02d}-1" for i in range(ROWS)], "are months, quarters or weeks"),
    "years of Taiwan": ([f"{110 + i // 12}/{i % 12 + 1:02d}/{i + 1:02d}" for i in range(ROWS)], "begin as dates do"),
    "months of Thailand": ([f"{i + 1} {('ม.ค.', 'ก.พ.', 'มี.ค.')[i % 3]} 2565" for i in range(ROWS)], "look like dates"),
    "days of Vietnam": ([f"ngày {i + 1} tháng {i % 12 + 1} năm 2022" for i in range(ROWS)], "look like dates"),
    "a word before the time": ([f"{i + 1}. 1. 2022 v {i}:30" for i in range(ROWS)], "begin as dates do"),
    "made by a spreadsheet": (["TP53", "BRCA1", "2-Sep"] * 8, "'2-Sep' among its texts look like dates"),
}
NOT_TOLD: dict[str, list[str]] = {
    "names": [f"name {i}" for i in range(ROWS)],
    "bands of ages": [f"{20 + 10 * (i % 4)}-{29 + 10 * (i % 4)}" for i in range(ROWS)],
    "phone numbers": [f"030-{123456 + i}" for i in range(ROWS)],
    "house numbers": [f"{i % 5}{'ab'[i % 2]}" for i in range(ROWS)],
    "versions": [f"1.{i}.0" for i in range(ROWS)],
    "addresses": [f"10.0.0.{i}" for i in range(ROWS)],
    "plates": [f"B-{100 + i}" for i in range(ROWS)],
}


def notes_of(folder: Path, cells: list[str]) -> tuple[str, str]:
    text = pd.DataFrame({"x": cells, "y": range(len(cells))}).to_csv(index=False)
    dataset = opened(written(folder, text.encode()))
    return dataset.columns["x"].type, "\n".join(note for note in dataset.notes if "'x'" in note)


@pytest.mark.parametrize("case", TOLD)
def test_texts_that_are_nearly_something_else_are_told(tmp_path: Path, case: str) -> None:
    cells, said = TOLD[case]
    kind, notes = notes_of(tmp_path, cells)
    assert kind == "categorical"
    assert said in notes


@pytest.mark.parametrize("case", NOT_TOLD)
def test_names_are_names(tmp_path: Path, case: str) -> None:
    assert notes_of(tmp_path, NOT_TOLD[case]) == ("categorical", "")


@pytest.mark.parametrize("case", ["quarters", "blood pressure", "long durations"])
def test_a_few_rows_are_enough(tmp_path: Path, case: str) -> None:
    cells, said = TOLD[case]
    assert said in notes_of(tmp_path, cells[:4])[1]


FRAMES = {
    "sap": "Stock list   18.11.2025\n\n\n" + "-" * 30 + "\n|Plant|Stock   |\n" + "-" * 30 + "\n{}" + "-" * 30 + "\n",
    "mysql": "+-------+-------+\n| Plant | Stock |\n+-------+-------+\n{}+-------+-------+\n",
    "markdown": "| Plant | Stock |\n|:------|------:|\n{}",
}


@pytest.mark.parametrize("case", FRAMES)
def test_frames_around_cells_are_no_columns(tmp_path: Path, case: str) -> None:
    rows = "".join(f"| P{i % 3} | {100 * i}.5 |\n" for i in range(ROWS))
    dataset = opened(written(tmp_path, FRAMES[case].format(rows).encode()))
    assert [(column.name, column.type) for column in dataset.columns.values()] == [
        ("Plant", "categorical"), ("Stock", "numeric"),
    ]  # fmt: skip
    assert (dataset.rows, dataset.manifest.bad_count) == (ROWS, 0)
    assert "2 columns at both ends without a name and without any value are left out." in dataset.notes


def test_a_first_column_with_a_value_further_down_is_one(tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, b",a,b\n" + b",1,2\n" * 9 + b"5,1,2\n"))
    assert list(dataset.columns) == ["0", "a", "b"]


def test_dates_in_orders_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    days = [f"{i % 12 + 1}/{i % 28 + 1}/2019" if i % 3 else f"{i % 28 + 1}.{i % 12 + 1}.2019" for i in range(90)]
    path = written(tmp_path, "sold;y\n" + "".join(f"{day};{i % 7}\n" for i, day in enumerate(days)))
    said = "Column 'sold' is read as text: its dates are written in several ways ('1.1.2019', '2/2/2019')."
    assert [note for note in opened(path).notes if note.startswith(said)]
    same = written(tmp_path, "sold;y\n" + "".join(f"{i % 28 + 1}. 7. 2020;{i % 7}\n" for i in range(90)), "same.csv")
    assert not [note for note in opened(same).notes if "several ways" in note]
