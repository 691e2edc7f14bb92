"""The form that starts a run: made from the config's knobs, the same as its YAML and its command line, real runs behind."""

from __future__ import annotations

import argparse
import fcntl
import functools
import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example as example_
from hypothesis import given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from shoal.cli import app as cli
from shoal.dashboard.forms.knob_widgets import default_values, is_asked
from shoal.dashboard.forms.problems import problems_of
from shoal.dashboard.forms.settings_tabs import checked as checked_yaml
from shoal.dashboard.parts import wording
from shoal.dashboard.tables import uploads
from shoal.errors import ConfigError
from shoal.runs import slots as run_queue
from shoal.runs.launch import Run, find_run
from shoal.settings.config import RANGES, RunConfig, config_from
from shoal.settings.text import as_yaml, changed, command_line, from_yaml
from support.pages import checked, open_page, said, settle, widget

ROOT = Path(__file__).parents[2]
KNOBS = RunConfig.knobs()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def example(rows: int = 40) -> tuple[str, np.ndarray, np.ndarray]:
    """The key of an upload, and what is in it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 2)).round(3)
    y = (1.5 + 2 * X[:, 0] - 3 * X[:, 1] + 0.1 * rng.normal(size=rows)).round(3)
    lines = ["a,b,y", *(f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True))]
    path = uploads.keep(io.BytesIO(("\n".join(lines) + "\n").encode()), "table.csv")
    return uploads.key_of(path) or "", X, y


def address(page: AppTest, part: str) -> str:
    """A part of the address: a list until the page itself has set it."""
    value = page.query_params[part]
    return value if isinstance(value, str) else str(value[0])


def start(page: AppTest) -> Run:
    """Press the button; the run that came of it, at its end."""
    page = checked(page.button(key="start").click().run())
    run = find_run(address(page, "run"))
    assert run is not None
    settle(page)
    return run


def yaml_of(page: AppTest) -> str:
    return str(widget(page, "text_area", "Settings as YAML").value)


def apply(page: AppTest, text: str) -> AppTest:
    checked(widget(page, "text_area", "Settings as YAML").set_value(text).run())
    return checked(widget(page, "button", "Apply to the form").click().run())


def labels(page: AppTest) -> set[str]:
    kinds = ("selectbox", "number_input", "button_group", "multiselect", "toggle", "radio", "text_input")
    return {w.label for kind in kinds for w in page.get(kind)}


# ------------------------------------------------------------------ real runs


def test_a_sample_is_fitted_and_found_again_by_its_address() -> None:
    page = settle(open_page("train", data="penguins"))
    assert widget(page, "selectbox", "Column to predict").value == "body_mass_g"
    run = start(page)
    assert run.state == "finished"
    assert run.config["test_every"] == 5  # enough rows to keep some for testing
    assert run.result is not None
    assert run.result["target"] == "body_mass_g"
    assert address(open_page("train", run=run.id), "run") == run.id


def test_an_upload_is_fitted_as_numpy_fits_it() -> None:
    key, X, y = example()
    page = settle(open_page("train", data=key))
    assert page.button(key="start").disabled  # nothing to predict yet
    assert "Choose the column to predict first." in said(page)
    assert widget(page, "button_group", "Rows kept for testing").value == "None"  # too few rows to give any away
    page = checked(widget(page, "selectbox", "Column to predict").set_value("y").run())
    assert address(page, "target") == "y"  # a reload keeps it
    result = start(page).result
    assert result is not None
    best = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
    found = [result["intercept"], result["coefficients"]["a"], result["coefficients"]["b"]]
    np.testing.assert_allclose(found, best, rtol=1e-9)


def test_alpha_is_asked_for_only_where_it_means_something_and_kept_for_the_next_fit() -> None:
    page = settle(open_page("train", data="penguins"))
    assert not any("alpha" in label for label in labels(page))
    page = checked(widget(page, "button_group", "Model").set_value("elasticnet").run())
    checked(widget(page, "number_input", "Penalty strength (alpha)").set_value(7.5).run())
    assert widget(page, "number_input", "Share of lasso (l1_ratio)").value == 0.5
    run = start(page)
    assert run.config["alpha"] == 7.5
    page = settle(open_page("train", data="penguins", like=run.id))
    assert widget(page, "button_group", "Model").value == "elasticnet"
    assert widget(page, "number_input", "Penalty strength (alpha)").value == 7.5


def test_a_gradient_run_started_from_the_form_comes_near_the_exact_optimum() -> None:
    key, X, y = example(rows=400)
    page = settle(open_page("train", data=key, target="y"))
    assert "When a gradient is applied" not in labels(page)
    page = checked(widget(page, "radio", "How to solve it").set_value("gradient").run())
    assert "Most updates behind" not in labels(page)
    page = checked(widget(page, "button_group", "When a gradient is applied").set_value("ssp").run())
    checked(widget(page, "number_input", "Most updates behind").set_value(2).run())
    checked(widget(page, "number_input", "Worker processes").set_value(2).run())
    page = checked(widget(page, "button_group", "Rows kept for testing").set_value("None").run())
    assert widget(page, "button", "Start training").key == "start"
    run = start(page)
    assert (run.state, run.config["mode"], run.config["staleness"], run.config["workers"]) == ("finished", "ssp", 2, 2)
    assert run.result is not None
    best = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
    found = [run.result["intercept"], run.result["coefficients"]["a"], run.result["coefficients"]["b"]]
    np.testing.assert_allclose(found, best, rtol=1e-3)
    again = settle(open_page("train", data=key, like=run.id))  # gradient knobs too, and the column to predict
    assert widget(again, "number_input", "Most updates behind").value == 2
    assert widget(again, "selectbox", "Column to predict").value == "y"


# ------------------------------------------------------------------ states of the page


def test_without_a_table_the_page_leads_to_one() -> None:
    page = open_page("train")
    assert "No table yet" in [header.value for header in page.subheader]
    key, _, _ = example()
    page = open_page("train")
    assert "table.csv" in said(page)
    assert not page.get("button")
    assert key  # it is offered by name


def test_an_address_of_a_table_that_is_gone_says_so() -> None:
    assert open_page("train", data="0" * 24 + "/gone.csv").title[0].value == "Nothing here"


def test_a_file_that_is_no_table_gets_a_plain_sentence_and_the_way_to_mend_it() -> None:
    path = uploads.keep(io.BytesIO(b"\n\n"), "empty.csv")
    page = settle(open_page("train", data=uploads.key_of(path) or ""))
    assert "This file could not be read" in said(page)
    assert not page.get("radio")


def test_what_was_filled_in_stays_when_one_looks_at_the_data_and_comes_back() -> None:
    page = settle(open_page("train", data="penguins"))
    checked(widget(page, "button_group", "Model").set_value("ridge").run())
    checked(widget(page, "number_input", "Penalty strength (alpha)").set_value(3.25).run())
    checked(widget(page, "multiselect", "Columns to use").set_value(["bill_length_mm", "year"]).run())
    for name in ("data", "train"):  # by the navigation, which leaves the address behind
        page._page_hash = calc_hash(name)
        page.query_params.clear()
        checked(page.run())
    page = settle(page)
    assert widget(page, "number_input", "Penalty strength (alpha)").value == 3.25
    assert widget(page, "multiselect", "Columns to use").value == ["bill_length_mm", "year"]
    assert address(page, "data") == "penguins"


def test_another_target_is_taken_out_of_the_columns_to_use() -> None:
    page = settle(open_page("train", data="penguins"))
    checked(widget(page, "multiselect", "Columns to use").set_value(["bill_length_mm", "year"]).run())
    page = checked(widget(page, "selectbox", "Column to predict").set_value("year").run())
    assert widget(page, "multiselect", "Columns to use").value == ["bill_length_mm"]
    assert not page.button(key="start").disabled


@pytest.fixture
def taken_slots(home: Path) -> Iterator[None]:
    folder = home / "queue"
    folder.mkdir(parents=True)
    files = [(folder / f"slot-{number}").open("a") for number in range(run_queue.slots())]
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
    yield
    for file in files:
        file.close()


@pytest.mark.usefixtures("taken_slots")
def test_a_run_that_will_have_to_wait_is_announced_as_such() -> None:
    page = settle(open_page("train", data="penguins"))
    assert "queue" not in said(page)  # an exact fit does not
    page = checked(widget(page, "radio", "How to solve it").set_value("gradient").run())
    assert "It will wait in the queue" in said(page)
    assert not page.button(key="start").disabled


# ------------------------------------------------------------------ every knob


@pytest.mark.parametrize("name", KNOBS)
def test_every_knob_has_a_group_and_words_for_the_page(name: str) -> None:
    metadata = KNOBS[name].metadata
    assert metadata["group"] in wording.GROUPS
    assert metadata["help"]
    if metadata["group"] == "place":
        return
    assert wording.LABELS[name]
    assert wording.label_for(name).startswith(wording.LABELS[name])
    assert wording.help_for(name).endswith(".")
    assert "--" not in wording.help_for(name)
    for choice in metadata.get("choices", ()):
        word = wording.choice_for(name, choice)
        assert word in (wording.CHOICES_OF.get(name) or wording.CHOICES).values(), f"{name}: {choice} has no words"
    if str(KNOBS[name].type).removesuffix(" | None") in ("int", "float"):
        assert name in RANGES or name in ("test_every", "seed")


def test_every_knob_of_the_form_is_drawn_somewhere() -> None:
    """With every choice that a knob depends on made in turn."""
    page = settle(open_page("train", data="penguins"))
    drawn = labels(page)
    for text in (
        "model: elasticnet\ntest_fraction: 0.2\nimpute: constant\n",
        "test_every: 5\nsolver: gradient\nmode: ssp\nschedule: step\ncompression: topk\nstep_rule: adam\n",
        "test_fraction: 0.1\nsolver: gradient\nmode: local\npenalty: some_plugin\ncallbacks: [another]\n",
    ):
        page = apply(page, text)
        drawn |= labels(page)
    asked = [name for name, knob in KNOBS.items() if knob.metadata["group"] not in ("place", "reading")]
    assert {wording.label_for(name) for name in asked} - drawn == set()


SHOWN = [
    ("alpha", {"model": "linear"}, False),
    ("alpha", {"model": "ridge"}, True),
    ("alpha", {"solver": "gradient", "penalty": "mine"}, True),
    ("l1_ratio", {"model": "lasso"}, False),
    ("l1_ratio", {"model": "elasticnet"}, True),
    ("fill", {"impute": "mean"}, False),
    ("fill", {"impute": "constant"}, True),
    ("confidence", {}, True),
    ("confidence", {"model": "ridge"}, False),
    ("confidence", {"solver": "gradient"}, False),
    ("seed", {}, False),
    ("seed", {"test_fraction": 0.2}, True),
    ("workers", {"engine": "inline"}, False),
    ("mode", {}, False),
    ("mode", {"solver": "gradient"}, True),
    ("decay", {"solver": "gradient", "schedule": "cosine"}, False),
    ("decay", {"solver": "gradient", "schedule": "step"}, True),
    ("momentum", {"solver": "gradient", "step_rule": "sgd"}, False),
    ("momentum", {"solver": "gradient", "step_rule": "adam"}, True),
    ("momentum", {"solver": "gradient", "step_rule": "adam", "mode": "local"}, False),
    ("step_rule", {"solver": "gradient", "mode": "local"}, False),
    ("top_k", {"solver": "gradient", "compression": "half"}, False),
    ("top_k", {"solver": "gradient", "compression": "topk"}, True),
    ("staleness", {"solver": "gradient", "mode": "async"}, False),
    ("staleness", {"solver": "gradient", "mode": "ssp"}, True),
    ("local_steps", {"solver": "gradient", "mode": "local"}, True),
    ("patience", {"solver": "gradient"}, False),
    ("patience", {"solver": "gradient", "test_every": 5}, True),
    ("finish_passes", {"solver": "gradient", "tolerance": 0.0}, False),
    ("restarts", {"solver": "gradient", "on_worker_loss": "stop"}, False),
]


@pytest.mark.parametrize(("knob", "values", "shown"), SHOWN, ids=str)
def test_a_knob_without_meaning_is_not_asked_for(knob: str, values: dict[str, Any], shown: bool) -> None:
    assert is_asked(knob, {**default_values(), **values}) is shown


# ------------------------------------------------------------------ YAML

OTHERS: dict[str, Any] = {
    "target": "no", "model": "lasso", "alpha": 0.25, "l1_ratio": 0.125, "features": ["a b", "1"], "exclude": ["x"],
    "categorical": ["zip"], "numeric": ["n"], "coding": "full", "max_levels": 7, "impute": "drop", "fill": -1.5,
    "squares": ["a", "w"], "interactions": ["a:q", '"x:y":z'],
    "indicators": True, "test_every": 3, "test_fraction": 0.3, "seed": 2**60, "intercept": False, "standardize": False,
    "confidence": 0.9, "engine": "processes", "workers": 3, "delimiter": ";", "decimal": ",", "thousands": "",
    "encoding": "latin-1", "quote": "'", "comment": "#", "skip_lines": 2, "header": False, "missing": ["NA", "-999"],
    "on_bad_rows": "skip", "solver": "gradient", "mode": "ssp", "epochs": 3, "tolerance": 0.0, "finish_passes": 77,
    "max_seconds": 12.5, "patience": 4, "batch_size": 64, "local_steps": 5, "staleness": 2, "step_rule": "adam",
    "learning_rate": 1e-7, "schedule": "cosine", "warmup": 0.5, "decay": 0.75, "decay_every": 2.5, "momentum": 0.5,
    "clip": 3.0, "compression": "topk", "top_k": 0.25, "prefetch": 0, "max_memory": 0.5, "shards": 9,
    "partition": "contiguous", "precision": "float64", "penalty": "my_penalty", "callbacks": ["one", "two"],
    "checkpoint_seconds": 0.0, "keep_checkpoints": 2, "on_worker_loss": "fewer", "restarts": 1,
}  # fmt: skip


def config_with(*names: str) -> RunConfig:
    more = {"test_every": 5} if "patience" in names and "test_fraction" not in names else {}
    return config_from({"file": "/data/t.csv", **more, **{name: OTHERS[name] for name in names}})


def test_there_is_another_value_of_every_knob() -> None:
    assert set(OTHERS) == set(KNOBS) - {"file", "out"}
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


def test_yaml_to_form_to_yaml_loses_nothing_also_of_knobs_that_are_not_shown() -> None:
    key, _, _ = example(rows=60)
    page = settle(open_page("train", data=key))
    path = uploads.find(key)
    names = [name for name in OTHERS if name not in ("target", "test_fraction", "features", "exclude", "categorical",
             "numeric", "delimiter", "quote", "comment", "skip_lines", "header", "encoding",
             "decimal", "thousands")]  # fmt: skip
    wanted = {**{name: OTHERS[name] for name in names}, "target": "y", "features": ["a"], "exclude": ["b"]}
    config = config_from({"file": str(path), **wanted})
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
    page = checked(widget(page, "number_input", "Passes by steps").set_value(4).run())
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
    assert widget(page, "button_group", "Model").value == "linear"
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
    config: RunConfig = cli._config(chosen)
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


def test_a_name_with_a_comma_is_left_to_yaml() -> None:
    assert command_line(config_from({"file": "t.csv", "features": ["a,b"]})) is None


def test_the_page_shows_the_line_of_what_the_form_says() -> None:
    page = settle(open_page("train", data="penguins"))
    page = checked(widget(page, "button_group", "Model").set_value("ridge").run())
    line = next(code.value for code in page.code if code.value.startswith("shoal train"))
    assert parsed(line) == config_from(from_yaml(yaml_of(page)))
    assert "--model ridge" in line


# ------------------------------------------------------------------ what speaks against a start

FOUND = {
    "rows": 10, "bad_rows": {"count": 0},
    "columns": [{"name": n, "type": t, "missing": 0, "distinct": 3}
                for n, t in (("y", "numeric"), ("a", "numeric"), ("t", "categorical"))],
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "said_"),
    [
        ({}, "Choose the column to predict first"),
        ({"target": "t"}, "Expected a column of numbers to predict, got 't'"),
        ({"target": "y", "features": ["z"]}, "no column 'z'"),
        ({"target": "y", "exclude": ["a", "t"]}, "No column is left"),
        ({"target": "y", "solver": "gradient", "penalty": "p", "model": "ridge"}, "takes the place"),
    ],
)
def test_what_would_fail_is_said_before(values: dict[str, Any], said_: str) -> None:
    assert said_ in " ".join(problems_of(config_from({"file": "t.csv", **values}), FOUND))


def test_a_good_config_has_no_problems() -> None:
    assert problems_of(config_from({"file": "t.csv", "target": "y"}), FOUND) == []
