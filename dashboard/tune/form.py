"""The form above the Tune page's panel: what to predict at first, folds, preparation; all of it kept in the address."""

from __future__ import annotations

import json
from dataclasses import field
from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.forms.handed import KEPT, KNOBS, NOTHING, STUDY, differing, study_text
from shoal.dashboard.forms.knob_widgets import KnobWidgets, forget
from shoal.dashboard.forms.model_form import ENOUGH_TO_SPLIT, USUAL_EVERY
from shoal.dashboard.forms.problems import product_problems
from shoal.dashboard.parts import places, widget_values, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.picking import offered, pick_column
from shoal.dashboard.parts.targets import PLACEHOLDER, SUITED, suited_model, tunable, why_not_tuned
from shoal.dashboard.tables import at_hand, choices
from shoal.dashboard.tables.sources import Asked
from shoal.errors import ConfigError, TrainingError
from shoal.lazy.classes import dataclass
from shoal.results.answers.table import TableLook
from shoal.settings.config import RunConfig
from shoal.settings.meaning import has_effect
from shoal.settings.values import page_config
from shoal.settings.when import CLASSES
from shoal.whatif.folds import FoldChoice
from shoal.words import listed, plural

USUAL_FOLDS = 10
BY_CLASS = "class"  # as logistic models have them; nobody has to choose it
BY_CLASS_WORDS = "class: each has its share of all values"
LOSS = "loss"  # the part of the address that says the kind of model
WAYS = {
    "row": "row number", "hash": "hash", "group": "groups: rows with the same value stay together",
    "time": "time: always tested on what comes later",
}  # fmt: skip


@dataclass(frozen=True)
class StudyChoice:
    """How a table is prepared and tested; `knobs` are those of the config that differ from their defaults."""

    folds: int = USUAL_FOLDS
    fold_by: str = "row"
    knobs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def usual(cls, rows: int) -> StudyChoice:
        """Where one begins: with the rows for testing that Train keeps as well, and folds that share out the others
        evenly, which those by row number would not."""
        return cls(USUAL_FOLDS, "hash", {"test_every": USUAL_EVERY}) if rows >= ENOUGH_TO_SPLIT else cls()

    @classmethod
    def parse(cls, text: str, rows: int = 0) -> StudyChoice:
        """From an address, which says only what is not as usual for so many rows."""
        usual = cls.usual(rows)
        try:
            said = json.loads(text)
            knobs = {**usual.knobs, **{name: said[name] for name in KNOBS if name in said}}
            known = page_config("", knobs).as_dict()
            found = cls(
                int(said.get("folds", usual.folds)), str(said.get("fold_by", usual.fold_by)),
                {k: known[k] for k in knobs},
            )  # fmt: skip
            if FoldChoice.parse(found.folds, found.fold_by).by not in WAYS:
                raise ValueError(found.fold_by)
        except (TypeError, ValueError, AttributeError, RecursionError):
            raise ConfigError(
                "The address asks for a preparation that cannot be understood. Choose it again."
            ) from None
        return found

    def text(self, rows: int = 0) -> str | None:
        """As in the address of a table with so many rows; None where nothing differs from what is usual for it."""
        usual, said = self.usual(rows), differing(self.knobs, rows)
        if self.folds != usual.folds:
            said["folds"] = self.folds
        if self.fold_by != usual.fold_by:
            said["fold_by"] = self.fold_by
        return study_text(said)

    def config(self, found: Asked) -> RunConfig:
        """Of all columns: leaving some out later takes no look at the rows."""
        read = {knob: value for knob, value in found.read.items() if knob != "exclude"}
        features = [name for name in self.knobs.get("features", ()) if name != found.target]
        return page_config(found.table.path, {**read, **self.knobs, "features": features, "target": found.target})

    def folds_for(self, model: str) -> str:
        """Of targets of classes every fold has its share, unless groups or time make them."""
        return BY_CLASS if model in ("logistic", CLASSES) and self.fold_by in ("row", "hash") else self.fold_by

    def ways_for(self, model: str) -> dict[str, str]:
        """How folds can be made, in words; of targets of classes those by row and by hash are one, by class."""
        if model not in ("logistic", CLASSES):
            return WAYS
        own = self.fold_by if self.fold_by in ("row", "hash") else "hash"
        return {own: BY_CLASS_WORDS, **{way: words for way, words in WAYS.items() if way in ("group", "time")}}

    def summary_for(self, model: str) -> str:
        by, _, column = self.folds_for(model).partition(":")
        way = by if by == BY_CLASS else WAYS[by].partition(":")[0]
        parts = [f"{self.folds} folds by {way}{f' ({column})' if column else ''}"]
        impute = self.knobs.get("impute", RunConfig.impute)
        parts.append(f"missing numbers: {wording.choice_for('impute', impute)}")
        parts.append("columns standardised" if self.knobs.get("standardize", True) else "columns as they are")
        if every := self.knobs.get("test_every"):
            parts.append(f"one row in {every} kept for testing")
        extra = len(self.knobs.get("squares", ())) + len(self.knobs.get("interactions", ()))
        if extra:
            parts.append(f"{plural(extra, 'square or product')}".replace("square or products", "squares or products"))
        if shapes := self.knobs.get("transform"):
            parts.append(f"{plural(len(shapes), 'column')} in other shapes")
        return " · ".join(parts)

    @property
    def rows_count(self) -> str:
        """How rows are weighted, in one line; empty where all count alike."""
        column = self.knobs.get("weights")
        meaning = self.knobs.get("weights_are", RunConfig.weights_are)
        return f"Rows count by '{column}' ({meaning})." if column else ""

    @property
    def from_train(self) -> str:
        """What was chosen on Train and is kept here without a field for it; empty where nothing was."""
        usual = RunConfig().as_dict()
        kept = [name for name in KEPT if self.knobs.get(name, usual[name]) != usual[name]]
        return f"As chosen on Train: {' · '.join(map(self._told, kept))}." if kept else ""

    def _told(self, knob: str) -> str:
        value = self.knobs[knob]
        return f"{wording.label_for(knob)}: {listed(value) if isinstance(value, (list, tuple)) else value}"


