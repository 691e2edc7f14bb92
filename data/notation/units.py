"""Words for units in their inflections, 1 day and 5 days: which are one unit; numbers are not read here.

A few are known by heart. Of others the numbers tell: a language changes a word by the number before it, always alike.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping

OR = " or "  # between the forms of one unit
ENDING, STEM = 3, 3  # letters that forms of a word may differ in at most, and share at least

# One unit of one language a line; what is on two lines is never one unit, however alike it is spelt.
_FORMS = """
day days
week weeks wk wks
month months mo mos
year years yr yrs
hour hours hr hrs
minute minutes min mins
second seconds sec secs
foot feet
inch inches
lb lbs
kg kgs
person persons people
weekend weekends
quarter quarters
quart quarts
ton tons
tonne tonnes
gram grams
grain grains
bit bits
byte bytes
kilobit kilobits
kilobyte kilobytes
megabit megabits
megabyte megabytes
gigabit gigabits
gigabyte gigabytes
Tag Tage Tagen
Woche Wochen
Monat Monate Monaten
Jahr Jahre Jahren
Stunde Stunden Std
Minute Minuten Min
Sekunde Sekunden Sek
an ans année années
mois
jour jours
semaine semaines
heure heures
día días
año años
mes meses
mês meses
dia dias
ano anos
semana semanas
hora horas
minuto minutos minuti
segundo segundos
giorno giorni
settimana settimane
mese mesi
anno anni
ora ore
secondo secondi
dag dagen dagar dage dager
week weken
maand maanden
jaar jaren
uur uren
vecka veckor
månad månader
måned måneder
timme timmar
dzień dni dnia
tydzień tygodnie tygodni tygodnia
miesiąc miesiące miesięcy miesiąca
rok lata lat roku
godzina godziny godzin
minuta minuty minut
sekunda sekundy sekund
osoba osoby osób
den dny dní dnů dne
týden týdny týdnů týdne
měsíc měsíce měsíců
rok roky let roku
hodina hodiny hodin
день дня дней дні днів
неделя недели недель
месяц месяца месяцев
год года лет
час часа часов
минута минуты минут
päivä päivää
viikko viikkoa
kuukausi kuukautta
vuosi vuotta
tunti tuntia
"""


def are_one(word: str, other: str) -> bool:
    """Whether two words are known to be forms of one: day and days."""
    return other in forms_of(word)


def is_unit(mark: str) -> bool:
    """Whether a text begins with a word that is known for a unit: days, years old."""
    return mark.partition(" ")[0].casefold() in _by_word()


@functools.cache
def forms_of(mark: str) -> tuple[str, ...]:
    """A word and its other known forms, in small letters or large ones as it is, with what stands behind it."""
    word, blank, rest = mark.partition(" ")
    found = [word]
    for form in _by_word().get(word.casefold(), ()):
        found.append(form.casefold() if word.islower() else form.upper() if word.isupper() else form.capitalize())
    if word.isalpha() and word.endswith("s") and len(word) > 3:
        found.append(word[:-1])
    elif word.isalpha() and word.islower() and len(word) >= 3:
        found.append(f"{word}s")
    return tuple(dict.fromkeys(f"{form}{blank}{rest}" for form in found))


@functools.cache
def _by_word() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in _FORMS.strip().split("\n"):
        forms = tuple(line.split())
        for form in forms:
            found[form.casefold()] = tuple(dict.fromkeys((*found.get(form.casefold(), ()), *forms)))
    return found


# ------------------------------------------------------------------ told by the numbers


def _ends_in(number: int, first: int, last: int) -> bool:
    """By its last digit, where eleven to fourteen are no such numbers: 22 as 2, not 12."""
    return first <= number % 10 <= last and not 10 < number % 100 < 15


_AGREEMENTS: tuple[Callable[[int], str], ...] = (  # which numbers have the same form, by family of languages
    lambda n: "one" if n == 1 else "other",
    lambda n: "one" if n in (0, 1) else "other",
    lambda n: "one" if n == 1 else "few" if _ends_in(n, 2, 4) else "many",
    lambda n: "one" if n == 1 else "few" if 2 <= n <= 4 else "many",
    lambda n: "one" if _ends_in(n, 1, 1) else "few" if _ends_in(n, 2, 4) else "many",
)


def inflected(word: str, numbers: Mapping[str, Collection[int | None]], others: Iterable[str]) -> list[str]:
    """Those of other words that are one unit with a word; `numbers`: those each stands behind, None if not whole.

    Different units are never joined: words have to be known as forms of one, or to be spelt nearly alike and to change
    with their numbers as a language has it, 1 sztuka, 2 sztuki, 5 sztuk, with no exception.
    """
    known, alike = [], []
    for other in others:
        if are_one(word, other):
            known.append(other)
        elif _are_alike(word, other):
            alike.append(other)
    agreeing = alike and _agree([word, *known, *alike], numbers)
    return [*known, *alike] if agreeing else known


def _are_alike(word: str, other: str) -> bool:
    """Whether two plain words differ in their endings only, and are not known for units of their own."""
    if not word.isalpha() or not other.isalpha() or (is_unit(word) and is_unit(other)):
        return False
    shared = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False))))
    return shared >= STEM and max(len(word), len(other)) - shared <= ENDING


def _agree(words: Iterable[str], numbers: Mapping[str, Collection[int | None]]) -> bool:
    pairs = [(word, number) for word in words for number in numbers[word]]
    return any(_is_agreement(form, pairs) for form in _AGREEMENTS)


def _is_agreement(form: Callable[[int], str], pairs: Iterable[tuple[str, int | None]]) -> bool:
    """Whether all numbers of one form have the same word; those that are not whole may have one of their own."""
    words: dict[str, set[str]] = {}
    for word, number in pairs:
        words.setdefault("part" if number is None else form(number), set()).add(word)
    return all(len(found) == 1 for found in words.values())


def whole(core: str) -> int | None:
    """The whole number that digits with marks among them are; None for another."""
    return int(core) if re.fullmatch("[0-9]{1,9}", core) else None
