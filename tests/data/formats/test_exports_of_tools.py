"""Exports of other tools and countries, made up as those write them: read as the table that they hold, or told."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.tables import Cell, column, opened, shoal, written

N = 60
D = [datetime.date(2021, 1, 4) + datetime.timedelta(days=9 * i) for i in range(N)]
DAYS: list[Cell] = [float((day - datetime.date(1970, 1, 1)).days) for day in D]
V = [round(37.25 * i * (-1 if i % 11 == 5 else 1) + 1000.5, 2) for i in range(N)]
VALUES: list[Cell] = list(V)
COUNT: list[Cell] = [float(i) for i in range(N)]
RULE = "-" * 40 + "\n"


@dataclass(frozen=True)
class Export:
    """A file, the columns that it holds, and, where it is not read whole, the words that say so."""

    text: str
    holds: dict[str, list[Cell]]
    encoding: str = "utf-8"
    told: tuple[str, ...] = ()


def rows(write: Callable[[int, datetime.date, float], str]) -> str:
    return "".join(write(i, day, value) for i, (day, value) in enumerate(zip(D, V, strict=True)))


def grouped(value: float, group: str = ".", point: str = ",") -> str:
    return f"{value:,.2f}".replace(",", "\0").replace(".", point).replace("\0", group)


def minus_behind(text: str) -> str:
    return f"{text[1:]}-" if text.startswith("-") else text


def in_lakh(value: float) -> str:
    whole, cents = f"{abs(value) * 1000:.2f}".split(".")
    head, groups = whole[:-3], [whole[-3:]]
    while head:
        groups.insert(0, head[-2:])
        head = head[:-2]
    return f"{'-' if value < 0 else ''}{','.join(groups)}.{cents}"


def total(values: Sequence[Cell]) -> float:
    return sum(value for value in values if isinstance(value, float))


EXPORTS = {
    "SAP list": Export(
        f"Kreditoren 03.05.2021\n\n{RULE}|Belegnr   |Buch.dat. |Betrag      |\n{RULE}"
        + rows(lambda i, d, v: f"|49{i:08d}|{d:%d.%m.%Y}|{minus_behind(grouped(v)):>12}|\n") + RULE,
        {"Betrag": VALUES, "Buch.dat.": DAYS},
    ),
    "SAP tabs": Export(
        "03.05.2021\tDynamische Listenausgabe\t1\n\n\tBelegnr\tDatum\tBetrag\n\n"
        + rows(lambda i, d, v: f"\t49{i:08d}\t{d:%d.%m.%Y}\t{minus_behind(grouped(v))}\n"),
        {"Datum": DAYS, "Betrag": VALUES}, "utf-16",
    ),
    "DATEV": Export(
        '"EXTF";700;21;"Buchungsstapel";9;20210503120000;;"RE";"";"";1001;10001;20210101;4;20210101;20211231;"Mai";"WD"\n'
        '"Umsatz";"Soll/Haben";"WKZ";"Konto";"Belegdatum";"Buchungstext"\n'
        + rows(lambda i, d, v: f'{abs(v):.2f};"S";"EUR";8400;{d:%d%m};"Büro {i % 4}"\n'.replace(".", ",")),
        {"Umsatz": [abs(v) for v in V]}, "cp1252",
    ),
    "SPSS": Export(
        "ID;ALTER;EINK;ZUFR\n" + rows(lambda i, d, v: f"{i};{20 + i};{grouped(v, '')};{[1, 2, 3, 4, 5, 99][i % 6]}\n"),
        {"EINK": VALUES, "ID": COUNT}, told=("'ZUFR' is 99 in 10 rows",),
    ),
    "LabVIEW": Export(
        "LabVIEW Measurement\t\nWriter_Version\t2\nSeparator\tTab\nDecimal_Separator\t,\n***End_of_Header***\t\n\t\n"
        "X_Value\tVoltage\tComment\n" + rows(lambda i, d, v: f"{i / 8:.3f}\t{v:.6f}\t\n".replace(".", ",")),
        {"X_Value": [i / 8 for i in range(N)], "Voltage": VALUES},
    ),
    "Excel, French": Export(
        "Date;Montant;Taux\n"
        + rows(lambda i, d, v: f"{d:%d/%m/%Y};{grouped(v, chr(0xA0))} €;{f'{i / 4:.2f}'.replace('.', ',')} %\n"),
        {"Date": DAYS, "Montant": VALUES, "Taux": [i / 4 for i in range(N)]}, "cp1252",
    ),
    "Excel, French, narrow blanks": Export(
        "Date;Montant\n" + rows(lambda i, d, v: f"{d:%d/%m/%Y};{grouped(v, chr(0x202F))} €\n"),
        {"Date": DAYS, "Montant": VALUES},
    ),
    "Excel, Swedish": Export(
        "Datum;Belopp;Andel\n"
        + rows(lambda i, d, v: f"{d};{grouped(v, chr(0xA0)).replace('-', chr(0x2212))} kr;{i},5\n"),
        {"Datum": DAYS, "Belopp": VALUES, "Andel": [i + 0.5 for i in range(N)]},
    ),
    "Excel, Japanese": Export(
        "日付,金額,数量\n" + rows(lambda i, d, v: f'{d.year}年{d.month}月{d.day}日,"￥{abs(v):,.2f}",{i}\n'),
        {"日付": DAYS, "金額": [abs(v) for v in V], "数量": COUNT}, "cp932",
    ),
    "Japanese bookkeeping": Export(
        "日付,金額\n" + rows(lambda i, d, v: f'{d:%Y/%m/%d},"{"▲" if v < 0 else ""}{abs(v):,.2f}"\n'),
        {"日付": DAYS, "金額": VALUES},
    ),
    "Excel, Indian": Export(
        "Date,Amount,Qty\n" + rows(lambda i, d, v: f'{d:%d-%b-%Y},"₹{in_lakh(v)}",{i}\n'),
        {"Date": DAYS, "Amount": [round(v * 1000, 2) for v in V], "Qty": COUNT},
    ),
    "R, row names": Export(
        '"","speed","dist"\n' + rows(lambda i, d, v: f'"{i + 1}",{v},{i}\n'),
        {"speed": VALUES, "dist": COUNT}, told=("Column '0' has no name",),
    ),
    "R, write.table": Export(
        '"speed" "dist"\n' + rows(lambda i, d, v: f'"{i + 1}" {v} {i}\n'), {"speed": VALUES, "dist": COUNT}
    ),
    "Qualtrics": Export(
        'StartDate,Q1,Q2\n"Start Date","How satisfied are you, overall?","Age"\n'
        '"{""ImportId"":""startDate""}","{""ImportId"":""QID1""}","{""ImportId"":""QID2_TEXT""}"\n'
        + rows(lambda i, d, v: f"{d} 10:30:00,{i % 5 + 1},{20 + i}\n"),
        {"Q1": [float(i % 5 + 1) for i in range(N)], "Q2": [20.0 + i for i in range(N)]}, told=("2 rows below the names",),
    ),
    "SurveyMonkey": Export(
        "Respondent ID,How old are you?,How likely is it?\n,Open-Ended Response,Response\n"
        + rows(lambda i, d, v: f"{12000000000 + i},{i},{v}\n"),
        {"How old are you?": COUNT, "How likely is it?": VALUES}, told=("second line of them",),
    ),
    "LimeSurvey": Export(
        '"id";"submitdate";"q1";"q2"\n' + rows(lambda i, d, v: f'"{i}";"{d} 00:00:00";"{"YN"[i % 2]}";"{v}"\n'),
        {"id": COUNT, "submitdate": DAYS, "q2": VALUES},
    ),
    "PayPal": Export(
        '"Date","Time","Gross"\n' + rows(lambda i, d, v: f'"{d:%m/%d/%Y}","10:30:00","{v:,.2f}"\n'),
        {"Date": DAYS, "Gross": VALUES},
    ),
    "Sparkasse": Export(
        'Umsätze;Konto 123\nZeitraum;01.01.2021 - 31.12.2021\n\n"Buchungstag";"Zweck";"Betrag";"Waehrung"\n'
        + rows(lambda i, d, v: f'"{d:%d.%m.%y}";"Miete {i % 3}";"{grouped(v)}";"EUR"\n'),
        {"Buchungstag": DAYS, "Betrag": VALUES}, "cp1252",
    ),
    "Google Analytics": Export(
        "# ------\n# All Web Site Data\n# 20210101-20211231\n# ------\n\nPage,Pageviews\n"
        + rows(lambda i, d, v: f'/p{i},"{1000 * i + 1:,}"\n') + f',"{sum(1000 * i + 1 for i in range(N)):,}"\n',
        {"Pageviews": [1000.0 * i + 1 for i in range(N)]}, told=("sums of the rows above it",),
    ),
    "pandas, with index": Export(
        ",a,b\n" + rows(lambda i, d, v: f"{i},{v},{i}\n"), {"a": VALUES, "b": COUNT}, told=("Column '0' has no name",)
    ),
    "NumPy, savetxt": Export(
        "# x y z\n" + rows(lambda i, d, v: f"{i:.6e} {v:.6e} {i % 4:.6e}\n"), {}, told=("No row names the columns",)
    ),
    "SAS": Export(
        "ID,SALEDATE,AMT\n"
        + rows(lambda i, d, v: f'{i},{f"{d:%d%b%Y}".upper()},"{"." if i == 7 else f"${v:,.2f}".replace("$-", "-$")}"\n'),
        {"SALEDATE": DAYS, "AMT": [None if i == 7 else v for i, v in enumerate(V)]},
    ),
    "Stata": Export(
        "id\tinc\n" + rows(lambda i, d, v: f"{i}\t{'.a' if i % 20 == 3 else v}\n"), {}, told=("'.a' (3 rows)",)
    ),
    "weather station": Export(
        "\t\tTemp\tHi\tOut\nDate\tTime\tOut\tTemp\tHum\n"
        + rows(lambda i, d, v: f"{d:%d.%m.%y}\t0:30\t{i / 4:.1f}\t{'---' if i % 15 == 2 else f'{i / 3:.1f}'}\t{i}\n"),
        {}, told=("'---' (4 rows)",),
    ),
    "Access": Export(
        "ID;Datum;Wert;Aktiv\n"
        + rows(lambda i, d, v: f'{i};{d.day}.{d.month}.{d.year} 0:00:00;"{grouped(v, "")}";{("WAHR", "FALSCH")[i % 2]}\n'),
        {"ID": COUNT, "Datum": DAYS, "Wert": VALUES},
    ),
    "Excel, Brazilian": Export(
        "Data;Valor\n" + rows(lambda i, d, v: f"{d:%d/%m/%Y};{'-' if v < 0 else ''}R$ {grouped(abs(v))}\n"),
        {"Data": DAYS, "Valor": VALUES},
    ),
    "Excel, Swiss": Export(
        "Datum,Betrag\n" + rows(lambda i, d, v: f"{d:%d.%m.%Y},CHF {grouped(v, chr(39), '.')}\n"),
        {"Datum": DAYS, "Betrag": VALUES},
    ),
    "1C, Russian": Export(
        "Дата;Сумма;Склад\n" + rows(lambda i, d, v: f"{d:%d.%m.%Y};{grouped(v, chr(0xA0))};Склад {i % 3}\n")
        + f"ИТОГО;{grouped(total(VALUES), chr(0xA0))};\n",
        {"Дата": DAYS, "Сумма": VALUES}, "cp1251", told=("'ИТОГО'",),
    ),
    "sum and mean at the foot": Export(
        "Filiale;Umsatz;n\n" + rows(lambda i, d, v: f"F{i};{grouped(v)};{i}\n")
        + f"Summe;{grouped(total(VALUES))};1770\nMittelwert;{grouped(total(VALUES) / N)};29,5\n",
        {"Umsatz": VALUES, "n": COUNT}, told=("The last 2 rows begin with 'Summe', 'Mittelwert'",),
    ),
    "empty columns at the end": Export(
        "a,b,,,\n" + rows(lambda i, d, v: f"{i},{v},,,\n"), {"a": COUNT, "b": VALUES},
        told=("3 columns at the end without a name and without any value are left out",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(EXPORTS))
def test_an_export_is_read_as_it_is_meant_or_told(name: str, tmp_path: Path) -> None:
    export = EXPORTS[name]
    path = written(tmp_path, export.text.encode(export.encoding))
    dataset = opened(path)
    for column_name, expected in export.holds.items():
        assert column(dataset, column_name) == pytest.approx(expected, abs=1e-9), column_name
    said = shoal("inspect", path).out
    for words in export.told:
        assert any(one in said for one in words.split("|")), said
    assert export.holds or export.told
    if export.holds:
        assert dataset.manifest.bad_count == 0


def test_how_many_are_read_whole() -> None:
    """The figure of the documentation."""
    whole = sum(bool(export.holds) for export in EXPORTS.values())
    assert (len(EXPORTS), whole) == (30, 27)
