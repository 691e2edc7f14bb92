"""The Train page: the form of a run, or (with a run in the address) that run, live or finished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.forms import cluster, settings_tabs
from shoal.dashboard.forms.handed import KNOBS, NOTHING, STUDY, handed_over, knobs_of
from shoal.dashboard.forms.knob_widgets import Draft, default_values, filled_in, forget
from shoal.dashboard.forms.model_form import ModelForm, first_draft
from shoal.dashboard.forms.problems import TRAIN_DRAFTS, problems_of
from shoal.dashboard.live import view as run_view
from shoal.dashboard.parts import places, waiting, wording
from shoal.dashboard.parts.literal import line
from shoal.dashboard.parts.targets import SUITED, suited_model
from shoal.dashboard.tables import at_hand, choices, filled, guidance
from shoal.dashboard.tables.needed import looked_at, nothing_there, offer_tables
from shoal.dashboard.tables.sources import READING, Asked, table_of, tidy
from shoal.dashboard.train import plan
from shoal.dashboard.train.forecast import show_forecast, show_queue
from shoal.dashboard.train.sparse import sparse_form
from shoal.errors import ConfigError
from shoal.people.deeds import why_not
from shoal.people.rights import SERVICE, Verb
from shoal.results.answers.table import TableLook
from shoal.runs.forecast import Forecast, forecast
from shoal.runs.launch import Run, find_run
from shoal.settings.config import RunConfig
from shoal.settings.meaning import has_effect
from shoal.settings.values import page_config, set_by_pages
from shoal.settings.when import LOSSES, MODELS, NETWORK
from shoal.words import plural

ELSEWHERE = set(READING)  # knobs that the address says
OF_COLUMNS = ("features", "exclude")  # knobs that name columns to use or not
OF_MODELS = ("exclude", "reference")  # of these, the ones that the form asks for as well


def show() -> None:
    if run_id := st.query_params.get("run"):
        run_view.show(run_id)
        return
    like = _like()
    found = at_hand.opened("train")
    if found is not None:
        _form_view(found, like)
    elif "data" in st.query_params:
        nothing_there("The address names a table that is not on this machine; it may have been removed.")
    else:
        _empty_view()


# ------------------------------------------------------------------ nothing chosen


def _empty_view() -> None:
    st.title("Train a model", anchor=False)
    st.caption("Choose a table first. Then say what to predict, and how.")
    offer_tables()


# ------------------------------------------------------------------ the form


def _like() -> Run | None:
    """The run whose settings the form begins with; its way of reading goes into the address, if none is there."""
    run = find_run(st.query_params.get("like", "")) if "like" in st.query_params else None
    if run is None:
        return None
    table = table_of(run.config.get("file", ""))
    if table is None or table.key != st.query_params.get("data", table.key):
        return None
    if _drafts().get(f"{table.key}:{run.id}") is None:
        read = tidy({knob: run.config[knob] for knob in READING if knob in run.config})
        place = Asked(table, read, run.config.get("target")).address
        places.stay(**{**place, **st.query_params.to_dict()})
    return run


def _name(found: Asked, like: Run | None) -> str:
    """Of a draft."""
    return f"{found.table.key}:{like.id if like else ''}"


def _drafts() -> dict[str, Draft]:
    drafts: dict[str, Draft] = st.session_state.setdefault(TRAIN_DRAFTS, {})
    return drafts


def _form_view(found: Asked, like: Run | None) -> None:
    at_hand.header("train", found, f"Train on {found.table.title}")
    filled.say_lost(_name(found, like), filled.TRAIN)
    result = looked_at(found)
    if result is None:
        return
    if result.sparse:
        sparse_form(found, result, result.sparse, like, _drafts())
        return
    composer = Composer(found, like, result)
    about = st.container()
    chosen = {"model": composer.model, "shrink": composer.shrink, "indicators": composer.values.get("indicators"),
              "rules": composer.values.get("rules")}  # fmt: skip
    guidance.show(found, composer.switch_on, **chosen)
    composer.show()
    with about:  # drawn last: only now is it known what Tune is handed
        _about(composer, result)


def _about(composer: Composer, result: TableLook) -> None:
    """One quiet line about the table, with the way back; on to Tune where that has what is chosen here."""
    with st.container(horizontal=True, vertical_alignment="center", key="train-about"):
        size = f"{plural(result.rows, 'row')}, {plural(len(result.columns), 'column')}"
        st.caption(size, width="content")
        found, study = composer.asked, composer.hand_over()
        places.link("data", "See or change the data", icon=":material/table_view:", **found.address)
        if composer.is_tuned and not suited_model(result, found.target):
            places.link("tune", "Tune the penalty", icon=":material/tune:", **found.address, **study)
        if composer.own:
            st.button(
                "Forget these settings", icon=":material/undo:", type="tertiary", key="train:anew",
                on_click=composer.begin_anew, help="The form begins as it does for a new table.",
            )  # fmt: skip


def _of_address(read: Mapping[str, Any], target: str | None) -> Draft:
    """The knobs of the form that are in the address."""
    return {"target": target or "", **{knob: list(read.get(knob, [])) for knob in OF_MODELS}}


class Composer:
    """Form, YAML and command line of one draft, and the card that starts the run."""

    def __init__(self, found: Asked, like: Run | None, result: TableLook) -> None:
        self.found, self.result = found, result
        self.name = _name(found, like)
        self.prefix = f"train:{self.name}"
        drafts = _drafts()
        self.begun = _settings_of(like) if like else first_draft(result.rows)
        if self.name not in drafts:
            kept = filled.kept(self.name, filled.TRAIN)
            drafts[self.name] = {**self.begun, **kept.get(filled.DRAFT, {})}
            if kept.get("target") != found.target:
                drafts[self.name].pop("positive", None)
            st.session_state[f"{self.prefix}~seen"] = kept.get(STUDY)
        self.draft = drafts[self.name]
        self._follow_tune()
        self._follow_address()
        self._take_suited()
        self._suit_model()

    @property
    def model(self) -> str:
        """The one that is chosen: by the widget, which is drawn later, or in the draft."""
        return str(st.session_state.get(f"{self.prefix}:model", self.draft.get("model", MODELS[0])))

    @property
    def shrink(self) -> str:
        return str(st.session_state.get(f"{self.prefix}:shrink", self.draft.get("shrink", "none")))

    def switch_on(self, knob: str) -> None:
        """A switch of the form, by another button than its own; fit for callbacks."""
        self.draft[knob] = True
        forget(f"{self.prefix}:{knob}")
        st.session_state.pop(f"{self.prefix}:{knob}", None)

    @property
    def is_tuned(self) -> bool:
        """Whether the sliders of Tune are about such a model: they know squares, and no bound of coefficients."""
        return self.model not in LOSSES and not self.draft.get("nonnegative")

    def _take_suited(self) -> None:
        """The model that was taken on the Data page for this target; once, so that another can be chosen here."""
        model, key = st.query_params.get(SUITED, ""), f"{self.prefix}~{SUITED}"
        taken = (self.draft["target"], model)
        if model not in LOSSES or st.session_state.get(key) == taken:
            return
        st.session_state[key] = taken
        st.session_state[self._suited] = self.draft["target"], True  # it gives way with its target
        self.draft["model"] = model
        forget(f"{self.prefix}:model")
        st.session_state.pop(f"{self.prefix}:model", None)

    @property
    def _suited(self) -> str:
        """Where it stands for which target a model was chosen last, and whether that was not a person."""
        return f"{self.prefix}~suited"

    def _suit_model(self) -> None:
        """For texts only one model will do: it is chosen once for a target, and gives way with it."""
        key, target = self._suited, self.draft["target"]
        before, ours = st.session_state.get(key, (None, False))
        if before == target:
            return
        if before is not None:
            self.draft.pop("positive", None)  # a value of the other one
        suited = suited_model(self.result, target)
        change = suited if suited and self.model in MODELS else MODELS[0] if ours and not suited else ""
        st.session_state[key] = target, bool(change and suited) or (ours and bool(suited))
        if change:
            self.draft["model"] = change
            st.session_state.pop(f"{self.prefix}:model", None)

    def _follow_address(self) -> None:
        """Target, left-out columns and levels to compare with are in the address, where the Data page sets them too."""
        followed = st.session_state.get(self._followed, {})
        said = st.session_state[self._followed] = _of_address(self.found.read, self.found.target)
        for knob, value in said.items():
            if knob in self.draft and followed.get(knob) == value:
                continue  # what was chosen in a drawing that was cut off before the address had it
            if self.draft.get(knob, value) != value:
                forget(f"{self.prefix}:{knob}")
                st.session_state.pop(f"{self.prefix}:{knob}", None)
            self.draft[knob] = value

    @property
    def _followed(self) -> str:
        """Where it stands what the form had of the address last."""
        return f"{self.prefix}~followed"

    def _follow_tune(self) -> None:
        """What the Tune page hands over takes the place of what was chosen here, unless it is what it was handed."""
        text, seen = st.query_params.get(STUDY), f"{self.prefix}~seen"
        before, st.session_state[seen] = st.session_state.get(seen), text  # once: what is chosen here after it stays
        if text is None or text in (before, st.session_state.get(f"{self.prefix}~{STUDY}")):
            return
        st.session_state[f"{self.prefix}~{STUDY}"] = text
        if (said := knobs_of(text)) is None:
            return
        for knob in KNOBS:
            self.draft.pop(knob, None)
        self.draft.update({**first_draft(self.result.rows), **said})
        forget(self.prefix)

    def hand_over(self) -> dict[str, str]:
        """The part of the address that Tune is opened with, so that it keeps what was chosen here."""
        text = handed_over(self.values, self.result.rows, at_hand.said_of("tune", STUDY))
        key = f"{self.prefix}~{STUDY}"
        if st.session_state.get(key, NOTHING) != (text or NOTHING):
            at_hand.hand_over("tune", STUDY, text or NOTHING)
        st.session_state[key] = text or NOTHING
        return {STUDY: text} if text else {}

    def show(self) -> None:
        left, right = st.columns([7, 3], gap="large")
        with left, st.container(key="train-form"):
            form, yaml, command = st.tabs(["Form", "YAML", "Command line"])
            with form:
                ModelForm(self.prefix, self.draft, self.result, partial(choices.predict, self.found)).show()
            config, problems = self._config()
            with yaml:
                settings_tabs.show_yaml(self.prefix, config or self._fallback(), self._take)
            with command:
                settings_tabs.show_command(config or self._fallback())
        with right, st.container(key="train-card"), st.container(border=True):
            self._card(config, problems)
        self._keep_address()
        self._keep_draft()

    @property
    def own(self) -> Draft:
        """What a person filled in that is in no address: all that is not as the form begins by itself."""
        _, suited = st.session_state.get(self._suited, (None, False))
        elsewhere = {"target", *OF_MODELS, *(["model"] if suited else [])}
        return filled_in(self.draft, self.begun, elsewhere)

    def _keep_draft(self) -> None:
        seen = st.session_state.get(f"{self.prefix}~seen")
        now = {filled.DRAFT: own, STUDY: seen, "target": self.draft["target"]} if (own := self.own) else {}
        filled.keep(self.name, filled.TRAIN, now)

    def begin_anew(self) -> None:
        """The form as it begins; what belongs to the table stays. Fit for callbacks."""
        kept = {knob: self.draft[knob] for knob in ("target", *OF_MODELS) if knob in self.draft}
        self.draft.clear()
        self.draft.update({**self.begun, **kept})
        forget(self.prefix)
        st.session_state.pop(self._suited, None)

    @property
    def values(self) -> dict[str, Any]:
        """All that was said, ready for a config."""
        said = {**self.found.read, **self.draft}
        for knob in OF_COLUMNS:  # the target keeps its place on them, for when another column is predicted
            said[knob] = [name for name in said.get(knob, ()) if name != said["target"]]
        beside = {**default_values(), **said}
        return {knob: value for knob, value in said.items() if has_effect(knob, beside)}

    def _config(self) -> tuple[RunConfig | None, list[str]]:
        """The config, if there can be one, and what speaks against starting it."""
        try:
            config = page_config(self.found.table.path, self.values)
        except ConfigError as error:
            return None, [wording.told(error)]
        return config, problems_of(config, self.result)

    def _fallback(self) -> RunConfig:
        """Something to show where the draft is no config."""
        return page_config(self.found.table.path, self.found.read)

    def _take(self, values: dict[str, Any]) -> None:
        """Settings that came as YAML: some go into the address, the rest into the draft; the widgets begin anew."""
        usual = RunConfig().as_dict()
        self.draft.clear()
        self.draft.update({k: v for k, v in set_by_pages(values).items() if k not in ELSEWHERE and v != usual[k]})
        forget(self.prefix)
        st.session_state[self._suited] = values["target"], False  # which model it says is meant
        read = tidy({knob: values[knob] for knob in READING})
        self._stay(read, values["target"])

    @property
    def asked(self) -> Asked:
        """The table as the form says, which the address follows at the end of a drawing."""
        read = tidy({**self.found.read, **{knob: list(self.draft[knob]) for knob in OF_MODELS}})
        return replace(self.found, read=read, target=self.draft["target"] or None)

    def _keep_address(self) -> None:
        """What the form changed of the address's own: a reload keeps it, and so does the way to Data and back."""
        if self.asked.read != self.found.read:
            self._stay(self.asked.read, self.draft["target"])

    def _stay(self, read: dict[str, Any], target: str) -> None:
        text = json.dumps(read, separators=(",", ":"), sort_keys=True) if read else None
        choices.keep(replace(self.found, read=read, target=target or None))
        places.amend(read=text, target=target or None)
        st.session_state[self._followed] = _of_address(read, target)  # so that Back leads away from it again

    # ---------------------------------------------------------------- the card

    def _card(self, config: RunConfig | None, problems: list[str]) -> None:
        st.header("Before you start", anchor=False)
        foreseen = forecast(self.result, config) if config else None
        if foreseen:
            show_forecast(foreseen, self.result.named.get(foreseen.config.target))
            show_queue(foreseen.config)
        if config and not problems:
            plan.show(config, self.prefix)
        for problem in problems:
            line(problem)
        usable = config is None or cluster.show_beside(config)
        self._button(config, bool(problems) or _is_refused(foreseen) or not usable)
        if config and config.solver == "gradient" and config.model != NETWORK:
            places.link("search", "Search settings", icon=":material/manage_search:", **self.asked.address)

    def _button(self, config: RunConfig | None, held: bool) -> None:
        exact = config is None or config.solver == "exact"
        label = "Fit" if exact else "Start training"
        refused = why_not(Verb.START, SERVICE)
        if st.button(
            label, type="primary", icon=":material/play_arrow:", disabled=held or bool(refused), width="stretch",
            key="start", help=refused or None,
        ):  # fmt: skip
            assert config is not None
            waiting.start(config)


def _is_refused(foreseen: Forecast | None) -> bool:
    return foreseen is not None and foreseen.refused


def _settings_of(run: Run) -> Draft:
    """The knobs of an earlier run that differ from their defaults; those of another version of the program are passed
    over."""
    usual = RunConfig().as_dict()
    stored = set_by_pages(run.config).items()
    known = {knob: value for knob, value in stored if knob in usual and knob not in ELSEWHERE and value is not None}
    return {knob: value for knob, value in known.items() if value != usual[knob]}
