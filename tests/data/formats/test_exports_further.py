"""More exports, made up as other countries and tools write them: read as the table that they hold, or told, and a model
of each predicts its own rows."""

from __future__ import annotations

import csv
import datetime
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.tables import Cell, column, opened, shoal, written

N = 48
D = [datetime.date(2021, 1, 4) + datetime.timedelta(days=7 * i) for i in range(N)]
DAYS: list[Cell] = [float((day - datetime.date(1970, 1, 1)).days) for day in D]
X = [round(5.5 + (i * 37 % 90), 1) for i in range(N)]
Q = [1 + i * 11 % 40 for i in range(N)]
Y = [round(1000 + 37.25 * x + 110 * q + i % 3, 2) for i, (x, q) in enumerate(zip(X, Q, strict=True))]
VALUES, SHARES, COUNTS = [float(y) for y in Y], [float(x) for x in X], [float(q) for q in Q]
HOURS = [8 + i % 10 + (i * 7 % 60) / 60 for i in range(N)]
TABLE = list(zip(range(N), D, X, Q, Y, strict=True))
TURKISH = [
    "Ocak",
    "Şubat",
    "Mart",
    "Nisan",
    "Mayıs",
    "Haziran",
    "Temmuz",
    "Ağustos",
    "Eylül",
    "Ekim",
    "Kasım",
    "Aralık",
]
HUNGARIAN = [
    "január",
    "február",
    "március",
    "április",
    "május",
    "június",
    "július",
    "augusztus",
    "szeptember",
    "október",
    "november",
    "december",
]
PERSIAN = str.maketrans("0123456789", "۰۱۲۳۴۵۶۷۸۹")
EASTERN = str.maketrans("0123456789.", "٠١٢٣٤٥٦٧٨٩٫")


@dataclass(frozen=True)
class Export:
    """A file, the columns that it holds, what is said of it; and the target of a model with the column kept beside it,
    or, where it cannot be fitted as it is, none."""

    text: str
    holds: dict[str, list[float] | list[Cell]]
    said: tuple[str, ...] = ()
    target: str = ""
    keep: str = ""
    encoding: str = "utf-8"


def money(value: float, group: str = ".", point: str = ",") -> str:
    return f"{value:,.2f}".replace(",", "\0").replace(".", point).replace("\0", group)


def comma(value: float) -> str:
    return str(value).replace(".", ",")


def clock(i: int, mark: str = ":") -> str:
    return f"{8 + i % 10:02d}{mark}{i * 7 % 60:02d}"


