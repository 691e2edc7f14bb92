"""The form of a run, made from the knobs of the config; how one knob is drawn is in `knob_widgets`."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import streamlit as st

from shoal.dashboard.forms.knob_widgets import Draft, KnobWidgets, default_values, names_of
from shoal.dashboard.parts import places, widget_values
from shoal.dashboard.parts.literal import label
from shoal.dashboard.parts.picking import pick_column
from shoal.dashboard.parts.targets import HELP, PLACEHOLDER, likely_yes, offered_targets
from shoal.dashboard.parts.wording import (
    ABOUT_MODELS,
    ABOUT_MODES,
    ABOUT_SOLVERS,
    SOLVERS,
    alpha_help,
    help_for,
    label_for,
)
from shoal.errors import ConfigError
from shoal.results.answers.table import TableLook
from shoal.settings.checks import KNOB_GROUPS
from shoal.settings.config import RunConfig
from shoal.settings.meaning import FOR_NETWORK, has_effect
from shoal.settings.pairs import split_pair
from shoal.settings.when import LOSSES, MODELS, NETWORK, STEPPED
from shoal.words import shortened

NO_TEST, BY_INDEX, BY_HASH = "None", "Every k-th", "By hash"
ENOUGH_TO_SPLIT = 50  # rows; with fewer, keeping a fifth for testing costs more than it tells
USUAL_EVERY, USUAL_SHARE = 5, 0.2
FOLDED = (
    "model",
    "table",
    "split",
    "schedule",
    "workers",
    "feed",
    "computing",
    "stopping",
    "safety",
)  # in the order of a run
# What comes with another choice comes last, so that nothing else moves when it does.
OPEN_STEPS = (
    "learning_rate", "schedule", "compression", "step_rule",
    "staleness", "local_steps", "momentum", "weight_decay", "decay", "decay_every", "top_k",
)  # fmt: skip
ACROSS = 3  # knobs side by side
PRODUCTS = ("squares", "interactions")


def first_draft(rows: int) -> Draft:
    """Where a form begins: the config's defaults, but with rows to test on where there are enough."""
    return {"test_every": USUAL_EVERY} if rows >= ENOUGH_TO_SPLIT else {}


