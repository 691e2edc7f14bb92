"""Dates as people write them: which way is told from the column, said where it cannot be told, and kept with the model."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import shoal
from shoal.data.notation.dates import has_times, is_date
from shoal.data.notation.styles import date_of, style_of
from shoal.errors import ConfigError, DataError
from shoal.fitting.model_file import load_model
from support.tables import column, fitted, opened, written
from support.tables import shoal as command

EPOCH = datetime.datetime(1970, 1, 1)
DAYS = [datetime.date(2019, 1, 3) + datetime.timedelta(days=11 * i) for i in range(90)]
MONTHS_DE = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
]
MONTHS_PL = [
    "stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia", "września", "października",
    "listopada", "grudnia",
]  # fmt: skip
MONTHS_SV = [
    "januari", "februari", "mars", "april", "maj", "juni", "juli", "augusti", "september", "oktober", "november",
    "december",
]  # fmt: skip
DAYS_SV = ["måndag", "tisdag", "onsdag", "torsdag", "fredag", "lördag", "söndag"]
MONTHS_ES = ["ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sep", "oct", "nov", "dic"]

WRITTEN: dict[str, Callable[[datetime.date], str]] = {
    "23SEP2021": lambda d: f"{d:%d%b%Y}".upper(),
    "Jul 16, 2017": lambda d: f"{d:%b %d, %Y}",
    "16 July 2017": lambda d: f"{d.day} {d:%B %Y}",
    "16. Juli 2017": lambda d: f"{d.day}. {MONTHS_DE[d.month - 1]} {d.year}",
    "16-JUL-17": lambda d: f"{d:%d-%b-%y}".upper(),
    "31/12/21": lambda d: f"{d:%d/%m/%y}",
    "12/31/21": lambda d: f"{d:%m/%d/%y}",
    "21-12-31": lambda d: f"{d:%y-%m-%d}",
    "31.12.2021": lambda d: f"{d:%d.%m.%Y}",
    "12/31/2021": lambda d: f"{d:%m/%d/%Y}",
    "2021年12月31日": lambda d: f"{d.year}年{d.month}月{d.day}日",
    "2021. 12. 31.": lambda d: f"{d.year}. {d.month}. {d.day}.",
    "31.12.2021 r.": lambda d: f"{d:%d.%m.%Y} r.",
    "31.12.2021 г.": lambda d: f"{d:%d.%m.%Y} г.",
    "31 grudnia 2021 r.": lambda d: f"{d.day} {MONTHS_PL[d.month - 1]} {d.year} r.",
    "fredag den 31 december 2021": lambda d: f"{DAYS_SV[d.weekday()]} den {d.day} {MONTHS_SV[d.month - 1]} {d.year}",
    "31-dic-2021": lambda d: f"{d.day:02d}-{MONTHS_ES[d.month - 1]}-{d.year}",
}


def days(day: datetime.date) -> float:
    return float((day - EPOCH.date()).days)


def table(cells: list[str], values: list[float] | None = None) -> str:
    values = values or [float(i) for i in range(len(cells))]
    return "d;y\n" + "".join(f"{cell};{value}\n" for cell, value in zip(cells, values, strict=True))


@pytest.mark.parametrize("way", list(WRITTEN))
def test_dates_are_found_and_read(way: str, tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, table([WRITTEN[way](day) for day in DAYS])))
    assert (dataset.columns["d"].type, column(dataset, "d")) == ("datetime", list(map(days, DAYS)))
    assert not dataset.columns["d"].orders


def test_names_of_months_in_an_eight_bit_encoding(tmp_path: Path) -> None:
    text = table([WRITTEN["16. Juli 2017"](day) for day in DAYS])
    assert column(opened(written(tmp_path, text.encode("cp1252"))), "d") == list(map(days, DAYS))


@pytest.mark.parametrize(
    "clock", ["{:%I:%M %p}", "{:%I:%M:%S %p}", "{:%I:%M} p.m.", "{:%H:%M}", "{:%H.%M}", "{:%H.%M.%S}"]
)
def test_times_of_twelve_hours(clock: str, tmp_path: Path) -> None:
    moments = [datetime.datetime(2021, 7, 16, 12, 5) + datetime.timedelta(minutes=7 * i) for i in range(90)]
    dataset = opened(written(tmp_path, table([f"{m:%m/%d/%Y} {clock.format(m)}" for m in moments])))
    expected = [(m - EPOCH).total_seconds() / 86400 for m in moments]
    assert column(dataset, "d") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "hour"), [("12:00 AM", 0), ("12:59 AM", 0), ("1:00 am", 1), ("12:00 PM", 12), ("11:59 PM", 23)]
)
def test_noon_and_midnight(text: str, hour: int) -> None:
    found = date_of(f"2021-05-03 {text}", 0)
    assert found is not None
    assert int((found - 18750) * 24 + 1e-9) == hour
    assert date_of("2021-05-03 13:00 PM", 0) is None
    assert date_of("2021-05-03 0:30 AM", 0) is None


@pytest.mark.parametrize(
    ("text", "hour"),
    [("2024年5月3日 午後3時30分", 15.5), ("2024年5月3日 午前0時", 0), ("2024年5月3日 9時05分30秒", 9 + 5.5 / 60), ("2024-05-03 下午 3:30:00", 15.5),
     ("2024년 5월 3일 오전 9:30", 9.5), ("2024/05/03 3:30:00 PM GMT+2", 13.5), ("2024-05-03 03:30 UTC-05:30", 9.0)],
)  # fmt: skip
def test_hours_of_other_scripts_and_zones(text: str, hour: float) -> None:
    assert is_date(text)
    assert date_of(text, 0) == pytest.approx(days(datetime.date(2024, 5, 3)) + hour / 24, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "hour"), [("03/05/2024 21.33", 21.55), ("03.05.2024 9.05", 9 + 5 / 60), ("3/5/2024 9.05.30", 9 + 5.5 / 60)]
)
def test_a_point_in_the_time_beside_a_date(text: str, hour: float) -> None:
    """As in Italy and Finland; by itself it is a number."""
    assert is_date(text)
    assert has_times(text)
    assert date_of(text, 1) == pytest.approx(days(datetime.date(2024, 5, 3)) + hour / 24, abs=1e-9)
    assert not any(map(has_times, ("31.12.2021", "31. 12. 2021", "31. 12.21", "2021. 12. 31.", "31 December 2021")))


@pytest.mark.parametrize(
    "text", ["03/05/2024 24.33", "03/05/2024 21.60", "03/05/2024 21.3", "03/05/2024 21.33.", "21.33"]
)
def test_no_time_with_a_point(text: str) -> None:
    assert date_of(text, 1) is None


def test_times_with_a_point_are_read_in_training_and_prediction_alike(tmp_path: Path) -> None:
    moments = [datetime.datetime(2025, 1, 3, 0, 7) + datetime.timedelta(hours=31 * i) for i in range(90)]
    values = [(m - EPOCH).total_seconds() / 86400 - 20000 for m in moments]
    path = written(tmp_path, table([f"{m:%d/%m/%Y %H.%M}" for m in moments], values))
    model, out = tmp_path / "model.json", tmp_path / "predictions.csv"
    command("train", path, "--target", "y", "--out", model)
    said = command("predict", model, path, "--out", out, "--json").json
    assert (said["rows"], said["bad_rows"]) == (90, 0)
    found = [float(line.split(",")[1]) for line in out.read_text().splitlines()[1:]]
    assert found == pytest.approx(values, abs=1e-6)


@pytest.mark.parametrize("text", ["2024年5月3日 午後25時", "2024年5月3日 3時5", "2024-05-03 3:30 PM GMT+", "午後"])
def test_no_hours_of_other_scripts(text: str) -> None:
    assert date_of(text, 0) is None


@pytest.mark.parametrize(("year", "full"), [("68", 2068), ("69", 1969), ("99", 1999), ("00", 2000)])
def test_two_digits_of_a_year_as_in_posix(year: str, full: int) -> None:
    assert date_of(f"31/12/{year}", 5) == days(datetime.date(full, 12, 31))


@pytest.mark.parametrize("text", ["1.2.13", "10.4.1", "May 2017", "12 monkeys 2017", "31 Febr 2020", "Q3 2021", "555-12-34", "12:30",
                                  "99/99/99", "3 May", "May", "2021-05", "16 Jul 017", "16 Jul 2017 25:00"])  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    assert style_of(text) is None


def test_words_around_are_not_dates() -> None:
    assert is_date("Jul 16, 2017")
    assert not is_date("Berlin 16, 2017")


def test_rows_further_down_tell_the_order(tmp_path: Path) -> None:
    """The first rows, from which dialects are told, could be read either way; one far below cannot."""
    early = [datetime.date(2021, 1 + i % 12, 1 + i % 11) for i in range(2000)]
    for write in ("{:%m/%d/%Y}", "{:%d/%m/%Y}"):
        late = [*early, datetime.date(2021, 3, 30)]
        dataset = opened(written(tmp_path, table([write.format(day) for day in late]), f"{write[2:4]}.csv".strip("%")))
        assert column(dataset, "d") == list(map(days, late))
        assert dataset.columns["d"].orders == ()
        assert dataset.manifest.bad_count == 0


def test_dates_of_either_order_are_said_and_can_be_chosen(tmp_path: Path) -> None:
    both = [datetime.date(2021, 1 + i % 12, 1 + i % 11) for i in range(100)]
    path = written(tmp_path, table([f"{day:%m/%d/%Y}" for day in both]))
    said = command("inspect", path)
    assert "d=month-first" in said.out
    assert command("inspect", path, "--json").json["columns"][0]["orders"] == ["month-first"]
    dataset = opened(path, dates=["d=month-first"])
    assert column(dataset, "d") == list(map(days, both))
    assert not any("another order" in note for note in dataset.notes)
    assert column(opened(path, dates=["month-first"]), "d") == list(map(days, both))


def test_an_order_that_is_none_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, table(["01/02/2021"] * 10))
    with pytest.raises(ConfigError, match="day-first"):
        opened(path, dates=["d=monthfirst"])


def test_columns_that_tell_speak_for_those_that_do_not(tmp_path: Path) -> None:
    lines = [f"{i % 12 + 1}/{i % 28 + 1}/2021,{i % 12 + 1}/{i % 11 + 1}/2021,{i}" for i in range(100)]
    dataset = opened(written(tmp_path, "a,b,y\n" + "\n".join(lines) + "\n"))
    assert [dataset.columns[name].written for name in "ab"] == ["12/31/2021", "12/31/2021"]


# ------------------------------------------------------------------ models


def model_of(tmp_path: Path, write: str) -> Path:
    path = written(tmp_path, table([write.format(day) for day in DAYS], [5 + 0.25 * days(day) for day in DAYS]))
    shoal.fit(path, target="y").save(tmp_path / "model.json")
    return tmp_path / "model.json"


def test_a_coefficient_of_dates_is_per_day(tmp_path: Path) -> None:
    found = fitted(written(tmp_path, table([f"{d:%d.%m.%Y}" for d in DAYS], [5 + 0.25 * days(d) for d in DAYS])), "y")
    assert found["coefficients"]["d"] == pytest.approx(0.25, rel=1e-12)
    assert found["dates"] == {"d": "31.12.2021"}
    told = command("train", tmp_path / "table.csv", "--target", "y")
    assert "d (per day)" in told.out
    assert "d (per day)" in str(shoal.fit(tmp_path / "table.csv", target="y").summary())
    per_day = "Dates count in days: the coefficient of d is per day."
    for model in ("ridge", "poisson"):
        told = command("tune", tmp_path / "table.csv", "--target", "y", "--model", model, "--folds", "3")
        assert per_day in told.out + told.err
    command("train", tmp_path / "table.csv", "--target", "y", "--out", tmp_path / "m.json")
    assert per_day in " ".join(command("explain", tmp_path / "m.json").out.split())


@pytest.mark.parametrize("write", ["{:%d/%m/%Y}", "{:%m/%d/%Y}"])
def test_the_order_of_training_is_that_of_prediction(write: str, tmp_path: Path) -> None:
    model = model_of(tmp_path, write)
    day = datetime.date(2021, 2, 3)  # which can be read in either order
    rows = written(tmp_path, f"d\n{write.format(day)}\n", "rows.csv")
    expected = 5 + 0.25 * days(day)
    assert shoal.load(model).predict(rows) == pytest.approx([expected])
    assert shoal.load(model).predict(pd.DataFrame({"d": [write.format(day)]})) == pytest.approx([expected])
    assert shoal.load(model).predict(pd.DataFrame({"d": [pd.Timestamp(day)]})) == pytest.approx([expected])
    other = written(tmp_path, f"d\n{day:%Y-%m-%d}\n", "other.csv")
    assert shoal.load(model).predict(other) == pytest.approx([expected])


def test_numbers_where_dates_were_are_refused(tmp_path: Path) -> None:
    model = model_of(tmp_path, "{:%d/%m/%Y}")
    with pytest.raises(DataError, match=r"needs dates in column 'd', such as 31/12/2021, got numbers"):
        shoal.load(model).predict(written(tmp_path, "d\n18000\n18001\n", "rows.csv"))
    with pytest.raises(DataError, match="got numbers"):
        shoal.load(model).predict(pd.DataFrame({"d": [18000.0]}))


def test_models_of_older_programs_have_dates_in_seconds(tmp_path: Path) -> None:
    """Version 1, as it was written: per second, and without a word on dates."""
    path = model_of(tmp_path, "{:%Y-%m-%d}")
    old = json.loads(path.read_text())
    assert old["version"] == 3
    old["version"], old["checksum"] = 1, "none"
    del old["dates"]
    old["coefficients"]["d"] /= 86400
    old["design"]["terms"][0]["fill"] *= 86400
    path.write_text(json.dumps(old))
    rows = written(tmp_path, "d\n2021-02-03\nNA\n2021-02-04\n", "rows.csv")
    middle = load_model(path).encoding.terms[0].fill / 86400  # type: ignore[union-attr]
    expected = [5 + 0.25 * value for value in (18661, middle, 18662)]
    assert shoal.load(path).predict(rows) == pytest.approx(expected)
    frame = pd.DataFrame({"d": pd.to_datetime(["2021-02-03", None, "2021-02-04"])})
    assert shoal.load(path).predict(frame) == pytest.approx(expected)


def test_exports_say_the_unit_of_dates(tmp_path: Path) -> None:
    model = shoal.load(model_of(tmp_path, "{:%d/%m/%Y}"))
    model.export("sql", tmp_path / "m.sql")
    assert "Dates are days since 1970" in (tmp_path / "m.sql").read_text()


def test_first_days_of_months_are_no_years(tmp_path: Path) -> None:
    firsts = [datetime.date(2013 + i // 12, i % 12 + 1, 1) for i in range(48)]
    dataset = opened(written(tmp_path, table([f"{day:%d-%m-%y}" for day in firsts])))
    assert column(dataset, "d") == list(map(days, firsts))
    assert dataset.columns["d"].orders == ("month-first",)
