"""Every knob on the form: its words, when it is asked for, and what speaks against a start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shoal.dashboard.forms.knob_widgets import default_values
from shoal.dashboard.forms.problems import problems_of
from shoal.dashboard.parts import wording
from shoal.results.answers.table import BadRows, ColumnLook, TableLook
from shoal.settings.checks import KNOB_GROUPS, RANGES
from shoal.settings.meaning import has_effect
from shoal.settings.values import config_from
from support.dashboard.train_page import KNOBS, apply, labels
from support.pages import open_page, settle

# ------------------------------------------------------------------ every knob


@pytest.mark.parametrize("name", KNOBS)
def test_every_knob_has_a_group_and_words_for_the_page(name: str) -> None:
    metadata = KNOBS[name].metadata
    assert metadata["group"] in KNOB_GROUPS
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
        "model: elasticnet\ntest_fraction: 0.2\nimpute: constant\nweights: body_mass_g\n",
        "model: logistic\nshrink: elasticnet\noffset: body_mass_g\n",
        "model: quantile\n",
        "model: huber\n",
        "model: mlp\n",
        "test_every: 5\nsolver: gradient\nmode: ssp\nschedule: step\ncompression: topk\nstep_rule: adamw\n",
        "test_fraction: 0.1\nsolver: gradient\nmode: local\npenalty: some_plugin\ncallbacks: [another]\n"
        "checkpoint_strategy: third\nrecovery: fourth\nrules: [fifth]\nmetrics: [sixth]\n",
    ):
        page = apply(page, text)
        drawn |= labels(page)
    asked = [name for name, knob in KNOBS.items() if knob.metadata["group"] not in ("place", "reading")]
    assert {wording.label_for(name) for name in asked} - drawn == set()


def test_every_drawing_tells_the_browser_what_widgets_hold() -> None:
    """A browser that missed the first drawing, since the next click cut it off, has them from any other."""
    page = settle(open_page("train", data="penguins"))
    page = apply(page, "model: ridge\nmax_levels: 150\nindicators: true\nexclude: [year]\n")
    page.run()
    toggles = {toggle.label: toggle.proto.default for toggle in page.toggle}
    assert all(toggles[wording.label_for(name)] for name in ("intercept", "standardize", "indicators"))
    numbers = {box.label: box.proto.default for box in page.number_input}
    assert numbers[wording.label_for("max_levels")] == 150
    [left_out] = (box for box in page.multiselect if box.label == wording.label_for("exclude"))
    assert [left_out.options[place] for place in left_out.proto.default] == ["year"]


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
    ("bands", {}, False),
    ("bands", {"test_every": 5}, True),
    ("bands", {"model": "huber", "test_fraction": 0.2}, True),
    ("bands", {"model": "poisson", "test_every": 5}, False),
    ("bands", {"test_every": 5, "solver": "gradient"}, False),
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
    assert has_effect(knob, {**default_values(), **values}) is shown


# ------------------------------------------------------------------ what speaks against a start


TYPES = {"y": "numeric", "a": "numeric", "t": "categorical"}
COLUMNS = (*(ColumnLook(name, kind, 0, 3) for name, kind in TYPES.items()), ColumnLook("none", "numeric", 10, 0))
FOUND = TableLook(file="t.csv", rows=10, dialect={}, columns=COLUMNS)


@pytest.mark.parametrize(
    ("values", "said_"),
    [
        ({}, "Choose the column to predict first"),
        ({"target": "t"}, "'t' holds 3 texts, : only a multinomial model predicts them"),
        ({"target": "none"}, "'none' has no value in any row"),
        ({"target": "y", "features": ["z"]}, "no column 'z'"),
        ({"target": "y", "exclude": ["a", "t"]}, "No column is left"),
        ({"target": "y", "solver": "gradient", "penalty": "p", "model": "ridge"}, "takes the place"),
        (
            {"target": "y", "model": "ridge", "max_levels": 30_000},
            "Expected an alpha: none is chosen beside max_levels",
        ),
    ],
)
def test_what_would_fail_is_said_before(values: dict[str, Any], said_: str) -> None:
    assert said_ in " ".join(problems_of(config_from({"file": "t.csv", **values}), FOUND))


@pytest.mark.parametrize(
    ("bad", "choice", "fails"),
    [(1, "limit", False), (11, "limit", True), (1, "stop", True), (900, "skip", False)],
)
def test_more_unreadable_rows_than_pass_are_said_before(bad: int, choice: str, fails: bool) -> None:
    config = config_from({"file": "t.csv", "target": "y", "on_bad_rows": choice})
    found = replace(FOUND, rows=1000, bad_rows=BadRows(bad))
    assert ["could not be read" in problem for problem in problems_of(config, found)] == [True] * fails
    assert problems_of(config, replace(found, bad_rows=BadRows(bad, bad))) == []


def test_a_good_config_has_no_problems() -> None:
    assert problems_of(config_from({"file": "t.csv", "target": "y"}), FOUND) == []
