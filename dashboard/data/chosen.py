"""What a person chose for the table at hand as a short list, each with its own way back, and one for all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from shoal.dashboard.data.options import read_otherwise
from shoal.dashboard.parts.literal import label, line
from shoal.dashboard.parts.wording import LABELS
from shoal.dashboard.tables import choices
from shoal.dashboard.tables.sources import Asked
from shoal.words import NA, list_text, shortened

SAID = {
    "also_missing": "{} is missing", "exclude": "without {}",
    "limits": "limits {}", "numeric": "{} as number", "categorical": "{} as names",
    "one_spelling": "{} in one spelling",
}  # fmt: skip
MOST = 8  # choices that have a button of their own; where they are more, one takes all back
LONGEST = 40  # letters of one


class Choice(NamedTuple):
    """One of them in words, and what undoes it."""

    said: str
    undo: partial[None]


def show(found: Asked) -> None:
    made = list(_made(found))
    if not made:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chosen"):
        line("Chosen for this table:")
        for place, choice in enumerate(made[:MOST]):
            st.button(
                label(shortened(choice.said, LONGEST)), icon=":material/close:", key=f"undo:{place}:{choice.said}",
                help=f"Undo: {label(choice.said)}", on_click=choice.undo, width="content",
            )  # fmt: skip
        if len(made) > MOST:
            line(f"and {len(made) - MOST:,} more")
        if found.read:
            forget = partial(read_otherwise, found, {})
            st.button("Forget all choices", icon=":material/undo:", key="forget", on_click=forget, width="content")


def _made(found: Asked) -> Iterator[Choice]:
    if "target" in found.address:
        yield Choice(f"predict {found.target}", partial(choices.predict, found, None))
    for knob, value in found.read.items():
        if knob == "missing":
            yield Choice(_tokens(value), partial(read_otherwise, found, _without(found, knob, None)))
            continue
        said = SAID.get(knob, f"{LABELS.get(knob, knob).lower()} {{}}")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            yield Choice(said.format(_worded(one)), partial(read_otherwise, found, _without(found, knob, one)))


def _tokens(texts: list[str]) -> str:
    """Which texts mean no value, of which there are many."""
    return f"{NA} is a name" if texts and NA not in texts else f"missing are {list_text(texts)}"


def _worded(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return {"\t": "tab", " ": "space"}.get(value, str(value))


def _without(found: Asked, knob: str, one: Any) -> dict[str, Any]:
    """What is read where this value of a knob is not chosen, and all else is."""
    value = found.read[knob]
    rest = [other for other in value if other != one] if isinstance(value, (list, tuple)) and one is not None else []
    others = {name: own for name, own in found.read.items() if name != knob}
    return {**others, knob: rest} if rest else others
