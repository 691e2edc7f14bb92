"""What was chosen for columns follows them to their new names where another reading of the file renames them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from shoal.dashboard.parts.literal import notice
from shoal.dashboard.tables import choices
from shoal.dashboard.tables.needed import Inspection, inspection
from shoal.dashboard.tables.sources import Asked, tidy
from shoal.lazy.classes import dataclass
from shoal.results.answers.table import TableLook
from shoal.settings.levels import SIGN, split_level
from shoal.settings.values import page_config
from shoal.words import listed

NAMES = ("numeric", "categorical", "exclude", "one_spelling")  # knobs whose values are columns
PAIRS = ("reference", "dates", "limits", "also_missing")  # those whose values are COLUMN=TEXT, the last one texts too
OF_COLUMNS = (*NAMES, *PAIRS)
STRUCTURE = ("sheet", "delimiter", "encoding", "quote", "comment", "header", "skip_lines", "parts")
LOST, STANDS = "following:lost", "following:stands"  # in the session


@dataclass(frozen=True)
class Stand:
    """Where the columns that choices name stood in the file, as it was read when they were made."""

    width: int
    encoding: str
    places: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        return {"width": self.width, "encoding": self.encoding, "places": dict(self.places)}


@dataclass(frozen=True)
class TakenOver:
    """Choices under the names that columns have now, and those that are about no column any more."""

    found: Asked
    lost: tuple[str, ...]


def renames(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether another reading of a file may give its columns other names."""
    return any(before.get(knob) != after.get(knob) for knob in STRUCTURE)


def names_columns(found: Asked) -> bool:
    return bool(found.target) or any(found.read.get(knob) for knob in OF_COLUMNS)


def stand(found: Asked) -> Stand | None:
    """Of the choices of this reading; where it came to nothing, of the one before it."""
    if not names_columns(found):
        return None
    look = inspection(found.inspection)
    if look.goes_on and kept(found) is None:
        look = _without_choices(found)  # names are the same, and were seen before anything was chosen for them
    if look.table is None or look.table.sparse:
        return kept(found)
    names = [column.name for column in look.table.columns]
    named = set(_named(found, names))
    places = {name: place for place, name in enumerate(names) if name in named}
    return Stand(len(names), str(look.table.dialect.get("encoding", "")), places)


def kept(found: Asked) -> Stand | None:
    """Where columns stood, if choices did not follow them yet to the reading that is asked for.

    A browser that has not heard yet of the address that they led to, or goes back, asks for that reading once more.
    """
    before: Stand | None = st.session_state.get(STANDS, {}).get(_place(found))
    if before is None and choices.address_of(found.table.key) == found.address:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            known = choices.stored(found.table.key)[choices.STOOD]
            places = {str(name): int(place) for name, place in known["places"].items()}
            return Stand(int(known["width"]), str(known["encoding"]), places)
    return before


def remember_stand(found: Asked, stood: Stand) -> None:
    st.session_state.setdefault(STANDS, {})[_place(found)] = stood


def _place(found: Asked) -> tuple[str, ...]:
    return tuple(found.address.values())


def look_at_names(found: Asked) -> Inspection:
    """The look that tells how columns are named: where it fails, perhaps for names alone, one without any of ours."""
    look = inspection(found.inspection)
    return _without_choices(found) if look.has_failed and any(found.read.get(knob) for knob in OF_COLUMNS) else look


def _without_choices(found: Asked) -> Inspection:
    bare = {knob: value for knob, value in found.read.items() if knob not in OF_COLUMNS}
    return inspection(page_config(found.table.path, bare))


def followed(found: Asked, stood: Stand | None, table: TableLook | None) -> TakenOver | None:
    """The choices for columns as `table` names them; None while that is not known."""
    if table is None or table.sparse or not table.columns:
        return None
    return _Renaming(stood, table).of(found)


def _named(found: Asked, names: Collection[str]) -> Iterator[str]:
    """The columns that choices are about."""
    if found.target:
        yield found.target
    for knob in NAMES:
        yield from found.read.get(knob, [])
    for knob in PAIRS:
        yield from (pair[0] for text in found.read.get(knob, []) if (pair := split_level(text, names)))


class _Renaming:
    """From the names and the encoding of one reading to those of another."""

    def __init__(self, stood: Stand | None, table: TableLook) -> None:
        self.table = table
        self.columns = table.named
        self.before: Mapping[str, int] = stood.places if stood else {}
        self.aligned = stood is not None and stood.width == len(table.columns)
        self.encodings = (stood.encoding if stood else "", str(table.dialect.get("encoding", "")))

    def of(self, found: Asked) -> TakenOver:
        lost: list[str] = []
        read = dict(found.read)
        for knob in OF_COLUMNS:
            if knob in read:
                each = self._column if knob in NAMES else self._plain if knob == "also_missing" else self._pair
                read[knob] = _each(read[knob], each, lost)
        target = found.target
        if target and target != found.table.target:
            target = next(iter(_each([target], self._column, lost)), None)
        return TakenOver(replace(found, read=tidy(read), target=target), tuple(lost))

    def _column(self, name: str) -> str | None:
        if name in self.columns:
            return name
        if self.aligned and name in self.before:
            return self.table.columns[self.before[name]].name
        return None

    def _pair(self, text: str) -> str | None:
        """Of a level, also with its letters as they are read now; what is meant for all columns is about none."""
        if SIGN not in text:
            return text
        pair = split_level(text, self.columns) or split_level(text, self.before)
        name = self._column(pair[0]) if pair else None
        if pair is None or name is None:
            return None
        levels = self.columns[name].levels or ()
        own = pair[1] if pair[1] in levels else self._spelt(pair[1])
        return f"{name}{SIGN}{own}"

    def _plain(self, text: str) -> str | None:
        """A text that means missing anywhere is about no column."""
        of_column = split_level(text, self.columns) or split_level(text, self.before)
        return self._pair(text) if of_column else self._spelt(text)

    def _spelt(self, text: str) -> str:
        """As the same bytes are read now."""
        before, now = self.encodings
        if before and now and before != now:
            with contextlib.suppress(UnicodeError, LookupError):
                return text.encode(before).decode(now)
        return text


def _each(values: Sequence[str], follow: Callable[[str], str | None], lost: list[str]) -> list[str]:
    after = [(value, follow(value)) for value in values]
    lost.extend(value for value, now in after if now is None)
    return list(dict.fromkeys(now for _, now in after if now is not None))


# ------------------------------------------------------------------ what is said of it


def remember_lost(done: TakenOver) -> None:
    st.session_state[LOST] = done.found.address, done.lost


def say_lost(found: Asked) -> None:
    """What did not follow, as long as the page shows the reading that it was lost by."""
    address, lost = st.session_state.get(LOST, ({}, ()))
    if lost and address == found.address:
        text = f"No column has that name as the file is read now: {listed(lost)}. All else that was chosen is kept."
        notice("info", text, "Some choices were dropped")
