"""Exports of banks, tills, hospitals and offices of other countries: each column is read as the person who wrote it
meant it, by values worked out by hand."""

from __future__ import annotations

import datetime
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.tables import Cell, bad_places, column, opened, written

N = 24
D = [datetime.date(2022, 1, 3) + datetime.timedelta(days=11 * i) for i in range(N)]
DAYS: list[Cell] = [float((day - datetime.date(1970, 1, 1)).days) for day in D]
MINUTES = [(7 + i % 12, i * 7 % 60, i * 13 % 60) for i in range(N)]
MOMENTS: list[Cell] = [
    day + hour / 24 + minute / 1440 + second / 86400
    for day, (hour, minute, second) in zip(DAYS, MINUTES, strict=True)
    if isinstance(day, float)
]
V = [round((-1) ** (i % 3 == 1) * (1234.5 + 517.25 * i), 2) for i in range(N)]
AMOUNTS: list[Cell] = [float(v) for v in V]
GREEK = ["Ιαν", "Φεβ", "Μαρ", "Απρ", "Μαΐ", "Ιουν", "Ιουλ", "Αυγ", "Σεπ", "Οκτ", "Νοε", "Δεκ"]
ARABIC = ["يناير", "فبراير", "مارس", "أبريل", "مايو", "يونيو", "يوليو", "أغسطس", "سبتمبر", "أكتوبر", "نوفمبر", "ديسمبر"]
HEBREW = ["ינואר", "פברואר", "מרץ", "אפריל", "מאי", "יוני", "יולי", "אוגוסט", "ספטמבר", "אוקטובר", "נובמבר", "דצמבר"]


@dataclass(frozen=True)
class Export:
    text: str
    holds: dict[str, list[Cell]]
    said: tuple[str, ...] = ()
    encoding: str = "utf-8"


def dotted(value: float, digits: int = 2) -> str:
    return f"{value:,.{digits}f}".translate({ord(","): ".", ord("."): ","})


def signed(value: float, plus: str, minus: str) -> str:
    return f"{dotted(abs(value))}{minus if value < 0 else plus}"


