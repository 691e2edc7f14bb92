"""Dates in several ways within one column: those that tell themselves are read among others, in training and after."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal as api
from shoal.fitting.model_file import load_model
from shoal.tasks.predict_rows import RowPredictor
from support.tables import column, opened, shoal, small_pieces, written

EPOCH = datetime.date(1970, 1, 1)
DAYS = [datetime.date(2019, 1, 3) + datetime.timedelta(days=7 * i) for i in range(150)]
WAYS = {
    "iso": "%Y-%m-%d", "dots": "%d.%m.%Y", "slashes": "%d/%m/%Y", "american": "%m/%d/%Y", "named": "%d %B %Y",
    "short": "%d.%m.%y", "timed": "%Y-%m-%dT%H:%M:%S",
}  # fmt: skip


def cells(*ways: str, every: int = 3) -> list[str]:
    """Each so many-th day in the second way, or in the third, all others in the first."""
    chosen = [ways[1 + i // every % (len(ways) - 1)] if i % every == 0 else ways[0] for i in range(len(DAYS))]
    return [day.strftime(WAYS[way]) for day, way in zip(DAYS, chosen, strict=True)]


def table(folder: Path, days: list[str], name: str = "table.csv") -> Path:
    lines = [f"{day};{i % 7};{2 * i + i % 5}" for i, day in enumerate(days)]
    return written(folder, "\n".join(["sold;x;y", *lines]) + "\n", name)


def numbers(days: list[datetime.date] = DAYS) -> list[float]:
    return [float((day - EPOCH).days) for day in days]


@pytest.mark.parametrize(
    "ways",
    [("dots", "iso"), ("iso", "dots"), ("slashes", "iso"), ("american", "iso"), ("iso", "american"), ("iso", "named"),
     ("named", "iso"), ("dots", "named"), ("short", "iso"), ("dots", "iso", "named"), ("dots", "timed")],
)  # fmt: skip
@pytest.mark.parametrize("every", [2, 3, 40])
def test_all_are_read(ways: tuple[str, ...], every: int, tmp_path: Path) -> None:
    dataset = opened(table(tmp_path, cells(*ways, every=every)))
    assert dataset.manifest.bad_count == 0
    assert dataset.columns["sold"].is_date
    assert [float(day) for day in column(dataset, "sold")] == numbers()
    assert [note for note in dataset.notes if "Dates in 'sold' are written in several ways" in note]


def test_one_far_down_is_read_too_whatever_the_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = [day.strftime("%d.%m.%Y") for day in DAYS] * 6  # more than are looked at before they are read
    days[-2:] = ["2021-11-03", "10 November 2021"]
    path = table(tmp_path, days)
    with small_pieces(monkeypatch, 700):
        dataset = opened(path)
        assert len(dataset.manifest.blocks) > 5
        assert [float(day) for day in column(dataset, "sold")][-2:] == numbers(
            [datetime.date(2021, 11, 3), datetime.date(2021, 11, 10)]
        )


def test_dates_that_tell_themselves_do_not_tell_the_order_of_others(tmp_path: Path) -> None:
    """Only days up to the twelfth where the order is open: that the others go up to 31 settles nothing."""
    days = [f"{i % 12 + 1:02d}/{i % 11 + 1:02d}/2019" if i % 2 else f"2019-01-{i % 31 + 1:02d}" for i in range(150)]
    dataset = opened(table(tmp_path, days))
    assert dataset.columns["sold"].orders == ("month-first",)
    first = opened(table(tmp_path, days, "first.csv"), dates=["sold=month-first"])
    assert float(column(first, "sold")[1]) == numbers([datetime.date(2019, 2, 2)])[0]
    assert float(column(first, "sold")[3]) == numbers([datetime.date(2019, 4, 4)])[0]


def test_an_open_order_is_that_which_lies_among_those_that_tell_themselves(tmp_path: Path) -> None:
    days = [f"2024-03-{8 + i % 20:02d}" for i in range(40)]
    days[17], days[30] = "03/10/2024", "03/12/2024"  # not the third of October and of December
    dataset = opened(table(tmp_path, days))
    assert float(column(dataset, "sold")[17]) == numbers([datetime.date(2024, 3, 10)])[0]
    assert dataset.columns["sold"].orders == ("day-first",)  # it is told all the same


def test_half_days_by_a_letter(tmp_path: Path) -> None:
    days = [f"7/{13 + i % 15}/2018 {i % 12 + 1}:{i % 60:02d}{'ap'[i % 2]}" for i in range(40)]
    found = column(opened(table(tmp_path, days)), "sold")
    expected = pd.to_datetime([f"{day}m" for day in days], format="%m/%d/%Y %I:%M%p")
    np.testing.assert_allclose(
        np.array(found, float), (expected - pd.Timestamp(0)) / pd.Timedelta(days=1), rtol=0, atol=1e-9
    )


def test_words_for_none_stay_an_offer(tmp_path: Path) -> None:
    days = cells("dots", "iso")
    days[5:60:6] = ["ukendt"] * len(days[5:60:6])
    found = opened(table(tmp_path, days)).columns["sold"]
    assert (found.is_date, dict(found.words)) == (True, {"ukendt": 10})
    assert opened(table(tmp_path, days), also_missing=["ukendt"]).manifest.bad_count == 0


def test_a_day_that_means_none_is_missing_however_it_is_written(tmp_path: Path) -> None:
    days = cells("dots", "iso")
    days[3], days[4] = "1900-01-01", "01.01.1900"
    dataset = opened(table(tmp_path, days), also_missing=["sold=1900-01-01"])
    assert dataset.columns["sold"].missing == 2


def test_new_rows_are_read_in_all_of_them(tmp_path: Path) -> None:
    model, new = tmp_path / "m.json", tmp_path / "new.csv"
    assert shoal("train", table(tmp_path, cells("dots", "iso")), "--target", "y", "--out", model).code == 0
    rows = pd.DataFrame({"sold": ["02.05.2021", "2021-05-02", "2 May 2021"], "x": [1, 1, 1]})
    rows.to_csv(new, index=False, sep=";")
    told = shoal("predict", model, new, "--out", tmp_path / "p.csv")
    assert told.code == 0, told.err
    by_file = pd.read_csv(tmp_path / "p.csv")["prediction"].to_numpy()
    by_row = RowPredictor(load_model(model)).predict(rows.to_dict("records")).predictions
    by_frame = api.load(model).predict(rows)
    assert len(set(by_file)) == 1
    np.testing.assert_array_equal(by_file, by_row)
    np.testing.assert_allclose(by_file, by_frame, rtol=1e-12)


def test_what_stands_in_for_a_missing_one_is_a_day(tmp_path: Path) -> None:
    days = cells("dots", "iso")
    days[7] = ""
    told = shoal("train", table(tmp_path, days), "--target", "y")
    assert "'sold' with 2020-06-11 in 1 row" in told.out
