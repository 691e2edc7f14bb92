"""The form, its YAML and its command line say the same."""

from __future__ import annotations

import argparse
import functools
import json
import shlex
from typing import Any

import pytest
from hypothesis import example as example_
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.cli import app as cli
from shoal.cli.flags import config_of
from shoal.dashboard.forms.settings_tabs import checked as checked_yaml
from shoal.dashboard.tables import uploads
from shoal.errors import ConfigError
from shoal.settings.config import RunConfig
from shoal.settings.meaning import FOR_NETWORK, effective
from shoal.settings.text import as_yaml, changed, command_line, from_yaml
from shoal.settings.values import config_from
from support.dashboard.train_page import KNOBS, address, apply, example, yaml_of
from support.pages import checked, open_page, said, settle, widget

# ------------------------------------------------------------------ YAML


OTHERS: dict[str, Any] = {
    "target": "no", "model": "lasso", "alpha": 0.25, "l1_ratio": 0.125, "features": ["a b", "1"], "exclude": ["x"],
    "weights": "w", "weights_are": "frequency", "offset": "months", "offset_as": "exposure", "class_weight": "balanced",
    "parts": "common",
    "categorical": ["zip"], "numeric": ["n"], "coding": "full", "max_levels": 7, "min_level_rows": 5, "impute": "drop", "fill": -1.5,
    "nonnegative": True, "quantile": 0.9, "huber_epsilon": 2.0, "hidden": "8,4", "shrink": "lasso", "positive": "yes", "squares": ["a", "w"], "interactions": ["a:q", '"x:y":z'],
    "reference": ["city=Oslo", "a b=c=d"], "transform": ["area=log", "a=b=spline(4)+plain"],
    "indicators": True, "test_every": 3, "test_fraction": 0.3, "seed": 2**60, "intercept": False, "standardize": False,
    "confidence": 0.9, "bands": 0.8, "robust": "HC3", "engine": "processes", "workers": 3, "delimiter": ";", "decimal": ",", "thousands": "",
    "encoding": "latin-1", "quote": "'", "comment": "#", "skip_lines": 2, "header": False, "missing": ["NA", "-999"],
    "also_missing": ["k.A.", "a=9"], "dates": ["day-first", "a=month-first"], "limits": ["half", "a=missing"],
    "one_spelling": ["a"], "sheet": "2",
    "on_bad_rows": "skip", "solver": "gradient", "mode": "ssp", "epochs": 3, "tolerance": 0.0, "finish_passes": 77,
    "max_seconds": 12.5, "register": "my-model", "patience": 4, "batch_size": 64, "local_steps": 5, "staleness": 2, "step_rule": "adam",
    "learning_rate": 1e-7, "schedule": "cosine", "warmup": 0.5, "decay": 0.75, "decay_every": 2.5, "momentum": 0.5, "weight_decay": 0.25,
    "clip": 3.0, "compression": "topk", "top_k": 0.25, "prefetch": 0, "max_memory": 0.5, "io_queue_size": 50, "mixed_precision": True, "gradient_checkpointing": True,
    "compile_mode": "default", "device": "cpu", "gpu_memory_fraction": 0.5, "shards": 9, "parameter_shards": 3, "aggregation": "allreduce",
    "partition": "contiguous", "precision": "float64", "penalty": "my_penalty", "callbacks": ["one", "two"],
    "checkpoint_seconds": 0.0, "keep_checkpoints": 2, "checkpoint_strategy": "my_strategy", "on_worker_loss": "fewer", "restarts": 1, "retries": 0,
    "recovery": "my_handler", "rules": ["one", "two"], "metrics": ["one", "two"],
}  # fmt: skip


def config_with(*names: str) -> RunConfig:
    """With these knobs and what gives them an effect."""
    more: dict[str, Any] = {"test_fraction": 0.3} if {"patience", "seed"} & set(names) else {}
    for name in names:
        more |= {"solver": "gradient"} if KNOBS[name].metadata.get("training") else {}
        more |= dict(KNOBS[name].metadata.get("needs", ()))
        more |= FOR_NETWORK if more.get("model") == "mlp" else {}
    return config_from({"file": "/data/t.csv", **more, **{name: OTHERS[name] for name in names}})


def test_there_is_another_value_of_every_knob() -> None:
    assert set(OTHERS) == set(KNOBS) - {"file", "out", "cluster", "open_cluster"}
    for name in OTHERS:
        assert changed(config_with(name)).keys() >= {name}, name


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_yaml_says_every_knob_and_gives_it_back(name: str, everything: bool) -> None:
    config = config_with(name)
    text = as_yaml(config, everything)
    assert config_from(from_yaml(text)) == config
    if not everything:
        assert len(text.splitlines()) <= 4 + len(OTHERS[name] if isinstance(OTHERS[name], list) else [])


