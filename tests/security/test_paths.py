"""No page takes a path: every knob through every form, and the one function that all configs of pages come from."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.dashboard.forms import settings_tabs
from shoal.dashboard.live import controls
from shoal.dashboard.search.form import PILLS, SearchForm
from shoal.dashboard.tables.sources import Asked, Table, read_from
from shoal.dashboard.train import page as train_page
from shoal.dashboard.tune.form import StudyChoice
from shoal.dashboard.tune.state import run_config
from shoal.errors import ConfigError
from shoal.results.answers.table import ColumnLook, TableLook
from shoal.runs.folder import write_json
from shoal.runs.launch import Run
from shoal.search.space import KNOBS
from shoal.settings.config import RunConfig
from shoal.settings.text import as_yaml
from shoal.settings.values import config_from, page_config, said_on_page, set_by_pages
from support.browser import ROOT

OFFERED = "/tables/offered.csv"
ELSEWHERE = "/etc/cron.d/elsewhere"
FOUND = Asked(Table("offered", Path(OFFERED)), {}, "y")
Form = Callable[[Run, str, Any], RunConfig]


def _yaml_tab(run: Run, knob: str, value: Any) -> RunConfig:
    return config_from(settings_tabs.checked(json.dumps({knob: value}), RunConfig(file=OFFERED)))


def _grouped_yaml(run: Run, knob: str, value: Any) -> RunConfig:
    text = json.dumps({"training": {"optimization": {knob: value}}})
    return config_from(settings_tabs.checked(text, RunConfig(file=OFFERED)))


def _fork(run: Run, knob: str, value: Any) -> RunConfig:
    return config_from({**run.config, "out": None, **controls._written(run, json.dumps({knob: value}))})


def _address(run: Run, knob: str, value: Any) -> RunConfig:
    return Asked(FOUND.table, read_from(json.dumps({knob: value})), "y").inspection


def _tune_address(run: Run, knob: str, value: Any) -> RunConfig:
    return StudyChoice.parse(json.dumps({knob: value})).config(FOUND)


def _tune_run(run: Run, knob: str, value: Any) -> RunConfig:
    return run_config(run, {knob: value})


def _like(run: Run, knob: str, value: Any) -> RunConfig:
    write_json(run.directory / "config.json", {**RunConfig(file=OFFERED).as_dict(), knob: value})
    return page_config(OFFERED, train_page._settings_of(run))


def _search(run: Run, knob: str, value: Any) -> RunConfig:
    form = SearchForm(
        FOUND, TableLook(file=OFFERED, rows=100, dialect={}, columns=(ColumnLook(name="y", type="numeric"),))
    )
    form.draft = {"target": "y", knob: value}
    config, _, problems = form._planned({knob: KNOBS[knob].values[:2] for knob in PILLS}, {})  # type: ignore[union-attr]
    if config is None:
        raise ConfigError(problems[0])
    return config


FORMS: dict[str, Form] = {
    "yaml": _yaml_tab, "groups": _grouped_yaml, "fork": _fork, "address": _address, "tune": _tune_address,
    "tune run": _tune_run, "like": _like, "search": _search,
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Run:
    write_json(tmp_path / "config.json", {**RunConfig(file=OFFERED, target="y").as_dict(), "out": "/of/a/terminal"})
    return Run(tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_no_knob_of_any_form_is_a_path(run: Run, form: str) -> None:
    refused = set()
    for knob in RunConfig.knobs():
        try:
            found = FORMS[form](run, knob, ELSEWHERE)
        except ConfigError:
            refused.add(knob)
        else:
            assert (found.file, found.out, found.cluster) == (OFFERED, None, ""), knob
    if form in ("yaml", "groups", "fork", "tune run"):
        assert {"file", "out", "cluster"} <= refused  # not passed over in silence: a person wrote it


@pytest.mark.parametrize("form", [form for form in FORMS if form != "like"])
def test_what_stands_in_a_form_anyway_may_stay(run: Run, form: str) -> None:
    for knob, value in {"file": OFFERED, "out": None}.items():
        found = FORMS[form](run, knob, value)
        assert (found.file, found.out) == (OFFERED, None)


def test_the_list_is_of_the_knobs_themselves() -> None:
    closed = {name for name in RunConfig.knobs() if name not in set_by_pages(RunConfig().as_dict())}
    assert closed == {"file", "out", "cluster", "open_cluster"}
    assert closed == {n for n, k in RunConfig.knobs().items() if k.metadata["group"] == "place"}
    with pytest.raises(ConfigError, match="A page sets no paths"):
        said_on_page({"out": ELSEWHERE}, OFFERED)
    assert said_on_page({"alpha": 2, "file": OFFERED}, OFFERED) == {"alpha": 2}


def test_a_whole_settings_text_comes_back(run: Run) -> None:
    config = config_from({**run.config, "out": None, "model": "ridge", "alpha": 2.0})
    assert config_from(settings_tabs.checked(as_yaml(config, everything=True), config)) == config


@pytest.mark.parametrize("path", sorted((ROOT / "dashboard").rglob("*.py")), ids=lambda path: str(path.name))
def test_pages_make_configs_in_one_way(path: Path) -> None:
    """`page_config` and `said_on_page`; nothing else that makes a config of what somebody said."""
    names = {"config_from", "read_yaml", "flattened", "yaml"}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom | ast.Import):
            assert not names & {alias.name for alias in node.names}, f"{path}:{node.lineno}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("RunConfig", "replace", "dataclasses.replace"):
            given = {keyword.arg for keyword in node.keywords}
            assert not given & {"file", "out", None}, f"{path}:{node.lineno}"
