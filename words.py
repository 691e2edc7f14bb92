"""Numbers, sizes, durations and lists for the eye, the same wherever they are shown, and lists as they are typed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

MODELS = {"linear": "Linear", "ridge": "Ridge", "lasso": "Lasso", "elasticnet": "Elastic net",
          "logistic": "Logistic", "multinomial": "Multinomial", "poisson": "Poisson", "gamma": "Gamma",
          "lognormal": "Lognormal", "huber": "Huber", "quantile": "Quantile", "mlp": "Neural network (mlp)",
          "auto": "By the target (auto)", "module": "Module"}  # fmt: skip

# What a terminal obeys or an eye is led astray by: control characters but tabs and ends of lines, marks of direction.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_NO_LEVEL = re.compile("=__missing__(?=:|$)")  # the level of no value, in the name of a column of the design
LINE_BREAKS = re.compile(r"\s*[\r\n]\s*")
UNSEEN = dict.fromkeys(map(ord, "\ufeff\u200b\u200e\u200f\u202a\u202c\u2060\u00ad"))  # in a text, and never drawn
# An item in quotes; one that begins with a part in quotes, as the pair "a, b":c does; any other.
_ITEM = re.compile(r'(?:\s*"(?P<inside>(?:[^"]|"")*)"\s*|(?P<plain>\s*"(?:[^"]|"")*"[^,]*|[^,]*))(?=,|\Z)')


def seen(text: str) -> str:
    """Text with what is not meant to be seen spelled out: \\u001b for the character that begins a terminal's commands.

    In JSON, where such characters can only stand within strings, this is the same text.
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def short(value: Any) -> str:
    """Any value in a table, with six digits at most."""
    if value is None:
        return "-"
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 1e15
        return str(int(value)) if whole else f"{value:.6g}" if math.isfinite(value) else "-"
    return str(value)


NAME = 32  # letters of a column or level in a sentence that names many
GROUPED = 10_000  # from which on digits are grouped; below there are years
MULTIPLES = ("factor", "deviance")  # spreads whose intervals are multiples of the prediction


def number(value: float | None, digits: int = 4) -> str:
    """A number for the eye."""
    if value is None:
        return "–"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.{digits - 1}e}"
    return f"{value:,.{digits}g}" if abs(value) >= GROUPED else f"{value:.{digits}g}"


def width_words(width: float, spread: str, centre: float = 1.0, digits: int = 6) -> str:
    """How far from a prediction rows lie, by what they spread by: nothing but a number, a share or roots of it, or
    multiples of it: factors about the `centre`, or those of a deviance."""
    if spread in MULTIPLES:
        return f"{_multiples(width, spread, centre, digits)} times it"
    if spread == "share":
        return f"± {100 * width:.{digits}g} % of it"
    return f"± {width:.{digits}g} times its square root" if spread == "root" else f"± {width:.{digits}g}"


def within_words(what: str, width: float, spread: str, centre: float = 1.0, digits: int = 6) -> str:
    """The same as a part of a sentence about `what`, the prediction."""
    if spread in MULTIPLES:
        return f"{_multiples(width, spread, centre, digits)} times {what}"
    return f"{what} {width_words(width, spread, centre, digits)}"


def _multiples(width: float, spread: str, centre: float, digits: int) -> str:
    if spread == "factor":
        low, high = (centre * math.exp(sign * width) for sign in (-1, 1))
    else:
        low, high = times_prediction(width)
    return f"{low:.{digits}g} to {high:.{digits}g}"


def times_prediction(width: float) -> tuple[float, float]:
    """Both ends of an interval about a positive number, as multiples of its prediction: the r below and above 1 with
    2 (r - 1 - log r) = width^2, whose left side is the deviance of a gamma distribution."""
    c = 1 + width * width / 2
    found = []
    for r in (math.exp(-c), 2 * c):  # from these Newton's steps come nearer to one end each, and never pass it
        for _ in range(100):
            step = (r - math.log(r) - c) / (1 - 1 / r) if 0 < r != 1 else 0.0
            r, before = r - step, r
            if abs(r - before) <= 1e-16 * r:
                break
        found.append(r)
    return min(found[0], 1.0), max(found[1], 1.0)