def study_form(found: Asked, result: TableLook) -> StudyChoice | None:
    """The choice that the address holds; None until there is something to predict."""
    choice = _asked_for(result.rows)
    text = choice.text(result.rows)
    with st.container(horizontal=True, vertical_alignment="center"):
        size = f"{plural(result.rows, 'row')}, {plural(len(result.columns), 'column')}"
        st.caption(size, width="content")
        places.link("data", "See or change the data", icon=":material/table_view:", **found.address)
        places.link("train", "Train without tuning", icon=":material/model_training:", **found.address,
                    **({STUDY: text} if text else {}))  # fmt: skip
    if not found.target or why_not_tuned(result, found.target):
        _ask_target(found, result)
        return None
    model = suited_model(result, found.target) or st.query_params.get(LOSS, "")
    for words in filter(None, (choice.summary_for(model), choice.rows_count, choice.from_train)):
        line(words)
    with st.expander("How it is tested and prepared", icon=":material/tune:"):
        Preparation(found, result, choice, model).show()
    return choice


def _asked_for(rows: int) -> StudyChoice:
    """The choice of the address; what cannot be is said, and the usual one is taken."""
    try:
        return StudyChoice.parse(st.query_params.get(STUDY, "{}"), rows)
    except TrainingError as error:
        notice("warning", f"{wording.told(error)} The usual preparation is shown.")
        return StudyChoice.usual(rows)


def _ask_target(found: Asked, result: TableLook) -> None:
    """Nothing is summed before somebody says what is to be predicted."""
    if found.target:
        line(why_not_tuned(result, found.target))
        if model := suited_model(result, found.target):
            name = wording.choice_for("model", model)
            places.link("train", f"Fit: {name}", ":material/model_training:", **{**found.address, SUITED: model})
    targets = tunable(result)
    pick_column(
        "Column to predict", targets, found.target if found.target in targets else None, "tune:target",
        partial(choices.predict, found), placeholder=PLACEHOLDER,
        help="Tuning is for columns of numbers, and of up to 50 texts such as yes and no.",
    )  # fmt: skip


