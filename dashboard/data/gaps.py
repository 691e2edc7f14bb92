"""What a person can settle with one click: words and codes that mean no value, codes that are names, spellings of one
value, dates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.data import spelling
from shoal.dashboard.data.options import read_otherwise
from shoal.dashboard.parts.literal import line
from shoal.dashboard.tables.guidance import KEEP_NA, ways_of, words_told
from shoal.dashboard.tables.sources import Asked
from shoal.results.answers.table import ColumnLook, TableLook
from shoal.results.findings import ONE_SPELLING, Finding, FindingKind
from shoal.words import limits_told, meaning_none, number, plural, totals_told

TREAT = "Treat as missing"
OPEN = 6  # lines that are not folded away
MOST = 50  # of those that are


def offered(found: Asked, result: TableLook) -> None:
    """One for all words where several columns have some; then a line a column with its button, many of them folded."""
    columns = result.columns
    lines = [
        *_words(found, columns),
        *_limits(found, columns),
        *_totals(result),
        *_codes(found, result),
        *_zero_led(found, result.findings),
        *_without_na(found, result.findings),
        *_spellings(found, result.findings),
    ]
    lines += _dates(found, columns)
    spellings = spelling.doubt(found, result)
    if not lines and not spellings:
        return
    with st.container(border=True):
        if spellings:  # first of all: where the guess is wrong, it is the cause of what is odd below
            spelling.ask(found, spellings)
        _all_words(found, columns)
        for draw in lines[:OPEN]:
            draw()
        if rest := lines[OPEN:]:
            with st.expander(f"{len(rest):,} more of these"):
                for draw in rest[:MOST]:
                    draw()
                if len(rest) > MOST:
                    line(f"And {len(rest) - MOST:,} more, which are shown when these are settled.")


def _all_words(found: Asked, columns: Sequence[ColumnLook]) -> None:
    words = [_meant(column) for column in columns if column.words]
    if len(words) > 1:
        every = list(dict.fromkeys(word for own in words for word in own))
        with _row():
            line(f"{plural(len(words), 'column')} hold numbers or dates but for words.")
            _button(found, "Treat all these words as missing", every, "words", "primary")


def _words(found: Asked, columns: Sequence[ColumnLook]) -> Iterator[partial[None]]:
    for column in columns:
        if column.words:
            yield partial(_offer, found, words_told(column), _meant(column), f"words:{column.name}")


def _meant(column: ColumnLook) -> list[str]:
    return [meaning_none(column.name, word) for word, _ in column.words]


def _limits(found: Asked, columns: Sequence[ColumnLook]) -> Iterator[partial[None]]:
    return (partial(_offer_limits, found, column) for column in columns if column.limits)


def _totals(result: TableLook) -> Iterator[partial[None]]:
    """Rows that are no data are named; to make them rows with a value missing is not offered."""
    yield from (partial(line, totals_told(c.name, c.totals)) for c in result.columns if c.totals)
    yield from (partial(line, str(one)) for one in result.findings if one.kind == FindingKind.TOTALS)


def _codes(found: Asked, result: TableLook) -> Iterator[partial[None]]:
    least = "at least " if result.bad_rows.lost else ""  # rows that cannot be read may have more of them
    for column in result.columns:
        name = column.name
        for value, count in column.codes:
            said = f"'{name}' is {number(value, 15)} in {least}{plural(count, 'row')}, far from its other values."
            yield partial(_offer, found, said, [f"{name}={value:.15g}"], f"code:{name}:{value:.15g}")


def _zero_led(found: Asked, findings: Sequence[Finding]) -> Iterator[partial[None]]:
    return (partial(_offer_names, found, one) for one in findings if one.kind == FindingKind.ZERO_LED)


def _without_na(found: Asked, findings: Sequence[Finding]) -> Iterator[partial[None]]:
    return (partial(_offer_na, found, one) for one in findings if one.kind == FindingKind.WITHOUT_NA)


def _spellings(found: Asked, findings: Sequence[Finding]) -> Iterator[partial[None]]:
    return (partial(_offer_one, found, one) for one in findings if one.kind == FindingKind.SPELLINGS)


def _dates(found: Asked, columns: Sequence[ColumnLook]) -> Iterator[partial[None]]:
    return (partial(_offer_order, found, column) for column in columns if column.orders)


def _row() -> Any:
    return st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")


def _offer(found: Asked, said: str, texts: list[str], key: str) -> None:
    with _row():
        line(said)
        _button(found, TREAT, texts, key, "secondary")


def _offer_names(found: Asked, finding: Finding) -> None:
    with _row():
        line(finding.said)
        for text, knob in (("Read as names", "categorical"), ("Keep as numbers", "numeric")):
            now = [*found.read.get(knob, []), *finding.columns]
            st.button(
                text, key=f"gaps:{knob}", width="content", on_click=read_otherwise,
                args=(found, {**found.read, knob: now}),
            )  # fmt: skip


def _offer_na(found: Asked, finding: Finding) -> None:
    with _row():
        line(finding.said)
        st.button(
            KEEP_NA, key="gaps:na", width="content", on_click=read_otherwise,
            args=(found, {**found.read, finding.knob: list(finding.values)}),
        )  # fmt: skip


def _offer_one(found: Asked, finding: Finding) -> None:
    with _row():
        line(finding.said)
        now = [*found.read.get(ONE_SPELLING, []), *finding.columns]
        st.button(
            "Read as one", key=f"gaps:{ONE_SPELLING}", width="content", on_click=read_otherwise,
            args=(found, {**found.read, ONE_SPELLING: now}),
        )  # fmt: skip


def _offer_limits(found: Asked, column: ColumnLook) -> None:
    name = column.name
    with _row():
        line(limits_told(name, column.limits))
        for way, text in ways_of([column]).items():
            others = [entry for entry in found.read.get("limits", []) if not entry.startswith(f"{name}=")]
            st.button(
                text, key=f"gaps:limits:{name}:{way}", width="content", on_click=read_otherwise,
                args=(found, {**found.read, "limits": [*others, f"{name}={way}"]}),
            )  # fmt: skip


def _offer_order(found: Asked, column: ColumnLook) -> None:
    name = column.name
    with _row():
        line(f"Dates in '{name}' could be in another order; they are read as in {column.written}.")
        for order in column.orders:
            st.button(
                f"Read them {order}", key=f"gaps:dates:{name}:{order}", width="content", on_click=_read_dates,
                args=(found, name, order),
            )  # fmt: skip


def _read_dates(found: Asked, name: str, order: str) -> None:
    others = [entry for entry in found.read.get("dates", []) if not entry.startswith(f"{name}=")]
    read_otherwise(found, {**found.read, "dates": [*others, f"{name}={order}"]})


def _button(found: Asked, label: str, texts: list[str], key: str, kind: Any) -> None:
    st.button(label, key=f"gaps:{key}", type=kind, width="content", on_click=_treat, args=(found, texts))


def _treat(found: Asked, texts: list[str]) -> None:
    now = list(dict.fromkeys([*found.read.get("also_missing", []), *texts]))
    read_otherwise(found, {**found.read, "also_missing": now})