RULE = "-" * 50 + "\n"
NO_BREAK = "\u00a0"
EXPORTS = {
    "Polish invoices": Export(
        "Zestawienie sprzedaży;;;;\nOkres: 2021;;;;\n\nLp.;Data;Kwota brutto;Ilość;Udział\n"
        + "".join(f"{i + 1};{d:%d.%m.%Y};{money(y, NO_BREAK)} zł;{q} szt.;{comma(x)}\n" for i, d, x, q, y in TABLE)
        + f"Razem;;{money(sum(Y), NO_BREAK)} zł;{sum(Q)} szt.;\n",
        {"Data": DAYS, "Kwota brutto": VALUES, "Ilość": COUNTS, "Udział": SHARES}, ("'Razem'",), "Kwota brutto", "Lp.",
        "cp1250",
    ),
    "Turkish shop": Export(
        "Sıra;Tarih;Saat;Tutar;Adet;İskonto\n"
        + "".join(f"{i};{d.day} {TURKISH[d.month - 1]} {d.year};{clock(i)};₺{money(y)};{q};%{comma(x)}\n" for i, d, x, q, y in TABLE)
        + f"Genel Toplam;;;₺{money(sum(Y))};{sum(Q)};\n",
        {"Tarih": DAYS, "Saat": HOURS, "Tutar": VALUES, "İskonto": SHARES},
        ("'Saat' holds times of day, read as hours after midnight", "'Genel Toplam'"), "Tutar", "Sıra",
    ),
    "Korean branch": Export(
        "일자,금액,수량,할인율\n"
        + "".join(f'{d.year}. {d.month}. {d.day}.,"￦{y:,}",{q}개,{x}%\n' for _, d, x, q, y in TABLE)
        + f'합계,"￦{sum(Y):,.2f}",{sum(Q)}개,\n',
        {"일자": DAYS, "금액": VALUES, "수량": COUNTS, "할인율": SHARES}, ("'합계'", "Korean"), "금액", "일자", "cp949",
    ),
    "SAP list, headers again and rules": Export(
        f"Listenausgabe 03.05.2021\n{RULE}" + "".join(
            (f"|Material  |BuDat     |      Betrag|Menge|Dauer|\n{RULE}" if i % 16 == 0 else "")
            + f"|{100000 + i:010d}|{d:%d.%m.%Y}|{money(y):>12}|{q:>5}|{comma(x):>5}|\n" for i, d, x, q, y in TABLE
        ) + RULE,
        {}, ("The names of the columns come again in 2 rows",), "Betrag", "Material", "cp1252",
    ),
    "web statistics, totals first": Export(
        "# ------\n# Start date: 20210101\n# ------\nDate,Sessions,Rate,Revenue,\n"
        f",{sum(Q)},0.5,{sum(Y):.2f},Grand total\n" + "".join(f"{d:%Y%m%d},{q},{x},{y},\n" for _, d, x, q, y in TABLE),
        {"Date": DAYS, "Sessions": COUNTS, "Rate": SHARES, "Revenue": VALUES},
        ("The first row says 'Grand total'", "'Date' holds dates written like 20211231"), "Revenue", "Date",
    ),
    "Dutch bank": Export(
        '"Datum";"Naam";"Af Bij";"Bedrag (EUR)";"Aantal";"Uren"\n' + "".join(
            f'"{d:%Y%m%d}";"Klant {i % 5}";"{("Af", "Bij")[i % 2]}";"{comma(y)}";"{q}";"{comma(x)}"\n'
            for i, d, x, q, y in TABLE
        ),
        {"Datum": DAYS, "Bedrag (EUR)": VALUES, "Uren": SHARES}, ("20211231",), "Bedrag (EUR)", "Datum",
    ),
    "questionnaire, three lines of names": Export(
        'Start,Q1,Q2,Total\n"Start Date","How much?\n(1-9)","Items","Total spent"\n'
        + ",".join(f'"{{""ImportId"":""{name}""}}"' for name in ("start", "QID1", "QID2", "QID3")) + "\n"
        + "".join(f"{d} 00:00:00,{x},{q},{y}\n" for _, d, x, q, y in TABLE),
        {"Start": DAYS, "Q1": SHARES, "Q2": COUNTS, "Total": VALUES}, ("2 rows below the names",), "Total", "Start",
    ),
    "merged cells": Export(
        "Sales report,,,\n,,,\nRegion,Days,Units,Amount\n"
        + "".join(f"{'NSWE'[i // 12] if i % 12 == 0 else ''},{x},{q},{y}\n" for i, _, x, q, y in TABLE),
        {"Days": SHARES, "Amount": VALUES}, ("'Region' has a value in the first of several rows only",), "Amount", "Days",
    ),
    "survey with codes": Export(
        "id,age,likert,income,hours,score\n" + "".join(
            f"{i},{99 if i % 13 == 0 else 20 + q},{9 if i % 9 == 0 else i % 5 + 1},{-999 if i % 10 == 0 else round(x * 400)},{x},{y}\n"
            for i, _, x, q, y in TABLE
        ),
        {"hours": SHARES, "score": VALUES},
        ("--also-missing age=99", "--also-missing likert=9", "--also-missing income=-999"), "score", "id",
    ),
    "Danish accounts": Export(
        "Dato;Beløb;Antal;Grader;Tid\n"
        + "".join(f"{d:%d-%m-%Y};{money(y)} kr.;{q};{comma(x)};{clock(i, '.')}\n" for i, d, x, q, y in TABLE)
        + f"I alt;{money(sum(Y))} kr.;{sum(Q)};;\n",
        {"Dato": DAYS, "Beløb": VALUES, "Grader": SHARES}, ("'I alt'", "'Tid' may hold times of day"), "Beløb", "Dato",
        "cp1252",
    ),
    "Vietnamese shop": Export(
        "Ngày,Doanh thu,Số lượng,Tỷ lệ\n"
        + "".join(f'{d:%d/%m/%Y},"{money(y)} ₫",{q},"{comma(x)}"\n' for _, d, x, q, y in TABLE)
        + f'Tổng cộng,"{money(sum(Y))} ₫",{sum(Q)},\n',
        {"Ngày": DAYS, "Doanh thu": VALUES, "Tỷ lệ": SHARES}, ("'Tổng cộng'",), "Doanh thu", "Ngày",
    ),
    "statistics office": Export(
        "Table 3,,,\nDay,Output,Hours,Temp\n" + "".join(
            f"{d:%m/%d/%Y},{'(D)' if i % 17 == 3 else y},{q}{'r' if i % 9 == 2 else ''},{x}\n" for i, d, x, q, y in TABLE
        ) + '"Source: Bureau of Statistics.",,,\n',
        {}, ("'Hours' is read as text: some of its numbers have marks beside them ('23r'", "'(D)' (3 rows)"),
    ),
    "Hungarian list": Export(
        "Dátum;Összeg;Mennyiség;Arány\n" + "".join(
            f"{d.year}. {HUNGARIAN[d.month - 1]} {d.day}.;{money(y, ' ')} Ft;{q} db;{comma(x)}\n" for _, d, x, q, y in TABLE
        ) + f"Összesen;{money(sum(Y), ' ')} Ft;{sum(Q)} db;\n",
        {"Dátum": DAYS, "Összeg": VALUES, "Mennyiség": COUNTS}, ("'Összesen'",), "Összeg", "Dátum",
    ),
    "Arabic digits": Export(
        "التاريخ,المبلغ\n" + "".join(f"{d:%d/%m/%Y},{y}\n".translate(EASTERN) for _, d, _, _, y in TABLE),
        {"التاريخ": DAYS, "المبلغ": VALUES}, ("Digits of another script are read as 0 to 9",),
    ),
    "Persian digits, grouped": Export(
        "شهر;تاریخ;مبلغ\n" + "".join(
            f"منطقه {i % 3};{d:%Y/%m/%d};{money(y, '٬', '٫')}\n".translate(PERSIAN) for i, d, _, _, y in TABLE
        ), {"تاریخ": DAYS, "مبلغ": VALUES}, ("Digits of another script",),
    ),
    "Thai prices, Buddhist years": Export(
        "วันที่,ราคา,จำนวน\n29/02/2567,\"1,000.00 บาท\",3\n" + "".join(
            f'{d:%d/%m}/{d.year + 543},"{y:,.2f} บาท",{q}\n' for _, d, _, q, y in TABLE[1:]
        ), {"วันที่": [19782.0, *DAYS[1:]], "จำนวน": [3.0, *COUNTS[1:]]}, ("Buddhist years", "2564 is read as 2021"), encoding="cp874",
    ),
    "Japanese till": Export(
        "売上日報\n\n日付,気温,売上,前年差\n"
        + "".join(f'{d.year}年{d.month}月{d.day}日,{x}℃,"\\{y:,}","▲{q:,}"\n' for _, d, x, q, y in TABLE)
        + f'合計,,"\\{sum(Y):,.2f}",\n',
        {"日付": DAYS, "気温": SHARES, "売上": VALUES, "前年差": [-q for q in COUNTS]}, ("'合計'",), "売上", "日付", "cp932",
    ),
    "Hungarian bank": Export(
        "Számlakivonat;;\n\nDátum;Partner;Összeg\n"
        + "".join(f"{d:%Y.%m.%d}.;{('Őrség Kft.', 'Tűzép', 'MÁV')[i % 3]};{money(y, NO_BREAK)}\n" for i, d, _, _, y in TABLE),
        {"Dátum": DAYS, "Összeg": VALUES, "Partner": [("Őrség Kft.", "Tűzép", "MÁV")[i % 3] for i in range(N)]},
        ("cp1250",), encoding="cp1250",
    ),
    "Indian bank, credits and debits": Export(
        "Txn Date,Balance,Qty\n" + "".join(
            f'{d:%d-%b-%Y},"{y:,.2f} {("Dr", "Cr", "Cr")[i % 3]}",{q}\n' for i, d, _, q, y in TABLE
        ), {"Txn Date": DAYS, "Balance": [-y if i % 3 == 0 else y for i, y in enumerate(VALUES)]},
        ("1,234.56 Cr; with Dr they are below zero",),
    ),
    "Greek houses, totals named beside their sums": Export(
        "Ημερομηνία;Όροφος;Ποσότητα;Θέρμανση;Τιμή\n"
        + "".join(f"{d.day}/{d.month}/{d.year};{comma(x)};{q};Χωρίς;{money(y)} €\n" for _, d, x, q, y in TABLE)
        + f";;;Σύνολο;{money(sum(Y))} €\n",
        {"Ημερομηνία": DAYS, "Όροφος": SHARES, "Τιμή": VALUES}, ("'Σύνολο'",), "Τιμή", "Ημερομηνία", "cp1253",
    ),
    "SAP list, a star for totals": Export(
        f"{RULE}|Werk|BuDat     |      Betrag|\n{RULE}"
        + "".join(f"|{1000 + i % 3}|{d:%d.%m.%Y}|{money(y):>12}|\n" for i, d, _, _, y in TABLE)
        + f"{RULE}|*   |          |{money(sum(Y)):>12}|\n{RULE}",
        {"BuDat": DAYS, "Betrag": VALUES}, ("The last row begins with '*'",),
    ),
    "Brazilian shop": Export(
        "Relatório de vendas\n\nData;Hora;Valor Total;Qtde;Desconto\n"
        + "".join(f"{d:%d/%m/%Y};{clock(i, 'h')};R$ {money(y)};{q};{comma(x)}%\n" for i, d, x, q, y in TABLE)
        + f"TOTAL GERAL;;R$ {money(sum(Y))};{sum(Q)};\n",
        {"Data": DAYS, "Hora": HOURS, "Valor Total": VALUES, "Desconto": SHARES}, ("'TOTAL GERAL'",), "Valor Total", "Data",
        "latin-1",
    ),
    "Japanese logger": Export(
        "観測所：東京第三,機器番号：TR-71,,,,\n日時,温度,湿度,気圧,状態,電力\n,℃,％,hPa,,kWh\n" + "".join(
            f'{d.year}年{d.month}月{d.day}日 午後0時00分,{x},{"欠測" if i % 17 == 3 else q},"1,0{10 + i % 9}.5",正常,{y}\n'
            for i, d, x, q, y in TABLE
        ),
        {"日時": [None if i % 17 == 3 else day + 0.5 for i, day in enumerate(DAYS) if isinstance(day, float)]},
        ("The first line is above the table", "'欠測' (3 rows)"), encoding="cp932",
    ),
    "form with broken names": Export(
        '"Timestamp","How much?\n(1 - 99)","Sleep\nin hours",Units,"Total"\n' + "".join(
            f'"{d:%Y/%m/%d} 12:30:00 PM GMT+2","{x}","{f"about {q % 7}" if i % 11 == 5 else q % 7}",{q},"{y}"\n'
            for i, d, x, q, y in TABLE
        ),
        {"Timestamp": [float(day) + 10.5 / 24 for day in DAYS if isinstance(day, float)], "How much? (1 - 99)": SHARES},
        ("The names of 2 columns go over several lines", "'Sleep in hours' is read as text: most of its values are numbers"),
        "Total", "Timestamp",
    ),
    "R's names of rows, blanks between": Export(
        '"days" "units" "total"\n' + "".join(f'"car no. {i}" {x} {q} {y}\n' for i, _, x, q, y in TABLE),
        {"days": SHARES, "units": COUNTS, "total": VALUES}, ("The header has 3 names for 4 columns",), "total", "row_name",
    ),
    "Indian ledger": Export(
        "Date,Days,Balance,Amount\n" + "".join(
            f'{d:%d-%b-%y},{x},"₹ {q},00,000.00 {("Cr", "Dr")[i % 2]}",{y}\n' for i, d, x, q, y in TABLE
        ),
        {"Date": DAYS}, ("'Balance' is read as text: its values, such as '₹ 1,00,000.00 Cr'", "are numbers with words"),
        "Amount", "Date",
    ),
    "times in words": Export(
        "When,Days,Amount\n" + "".join(f"{d} at noon,{x},{y}\n" for _, d, x, _, y in TABLE),
        {}, ("'When' is read as text: its values, such as '2021-01-04 at noon', begin as dates do",), "Amount", "Days",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(EXPORTS))
def test_an_export_is_read_or_told_and_predicts_its_own_rows(name: str, tmp_path: Path) -> None:
    export = EXPORTS[name]
    path = written(tmp_path, export.text.encode(export.encoding))
    dataset = opened(path)
    for column_name, expected in export.holds.items():
        assert column(dataset, column_name) == pytest.approx(expected, abs=1e-9), column_name
    said = shoal("inspect", path, "--all").out
    for words in export.said:
        assert words in said, said
    if not export.target:
        return
    trained = shoal("train", path, "--target", export.target, "--engine", "inline", "--on-bad-rows", "skip",
                    "--out", tmp_path / "m.json")  # fmt: skip
    assert trained.code == 0, trained.err
    done = shoal("predict", tmp_path / "m.json", path, "--keep", export.keep, "--out", tmp_path / "p.csv")
    assert done.code == 0, done.err
    rows = list(csv.reader((tmp_path / "p.csv").read_text("utf-8").splitlines()))[1:]
    assert sum(bool(row[-1]) for row in rows) == N
    good = dataset.manifest.bad_count == 0 and "codes" not in name
    assert not good or [float(row[-1]) for row in rows] == pytest.approx(VALUES, rel=0.5)


def test_eight_digits_are_dates_only_where_all_of_them_are(tmp_path: Path) -> None:
    """One that is no day among many makes them numbers; those that mean no day do not, and are offered as missing."""
    days = [f"{d:%Y%m%d}" for d in D]
    for cells, kind in ((days, "datetime"), ([*days[:-1], "20211399"], "numeric"), (days[:2], "numeric")):
        path = written(
            tmp_path, "d,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)), f"{kind}{len(cells)}.csv"
        )
        assert opened(path).columns["d"].type == kind
        assert opened(path, numeric=["d"]).columns["d"].type == "numeric"
    path = written(
        tmp_path, "d,y\n" + "".join(f"{'00000000' if i % 9 == 3 else cell},{i}\n" for i, cell in enumerate(days))
    )
    assert opened(path).columns["d"].type == "datetime"
    assert "--also-missing 00000000" in shoal("inspect", path).out
    assert opened(path, also_missing=["00000000"]).columns["d"].missing == 5


def test_eight_digits_that_are_no_days_far_down_are_numbers(tmp_path: Path) -> None:
    rows = "".join(f"{20210101 + i % 28},{i}\n" for i in range(600)) + "".join(
        f"{20210001 + i},{i}\n" for i in range(600)
    )
    assert opened(written(tmp_path, f"d,y\n{rows}")).columns["d"].type == "numeric"
