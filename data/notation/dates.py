"""Dates as people write them: names of months, which part comes first, an example of each way; none is read here.

How a column's dates are written is, as text, the last day of 2021 in it: `31/12/2021`, `12/31/21 3:45 PM`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence

from shoal.lazy.patterns import pattern
from shoal.words import listed

ORDERS = ("year-first", "day-first", "month-first")  # in the order of the kernel's styles

_MONTHS = """
january february march april may june july august september october november december
januar februar märz april mai juni juli august september oktober november dezember
janvier février mars avril mai juin juillet août septembre octobre novembre décembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
januari februari maart april mei juni juli augustus september oktober november december
januari februari mars april maj juni juli augusti september oktober november december
januar februar marts april maj juni juli august september oktober november desember
stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık
января февраля марта апреля мая июня июля августа сентября октября ноября декабря
"""
# Known as whole words only: cut off, some would be months of other languages.
_WHOLE = """
január február március április május június július augusztus szeptember október november december
ledna února března dubna května června července srpna září října listopadu prosince
leden únor březen duben květen červen červenec srpen září říjen listopad prosinec
tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta marraskuuta \
joulukuuta
ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie
січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня
ιαν φεβ μαρ απρ μαϊ ιουν ιουλ αυγ σεπ οκτ νοε δεκ
ιανουάριος φεβρουάριος μάρτιος απρίλιος μάιος ιούνιος ιούλιος αύγουστος σεπτέμβριος οκτώβριος νοέμβριος δεκέμβριος
يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر
ינואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר
בינואר בפברואר במרץ באפריל במאי ביוני ביולי באוגוסט בספטמבר באוקטובר בנובמבר בדצמבר
ιανουαρίου φεβρουαρίου μαρτίου απριλίου μαΐου ιουνίου ιουλίου αυγούστου σεπτεμβρίου οκτωβρίου νοεμβρίου δεκεμβρίου
"""
_SHORT = {
    "sept": 9,
    "mrt": 3,
    "jän": 1,
    "jänner": 1,
    "μαΐ": 5,
    "إبريل": 4,
    "janv": 1,
    "févr": 2,
    "juil": 7,
    "may": 5,
    "mai": 5,
    "maj": 5,
}
SAYS_NOTHING = 13  # a word that may stand with a date: a day of the week, or what joins its parts
_BESIDE = """
mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday thursday friday saturday sunday
montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi mercredi jeudi vendredi samedi dimanche
lunes martes miércoles jueves viernes sábado domingo maandag dinsdag woensdag donderdag vrijdag zaterdag zondag
måndag tisdag onsdag torsdag fredag lördag söndag mandag tirsdag lørdag søndag den
de of st nd rd th er
"""
_CALLED = frozenset(
    ["date", "datum", "dato", "fecha", "data", "datas", "dátum", "päivä", "tarih", "дата", "日付", "日期", "날짜"]
)
_HALF = "((午前|午後|上午|下午|오전|오후) ?)?"  # of the day, where it stands before the hour
_SIGNED = r"[時时시] ?(\d{1,2}[分분] ?(\d{1,2}[秒초])?)?"
_OF_DAY = r"[ \u00a0\u202f]?[AaPp](\.?[ \u00a0\u202f]?[Mm]\.?)?"  # behind it: PM, p.m., p. m.
_CLOCK = rf"{_HALF}\d{{1,2}}(:\d{{2}}(:\d{{2}}([.,]\d+)?)?({_OF_DAY}| ?[\u0635\u0645])?|{_SIGNED})"
_ZONE = r"(Z| (UTC|GMT)([+-]\d{1,2}(:?\d{2})?)?| ?[+-]\d{2}(:?\d{2})?)?"
TIME = pattern(_CLOCK)
_NUMBERED = (
    r"\d{1,4}(?P<mark>[-/.]) ?\d{1,2}(?P=mark) ?\d{1,4}\.?|\d{4}年 ?\d{1,2}月 ?\d{1,2}日|\d{4}년 ?\d{1,2}월 ?\d{1,2}일"
)
_DOTTED = rf"\d{{1,2}}\.\d{{2}}(\.\d{{2}}([.,]\d+)?)?({_OF_DAY})?"  # beside a date; else a number
_OF_YEAR = r"( ?[rг]\.?)?"  # 31.12.2021 r.
_AFTER = rf"{_OF_YEAR}([ T,] ?({_CLOCK}|{_DOTTED}){_ZONE})?"
NUMBERED = pattern(f"({_NUMBERED}){_AFTER}")
_WORD, _ORDINAL = r"[^\W\d_]{3,12}", r"(st|nd|rd|th|er)?"
_BETWEEN = r"[ \-/.,'\u00a0]"
NAMED = pattern(
    rf"({_WORD}\.?,? ){{0,2}}((?P<w1>{_WORD}){_BETWEEN}*\d{{1,2}}{_ORDINAL}{_BETWEEN}+"
    rf"|\d{{1,4}}{_ORDINAL}{_BETWEEN}*(de |of )?(?P<w2>{_WORD}){_BETWEEN}*(de |of )?)\d{{1,4}}"
    rf"\.?{_OF_YEAR}([ T,:] ?({_CLOCK}|{_DOTTED}){_ZONE})?"
)

_NO_DAY = pattern(
    r"0{1,4}([-/.]?) ?0{1,2}\1 ?0{1,4}([ T]?0{1,2}(:?00){1,2}(\.0+)?)?|9999[-/.]?\d\d[-/.]?\d\d([ T].*|\d*)"
    r"|\d{1,2}[-/. ]{1,2}\w{1,12}[-/. ]{1,2}9999( .*)?"
)
_DOTTED_TIME = pattern(r"(\w|\.\d{1,2}\.)[ T,] ?\d{1,2}\.\d{2}(\D|$)")


@functools.cache
def month_words() -> Mapping[str, int]:
    """Names of months in small letters, whole and cut after three letters or more where that leaves one month only."""
    found: dict[str, set[int]] = {}
    for line in _MONTHS.split("\n"):
        for number, name in enumerate(line.split(), 1):
            for length in range(3, len(name) + 1):
                found.setdefault(name[:length], set()).add(number)
    words = {word: numbers.pop() for word, numbers in found.items() if len(numbers) == 1} | _SHORT
    for line in _WHOLE.split("\n"):
        words = {name: number for number, name in enumerate(line.split(), 1)} | words
    return words | dict.fromkeys(_BESIDE.split(), SAYS_NOTHING)


def is_date(cell: str) -> bool:
    """Whether a cell has the look of a date, with or without a time."""
    if NUMBERED.fullmatch(cell):
        return True
    named = NAMED.fullmatch(cell)
    return named is not None and (named["w1"] or named["w2"]).lower() in month_words()


def encoded_months(encoding: str) -> tuple[bytes, list[int], bytes]:
    """The words as bytes one after the other, where each ends, and its number; capitals too if they are not ASCII."""
    names: dict[bytes, int] = {}
    for word, number in month_words().items():
        spelled = {word} if word.isascii() else {word, word.capitalize(), word.upper()}
        for text in spelled:
            raw = text.encode(encoding, "replace")
            if b"?" not in raw:
                names[_small(raw)] = number
    ends, size = [], 0
    for raw in names:
        size += len(raw)
        ends.append(size)
    return b"".join(names), ends, bytes(names.values())


def _small(raw: bytes) -> bytes:
    return raw.lower()  # bytes.lower knows ASCII letters only, as the kernel does


def example_of(cell: str, order: int, named: bool) -> str:
    """The last day of 2021 (and the cell's own time) written as the cell is; a month that is named tells by itself."""
    if named:
        return cell
    day = {"year": "2021", "month": "12", "day": "31"}
    names = (("year", "month", "day"), ("day", "month", "year"), ("month", "day", "year"))[order]
    parts = iter(names)

    def other(found: re.Match[str]) -> str:
        name = next(parts, None)
        if name is None:
            return found[0]
        return day[name][-2:] if name == "year" and len(found[0]) == 2 else day[name]

    return re.sub(r"\d+", other, cell)


def is_called_one(name: str) -> bool:
    """Whether a column's name says that it holds dates."""
    return not _CALLED.isdisjoint(re.findall(r"[^\W\d_]+", name.casefold()))


def means_no_day(cell: str) -> bool:
    """Whether what is written as a date stands for no day at all, or for the end of days: 0000-00-00, 31.12.9999."""
    return _NO_DAY.fullmatch(cell) is not None


def compact_note(name: str, written: str) -> str:
    """What to say of a column of eight digits each, or of more that are times of day."""
    return (
        f"Column '{name}' holds dates written like {written}: every value is a day. "
        f"If they are numbers, say so (numeric: {name})."
    )


def has_times(written: str) -> bool:
    """Whether dates that are written so have a time of day."""
    packed = written.isdecimal() and len(written) > 8
    return packed or any(sign in written for sign in ":時时시") or _DOTTED_TIME.search(written) is not None


def orders_given(entries: Iterable[str], names: Sequence[str]) -> dict[str, int]:
    """What `day-first` or `COLUMN=day-first` say: the order by column, and under "" that of all others.

    Raises ValueError with what is none of that.
    """
    found: dict[str, int] = {}
    for entry in entries:
        column, _, order = entry.rpartition("=")
        if order not in ORDERS or (column and column not in names):
            raise ValueError(entry)
        found[column] = ORDERS.index(order)
    return found


def mixed_note(name: str, written: str, among: str) -> str:
    return f"Dates in '{name}' are written in several ways, as in {written} and in {among}, and all of them are read."


def either_order(name: str, written: str, others: Sequence[int]) -> str:
    """What to say of a column whose dates could be read in other orders too."""
    ways = listed([f"{name}={ORDERS[order]}" for order in others])
    return (
        f"Dates in column '{name}' could be in another order; they are read as in {written}. "
        f"If that is wrong, say so (dates: {ways})."
    )


def written_notes(written: Mapping[str, str]) -> list[str]:
    """What to say of columns whose years have two digits only."""
    return [
        f"Column '{name}' holds dates written like {text}, with years from 1969 to 2068."
        for name, text in written.items()
    ]


def buddhist_note(name: str, written: str) -> str:
    return f"Column '{name}' holds dates with Buddhist years, written like {written}: 2564 is read as 2021."


def not_so(name: str, asked: int, written: str) -> str:
    """What to say of dates that are not in the order that was given."""
    return f"Column '{name}' was to be read {ORDERS[asked]}, but its dates are written like {written} and are read so."