def date_text(days: float | None, times: bool = False) -> str:
    """Days since 1970 as a date, 2021-05-03, or with a time of day, 2021-05-03 14:30:00."""
    if days is None:
        return "-"
    try:
        moment = datetime(1970, 1, 1) + timedelta(seconds=round(days * 86400))
    except OverflowError:
        return f"{days:g} days after 1970-01-01"
    return moment.isoformat(" ") if times else moment.date().isoformat()


def tiny(value: float) -> str:
    """A number of which only the size matters, such as a distance to the optimum."""
    return f"{value:.1e}" if value else "0"


def epochs_told(done: float, wanted: int, of: str = " of ") -> str:
    """How far: 3.2 of 10; more than were wanted are full passes of the finish."""
    told = f"{done:,.0f}" if done >= 100 else f"{done:.3g}"
    return f"{told}{of}{wanted:,}" if done < wanted else told


def power_of_ten(value: float) -> str:
    """3e-17 as people write it, in one piece that no line break tears; 0.6 as it is."""
    if 0.01 <= abs(value) < 10:
        return f"{value:.2g}"
    digits, exponent = f"{value:.0e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10{raised}"


def shortened(name: str, most: int) -> str:
    """A name cut in the middle: those of one table often differ at their ends only."""
    if len(name) <= most:
        return name
    end = most // 2
    return f"{name[: most - 1 - end]}…{name[-end:]}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "under 1 ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def file_size(count: float) -> str:
    """Bytes for the eye: 0 B, 15 kB, 1.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 9.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def ago(seconds: float) -> str:
    """How long ago something was, as people say it."""
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{plural(int(seconds // length), name)} ago"
    return "just now"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names for a message, not too many."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def line_told(entry: Mapping[str, Any]) -> str:
    """A row that could not be read or predicted, by its line or number and, where a table has several, its file."""
    file = f"{entry['file']}, " if entry.get("file") else ""
    place = f"line {entry['line']:,}" if "line" in entry else f"row {entry['row']:,}"
    return f"{file}{place}: {entry['problem']}"


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A question about the name that is most like the one given, to follow a sentence; empty if none is like it."""
    import difflib  # here, since workers import this module and are never asked

    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(given.lower(), by_lower, n=1)
    return f" Did you mean '{by_lower[near[0]]}'?" if near else ""


NA = "NA"  # means no value nearly everywhere; in a column of codes it may be one


def meaning_none(column: str, word: str) -> str:
    """A word among the numbers of a column as `also_missing` takes it: NA, which is kept elsewhere, there alone."""
    return f"{column}={word}" if word == NA else word


def totals_told(name: str, totals: Iterable[Sequence[Any]]) -> str:
    """That rows are called as those of totals are: no data, so that no value of them is missing."""
    told = listed([f"'{word}' ({plural(count, 'row')})" for word, count in totals])
    return (
        f"'{name}' has words for totals among its numbers: {told}. Such rows are no data: take them out of the file, "
        "or leave them out with all rows that cannot be read (on_bad_rows: skip)."
    )


def way_for(limits: Iterable[Sequence[Any]]) -> str:
    """What limits are read as where nobody says more: half of what is above all of them; what is below can be any."""
    return "half" if any(sign[0] in "<≤" for sign, _ in limits) else "limit"


def limits_told(name: str, limits: Iterable[Sequence[Any]]) -> str:
    """That some numbers are limits, such as <0.5, and in how many rows."""
    shown = " and ".join(f"{sign} in {plural(count, 'row')}" for sign, count in limits)
    return f"'{name}' has limits among its numbers: {shown}."