EXPORTS = {
    "Brazilian bank, credit and debit in one letter": Export(
        "Data;Valor (R$)\n" + "".join(f"{d:%d/%m/%Y};{signed(v, ' C', ' D')}\n" for d, v in zip(D, V, strict=True)),
        {"Data": DAYS, "Valor (R$)": AMOUNTS}, ("1.234,56 C/D; with D they are below zero",),
    ),
    "German bank, Haben and Soll": Export(
        "Tag;Betrag\n" + "".join(f"{d:%d.%m.%Y};{signed(v, ' H', ' S')}\n" for d, v in zip(D, V, strict=True)),
        {"Betrag": AMOUNTS}, ("with S they are below zero",),
    ),
    "signs behind, both of them": Export(
        "x;p\n" + "".join(f"{i};{signed(v, ' +', ' -')}\n" for i, v in enumerate(V)), {"p": AMOUNTS},
    ),
    "Hebrew bank of Windows": Export(
        "תאריך;תיאור;סכום\n" + "".join(
            f"{d:%d.%m.%Y};{('העברה', 'משכורת', 'עמלה')[i % 3]};{abs(v):,.2f}{'-' if v < 0 else '+'}\n"
            for i, (d, v) in enumerate(zip(D, V, strict=True))
        ),
        {"תאריך": DAYS, "תיאור": [("העברה", "משכורת", "עמלה")[i % 3] for i in range(N)], "סכום": AMOUNTS},
        ("cp1255 (Hebrew)",), "cp1255",
    ),
    "Korean districts, few words": Export(
        "연번,시군구,세대수(호),비율,기준일\n"
        + "".join(f'{i + 1},구{i % 7},"{1000 + i:,}",{i / 10}%,{d:%Y.%m.%d}\n' for i, d in enumerate(D)),
        {"시군구": [f"구{i % 7}" for i in range(N)], "세대수(호)": [1000.0 + i for i in range(N)], "기준일": DAYS},
        ("cp949 (Korean)",), "cp949",
    ),
    "Czech till, told by its crowns": Export(
        "Účtenka;Částka\n" + "".join(f"{i};{1000 + i:,} Kč\n".replace(",", "\u00a0") for i in range(N)),
        {"Účtenka": [float(i) for i in range(N)], "Částka": [1000.0 + i for i in range(N)]}, ("cp1250",), "cp1250",
    ),
    "Vietnamese prices, the sign right behind": Export(
        "Ngày,Doanh thu\n" + "".join(f"{d:%d/%m/%Y},{dotted(1000 * (i + 1), 0)}đ\n" for i, d in enumerate(D)),
        {"Doanh thu": [1000.0 * (i + 1) for i in range(N)]},
    ),
    "SAP list, the sum below without a name": Export(
        "\tBuch.dat.\tBetrag\tME\r\n"
        + "".join(f"\t{d:%d.%m.%Y}\t{signed(v, ' ', '-')}\tST\r\n" for d, v in zip(D, V, strict=True))
        + f"\t\t{dotted(sum(V))}\tST\r\n",
        {"Buch.dat.": DAYS, "Betrag": AMOUNTS}, ("the sums of the rows above it",),
    ),
    "Indian taxes, names and values above": Export(
        'GSTIN,27ABCDE1234F1Z5,,,\nLegal name,"Sharma & Sons, Pvt. Ltd.",,,\n,,,,\nInvoice date,Place,Rate,Value,Tax\n'
        + "".join(f'{d:%d-%b-%y},27-Goa,18%,"₹ 12,34,567.{10 + i}","₹ {i + 1},00,000"\n' for i, d in enumerate(D)),
        {"Invoice date": DAYS, "Value": [1234567 + (10 + i) / 100 for i in range(N)], "Rate": [18.0] * N},
        ("3 lines are above the table",),
    ),
    "Japanese statistics, the nation first and a note last": Export(
        "都道府県,人口,増減率\n" + f'全国,"{sum(range(1000, 1000 + N)):,}",0.3\n'
        + "".join(f'県{i:02d},"{1000 + i:,}",{"△ " if v < 0 else ""}{abs(v) / 1000:.3f}\n' for i, v in enumerate(V))
        + "（注）住民基本台帳による。,,\n",
        {"人口": [1000.0 + i for i in range(N)], "増減率": [round(v / 1000, 3) for v in V]},
        ("'全国'", "a note below the table"), "cp932",
    ),
    "points in one column, commas in another": Export(
        "id;laenge;preis\n" + "".join(f"{i};{i / 4};{i / 8:.3f}\n".replace(f"{i / 8:.3f}", f"{i / 8:.3f}".replace(".", ","))
                                      for i in range(N)),
        {"laenge": [i / 4 for i in range(N)], "preis": [i / 8 for i in range(N)]},
    ),
    "thousands with points, three decimals with commas": Export(
        "kunde;umsatz;gewicht\n"
        + "".join(f"k{i};{dotted(1000 + 37 * i, 0)};{dotted(1.125 + i / 10, 3)}\n" for i in range(N)),
        {"umsatz": [1000.0 + 37 * i for i in range(N)], "gewicht": [round(1.125 + i / 10, 3) for i in range(N)]},
        ("such as 1.000, read as thousands", "such as 1,125, read as decimals"),
    ),
    "days and times of digits alone": Export(
        "ts,minute,amt\n" + "".join(
            f"{d:%Y%m%d}{h:02d}{m:02d}{s:02d},{d:%Y%m%d}{h:02d}{m:02d},{i}\n"
            for i, (d, (h, m, s)) in enumerate(zip(D, MINUTES, strict=True))
        ),
        {"ts": MOMENTS, "amt": [float(i) for i in range(N)]},
        ("'ts' holds dates written like 20211231143510", "'minute' holds dates written like 202112311435"),
    ),
    "Spanish and Arabic halves of the day": Export(
        "hora,وقت\n" + "".join(
            f"{h % 12 or 12}:{m:02d} {'p. m.' if h > 11 else 'a. m.'},{h % 12 or 12}:{m:02d} {'م' if h > 11 else 'ص'}\n"
            for h, m, _ in MINUTES
        ),
        {"hora": [h + m / 60 for h, m, _ in MINUTES], "وقت": [h + m / 60 for h, m, _ in MINUTES]},
    ),
    "months in Greek, Arabic and Hebrew": Export(
        "el,ar,he\n" + "".join(
            f"{d.day} {GREEK[d.month - 1]} {d.year},{d.day} {ARABIC[d.month - 1]} {d.year},{d.day} ב{HEBREW[d.month - 1]} {d.year}\n"
            for d in D
        ),
        {"el": DAYS, "ar": DAYS, "he": DAYS},
    ),
    "what nobody sees in names": Export(
        "\ufeff\u200bid,val\u200b,na\u00adme\n" + "".join(f"{i},{i * 2},x{i % 3}\n" for i in range(N)),
        {"id": [float(i) for i in range(N)], "val": [2.0 * i for i in range(N)], "name": [f"x{i % 3}" for i in range(N)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_from_abroad_is_read_as_it_is_meant(name: str, tmp_path: Path) -> None:
    export = EXPORTS[name]
    dataset = opened(written(tmp_path, export.text.encode(export.encoding)))
    assert not bad_places(dataset)
    for told in export.said:
        assert told in "\n".join(dataset.notes)
    for wanted, cells in export.holds.items():
        found = column(dataset, wanted)
        assert found == (cells if isinstance(cells[0], str) else pytest.approx(cells, rel=1e-12))


def test_letters_right_behind_numbers_are_no_credits_and_debits(tmp_path: Path) -> None:
    text = "class,score\n" + "".join(f"{5 + i % 3}{'CD'[i % 2]},{i}\n" for i in range(N))
    assert opened(written(tmp_path, text)).columns["class"].type == "categorical"


def test_five_or_more_is_no_five(tmp_path: Path) -> None:
    text = "rooms,price\n" + "".join(f"{i % 5 + 1}{'+' if i % 5 == 4 else ''},{i}\n" for i in range(N))
    dataset = opened(written(tmp_path, text))
    assert dataset.columns["rooms"].type == "categorical" or len(bad_places(dataset)) == N // 5


def test_days_that_are_none_are_named_and_not_read(tmp_path: Path) -> None:
    none = {3: "0000-00-00", 9: "9999-12-31"}
    text = "id,end\n" + "".join(f"{i},{none.get(i, day)}\n" for i, day in enumerate(D))
    dataset = opened(written(tmp_path, text))
    assert dataset.columns["end"].type == "datetime"
    assert bad_places(dataset) == set(none)
    assert dict(dataset.columns["end"].words) == {"0000-00-00": 1, "9999-12-31": 1}
    known = opened(tmp_path / "table.csv", also_missing=["end=0000-00-00", "end=9999-12-31"])
    assert column(known, "end") == [None if i in none else day for i, day in enumerate(DAYS)]


def test_stars_of_a_station_are_no_totals(tmp_path: Path) -> None:
    text = "Year,Jan,DJF\n1880,99,*****\n" + "".join(f"{1881 + i},{i},{i}\n" for i in range(N))
    assert column(opened(written(tmp_path, text)), "Year")[-1] == 1880 + N
    assert opened(tmp_path / "table.csv").rows == N + 1


def test_the_one_table_of_an_archive_is_read_beside_what_explains_it(tmp_path: Path) -> None:
    path = tmp_path / "table.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data/jan.csv", "a;b\n" + "".join(f"{i},5;{i}\n" for i in range(N)))
        for name in ("README.txt", "meta.pdf", "__MACOSX/data/._jan.csv", "data/.DS_Store"):
            archive.writestr(name, "x")
    assert column(opened(path), "a") == [i + 0.5 for i in range(N)]
