"""Numbers as people write them: with a currency, a unit, grouped digits; which way, told from some cells of a column.

What a column's numbers look like is a `Notation`, and as text an example in it: `€ 1.234,56`.
"""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.data.notation.grouping import Grouping, grouping, other_mark
from shoal.data.notation.units import OR, are_one, forms_of, inflected, is_unit, whole
from shoal.lazy.classes import dataclass
from shoal.lazy.patterns import pattern
from shoal.words import listed

BLANKS = " \u00a0\u202f\u2009\u2007\u3000"  # all of them group digits where one of them does
APOSTROPHES = "'\u2019\u02bc`"
MINUSES = "-\u2212\u2013\uff0d\u25b2\u25b3"  # triangles are Japanese bookkeeping
ODD_SHARE = 0.05  # of a column's values that may be something else

_CURRENCIES = """
EUR USD CHF GBP JPY CNY INR BRL RUB SEK NOK DKK ISK PLN CZK HUF RON BGN HRK TRY UAH AUD NZD CAD MXN ARS CLP COP ZAR SGD
HKD TWD KRW THB IDR MYR PHP VND VNĐ vnđ đ Đ
ILS AED SAR EGP NGN KES MAD Fr SFr Sfr kr Kr zł Kč Ft lei Lei лв руб р Rs RS DM TL RM Rp
\\ Euro euro euros dollars 円 元 원"""
_UNITS = """
% ‰ ° °C °F ºC ºF ℃ ℉ pp Prozent percent ％
m m2 m3 m² m³ cm cm2 cm² cm³ mm mm² km km2 km² km/h kmh ft ft2 ft² mi mph mpg ha sqft sqm qm kg g mg µg μg lb lbs oz l L
ml mL cl cc gal h hr hrs min s sec ms µs kW kWh MW MWh GW GWh W Wh V mV mA Hz kHz MHz GHz kB KB MB GB TB bar mbar hPa
kPa Pa psi hp PS Nm kJ kcal cal dB dBm px dpi bpm rpm mmHg mg/dl mg/dL mmol/l mmol/L µmol/l µmol/L g/l g/L g/dl g/dL
mg/l mg/L µg/l µg/L ng/ml ng/mL pg/ml pg/mL U/l U/L IU µg/m³ μg/m³ m/s Ω kΩ MΩ mΩ pF nF µF µS/cm mS/cm ppm ppb lx lm
개 건 명 회 대 권 시간 個 件 人 名 回 台 本 枚 点 冊 歳 个 次 条 份 小时"""
CREDITS, DEBITS = ("Cr", "CR", "cr", "Cr.", "CR."), ("Dr", "DR", "dr", "Dr.", "DR.")  # of a bank: +5 and -5
EITHER = {"C/D": ("C", "D"), "H/S": ("H", "S")}  # the same in one letter, of which both have to be there
WITHOUT_CENTS = frozenset(
    ["₫", "đ", "Đ", "VND", "VNĐ", "vnđ", "¥", "￥", "円", "JPY", "₩", "원", "KRW", "Rp", "IDR", "CLP", "₲"]
)
PLUS = "+"  # the mark of numbers that have a sign behind them, one or the other: 5+ and 5-, and not 5+ alone
CURRENCIES, UNITS = frozenset(_CURRENCIES.split()), frozenset((*_UNITS.split(), *CREDITS))
DASHES = (".--", ",--", ".-", ",-", ".–", ",–", ".—", ",—")  # 5.- is five francs and no centimes, never minus five

_DIGIT = pattern("[0-9]")
_SHAPE = pattern(
    r"(?P<front>(?:[^\d.,]|(?<=[^\W\d])\.)*)"
    r"(?P<core>[.,]?\d(?:[\d.,'\u2019\u02bc`\s]*\d)?(?:[eE][+-]?\d+)?)(?P<back>(?:[^\d].*)?)",
    re.DOTALL,
)
MOST_MARKS = 6  # different words beside the numbers of a column that are looked at: no language has more forms
LONGEST = 1000  # characters of a cell that may be a number with a mark: a pattern remembers every step of a long text


def _shape(cell: str) -> re.Match[str] | None:
    return _SHAPE.fullmatch(cell) if len(cell) <= LONGEST else None


