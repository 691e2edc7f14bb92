"""The form above the Tune page's panel: what to predict at first, folds, preparation; all of it kept in the address."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.forms.knob_widgets import KnobWidgets, forget
from shoal.dashboard.forms.problems import product_problems
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.picking import offered, pick_column
from shoal.dashboard.tables import choices
from shoal.dashboard.tables.sources import Asked
from shoal.errors import ConfigError, TrainingError
from shoal.settings.config import RunConfig
from shoal.settings.meaning import has_effect
from shoal.settings.values import page_config
from shoal.whatif.folds import FoldChoice
from shoal.words import plural

USUAL_FOLDS = 10
KNOBS = ("impute", "fill", "coding", "indicators", "standardize", "intercept", "test_every", "squares", "interactions")
WAYS = {
    "row": "row number", "hash": "chance", "group": "groups: rows with the same value stay together",
    "time": "time: always tested on what comes later",
}  # fmt: skip
STUDY = "study"  # the part of the address


@dataclass(frozen=True)
class StudyChoice:
    """How a table is prepared and tested; `knobs` are those of the config that differ from their defaults."""

    folds: int
    fold_by: str
    knobs: dict[str, Any]

    @classmethod
    def parse(cls, text: str) -> StudyChoice:
        """From an address."""
        try:
            said = json.loads(text)
            knobs = {name: said[name] for name in KNOBS if name in said}
            known = page_config("", knobs).as_dict()
            found = cls(
                int(said.get("folds", USUAL_FOLDS)), str(said.get("fold_by", "row")), {k: known[k] for k in knobs}
            )
            FoldChoice.parse(found.folds, found.fold_by)
        except (TypeError, ValueError, AttributeError, RecursionError):
            raise ConfigError(
                "The address asks for a preparation that cannot be understood. Choose it again."
            ) from None
        return found

    @property
    def text(self) -> str | None:
        """As in the address; None where nothing differs."""
        usual = RunConfig().as_dict()
        said: dict[str, Any] = {name: value for name, value in self.knobs.items() if value != usual[name]}
        if self.folds != USUAL_FOLDS:
            said["folds"] = self.folds
        if self.fold_by != "row":
            said["fold_by"] = self.fold_by
        return json.dumps(said, separators=(",", ":"), sort_keys=True) if said else None

    def config(self, found: Asked) -> RunConfig:
        """Of all columns: leaving some out later takes no look at the rows."""
        read = {knob: value for knob, value in found.read.items() if knob != "exclude"}
        return page_config(found.table.path, {**read, **self.knobs, "target": found.target})

    @property
    def summary(self) -> str:
        by, _, column = self.fold_by.partition(":")
        parts = [f"{self.folds} folds by {WAYS[by].partition(':')[0]}{f' ({column})' if column else ''}"]
        impute = self.knobs.get("impute", RunConfig.impute)
        parts.append(f"missing numbers: {wording.choice_for('impute', impute)}")
        parts.append("columns standardised" if self.knobs.get("standardize", True) else "columns as they are")
        if every := self.knobs.get("test_every"):
            parts.append(f"one row in {every} kept for testing")
        extra = len(self.knobs.get("squares", ())) + len(self.knobs.get("interactions", ()))
        if extra:
            parts.append(f"{plural(extra, 'square or product')}".replace("square or products", "squares or products"))
        return " · ".join(parts)


def study_form(found: Asked, result: dict[str, Any]) -> StudyChoice | None:
    """The choice that the address holds; None until there is something to predict."""
    choice = _asked_for()
    numbers = [column["name"] for column in result["columns"] if column["type"] == "numeric"]
    with st.container(horizontal=True, vertical_alignment="center"):
        size = f"{plural(result['rows'], 'row')}, {plural(len(result['columns']), 'column')}"
        st.caption(size, width="content")
        places.link("data", "See or change the data", icon=":material/table_view:", **found.address)
        places.link("train", "Train without tuning", icon=":material/model_training:", **found.address)
    if found.target not in numbers:
        _ask_target(found, numbers)
        return None
    line(choice.summary)
    with st.expander("How it is tested and prepared", icon=":material/tune:"):
        Preparation(found, result, choice).show()
    return choice


def _asked_for() -> StudyChoice:
    """The choice of the address; what cannot be is said, and the usual one is taken."""
    try:
        return StudyChoice.parse(st.query_params.get(STUDY, "{}"))
    except TrainingError as error:
        notice("warning", f"{wording.told(error)} The usual preparation is shown.")
        return StudyChoice(USUAL_FOLDS, "row", {})


def _ask_target(found: Asked, numbers: list[str]) -> None:
    """Nothing is summed before somebody says what is to be predicted."""
    if found.target:
        line(f"'{found.target}' is not a column of numbers in this table.")
    pick_column(
        "Column to predict", numbers, None, "tune:target", partial(choices.predict, found),
        placeholder="Choose a column of numbers",
    )  # fmt: skip


class Preparation:
    """The widgets; a change takes effect with the button, because it takes a pass over the rows."""

    def __init__(self, found: Asked, result: dict[str, Any], choice: StudyChoice) -> None:
        self.found, self.choice, self.prefix = found, choice, f"tune:{found.table.key}"
        self.types = {c["name"]: c["type"] for c in result["columns"]}
        self.columns = [c["name"] for c in result["columns"] if c["name"] != found.target]
        if st.session_state.get(f"{self.prefix}~said") != choice.text:
            forget(self.prefix)
            st.session_state[f"{self.prefix}~said"] = choice.text
        self.draft = dict(choice.knobs)
        numbers = [c["name"] for c in result["columns"] if c["type"] == "numeric" and c["name"] != found.target]
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
        chosen = StudyChoice(folds, fold_by, self.draft)
        problem = self._problem(chosen)
        if problem:
            notice("error", problem)
        same = chosen.text == self.choice.text
        st.button("Apply", type="primary", disabled=same or bool(problem), key="tune:apply",
                  on_click=places.amend, kwargs={STUDY: chosen.text})  # fmt: skip

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
        folds = left.number_input(
            "Folds", 2, 1000, self.choice.folds, key=f"{self.prefix}:folds",
            help="The model is fitted that often, each time tested on other rows.",
        )  # fmt: skip
        way = middle.selectbox(
            "Folds by", list(WAYS), list(WAYS).index(by), format_func=WAYS.__getitem__, key=f"{self.prefix}:way",
            help="Which rows are tested together.",
        )  # fmt: skip
        if way not in ("group", "time"):
            return int(folds), str(way)
        options = offered(self.columns, [column] if column in self.types else [])
        chosen = right.selectbox(
            "Column of the folds", options, options.index(column) if column in options else 0,
            key=f"{self.prefix}:fold column", accept_new_options=len(options) < len(self.columns),
            help="Groups or points in time; it can predict as well. Where columns are many, type its name.",
        )  # fmt: skip
        return int(folds), f"{way}:{chosen}"

    def _products(self) -> None:
        """Squares and products of columns; asked for where the config knows them."""
        self.widgets.ask("squares")
        self.widgets.ask("interactions")