def test_yaml_to_form_to_yaml_loses_nothing_that_has_an_effect() -> None:
    key, _, _ = example(rows=60)
    page = settle(open_page("train", data=key))
    path = uploads.find(key)
    names = [name for name in OTHERS if name not in ("target", "test_fraction", "features", "exclude", "categorical",
             "numeric", "delimiter", "quote", "comment", "skip_lines", "header", "encoding",
             "decimal", "thousands", "dates", "sheet")]  # fmt: skip
    wanted = {**{name: OTHERS[name] for name in names}, "target": "y", "features": ["a"], "exclude": ["b"]}
    config = effective(config_from({"file": str(path), **wanted}))
    page = settle(apply(page, as_yaml(config, everything=True)))
    assert config_from(from_yaml(yaml_of(page))) == config
    page = settle(page)  # the widgets have written their values back by now
    assert config_from(from_yaml(yaml_of(page))) == config
    assert widget(page, "number_input", "Penalty strength (alpha)").value == 0.25
    assert widget(page, "number_input", "Learning rate").value == 1e-7
    assert widget(page, "number_input", "Batch size (rows)").value == 64
    assert json.loads(address(page, "read"))["on_bad_rows"] == "skip"  # how a file is read is in the address


def test_yaml_with_groups_moves_the_form_and_the_form_moves_the_yaml() -> None:
    page = settle(open_page("train", data="penguins"))
    page = apply(
        page,
        "solver: gradient\ntarget: year\ntraining:\n  pipeline:\n    batch_size: 32\n  resources:\n    cpu_workers: 2\n",
    )
    assert widget(page, "number_input", "Batch size (rows)").value == 32
    assert widget(page, "number_input", "Worker processes").value == 2
    assert widget(page, "selectbox", "Column to predict").value == "year"
    page = checked(widget(page, "number_input", "Batch size (rows)").set_value(None).run())
    assert "batch_size" not in yaml_of(page)
    page = checked(widget(page, "number_input", "Epochs").set_value(4).run())
    assert "epochs: 4" in yaml_of(page)


@pytest.mark.parametrize(
    ("text", "said_"),
    [
        ("target: y\nalpha: lots", "Line 2: Expected alpha to be a number"),
        ("target: y\n\nspeed: 3", "Line 3: Expected the names of knobs, got 'speed'"),
        ("alpha: 1\nalpha: 2", "Line 2: 'alpha' is given twice"),
        ("training:\n  pipeline:\n    batch: 3", "Line 3: Expected one of batch_size"),
        ("a: [1", "Line 1: Expected YAML"),
        ("a: &x [1]\nb: *x", "Expected plain values"),
        ("- 1", "Expected lines such as"),
        ("epochs: -3", "Line 1: Expected epochs"),
        ("x" * 200_000, "at most"),
    ],
)
def test_what_is_wrong_in_yaml_is_said_with_its_line(text: str, said_: str) -> None:
    with pytest.raises(ConfigError) as raised:
        from_yaml(text)
    assert said_ in str(raised.value)


def test_wrong_yaml_is_said_beside_the_field_and_changes_nothing() -> None:
    page = settle(open_page("train", data="penguins"))
    page = checked(widget(page, "text_area", "Settings as YAML").set_value("model: cubic\n").run())
    assert "Line 1: Expected model to be one of" in said(page)
    assert widget(page, "button", "Apply to the form").disabled
    assert widget(page, "selectbox", "Model").value == "linear"
    page = checked(widget(page, "button", "Undo my changes").click().run())
    assert "Expected model" not in said(page)
    assert yaml_of(page).endswith("test_every: 5\n")


def test_yaml_names_neither_another_file_nor_one_to_write() -> None:
    config = RunConfig(file="/data/t.csv")
    for text in ("file: /etc/passwd", "out: /tmp/model.json"):
        with pytest.raises(ConfigError):
            checked_yaml(text, config)
    assert checked_yaml("file: /data/t.csv\nout: null", config)["file"] == "/data/t.csv"


# ------------------------------------------------------------------ the command line


@functools.cache
def parser() -> argparse.ArgumentParser:
    return cli._parser()


def parsed(line: str) -> RunConfig:
    chosen = parser().parse_args(shlex.split(line)[1:])
    config: RunConfig = config_of(chosen)
    return config


@pytest.mark.parametrize("name", OTHERS)
def test_the_command_line_means_the_same_config(name: str) -> None:
    config = config_with(name)
    line = command_line(config)
    assert line is not None
    assert parsed(line) == config


@settings(max_examples=60, deadline=None)
@example_("target", "\x85")
@given(
    st.sampled_from(["target", "delimiter", "comment"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
)
def test_any_text_survives_the_shell(name: str, text: str) -> None:
    config = config_from({"file": "/data/it's.csv", name: text})
    line = command_line(config)
    assert line is not None
    assert parsed(line) == config
    assert config_from(from_yaml(as_yaml(config))) == config


def test_a_name_with_a_comma_is_quoted() -> None:
    config = config_from({"file": "t.csv", "features": ["a,b", "c"]})
    assert parsed(command_line(config) or "") == config


def test_the_page_shows_the_line_of_what_the_form_says() -> None:
    page = settle(open_page("train", data="penguins"))
    page = checked(widget(page, "selectbox", "Model").set_value("ridge").run())
    line = next(code.value for code in page.code if code.value.startswith("shoal train"))
    assert parsed(line) == config_from(from_yaml(yaml_of(page)))
    assert "--model ridge" in line
