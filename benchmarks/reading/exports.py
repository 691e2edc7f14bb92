"""`python -m benchmarks.reading.exports FOLDER`: made-up exports of many countries, with the tables that they mean.

FOLDER/messy has the files as programs and offices write them, FOLDER/clean the same tables as plain CSV; they are
compared by `python -m benchmarks.reading --headed FOLDER/messy FOLDER/clean`. What is asked of a reader is not here.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

Rows = list[list[str]]
Made = tuple[bytes, Rows]  # a file, and its table: names first, numbers with a point, dates as 2021-05-03
ROWS = 240  # of most of them
MINUS, NARROW, NO_BREAK = "\N{MINUS SIGN}", "\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}"
GERMAN = (
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
    "Dezember",
)  # fmt: skip
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Draw:
    """Values by chance, as the text that is meant and as it is written."""

    def __init__(self, seed: str) -> None:
        self.by = random.Random(seed)

    def amount(self, digits: int = 2, most: float = 4e6) -> float:
        return round(
            self.by.choice((-1, 1, 1, 1)) * 10 ** self.by.uniform(0, 1) * self.by.uniform(1, most / 10), digits
        )

    def day(self) -> datetime.date:
        return datetime.date(2015, 1, 1) + datetime.timedelta(self.by.randrange(3000))

    def moment(self) -> datetime.datetime:
        return datetime.datetime.combine(self.day(), datetime.time(*(self.by.randrange(n) for n in (24, 60, 60))))

    def one(self, *texts: str) -> str:
        return self.by.choice(texts)


def grouped(value: float, mark: str = ",", point: str = ".", digits: int = 2) -> str:
    return f"{value:,.{digits}f}".replace(",", "\0").replace(".", point).replace("\0", mark)


def indian(value: float) -> str:
    whole, rest = f"{abs(value):.2f}".split(".")
    head, tail = whole[:-3], whole[-3:]
    pairs = [head[max(0, end - 2) : end] for end in range(len(head), 0, -2)][::-1]
    return ("-" if value < 0 else "") + ",".join([*pairs, tail]) + "." + rest


def written(rows: Sequence[Sequence[str]], delimiter: str = ";", end: str = "\r\n") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator=end).writerows(rows)
    return out.getvalue()


def of_values(
    draw: Draw, write: Callable[[float], str], delimiter: str = ";",
    names: Sequence[str] = ("region", "amount", "units"), words: Sequence[str] = ("north", "south", "west"),
    encoding: str = "utf-8", digits: int = 2,
) -> Made:  # fmt: skip
    """A text, an amount as it is written there, a plain number."""
    messy, clean = [list(names)], [list(names)]
    for _ in range(ROWS):
        value, word, units = draw.amount(digits), draw.one(*words), str(draw.by.randrange(1, 90))
        messy.append([word, write(value), units])
        clean.append([word, f"{value:.{digits}f}", units])
    return written(messy, delimiter).encode(encoding), clean


def of_days(draw: Draw, write: Callable[[datetime.date], str], delimiter: str = ";", name: str = "day") -> Made:
    messy, clean = [[name, "sold"]], [[name, "sold"]]
    for _ in range(ROWS):
        day, sold = draw.day(), str(draw.by.randrange(500))
        messy.append([write(day), sold])
        clean.append([day.isoformat(), sold])
    return written(messy, delimiter).encode(), clean


def of_moments(draw: Draw, write: Callable[[datetime.datetime], str], delimiter: str = ",") -> Made:
    messy, clean = [["at", "load"]], [["at", "load"]]
    for _ in range(ROWS):
        at, load = draw.moment(), f"{draw.by.uniform(0, 9):.3f}"
        messy.append([write(at), load])
        clean.append([at.isoformat(sep=" "), load])
    return written(messy, delimiter).encode(), clean


def half_days(t: datetime.datetime) -> str:
    return f"{t.day:02d}-{MONTHS[t.month - 1]}-{t.year} {t:%I:%M:%S} {'a.m.' if t.hour < 12 else 'p.m.'}"


def plain(draw: Draw, names: Sequence[str] = ("station", "depth", "flow", "year")) -> Rows:
    """A table without any trouble."""
    rows = [list(names)]
    for _ in range(ROWS):
        rows.append([draw.one("alpha", "beta", "gamma"), f"{draw.by.uniform(0, 40):.1f}", f"{draw.by.gauss(9, 3):.3f}",
                     str(draw.by.randrange(1990, 2022))])  # fmt: skip
    return rows


def around(draw: Draw, above: Rows, below: Rows, delimiter: str = ";") -> Made:
    rows = plain(draw)
    return written([*above, *rows, *below], delimiter).encode(), rows


def of_codes(draw: Draw, codes: Sequence[str], low: int, high: int) -> Made:
    """A number for 'no answer' in place of some values."""
    messy, clean = [["person", "score", "income"]], [["person", "score", "income"]]
    for i in range(ROWS):
        score, income = str(draw.by.randrange(low, high)), f"{draw.by.gauss(3000, 400):.0f}"
        gone = draw.by.random() < 0.08
        messy.append([f"p{i % 40}", draw.one(*codes) if gone else score, income])
        clean.append([f"p{i % 40}", "" if gone else score, income])
    return written(messy, ",").encode(), clean


def units_row(draw: Draw) -> Made:
    rows = plain(draw)
    return written([rows[0], ["", "m", "m3/s", "a"], *rows[1:]]).encode(), rows


def totals(draw: Draw, word: str) -> Made:
    rows = plain(draw)
    sums = [f"{sum(float(row[i]) for row in rows[1:]):.3f}" for i in (1, 2)]
    return written([*rows, [word, *sums, ""]]).encode(), rows


def repeated_headers(draw: Draw) -> Made:
    rows = plain(draw)
    messy = [row for i, row in enumerate(rows[1:]) for row in ([rows[0], row] if i % 50 == 0 else [row])]
    return written(messy, ",").encode(), rows


def two_row_header(draw: Draw) -> Made:
    first, second = ["", "2020", "", "2021", ""], ["region", "sales", "cost", "sales", "cost"]
    clean = [["region", "2020 sales", "2020 cost", "2021 sales", "2021 cost"]]
    body = [[draw.one("east", "west"), *(f"{draw.amount(1, 900):.1f}" for _ in range(4))] for _ in range(ROWS)]
    return written([first, second, *body]).encode(), [*clean, *body]


def numeric_header(draw: Draw, names: Sequence[str], delimiter: str) -> Made:
    body = [[f"{draw.by.uniform(0, 1):.4f}" for _ in names] for _ in range(ROWS)]
    return written([list(names), *body], delimiter).encode(), [list(names), *body]


def years_header(draw: Draw) -> Made:
    names = ["country", *map(str, range(2011, 2022))]
    body = [[f"land {i}", *(f"{draw.by.gauss(50, 9):.1f}" for _ in names[1:])] for i in range(60)]
    return written([names, *body]).encode(), [names, *body]


def separated(draw: Draw, mark: str) -> Made:
    rows = plain(draw)
    return "".join(mark.join(row) + "\n" for row in rows).encode(), rows


def fixed_width(draw: Draw) -> Made:
    rows = plain(draw)
    return "".join("".join(cell.ljust(10) for cell in row).rstrip() + "\n" for row in rows).encode(), rows


def otherwise(draw: Draw, change: Callable[[str], bytes], delimiter: str = ";") -> Made:
    rows = plain(draw)
    return change(written(rows, delimiter)), rows


def words_in_numbers(draw: Draw, words: Sequence[str]) -> Made:
    messy, clean = [["plot", "yield"]], [["plot", "yield"]]
    for i in range(ROWS):
        gone, value = draw.by.random() < 0.05, f"{draw.by.gauss(70, 8):.1f}"
        messy.append([f"b{i % 12}", draw.one(*words) if gone else value])
        clean.append([f"b{i % 12}", "" if gone else value])
    return written(messy).encode(), clean


def guarded(draw: Draw) -> Made:
    """As programs write cells so that Excel leaves them alone."""
    rows = plain(draw)
    lines = [",".join(rows[0]), *(",".join(f'="{cell}"' for cell in row) for row in rows[1:])]
    return ("\n".join(lines) + "\n").encode(), rows


def other_digits(draw: Draw, zero: str) -> Made:
    rows = plain(draw)
    table = {ord("0") + i: chr(ord(zero) + i) for i in range(10)}
    body = [[row[0], *(cell.translate(table) for cell in row[1:])] for row in rows[1:]]
    return written([rows[0], *body]).encode(), rows


NUMBERS: tuple[Callable[[float], str], ...] = (  # as one office writes amounts, which has a comma for decimals
    lambda v: grouped(v, ".", ","),
    lambda v: grouped(v, NARROW, ","),
    lambda v: grouped(v, " ", ",") + " €",
    lambda v: grouped(abs(v), ".", ",") + ("-" if v < 0 else ""),
    lambda v: f"{v:.2f}".replace(".", ",").replace("-", MINUS),
)
DAYS: tuple[Callable[[datetime.date], str], ...] = (
    lambda t: f"{t:%d.%m.%Y}",
    lambda t: f"{t.day}/{t.month}/{t.year}",
    lambda t: f"{t:%d-%m-%y}",
    lambda t: f"{t.day:02d}{MONTHS[t.month - 1].upper()}{t.year}",
    lambda t: f"{t.year}年{t.month}月{t.day}日",
)
ABOVE: tuple[Rows, ...] = (
    [],
    [["Monthly list"]],
    [["Branch:", "Lyon"], ["Printed", "03.02.2022"], []],
    [["List", "of", "all", "sales"]],
)
BELOW: tuple[Rows, ...] = ([], [[], ["End of list"]], [["Source: own count"]])


def of_an_office(draw: Draw) -> Made:
    """Several of these at once, as one program of one office has them."""
    number, day, encoding = (draw.by.choice(ways) for ways in (NUMBERS, DAYS, ("utf-8", "utf-8-sig", "utf-16")))
    above, below = draw.by.choice(ABOVE), draw.by.choice(BELOW)
    names = ["branch", "day", "amount", "rate"]
    messy, clean = [names], [names]
    for _ in range(ROWS):
        at, value, rate = draw.day(), draw.amount(), draw.by.uniform(0, 9)
        gone = draw.by.random() < 0.03
        branch = draw.one("Lyon", "Genève", "Bern; Mitte", 'the "old" one')
        messy.append([branch, day(at), "" if gone else number(value), f"{rate:.3f}".replace(".", ",")])
        clean.append([branch, at.isoformat(), "" if gone else f"{value:.2f}", f"{rate:.3f}"])
    if draw.by.random() < 0.5:
        messy = [[*row, ""] for row in messy]
    if draw.by.random() < 0.3:
        messy.insert(1, ["", "", "EUR", "%"][: len(messy[0])] + [""] * (len(messy[0]) - 4))
    end = draw.one("\r\n", "\n")
    return written([*above, *messy, *below], draw.one(";", "\t", "|"), end).encode(encoding), clean


KINDS: dict[str, Callable[[Draw], Made]] = {
    "trailing_minus": lambda d: of_values(d, lambda v: grouped(abs(v), ".", ",") + ("-" if v < 0 else "")),
    "indian_grouping": lambda d: of_values(d, indian, ","),
    "swiss_apostrophes": lambda d: of_values(d, lambda v: grouped(v, "'")),
    "swiss_typographic": lambda d: of_values(d, lambda v: "CHF " + grouped(v, "\N{RIGHT SINGLE QUOTATION MARK}")),
    "narrow_blanks": lambda d: of_values(d, lambda v: grouped(v, NARROW, ",")),
    "no_break_euro": lambda d: of_values(d, lambda v: grouped(v, NO_BREAK, ",") + NO_BREAK + "€"),
    "accounting": lambda d: of_values(d, lambda v: f"({grouped(-v)})" if v < 0 else grouped(v), ","),
    "dollars": lambda d: of_values(d, lambda v: f"-${grouped(-v)}" if v < 0 else f"${grouped(v)}", ","),
    "reais": lambda d: of_values(d, lambda v: "R$ " + grouped(v, ".", ",")),
    "minus_sign": lambda d: of_values(d, lambda v: grouped(v, " ", ",").replace("-", MINUS)),
    "percent": lambda d: of_values(d, lambda v: f"{v:.1f} %".replace(".", ","), digits=1),
    "kilograms": lambda d: of_values(d, lambda v: f"{v:.1f} kg", digits=1),
    "whole_thousands": lambda d: of_values(d, lambda v: grouped(v, ".", ",", 0), digits=0),
    "powers_of_ten": lambda d: of_values(d, lambda v: f"{v:.11E}".replace(".", ","), digits=2),
    "quoted_commas": lambda d: of_values(d, lambda v: f"{v:.2f}".replace(".", ","), ","),
    "greek": lambda d: of_values(d, lambda v: grouped(v, ".", ","), names=("πόλη", "ποσό", "τεμάχια"),
                                 words=("Αθήνα", "Θεσσαλονίκη", "Πάτρα"), encoding="cp1253"),
    "shift_jis": lambda d: of_values(d, grouped, ",", ("支店", "売上", "個数"), ("東京", "大阪", "名古屋"), "cp932"),
    "turkish": lambda d: of_values(d, lambda v: grouped(v, ".", ","), names=("şehir", "tutar", "adet"),
                                   words=("İstanbul", "Eskişehir", "Muğla"), encoding="cp1254"),
    "polish": lambda d: of_values(d, lambda v: grouped(v, NO_BREAK, ",") + " zł", names=("miasto", "kwota", "sztuk"),
                                  words=("Łódź", "Gdańsk", "Częstochowa"), encoding="cp1250"),
    "russian": lambda d: of_values(d, lambda v: grouped(v, NO_BREAK, ","), names=("город", "сумма", "штук"),
                                   words=("Москва", "Казань", "Пермь"), encoding="cp1251"),
    "chinese": lambda d: of_values(
        d, lambda v: "¥" + grouped(v), ",", ("城市", "金额", "件数"), ("北京", "上海", "广州"), "gb18030"
    ),
    "arabic_digits": lambda d: other_digits(d, "\N{ARABIC-INDIC DIGIT ZERO}"),
    "wide_digits": lambda d: other_digits(d, "\N{FULLWIDTH DIGIT ZERO}"),
    "sas_days": lambda d: of_days(d, lambda t: f"{t.day:02d}{MONTHS[t.month - 1].upper()}{t.year}"),
    "kanji_days": lambda d: of_days(d, lambda t: f"{t.year}年{t.month}月{t.day}日", ","),
    "month_first_words": lambda d: of_days(d, lambda t: f"{MONTHS[t.month - 1]} {t.day}, {t.year}", ","),
    "two_digit_years": lambda d: of_days(d, lambda t: f"{t:%d/%m/%y}"),
    "dotted_days": lambda d: of_days(d, lambda t: f"{t.day}.{t.month}.{t.year}"),
    "compact_days": lambda d: of_days(d, lambda t: f"{t:%Y%m%d}"),
    "german_months": lambda d: of_days(d, lambda t: f"{t.day}. {GERMAN[t.month - 1]} {t.year}"),
    "twelve_hours": lambda d: of_moments(d, lambda t: f"{t:%m/%d/%Y %I:%M:%S %p}"),
    "twelve_hours_small": lambda d: of_moments(d, half_days),
    "codes_999": lambda d: of_codes(d, ("-999",), 0, 40),
    "codes_99": lambda d: of_codes(d, ("99",), 0, 12),
    "codes_9": lambda d: of_codes(d, ("9",), 1, 6),
    "words_in_numbers": lambda d: words_in_numbers(d, ("---", "n.c.", "#NV")),
    "words_of_france": lambda d: words_in_numbers(d, ("N.D.", "néant")),
    "units_row": units_row,
    "totals": lambda d: totals(d, "Total"),
    "sums_of_finland": lambda d: totals(d, "Yhteensä"),
    "footnotes": lambda d: around(d, [], [[], ["Source: national office of statistics, 2022"], ["* provisional"]]),
    "repeated_headers": repeated_headers,
    "sep_line": lambda d: otherwise(d, lambda text: f"sep=;\r\n{text}".encode()),
    "two_row_header": two_row_header,
    "preamble_one_less": lambda d: around(d, [["Report", "flows", "2021"], ["made", "by", "hand"]], []),
    "preamble_one_more": lambda d: around(d, [["Report", "of", "flows", "in", "2021"]], []),
    "years_header": years_header,
    "wavelengths": lambda d: numeric_header(d, [str(n) for n in range(400, 700, 25)], ","),
    "wavelengths_with_points": lambda d: numeric_header(d, [f"{350.5 + 2 * n:.1f}" for n in range(9)], ";"),
    "blanks_between": lambda d: separated(d, " "),
    "colons_between": lambda d: separated(d, ":"),
    "bars_between": lambda d: separated(d, " | "),
    "fixed_width": fixed_width,
    "utf16": lambda d: otherwise(d, lambda text: text.encode("utf-16"), "\t"),
    "utf16_without_mark": lambda d: otherwise(d, lambda text: text.encode("utf-16-le"), "\t"),
    "old_line_ends": lambda d: otherwise(d, lambda text: text.replace("\r\n", "\r").encode()),
    "header_one_more": lambda d: otherwise(d, lambda text: text.replace("\r\n", ";\r\n", 1).encode()),
    "empty_last_column": lambda d: otherwise(d, lambda text: text.replace("\r\n", ";\r\n").encode()),
    "guarded": guarded,
    "office": of_an_office,
    "other_office": of_an_office,
}  # fmt: skip


def made(name: str, seed: int) -> Made:
    return KINDS[name](Draw(f"{name} {seed}"))


def make(folder: Path, seed: int) -> int:
    for part in ("messy", "clean"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name in KINDS:
        messy, clean = made(name, seed)
        (folder / "messy" / f"{name}-{seed}.csv").write_bytes(messy)
        (folder / "clean" / f"{name}-{seed}.csv").write_text(written(clean, ",", "\n"), "utf-8")
    return len(KINDS)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading.exports", description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder for them, made if need be")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    asked = parser.parse_args(arguments)
    print(f"{sum(make(asked.folder, seed) for seed in asked.seeds)} files in {asked.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