@dataclass(frozen=True)
class Notation:
    """How numbers are written: the decimal mark, what groups their digits (a blank stands for all blanks), whether in
    pairs (12,34,567), and a mark that may stand with them, on either side, `days or day` where it is a word that has
    several forms; signs and parentheses are always known."""

    decimal: str = "."
    thousands: str = ""
    pairs: bool = False
    mark: str = ""
    before: bool = False

    @classmethod
    def grouped_by(cls, mark: str) -> Notation:
        """That of numbers whose thousands a point or comma groups."""
        return cls(other_mark(mark), mark)

    @property
    def example(self) -> str:
        groups = ("12", "34", "567") if self.pairs else ("1", "234")
        number = f"{self.thousands.join(groups)}{self.decimal}{89 if self.pairs else 56}"
        blank = "" if self.mark in DASHES or self.mark == "" else " "
        return f"{self.mark}{blank}{number}" if self.before else f"{number}{blank}{self.mark}"

    @property
    def group_marks(self) -> str:
        """All characters that may stand between groups."""
        for alike in (BLANKS, APOSTROPHES):
            if self.thousands and self.thousands in alike:
                return alike
        return self.thousands

    @property
    def dropped(self) -> tuple[str, ...]:
        """Texts around a number that say nothing of its value, longer ones first; of words all forms that are known."""
        return _dropped_beside(EITHER.get(self.mark, (self.mark,))[0])

    @property
    def debits(self) -> tuple[str, ...]:
        """Texts behind a number that say that it is below zero."""
        return DEBITS if self.mark in CREDITS else EITHER.get(self.mark, ())[1:]

    def number(self, text: str) -> float | None:
        """The value; None for what is not a finite number written so."""
        bare = self._bare(text)
        if bare is None:
            return None
        digits, negative = bare
        found = _pattern(self.decimal, self.group_marks, self.pairs).fullmatch(digits)
        if not found:
            return None
        whole = digits[: found.end("whole")].translate(dict.fromkeys(map(ord, self.group_marks)))
        value = float(whole + digits[found.end("whole") :].replace(self.decimal, "."))
        return (-value if negative else value) if math.isfinite(value) else None

    def text(self, value: float) -> str:
        """A number as it is written so, without a mark beside it; of digits in pairs ungrouped."""
        plain = f"{value:.12g}" if self.pairs or not self.thousands else f"{value:,.12g}"
        return self.marked(plain)

    def marked(self, plain: str) -> str:
        """A text such as 1,234.5 with these marks in place of its own."""
        return plain.translate({ord(","): self.thousands, ord("."): self.decimal})

    def _bare(self, text: str) -> tuple[str, bool] | None:
        """The digits with what is among them, and whether the number is below zero."""
        signs, negative, opened, at = 0, False, 0, 0
        while at < len(text) and not text[at].isdigit() and text[at] != self.decimal:
            sign = text[at] in MINUSES or text[at] in "+("
            dropped = next((mark for mark in self.dropped if text.startswith(mark, at)), None)
            if not sign and dropped is None:
                return None
            signs, negative, opened = signs + sign, negative or (sign and text[at] != "+"), opened + (text[at] == "(")
            at += 1 if dropped is None else len(dropped)
            if dropped and dropped[-1].isalpha() and text[at : at + 1] == self.decimal:
                return None  # the point of `Rs.500` is not a decimal one
        text = text[at:]
        while text:
            dropped = next((mark for mark in self.dropped if text.endswith(mark)), None)
            if dropped is not None:
                text = text.removesuffix(dropped)
                continue
            debit = next((mark for mark in self.debits if text.endswith(mark)), None)
            if debit is not None:
                text, signs, negative = text.removesuffix(debit), signs + 1, True
                continue
            if text[-1].isdigit() or text[-1] == self.decimal:
                break
            if text[-1] not in f"){MINUSES}":
                return None
            closing = text[-1] == ")"
            signs, negative, opened = signs + (not closing), True, opened - closing
            text = text[:-1]
        return (text, negative) if text and not opened and signs <= 1 else None


@functools.cache
def _dropped_beside(marks: str) -> tuple[str, ...]:
    forms = {form for mark in marks.split(OR) if mark for form in forms_of(mark)}
    return (*sorted({*forms, *DASHES}, key=lambda form: (-len(form), form)), *BLANKS)


@functools.cache
def _pattern(decimal: str, groups: str, pairs: bool) -> re.Pattern[str]:
    mark, point = f"[{re.escape(groups)}]", re.escape(decimal)
    grouped = (
        rf"[1-9][0-9]?(?:{mark}[0-9]{{2}})*{mark}[0-9]{{3}}" if pairs else rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+"
    )
    whole = rf"{grouped}|[0-9]+" if groups else "[0-9]+"
    return re.compile(rf"(?=[0-9]|{point}[0-9])(?P<whole>{whole}|)(?:{point}[0-9]*)?(?:[eE][+-]?[0-9]+)?")


