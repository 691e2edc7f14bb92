"""The form of a search: what to predict, which values of which knobs to try, and for how long."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.forms.knob_widgets import Draft, KnobWidgets, forget, names_for
from shoal.dashboard.forms.model_form import first_draft
from shoal.dashboard.forms.problems import TRAIN_DRAFTS, problems_of
from shoal.dashboard.parts import widget_values, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.picking import pick_column
from shoal.dashboard.parts.targets import PLACEHOLDER, predictable
from shoal.dashboard.parts.wording import ABOUT_MODELS, choice_for, help_for, label_for
from shoal.dashboard.tables import choices, filled
from shoal.dashboard.tables.sources import Asked
from shoal.errors import ConfigError, TrainingError
from shoal.people.deeds import why_not
from shoal.people.rights import SERVICE, Verb
from shoal.results.answers.table import TableLook
from shoal.runs import slots
from shoal.search.folder import OURS, Search, side_by_side, start, trial_config
from shoal.search.plan import PASSES, SearchPlan
from shoal.search.space import KNOBS, Choices, chosen_space, combinations, example, value_text
from shoal.settings.config import RunConfig
from shoal.settings.meaning import has_effect
from shoal.settings.values import page_config
from shoal.settings.when import LOSSES, MODELS
from shoal.words import duration, plural

DRAFTS = "search:drafts"
PILLS = ("mode", "step_rule", "schedule", "compression", "batch_size")  # by their choices
TEXTS = tuple(knob for knob in KNOBS if knob not in PILLS)
REACHES = {"1e-3": "0.1 %", "1e-4": "0.01 %", "1e-6": "a millionth", "1e-8": "a hundred-millionth"}


def drafts() -> dict[str, Draft]:
    found: dict[str, Draft] = st.session_state.setdefault(DRAFTS, {})
    return found


class SearchForm:
    """The widgets of one draft and the button; `result` is what the look at the table saw."""

    def __init__(self, found: Asked, result: TableLook) -> None:
        self.found, self.result, self.prefix = found, result, f"search:{found.table.key}"
        known = drafts()
        if found.table.key not in known:
            known[found.table.key] = filled.kept(found.table.key, filled.SEARCH) or _begin(found, result)
        self.draft = known[found.table.key]
        self.draft["target"] = found.target or ""
        self.widgets = KnobWidgets(self.prefix, self.draft, list(result.named))

    def show(self) -> Search | None:
        """Draw it; the search, once it is started."""
        left, right = st.columns([7, 3], gap="large")
        with left, st.container(key="search-form"):
            with st.container(border=True):
                st.header("What to predict", anchor=False)
                self._what()
            with st.container(border=True):
                st.header("What to try", anchor=False)
                wishes = self._wishes()
            with st.container(border=True):
                st.header("How long", anchor=False)
                limits = self._limits()
            self._keep()
        with right, st.container(key="search-card"), st.container(border=True):
            return self._card(wishes, limits)

    def _keep(self) -> None:
        """What was filled in is there tomorrow too, from the first change on."""
        now = {name: value for name, value in self.draft.items() if name != "target"}
        begun = st.session_state.setdefault(f"{self.prefix}~begun", now)
        if now != begun or filled.kept(self.found.table.key, filled.SEARCH):
            filled.keep(self.found.table.key, filled.SEARCH, now)
            st.button(
                "Forget these settings", icon=":material/undo:", type="tertiary", key="search:anew",
                on_click=self._begin_anew, help="The form begins as it does for a new table.",
            )  # fmt: skip

    def _begin_anew(self) -> None:
        filled.keep(self.found.table.key, filled.SEARCH, {})
        drafts().pop(self.found.table.key, None)
        forget(self.prefix)
        st.session_state.pop(f"{self.prefix}~begun", None)

    # ---------------------------------------------------------------- widgets

    def _what(self) -> None:
        left, right = st.columns([2, 3])
        with left:
            self._target()
        with right:
            if self.draft.get("model") in LOSSES:
                st.caption(f"A search does not try {self.draft.pop('model')} models yet.")
            model = self.widgets.ask("model", side_by_side=True, only=MODELS)
            st.caption(ABOUT_MODELS[model])
        values = {**RunConfig().as_dict(), **self.draft, "solver": "gradient"}
        asked = [knob for knob in ("alpha", "l1_ratio") if has_effect(knob, values)]
        for slot, knob in zip(st.columns(3) if asked else [], asked, strict=False):
            with slot:
                self.widgets.ask(knob)

    def _target(self) -> None:
        targets = predictable(self.result)
        key, now = f"{self.prefix}:target", self.found.target
        pick_column(
            label_for("target"), targets, now if now in targets else None, key,
            partial(choices.predict, self.found),
            placeholder=PLACEHOLDER, help="A search is for columns of numbers.",
        )  # fmt: skip

    def _wishes(self) -> dict[str, Any]:
        """What each knob may be; one choice alone is not searched, but taken."""
        st.caption("Trials take one of the marked values. Mark a single one to keep it fixed.")
        wishes: dict[str, Any] = {knob: self._pills(knob) for knob in PILLS}
        with st.expander("Numbers that come with these", icon=":material/tune:"):
            st.caption(
                "Write LOW..HIGH for all numbers between, or a list such as 1,2,4. Each is tried only where it means "
                "something: the maximum staleness in mode ssp, and so on."
            )
            for begin in range(0, len(TEXTS), 3):
                for slot, knob in zip(st.columns(3), TEXTS[begin : begin + 3], strict=False):
                    with slot:
                        wishes[knob] = self._text(knob)
        return wishes

    def _pills(self, knob: str) -> list[Any]:
        domain, key = KNOBS[knob], f"{self.prefix}:try:{knob}"
        assert isinstance(domain, Choices)
        options = list(domain.values) if knob != "step_rule" else names_for(knob, domain.values[0])
        kept = [v for v in self.draft.get(f"try:{knob}", list(domain.values)) if v in options]
        widget_values.begin(key, kept)
        chosen = st.pills(
            wording.LABELS[knob], options, selection_mode="multi", key=key, help=help_for(knob), wrap=True,
            format_func=lambda value: choice_for(knob, value) if isinstance(value, str) else value_text(knob, value),
        )  # fmt: skip
        self.draft[f"try:{knob}"] = list(chosen or [])
        return list(chosen or [])

    def _text(self, knob: str) -> str:
        usual = "auto" if knob == "learning_rate" else example(knob)
        key = f"{self.prefix}:try:{knob}"
        widget_values.begin(key, self.draft.get(f"try:{knob}", usual))
        more = " Or a range such as 1e-4..1." if knob == "learning_rate" else ""
        text = st.text_input(label_for(knob), key=key, help=help_for(knob) + more)
        self.draft[f"try:{knob}"] = text
        return text.strip() or usual

    def _limits(self) -> dict[str, Any]:
        usual = SearchPlan({})
        one, two, three = st.columns(3)
        trials = one.number_input(
            "Trials", 1, 10_000, **self._limit("trials", usual.trials),
            help="How many settings are tried in all. The first one is your own.",
        )  # fmt: skip
        seconds = two.number_input(
            "Seconds a trial", 0.1, 1e6, step=5.0, format="%g", **self._limit("seconds", usual.seconds),
            help="Seconds of training after which a trial ends, wherever it is. Reading the file is not counted.",
        )  # fmt: skip
        begun = self._limit("reach", list(REACHES)[2])
        reach = three.selectbox(
            "Distance to reach", list(REACHES), index=list(REACHES).index(begun["value"]), key=begun["key"],
            format_func=lambda text: f"{text} ({REACHES[text]})",
            help="The exact optimum is known. A trial is done when the share of the way that is left is this small.",
        )  # fmt: skip
        with one:
            self.draft.setdefault("epochs", PASSES)
            self.widgets.ask("epochs", help="Epochs after which a trial ends; schedules are stretched over them.")
        with two:
            self.widgets.ask("workers")
        with three:
            at_once = st.number_input(
                "Trials side by side", 1, 64, placeholder="as the cores allow", **self._limit("at_once", None),
                help="Every trial has cores of its own, so that they do not slow one another down.",
            )  # fmt: skip
        chosen = {"trials": trials, "seconds": seconds, "reach": reach, "at_once": at_once}
        self.draft.update({f"limit:{name}": value for name, value in chosen.items()})
        return {"trials": int(trials), "seconds": float(seconds), "reach": float(reach), "at_once": int(at_once or 0)}

    def _limit(self, name: str, usual: Any) -> dict[str, Any]:
        """Key and value of a widget that is no knob of a run."""
        now = self.draft.get(f"limit:{name}", usual)
        return {"key": widget_values.begin(f"{self.prefix}:{name}", now), "value": now}

    # ---------------------------------------------------------------- the card

    def _card(self, wishes: dict[str, Any], limits: dict[str, Any]) -> Search | None:
        st.header("Before you start", anchor=False)
        config, plan, problems = self._planned(wishes, limits)
        if config is not None and plan is not None:
            _foresee(config, plan)
        for problem in problems:
            notice("warning", problem)
        refused = why_not(Verb.START, SERVICE)
        if st.button(
            "Start the search", type="primary", icon=":material/manage_search:", width="stretch", key="search:start",
            disabled=bool(problems) or config is None or bool(refused), help=refused or None,
        ):  # fmt: skip
            assert config is not None
            assert plan is not None
            return _started(config, plan)
        return None

    def _planned(
        self, wishes: dict[str, Any], limits: dict[str, Any]
    ) -> tuple[RunConfig | None, SearchPlan | None, list[str]]:
        empty = [wording.LABELS[knob] for knob in PILLS if not wishes[knob]]
        if empty:
            return None, None, [f"Mark at least one value of {empty[0]!r}."]
        own = {k: v for k, v in self.draft.items() if k in RunConfig.knobs() and k not in KNOBS and k not in OURS}
        try:
            space, fixed = chosen_space(wishes)
            plan = SearchPlan(space, **limits)
            config = page_config(self.found.table.path, {**self.found.read, **own, **fixed, "solver": "gradient"})
        except ConfigError as error:
            return None, None, [wording.told(error)]
        problems = problems_of(config, self.result)
        few = combinations(space, config)
        if few is not None and len(few) < 2:
            problems.append("Every knob has a single value, so there is nothing to search. Mark more values.")
        return config, plan, problems


def _begin(found: Asked, result: TableLook) -> Draft:
    """Where the form begins: with what the Train page's form for this table says, if it was filled in."""
    name = f"{found.table.key}:"
    train = st.session_state.get(TRAIN_DRAFTS, {}).get(name) or filled.kept(name, filled.TRAIN).get(filled.DRAFT, {})
    kept = {knob: value for knob, value in train.items() if knob not in (*KNOBS, *OURS, "epochs")}
    return kept or first_draft(result.rows)


def _foresee(config: RunConfig, plan: SearchPlan) -> None:
    base = trial_config(config, plan, {})
    together = side_by_side(base, plan)
    few = combinations(plan.space, config)
    trials = plan.trials if few is None else min(plan.trials, len(few))
    count = "all combinations" if few is not None and trials == len(few) else "settings"
    st.metric("Trials", f"{trials:,}", help=f"{count.capitalize()} that will be tried.")
    longest = trials * plan.seconds / together
    most = duration(longest)
    st.metric(
        "Training at most", most, help="Trials that are done or given up sooner make it less. Starting is not in it."
    )
    share = plural(slots.slots_for(base), "core")
    times = f"{plural(together, 'trial')} at a time, on {share} each"
    if slots.works_elsewhere(base):
        times = f"Up to {plural(together, 'trial')} at a time, as many as the cluster has free cores for when it begins"
    line(f"{times}. They are ordinary runs, in the same queue.")
    if base.test_every:
        line(f"One row in {base.test_every} is kept for testing; the models are fitted to the others.")
    line("It keeps running when this tab is closed, and can be stopped and continued.")


def _started(config: RunConfig, plan: SearchPlan) -> Search | None:
    try:
        return start(config, plan)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The search was not started")
        return None
