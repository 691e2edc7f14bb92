"""The Train page: the form of a run, or (with a run in the address) that run, live or finished."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import streamlit as st

from shoal.dashboard.forms import settings_tabs
from shoal.dashboard.forms.knob_widgets import Draft, default_values, forget
from shoal.dashboard.forms.model_form import ModelForm, first_draft
from shoal.dashboard.forms.problems import TRAIN_DRAFTS, problems_of
from shoal.dashboard.live import view as run_view
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import heading, line, notice
from shoal.dashboard.tables import choices
from shoal.dashboard.tables.needed import looked_at, nothing_there, offer_tables
from shoal.dashboard.tables.sources import READING, Asked, asked, table_of, tidy
from shoal.dashboard.train.forecast import show_forecast, show_queue
from shoal.errors import ConfigError, TrainingError
from shoal.runs.forecast import Forecast, forecast
from shoal.runs.launch import Run, find_run, launch
from shoal.settings.config import RunConfig
from shoal.settings.meaning import has_effect
from shoal.settings.values import page_config, set_by_pages
from shoal.words import plural

LAST = "train:last"  # in the session: the last address
ELSEWHERE = set(READING)  # knobs that the address says
STYLE = """<style>
[data-testid="stColumn"]:has(> * .st-key-train-card) { align-self: flex-start; position: sticky; top: 4.5rem; }
.st-key-train-form textarea { font-family: "Source Code Pro", monospace; font-size: 0.875rem; }
@media (max-width: 640px) {
  [data-testid="stColumn"]:has(> * .st-key-train-card) { position: static; }
  .st-key-train-form [data-testid="stColumn"]:not(:has([data-testid="stElementContainer"])) { display: none; }
}
</style>"""


def show() -> None:
    if run_id := st.query_params.get("run"):
        run_view.show(run_id)
        return
    if "data" not in st.query_params and LAST in st.session_state:
        places.stay(**st.session_state[LAST])  # the navigation leads back to the table at hand
    like = _like()
    found = asked()
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


def _drafts() -> dict[str, Draft]:
    drafts: dict[str, Draft] = st.session_state.setdefault(TRAIN_DRAFTS, {})
    return drafts


def _form_view(found: Asked, like: Run | None) -> None:
    st.html(STYLE)
    heading(f"Train on {found.table.title}")
    st.session_state[LAST] = st.query_params.to_dict()
    result = looked_at(found)
    if result is None:
        return
    _about(found, result)
    Composer(found, like, result).show()


def _about(found: Asked, result: dict[str, Any]) -> None:
    """One quiet line about the table, with the way back."""
    with st.container(horizontal=True, vertical_alignment="center", key="train-about"):
        size = f"{plural(result['rows'], 'row')}, {plural(len(result['columns']), 'column')}"
        st.caption(size, width="content")
        places.link("data", "See or change the data", icon=":material/table_view:", **found.address)
        places.link("tune", "Tune the penalty", icon=":material/tune:", **found.address)


class Composer:
    """Form, YAML and command line of one draft, and the card that starts the run."""

    def __init__(self, found: Asked, like: Run | None, result: dict[str, Any]) -> None:
        self.found, self.result = found, result
        self.name = f"{found.table.key}:{like.id if like else ''}"
        self.prefix = f"train:{self.name}"
        drafts = _drafts()
        if self.name not in drafts:
            drafts[self.name] = _settings_of(like) if like else first_draft(result)
        self.draft = drafts[self.name]
        self._follow_address()

    def _follow_address(self) -> None:
        """Target and left-out columns are in the address, where the Data page sets them too."""
        said = {"target": self.found.target or "", "exclude": list(self.found.read.get("exclude", []))}
        for knob, value in said.items():
            if self.draft.get(knob, value) != value:
                forget(f"{self.prefix}:{knob}")
                st.session_state.pop(f"{self.prefix}:{knob}", None)
            self.draft[knob] = value

    def show(self) -> None:
        left, right = st.columns([7, 3], gap="large")
        with left, st.container(key="train-form"):
            form, yaml, command = st.tabs(["Form", "YAML", "Command line"])
            with form:
                ModelForm(self.prefix, self.draft, self.result).show()
            config, problems = self._config()
            with yaml:
                settings_tabs.show_yaml(self.prefix, config or self._fallback(), self._take)
            with command:
                settings_tabs.show_command(config or self._fallback())
        with right, st.container(key="train-card"), st.container(border=True):
            self._card(config, problems)
        self._keep_address()

    @property
    def values(self) -> dict[str, Any]:
        """All that was said, ready for a config."""
        said = {**self.found.read, **self.draft}
        return {knob: value for knob, value in said.items() if has_effect(knob, {**default_values(), **said})}

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
        read = tidy({knob: values[knob] for knob in READING})
        self._stay(read, values["target"])

    def _keep_address(self) -> None:
        """What the form changed of the address's own: a reload keeps it, and so does the way to Data and back."""
        read = tidy({**self.found.read, "exclude": list(self.draft["exclude"])})
        if read != self.found.read:
            self._stay(read, self.draft["target"])
            st.session_state[LAST] = st.query_params.to_dict()

    def _stay(self, read: dict[str, Any], target: str) -> None:
        text = json.dumps(read, separators=(",", ":"), sort_keys=True) if read else None
        choices.keep(replace(self.found, read=read, target=target or None))
        places.amend(read=text, target=target or None)

    # ---------------------------------------------------------------- the card

    def _card(self, config: RunConfig | None, problems: list[str]) -> None:
        st.subheader("Before you start", anchor=False)
        foreseen = forecast(self.result, config) if config else None
        if foreseen:
            show_forecast(foreseen)
            show_queue(foreseen.config)
        for problem in problems:
            line(problem)
        self._button(config, bool(problems) or _is_refused(foreseen))
        if config and config.solver == "gradient":
            places.link("search", "Search settings", icon=":material/manage_search:", **self.found.address)

    def _button(self, config: RunConfig | None, held: bool) -> None:
        exact = config is None or config.solver == "exact"
        label = "Fit" if exact else "Start training"
        if st.button(label, type="primary", icon=":material/play_arrow:", disabled=held, width="stretch", key="start"):
            assert config is not None
            _launch(config)


def _is_refused(foreseen: Forecast | None) -> bool:
    return foreseen is not None and foreseen.refused


def _settings_of(run: Run) -> Draft:
    """The knobs of an earlier run that differ from their defaults; those of another version of the program are passed
    over."""
    usual = RunConfig().as_dict()
    stored = set_by_pages(run.config).items()
    known = {knob: value for knob, value in stored if knob in usual and knob not in ELSEWHERE and value is not None}
    return {knob: value for knob, value in known.items() if value != usual[knob]}


def _launch(config: RunConfig) -> None:
    try:
        run = launch(config)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The run was not started")
        return
    places.stay(run=run.id)
    st.rerun()
