"""From a knob of the config to its widget: one builder for all of them. Which knobs are asked for is the form's."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import streamlit as st

from shoal import plugins
from shoal.dashboard.parts import widget_values
from shoal.dashboard.parts.picking import LISTED, offered
from shoal.dashboard.parts.wording import choice_for, default_of, help_for, label_for
from shoal.errors import ConfigError
from shoal.settings.checks import RANGES
from shoal.settings.config import RunConfig
from shoal.settings.pairs import pair_text
from shoal.settings.transforms import STEP

LARGEST_WHOLE = 2**53 - 1  # a browser holds no larger whole number
SHORT = 3  # choices that fit side by side
PAIRED = 40  # columns of which all pairs are on offer; others can be typed
SHAPED = 40  # columns of numbers whose usual shapes are on offer; others can be typed
FEWER_PAIRED = 20  # the same of a table with very many columns

Draft = dict[str, Any]


def default_values() -> Draft:
    """Every knob as the config has it."""
    return {name: default_of(name) for name in RunConfig.knobs()}


def filled_in(draft: Draft, begun: Draft, elsewhere: Collection[str] = ()) -> Draft:
    """What of a draft is not as the form begins with it; those that are kept `elsewhere` are left out."""
    usual = {**default_values(), **begun}
    return {
        knob: value
        for knob, value in draft.items()
        if knob not in elsewhere and _plain(value) != _plain(usual.get(knob))
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


class KnobWidgets:
    """Widgets that read a draft (knob to value) and write back what a person chose.

    A widget's own state goes when it is not drawn; the draft stays, so that a knob that is hidden for a while, or a
    page that is left, comes back as it was. `forget` lets the widgets follow a draft that something else has changed.
    """

    def __init__(
        self, prefix: str, draft: Draft, columns: Sequence[str], numbers: Sequence[str] | None = None,
        levels: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.prefix, self.draft, self.columns, self.levels = prefix, draft, columns, levels
        self.numbers = columns if numbers is None else numbers

    def value(self, knob: str) -> Any:
        return self.draft.get(knob, default_of(knob))

    def key(self, knob: str, about: str = "") -> str:
        return f"{self.prefix}:{knob}:{about}" if about else f"{self.prefix}:{knob}"

    def ask(self, knob: str, **more: Any) -> Any:
        """Draw the widget that suits the knob; its value is in the draft afterwards, and returned."""
        field = RunConfig.knobs()[knob]
        kind = str(field.type).removesuffix(" | None")
        if "choices" in field.metadata or "known" in field.metadata:
            only = more.pop("only", None)
            self.draft[knob] = self._choice(knob, only or names_for(knob, self.value(knob)), **more)
        elif kind == "bool":
            self.draft[knob] = self._widget(st.toggle, knob, self.value(knob), **more)
        elif kind in ("int", "float"):
            self.draft[knob] = self._number(field, **more)
        elif field.metadata.get("of") == "weights":
            options = ["", *offered(self.numbers, [now] if (now := str(self.value(knob))) else [])]
            none = {"": field.metadata["blank"]}
            self.draft[knob] = self._widget(
                st.selectbox, knob, now, options=options, format_func=lambda name: none.get(name, name), **more
            )
        elif kind.startswith("tuple"):
            self.draft[knob] = self._names(knob, **more)
        else:
            self.draft[knob] = self._widget(st.text_input, knob, self.value(knob) or "", **more)
        return self.draft[knob]

    def _widget(self, draw: Callable[..., Any], knob: str, now: Any, **more: Any) -> Any:
        key = more.pop("key", self.key(knob))
        widget_values.begin(key, now)
        common = {"label": label_for(knob), "help": help_for(knob), "key": key}
        return draw(**{**common, **more, **_told(draw, now, more)})

    def _choice(self, knob: str, options: Sequence[str], **more: Any) -> str:
        words = {option: choice_for(knob, option) for option in options}
        now = self.value(knob)
        draw: Callable[..., Any] = st.selectbox
        if more.pop("side_by_side", len(options) <= SHORT and max(map(len, words.values())) <= 12):
            draw, more = st.segmented_control, {"required": True, **more}
        chosen = self._widget(draw, knob, now, options=options, format_func=words.__getitem__, **more)
        return now if chosen is None else str(chosen)

    def _number(self, field: dataclasses.Field[Any], **more: Any) -> Any:
        knob, blank = field.name, field.metadata.get("blank")
        kind = float if str(field.type).startswith("float") else int
        now, auto = self.value(knob), field.metadata.get("auto", 0)
        nothing = None if auto is None else kind(auto)
        if kind is int and abs(now) > LARGEST_WHOLE:
            return self._too_large(knob, now)
        low, high = _ends(knob, kind)
        if blank and low is not None and nothing is not None and low <= nothing:
            low = low if kind is float else nothing + 1
        ends = {"min_value": low, "max_value": high, "step": field.metadata.get("step"), "placeholder": blank}
        shown = None if blank and now == nothing else kind(now)
        format_ = {"format": "%g"} if kind is float else {}
        empty = {"value": None} if blank else {}
        chosen = self._widget(st.number_input, knob, shown, **{**ends, **format_, **empty, **more})
        return nothing if chosen is None and blank else now if chosen is None else kind(chosen)

    def _too_large(self, knob: str, now: int) -> int:
        st.text_input(
            label_for(knob), str(now), disabled=True, help=f"{help_for(knob)} So large a number is set in YAML."
        )
        return now

    def _names(self, knob: str, **more: Any) -> list[str]:
        now = list(self.value(knob))
        names, pairs = (
            self._options(knob),
            RunConfig.knobs()[knob].metadata.get("of") in ("pairs", "levels", "transforms"),
        )
        options = [*dict.fromkeys([*names, *now])] if pairs else offered(names, now)
        many = not pairs and len(names) > LISTED
        if pairs or many:
            more = {"accept_new_options": True, **more}  # an unknown one is shown, and said to be so elsewhere
        if many:
            how = f"The first {LISTED} are listed; others are typed by their name."
            more = {"help": f"{help_for(knob)} {how}", **more}
        # Enter takes the name that is marked; Streamlit's own first line would take all that have the typed text.
        more = {"select_all": False, "filter_mode": "contains", **more}
        chosen: list[str] = self._widget(st.multiselect, knob, now, options=options, **more)
        return chosen

    def _options(self, knob: str) -> list[str]:
        metadata = RunConfig.knobs()[knob].metadata
        if "plugins" in metadata:
            return names_of(metadata["plugins"])
        if metadata.get("of") == "pairs":
            few = list(self.columns)[: PAIRED if len(self.columns) <= LISTED else FEWER_PAIRED]
            return [pair_text(a, b) for a, b in itertools.combinations(few, 2)]
        if metadata.get("of") == "transforms":
            ways = ("log", "sqrt", "bins(5)", "spline(5)", *(STEP + step for step in names_of(plugins.COLUMN_STEPS)))
            return [f"{name}={how}" for name in self.numbers[:SHAPED] for how in ways]
        of = {"numbers": self.numbers, "levels": self.levels[:LISTED]}
        return list(of.get(metadata.get("of", ""), self.columns))


def _told(draw: Callable[..., Any], now: Any, more: dict[str, Any]) -> dict[str, Any]:
    """What tells a browser the value with every drawing, as that with which a widget begins. It is known by its key, so
    this changes nothing for one that is there. What is in the session's state is told once, and is lost where that
    drawing is cut off: the browser then showed toggles as off, and a fit had no intercept."""
    if draw in (st.toggle, st.text_input):
        return {"value": now}
    if draw is st.selectbox:
        options = list(more["options"])
        return {"index": options.index(now)} if now in options else {}
    if draw in (st.segmented_control, st.multiselect):
        return {"default": now}
    if "value" in more:  # one that may be emptied begins empty, or whoever empties it would have the value back
        return {}
    low, high = more.get("min_value"), more.get("max_value")
    within = now is not None and (low is None or low <= now) and (high is None or now <= high)
    return {"value": now} if within else {}


def _ends(knob: str, kind: type) -> tuple[Any, Any]:
    low, high = RANGES.get(knob, (-LARGEST_WHOLE, LARGEST_WHOLE) if kind is int else (-math.inf, math.inf))
    return (None if math.isinf(low) else kind(low)), (None if math.isinf(high) else kind(high))


def names_for(knob: str, now: str) -> list[str]:
    """The choices of a knob: fixed ones, or built-in names and those of plug-ins, and always the present one."""
    metadata = RunConfig.knobs()[knob].metadata
    names = [name for name in metadata.get("choices") or metadata["known"] if name not in metadata.get("unlisted", ())]
    if "plugins" in metadata:
        names += [name for name in names_of(metadata["plugins"]) if name not in names]
    return names if now in names else [*names, now]


@st.cache_data(ttl=60, show_spinner=False)
def names_of(group: str) -> list[str]:
    """Plug-ins by name; a broken one is no reason not to show the form."""
    try:
        return plugins.names(group)
    except ConfigError:
        return []


def forget(prefix: str) -> None:
    """Let all widgets of a form begin anew from its draft; fit for callbacks."""
    for key in [key for key in st.session_state if str(key).startswith(f"{prefix}:")]:
        del st.session_state[key]