def tidy_name(name: str) -> str:
    """A column's name in one line, without blanks around it and what nobody sees: forms and spreadsheets break long
    names, and copying from pages brings byte-order marks, blanks of no width and hyphens that are not drawn."""
    name = name.translate(UNSEEN) if not name.isascii() else name
    return LINE_BREAKS.sub(" ", name.strip())


def no_such_column(name: str, columns: Sequence[str]) -> str:
    torn = next((column for column in columns if "," in column and name in map(str.strip, column.split(","))), None)
    meant = f""" Is it '{torn}'? In lists, write a name with a comma in quotes: '"{torn}"'.""" if torn else ""
    return (
        f"Expected a column of the file, got '{name}'.{meant or did_you_mean(name, columns)} The columns are: "
        f"{listed(columns)}."
    )


# ------------------------------------------------------------------ a model


def from_optimum(away: float) -> str:
    """How far an objective is above its optimum, as a share of how far above it training began."""
    return f"relative distance to the exact optimum {tiny(away)}" if away else "at the exact optimum"


def model_title(model: str, target: str) -> str:
    """What a fit is called; of a module the target is its own name."""
    return f"Module {target}" if model == "module" else f"{MODELS.get(model, model)} model of {target}"


def certificate(kind: str, relative: float | None, rests_on: str) -> str:
    """What a certificate proves, in two sentences."""
    basis = "all rows of the data" if rests_on == "data" else "the sums over all rows (moments)"
    size = "exactly 0" if not relative else f"at most {power_of_ten(relative)}"
    if kind == "duality_gap":
        meaning = f"No other coefficients can be better by more than this share of the starting loss: {size}."
    else:
        meaning = f"At the best fit the slope of the loss is zero; here, as a share of its starting size, it is {size}."
    return f"{meaning} Checked on {basis}."


def term_shown(name: str) -> str:
    """The name of a column of the design for the eye: the level that stands for no value is called so."""
    return _NO_LEVEL.sub("=(no value)", name)


def compared(references: Mapping[str, str], most: int = 12) -> str:
    """What the coefficients of text columns are differences to, as one sentence; empty without such columns."""
    if not references:
        return ""
    alike: dict[str, list[str]] = {}  # of many columns those with one level share a place, as questions of a survey do
    for column, level in references.items():
        alike.setdefault(level if len(references) > most else column, []).append(column)
    said = []
    for columns in alike.values():
        level, more = references[columns[0]], f" and {len(columns) - 1:,} more" if len(columns) > 1 else ""
        told = "no value" if level == "__missing__" else shortened(level, NAME)
        said.append(f"{shortened(columns[0], NAME)}{more}: {told}")
    return f"Levels of text columns are compared with {listed(said, most)}."


def per_day(columns: Sequence[str], most: int = 12) -> str:
    """What the coefficients of columns of dates are changes for, as one sentence; empty without such columns."""
    if not columns:
        return ""
    are = "the coefficient of {} is" if len(columns) == 1 else "coefficients of {} are"
    return f"Dates count in days: {are.format(listed(columns, most))} per day."


# ------------------------------------------------------------------ lists in one line


def list_items(text: str) -> list[str]:
    """The items of a list in one line, `a,b,"c, d"`, as flags and fields have it; blanks around them are left.

    One with a comma stands in double quotes, and a quote within them is written twice, as in CSV. Quotes anywhere else
    are a part of the item.
    """
    found, place = [], 0
    while place <= len(text) and (item := _ITEM.match(text, place)):
        inside = item["inside"]
        found.append(item["plain"] if inside is None else inside.replace('""', '"'))
        place = item.end() + 1  # beyond the comma
    return found


def list_text(items: Iterable[str]) -> str:
    """A line that `list_items` reads as these."""
    return ",".join(map(_written, items))


def _written(item: str) -> str:
    closed = item.count('"') % 2 == 0 or not item.lstrip().startswith('"')  # or it would go on in the next item
    if closed and list_items(item) == [item]:
        return item
    doubled = item.replace('"', '""')
    return f'"{doubled}"'