def notation_from(example: str) -> Notation | None:
    """The notation that a text such as `€ 1.234,56` is an example of; None if it is not one that tells."""
    shape = _shape(example.strip())
    if not shape:
        return None
    front, back = _mark_in(shape["front"]), _mark_in(shape["back"]) or shape["back"].strip(f"{BLANKS}-")
    if front and back:
        return None
    known = [
        n for n in _candidates("", "") if n.number(shape["core"]) in (1234.56, 1234567.89, 1234.0, 1234567.0, 12.0)
    ]
    core = shape["core"]
    known = [n for n in known if not n.thousands or any(mark in core for mark in n.group_marks)]
    known = [n for n in known if n.decimal in core or n.number(core) in (1234.0, 1234567.0, 12.0)]
    if not known:
        return None
    return Notation(known[0].decimal, known[0].thousands, known[0].pairs, front or back, bool(front))


def notation_notes(notations: Mapping[str, Notation]) -> list[str]:
    """Which columns are read as numbers for all their marks; those that are written alike in one sentence."""
    alike: dict[str, list[str]] = {}
    for name, notation in notations.items():
        debit = f"; with {EITHER.get(notation.mark, ('', 'Dr'))[1]} they are below zero" if notation.debits else ""
        alike.setdefault(notation.example.rstrip(".") + debit, []).append(f"'{name}'")
    return [
        f"Column {names[0]} holds numbers written like {example}." if len(names) == 1
        else f"Columns {listed(names)} hold numbers written like {example}."
        for example, names in alike.items()
    ]  # fmt: skip


# ------------------------------------------------------------------ told from cells


class _Shape(NamedTuple):
    """A number and what stands around it, without signs, parentheses and blanks; a dash in place of cents apart."""

    front: str
    core: str
    dash: str
    back: str
    apart: bool  # whether a blank is behind the number

    @classmethod
    def of(cls, cell: str) -> _Shape | None:
        found = _shape(cell)
        if not found:
            return None
        back = found["back"].lstrip(BLANKS)
        dash = next((dash for dash in DASHES if back.startswith(dash)), "")
        rest = found["back"] if not dash else back[len(dash) :]
        return cls(_mark_in(found["front"]), found["core"], dash, _mark_in(rest), rest[:1].isspace())


def notation_of(cells: Sequence[str], decimal: str = ".", thousands: str = "") -> Notation | None:
    """The notation in which (nearly) all cells are numbers, the file's own marks first; None if there is none."""
    if sum(_DIGIT.search(cell) is not None for cell in cells) < (1 - ODD_SHARE) * len(cells):
        return None
    mark, before, found = _common_mark(cells)
    mark = PLUS if not mark and {cell[-1:] for cell in cells} >= {"+", "-"} else mark
    if not found or len(found) < (1 - ODD_SHARE) * len(cells) or (len(found) < len(cells) and len(found) < 20):
        return None
    best, most = None, 0
    for usual in _ordered(found, decimal, thousands, mark):
        tried = Notation(usual.decimal, usual.thousands, usual.pairs, mark, before)
        count = sum(tried.number(cell) is not None for cell in cells)
        if count > most:
            best, most = tried, count
    enough = most == len(cells) or (most >= 20 and most >= (1 - ODD_SHARE) * len(cells))
    return best if enough and not all(cell.startswith("(") for cell in cells) else None


def _ordered(shapes: Sequence[_Shape], decimal: str, thousands: str, mark: str) -> Iterable[Notation]:
    """All notations, the likelier first: what reads no more cells than one before it is not taken. Of a currency
    without cents, 1.000 ₫ is a thousand.

    A dash in place of cents tells: what stands before it is the decimal mark, unless it groups digits as well.
    """
    candidates, cores = _candidates(decimal, thousands), [shape.core for shape in shapes]
    dashes = {shape.dash[0] for shape in shapes if shape.dash}
    if len(dashes) == 1:
        candidates.sort(key=lambda notation: notation.decimal not in dashes)
    for point in ".,":
        ended = any(point in shape.core for shape in shapes if shape.dash)  # the decimals of such a number are a dash
        told = grouping(cores, point)
        if ended or told is Grouping.YES or (told is Grouping.OPEN and mark in WITHOUT_CENTS):
            candidates.insert(0, Notation.grouped_by(point))
    return candidates