def apply_study(said: str | None) -> None:
    """Another study, here; Train begins with the same."""
    places.amend(**{STUDY: said})
    at_hand.hand_over("train", STUDY, said or NOTHING)


class Preparation:
    """The widgets; a change takes effect with the button, because it takes a pass over the rows."""

    def __init__(self, found: Asked, result: TableLook, choice: StudyChoice, model: str) -> None:
        self.found, self.choice, self.prefix = found, choice, f"tune:{found.table.key}"
        self.ways = choice.ways_for(model)
        self.rows = result.rows
        self.types = {c.name: c.type for c in result.columns}
        self.columns = [c.name for c in result.columns if c.name != found.target]
        if st.session_state.get(f"{self.prefix}~said") != choice.text(self.rows):
            forget(self.prefix)
            st.session_state[f"{self.prefix}~said"] = choice.text(self.rows)
        self.draft = dict(choice.knobs)
        numbers = [c.name for c in result.columns if c.type == "numeric" and c.name != found.target]
        self.widgets = KnobWidgets(self.prefix, self.draft, self.columns, numbers)

    def show(self) -> None:
        folds, fold_by = self._folds()
        left, middle, right = st.columns(3)
        with left:
            self.widgets.ask("impute")
            self.widgets.ask("test_every", help="Rows whose number this divides are kept apart from folds; 0 for none.")
        with middle:
            self.widgets.ask("coding")
            if has_effect("fill", {**RunConfig().as_dict(), **self.draft}):
                self.widgets.ask("fill")
        with right:
            self.widgets.ask("standardize")
            self.widgets.ask("intercept")
            self.widgets.ask("indicators")
        self._products()
        values = {**RunConfig().as_dict(), **self.draft}
        chosen = StudyChoice(folds, fold_by, {k: v for k, v in self.draft.items() if has_effect(k, values)})
        problem = self._problem(chosen)
        if problem:
            notice("error", problem)
        said = chosen.text(self.rows)
        same = said == self.choice.text(self.rows)
        st.button("Apply", type="primary", disabled=same or bool(problem), key="tune:apply",
                  on_click=apply_study, args=(said,))  # fmt: skip

    def _problem(self, chosen: StudyChoice) -> str:
        """Why this cannot be applied; empty if it can."""
        try:
            config = chosen.config(self.found)
        except TrainingError as error:
            return wording.told(error)
        return " ".join(product_problems(config, self.types))

    def _folds(self) -> tuple[int, str]:
        by, _, column = self.choice.fold_by.partition(":")
        left, middle, right = st.columns(3)
        # Values are given, not only begun with: a browser keeps what a field of the same key had at another address.
        folds = left.number_input(
            "Folds", 2, 1000, key=widget_values.begin(f"{self.prefix}:folds", self.choice.folds),
            help="The model is fitted that often, each time tested on other rows.",
        )  # fmt: skip
        way = middle.selectbox(
            "Folds by", list(self.ways), format_func=self.ways.__getitem__,
            key=widget_values.begin(f"{self.prefix}:way:{'-'.join(self.ways)}", by),
            help="Which rows are tested together.",
        )  # fmt: skip
        if way not in ("group", "time"):
            return int(folds), str(way)
        options = offered(self.columns, [column] if column in self.types else [])
        begun = column if column in options else next(iter(options), None)
        chosen = right.selectbox(
            "Column of the folds", options, key=widget_values.begin(f"{self.prefix}:fold column", begun),
            accept_new_options=len(options) < len(self.columns),
            help="Groups or points in time; it can predict as well. Where columns are many, type its name.",
        )  # fmt: skip
        return int(folds), f"{way}:{chosen}"

    def _products(self) -> None:
        """Squares and products of columns, other shapes of them, and how much rows count."""
        for knob in ("squares", "interactions", "transform"):
            self.widgets.ask(knob)
        left, right = st.columns(2)
        with left:
            self.widgets.ask("weights")
        if self.draft["weights"]:
            with right:
                self.widgets.ask("weights_are")