def used_columns(values: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """The columns of a table that a draft predicts from, in their order."""
    chosen, gone = set(values["features"] or columns), {values["target"], *values["exclude"]}
    return [name for name in columns if name in chosen and name not in gone]


def _stays(pair: str, used: Collection[str], columns: Collection[str]) -> bool:
    """Whether a pair is of columns that are used; one that nobody understands is for the card to tell."""
    try:
        return all(name in used for name in split_pair(pair, columns))
    except ConfigError:
        return True


def _mark(names: Sequence[str]) -> str:
    """A part of a widget's key that stands for these names."""
    return f"{zlib.crc32(json.dumps(list(names)).encode()):x}"


def is_switch(knob: str) -> bool:
    return str(RunConfig.knobs()[knob].type) == "bool"


class ModelForm:
    """The widgets of one draft; `found` is what the look at the table saw, `predict` hears of another target."""

    def __init__(self, prefix: str, draft: Draft, found: TableLook, predict: Callable[[str | None], None]) -> None:
        self.draft, self.predict = draft, predict
        self.columns = list(found.named)
        self.targets = offered_targets(found)
        self.measured = {c.name for c in found.columns if c.is_measured}
        self.pairs = {c.name: pair for c in found.columns if (pair := likely_yes(c))}
        levels = [f"{c.name}={level}" for c in found.columns for level in c.levels or ()]
        self.widgets = KnobWidgets(prefix, draft, self.columns, levels=levels)
        self.prefix = prefix

    @property
    def values(self) -> Draft:
        """All knobs, those of the draft and the defaults of the rest."""
        return {**default_values(), **self.draft}

    def show(self) -> None:
        """Draw the form; afterwards the draft holds what a person chose."""
        with st.container(border=True):
            st.header("What to predict", anchor=False)
            self._what()
        with st.container(border=True):
            st.header("Columns and rows", anchor=False)
            self._columns()
            self._split()
        with st.container(border=True):
            st.header("How to solve it", anchor=False)
            self._solver()
        with st.expander("More options", icon=":material/tune:"):
            self._more()

    def ask(self, *knobs: str) -> None:
        """Those of the knobs that mean anything beside the ones before them, side by side."""
        slots: list[Any] = []
        for knob in knobs:
            if has_effect(knob, self.values):
                slots = slots or list(st.columns(ACROSS))
                with slots.pop(0):
                    self.widgets.ask(knob, **self._otherwise(knob))

    def _otherwise(self, knob: str) -> dict[str, str]:
        """Levels to compare with are in the address, and so have another widget in each turn of it."""
        if knob == "reference":
            return {"key": places.key(self.widgets.key(knob))}
        if knob != "alpha" or self.values["model"] not in LOSSES:
            return {}
        return {"help": alpha_help(self.values["model"])}

    # ---------------------------------------------------------------- the open part

    def _what(self) -> None:
        left, right = st.columns([2, 3])
        with left:
            self._target()
        with right:
            model = self.widgets.ask("model")
            st.caption(ABOUT_MODELS[model])
        self._suit_network(model == NETWORK)
        self._yes()
        self.ask("huber_epsilon", "quantile", "hidden")
        self.ask("shrink", "alpha", "l1_ratio")

    def _yes(self) -> None:
        """Whose probability is predicted: one of the target's two values where they are known, the likely one at first.

        It is not said in the draft while it is the likely one, so that another target finds its own."""
        found = self.pairs.get(self.draft["target"]) if has_effect("positive", self.values) else None
        if found is None:
            return
        names, usual = found
        now = self.draft.get("positive") or usual
        options = names if now in names else [*names, now]  # what the file does not have is refused in words elsewhere
        key = self.widgets.key("positive", _mark([self.draft["target"], *names]))
        widget_values.begin(key, now)
        chosen = st.segmented_control(
            label_for("positive"), options, required=True, key=key, format_func=lambda name: label(shortened(name, 40)),
            help=help_for("positive"),
        )  # fmt: skip
        self.draft["positive"] = "" if chosen in (None, usual) else chosen

    def _suit_network(self, chosen: bool) -> None:
        """A network begins with knobs of its own, once it is chosen, and leaves with them."""
        key = self.widgets.key("~layers")
        before = st.session_state.setdefault(key, chosen)
        if before == chosen:
            return
        st.session_state[key] = chosen
        for knob in FOR_NETWORK.keys() - {"test_fraction"}:
            self.draft[knob] = FOR_NETWORK[knob] if chosen else default_values()[knob]
            st.session_state.pop(self.widgets.key(knob), None)
        if chosen and not (self.draft.get("test_every") or self.draft.get("test_fraction")):
            self.draft["test_fraction"] = USUAL_SHARE
            st.session_state.pop(self.widgets.key("split"), None)

    def _target(self) -> None:
        now = self.draft.get("target") or None
        pick_column(
            label_for("target"), self.targets, now, self.widgets.key("target"), self._retarget,
            placeholder=PLACEHOLDER, help=HELP,
        )  # fmt: skip
        self.draft["target"] = now or ""

    def _retarget(self, chosen: str | None) -> None:
        """Whoever holds the form keeps the column to predict, so that a reload has it."""
        self.draft["target"] = chosen or ""
        self.predict(chosen)

    def _columns(self) -> None:
        target = self.draft.get("target", "")
        for slot, knob, empty in zip(
            st.columns(2), ("features", "exclude"), ("all that can be used", "none"), strict=True
        ):
            said = self.widgets.value(knob)
            before = [name for name in said if name != target]
            others = KnobWidgets(
                self.prefix, {**self.draft, knob: before}, [name for name in self.columns if name != target]
            )
            with slot:  # a key for each target: the columns on offer are others then
                names = others.ask(knob, placeholder=empty, key=places.key(self.widgets.key(knob, target or "-")))
            # The target is on no list that is shown, and keeps its place on this one for when another is predicted.
            kept = [name for name in said if name == target]
            self.draft[knob] = list(said) if names == before else [*names, *kept]

    def _split(self) -> None:
        """How rows are kept apart to test on: two knobs of which only one may be set."""
        every, share = self.widgets.value("test_every"), self.widgets.value("test_fraction")
        left, right = st.columns([3, 2])
        key = self.widgets.key("split")
        widget_values.begin(key, BY_HASH if share else BY_INDEX if every else NO_TEST)
        with left:
            way = st.segmented_control(
                "Rows kept for testing", (NO_TEST, BY_INDEX, BY_HASH), required=True, key=key,
                help="The model does not see these rows, so its scores on them are honest. By hash: some at random, "
                "the same ones every time.",
            )  # fmt: skip
        self.draft["test_every"] = (every or USUAL_EVERY) if way == BY_INDEX else 0
        self.draft["test_fraction"] = (share or USUAL_SHARE) if way == BY_HASH else 0.0
        with right:
            if way == BY_INDEX:
                self.widgets.ask("test_every", min_value=2)
            elif way == BY_HASH:
                self.widgets.ask("test_fraction", min_value=0.01)

    def _solver(self) -> None:
        if self.values["model"] == NETWORK:
            self.draft["solver"] = "gradient"
            st.caption(
                "By gradient steps of worker processes. A fifth of the training rows says when to stop, and the result "
                "stands beside the exact linear model on the same test rows. It needs PyTorch."
            )
            self._gradient()
            return
        if self.values["model"] not in (*MODELS, *STEPPED):  # a choice that would be refused is none
            self.draft["solver"] = "exact"
            st.caption(
                "Exactly: a few passes over the rows, and a proof that no better fit exists. "
                f"There are no gradient steps of {self.values['model']} models."
            )
            return
        key = self.widgets.key("solver")
        widget_values.begin(key, self.widgets.value("solver"))
        solver = st.radio(
            label_for("solver"), list(SOLVERS), key=key, format_func=SOLVERS.__getitem__,
            captions=list(ABOUT_SOLVERS.values()), horizontal=True, label_visibility="collapsed",
        )  # fmt: skip
        self.draft["solver"] = solver
        if solver == "gradient":
            self._gradient()

    def _gradient(self) -> None:
        mode = self.widgets.ask("mode", side_by_side=True)
        st.caption(ABOUT_MODES[mode])
        self.ask("workers", "epochs", "batch_size", *OPEN_STEPS)

    # ---------------------------------------------------------------- the folded part

    def _more(self) -> None:
        for group in FOLDED:
            folded = self.folded(group)
            if knobs := [knob for knob in folded if has_effect(knob, self.values)]:
                st.markdown(f"**{KNOB_GROUPS[group]}**")
                self._switches([knob for knob in knobs if is_switch(knob)])
                # All of them: one may come to mean something by the choice that is made in another just now.
                self.ask(*[knob for knob in folded if not is_switch(knob) and knob not in PRODUCTS])
                if group == "table":
                    self._products()

    def _products(self) -> None:
        """Squares and interactions, of columns that are used; what was chosen of others goes with them."""
        used = used_columns(self.values, self.columns)
        of_use, known = set(used), set(self.columns)
        kept = {
            "squares": [name for name in self.widgets.value("squares") if name in of_use or name not in known],
            "interactions": [pair for pair in self.widgets.value("interactions") if _stays(pair, of_use, known)],
        }
        numbers = [name for name in used if name in self.measured]
        about = _mark(used)  # a key for each choice of columns, as above
        for slot, knob, empty in zip(st.columns(2), PRODUCTS, ("none", "none: type a:b or choose"), strict=True):
            self.draft[knob] = kept[knob]
            with slot:
                among = KnobWidgets(self.prefix, self.draft, used, numbers)
                among.ask(knob, placeholder=empty, key=self.widgets.key(knob, about))

    def _switches(self, knobs: list[str]) -> None:
        """In a row, each as wide as its words."""
        if knobs:
            with st.container(horizontal=True, gap="medium"):
                for knob in knobs:
                    self.widgets.ask(knob)

    def folded(self, group: str) -> list[str]:
        """The knobs of a group that the open part does not ask for."""
        gradient = self.widgets.value("solver") == "gradient"
        return [
            name
            for name, knob in RunConfig.knobs().items()
            if knob.metadata["group"] == group
            and not knob.metadata.get("open")
            and not (name == "workers" and gradient)
            and not (name == "positive" and self.draft.get("target") in self.pairs)
            and self._has_names(name)
        ]

    def _has_names(self, knob: str) -> bool:
        """A knob that takes plug-ins only is not worth a look where none is installed."""
        group = RunConfig.knobs()[knob].metadata.get("plugins")
        return not group or knob == "step_rule" or bool(names_of(group) or self.draft.get(knob))