def _candidates(decimal: str, thousands: str) -> list[Notation]:
    own = [Notation(decimal, thousands)] if decimal else []
    pairs = [(".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"), (",", ""), (".", "")]
    return [*own, *(Notation(*pair) for pair in pairs), Notation(".", ",", True), Notation(".", " ", True)]


def _common_mark(cells: Sequence[str]) -> tuple[str, bool, list[_Shape]]:
    """The text that stands with the numbers, whether before them, and all cells with it."""
    shapes = [shape for shape in map(_Shape.of, cells) if shape]
    found: Counter[tuple[str, bool, bool]] = Counter()
    for shape in shapes:
        found[shape.front or shape.back, bool(shape.front), shape.apart] += 1
    marks: Counter[str] = Counter()
    for (mark, _, _), count in found.items():
        marks[mark] += count
    del marks[""]
    if not marks:
        return "", False, [shape for shape in shapes if not shape.front + shape.back]
    mark = marks.most_common(1)[0][0]
    if mark in DEBITS:
        mark = next((credit for credit in CREDITS if credit in marks), mark)
    either = next((name for name, pair in EITHER.items() if mark in pair and _are_amounts(shapes, pair)), "")
    if either:
        return either, False, [s for s in shapes if not s.front and s.back in ("", *EITHER[either])]
    before = any(name == mark and ahead for name, ahead, _ in found)
    forms = [mark, *(() if before else _other_forms(mark, marks, shapes))]
    debits = {debit for debit in DEBITS if debit in marks and mark in CREDITS and not before}
    apart = all(blank for name, ahead, blank in found if name in forms and not ahead)
    count = sum(marks[form] for form in (*forms, *debits))
    if not _is_known(mark, before) and (before or not apart or not _is_unit(mark, count, len(cells))):
        forms = []
    return OR.join(forms), before, [s for s in shapes if {s.front, s.back} <= {"", *forms, *(debits if forms else ())}]


_CENTS = pattern(r".*[.,][0-9]{2}")


def _are_amounts(shapes: Sequence[_Shape], marks: Sequence[str]) -> bool:
    """Whether both marks are there and all numbers with them have cents and a blank behind: 5.20 C, but not 5C."""
    marked = [shape for shape in shapes if shape.back in marks]
    both = {shape.back for shape in marked} == set(marks)
    return both and all(shape.apart and _CENTS.fullmatch(shape.core) for shape in marked)


def _other_forms(mark: str, marks: Counter[str], shapes: Sequence[_Shape]) -> list[str]:
    """Other words behind numbers that are one unit with the commonest."""
    others = [other for other, _ in marks.most_common(MOST_MARKS) if other != mark]
    if not others:
        return []
    numbers: dict[str, set[int | None]] = {}
    for shape in shapes:
        numbers.setdefault(shape.back, set()).add(whole(shape.core))
    behind = [other for other in others if other in numbers]
    told = {other for other in behind if {mark, other}.isdisjoint(UNITS | CURRENCIES)}  # of mph and mpg nothing tells
    return inflected(mark, numbers, [other for other in behind if other in told or are_one(mark, other)])


def cores_of(cells: Iterable[str]) -> list[str]:
    """The digits of cells that are numbers, with the marks among them."""
    return [shape["core"] for shape in map(_shape, cells) if shape]


def marks_of(cell: str) -> str | None:
    """The unit or currency that a cell has beside its number, nothing if it has none; None if it is no such number."""
    shape = _Shape.of(cell)
    if not shape:
        return None
    front, back = shape.front, shape.back
    known = (not front or _is_known(front, True)) and (not back or _is_known(back, False))
    return front or back if known and not (front and back) else None


def _mark_in(text: str) -> str:
    """What stands beside a number, without signs, parentheses and blanks."""
    bare = text.strip(BLANKS)
    if bare in DASHES:
        return bare
    return bare.strip(f"{BLANKS}+(){MINUSES}")


def _is_known(mark: str, before: bool) -> bool:
    if any(unicodedata.category(letter) == "Sc" for letter in mark) and len(mark) <= 6:
        return True
    if mark in CURRENCIES or mark.rstrip(".") in CURRENCIES or mark in ("%", "٪"):  # which is before in Turkish
        return True
    return not before and (mark in UNITS or mark in DASHES or is_unit(mark))


def _is_unit(mark: str, count: int, cells: int) -> bool:
    """Whether a word after (nearly) all numbers is their unit: 36 months, but not 12 Main and 14 High."""
    enough = count >= 3 and count >= (1 - ODD_SHARE) * cells
    return enough and len(mark) <= 16 and not any(c.isdigit() for c in mark) and OR not in mark
