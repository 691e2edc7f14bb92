"""Choosing among the columns of a table: all in one list where they are few, else some, and any by a part of its name.

A browser is not sent a hundred thousand names, and nobody scrolls through them. What a choice means is the page's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import streamlit as st

from shoal.dashboard.parts import places
from shoal.dashboard.parts.literal import line
from shoal.words import plural

LISTED = 200  # names in one list; more are found by typing


def offered(names: Sequence[str], chosen: Iterable[str] = ()) -> list[str]:
    """The names that a list offers: all where they are few, else the first, and always those that are chosen."""
    first = list(islice(names, LISTED))
    known = set(first)
    return [*first, *(name for name in dict.fromkeys(chosen) if name not in known)]


def matching(names: Iterable[str], part: str) -> list[str]:
    """Those that have this text in them, whatever the case of its letters."""
    wanted = part.casefold()
    return [name for name in names if wanted in name.casefold()] if wanted else list(names)


def named(text: str | None, names: Sequence[str]) -> str | None:
    """The column that a typed text means: its name, or a part that no other has; None where that is not clear."""
    if text is None or text in names:
        return text
    found = matching(names, text.strip())
    return found[0] if len(found) == 1 else None


def pick_column(
    label: str, names: Sequence[str], now: str | None, name: str, choose: Callable[[str | None], None],
    tell: Callable[[str], None] = line, **more: Any,
) -> None:  # fmt: skip
    """A list with `now` chosen, which the address says; `choose` hears, as a callback, of another column or of none.

    Where columns are many, the list takes typed text: a name, or a part of one, which lists the columns that have
    it; `tell` says so.
    """
    asked: str = st.session_state.get(_asked(name), "")
    many = len(names) > LISTED
    if not many:
        options = list(names)
        if now is not None and now not in names:
            options.append(now)
    else:
        options = offered(matching(names, asked), [now] if now is not None else [])
    chooses = places.chooses(name, now, partial(_settle, name, names, choose))
    st.selectbox(label, options, index=None, accept_new_options=many, **chooses, **more)
    if many:
        tell(found_words(names, asked))


def _settle(name: str, names: Sequence[str], choose: Callable[[str | None], None], text: str | None) -> None:
    found = named(text, names)
    if text is not None and found is None:
        st.session_state[_asked(name)] = text.strip()
        return
    st.session_state.pop(_asked(name), None)
    choose(found)


def _asked(name: str) -> str:
    """Where a session keeps the part of a name that was typed; a form that begins anew does not forget it."""
    return f"asked~{name}"


def found_words(names: Sequence[str], asked: str) -> str:
    """What a list shows of many columns, and how to come to the others."""
    if not asked:
        return (
            f"The first {LISTED} of {len(names):,} are listed. "
            "To find another, type its name or a part of it, and press Enter."
        )
    count = len(matching(names, asked))
    if not count:
        return f"No column to choose has “{asked}” in its name."
    rest = f"; the first {LISTED} are listed" if count > LISTED else ""
    return f"{plural(count, 'column')} {'has' if count == 1 else 'have'} “{asked}” in the name{rest}."
