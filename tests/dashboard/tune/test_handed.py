"""What is chosen on Train survives Tune: every knob that tuning does not choose itself, and weights to the last number."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
from streamlit.util import calc_hash

from shoal.dashboard.forms.handed import KNOBS, handed_over
from shoal.dashboard.tables import uploads
from shoal.dashboard.tables.sources import READING, Asked, Table
from shoal.dashboard.tune import studies
from shoal.dashboard.tune.form import StudyChoice
from shoal.dashboard.tune.state import TuneState, run_config
from shoal.home import jobs_directory
from shoal.runs.documents import write_json
from shoal.runs.launch import Run, launch
from shoal.settings.config import RunConfig
from shoal.settings.values import page_config
from shoal.settings.when import has_other_loss
from support.pages import checked, open_page, said, settle, uploaded, widget
from support.runs import ended

TUNES = {"target", "model", "alpha", "l1_ratio", "exclude", "solver"}  # what Tune chooses, or ticks
# Of the models of other losses, for which Train does not offer Tune; a study is of least squares.
OTHER_LOSS = {"shrink", "positive", "offset", "offset_as", "class_weight", "huber_epsilon", "quantile", "hidden"}
BOUND = {"nonnegative"}  # whose curves Tune does not draw: Train does not offer it then, and chooses alpha itself
VALUES: dict[str, Any] = {
    "features": ["a", "b"], "weights": "w", "weights_are": "frequency", "coding": "full", "max_levels": 7,
    "min_level_rows": 5,
    "impute": "mean", "fill": -1.5, "squares": ["a"], "interactions": ["a:b"], "transform": ["a=log"],
    "indicators": True, "test_every": 3, "test_fraction": 0.3, "seed": 9, "intercept": False, "standardize": False,
    "confidence": 0.9, "bands": 0.8, "robust": "HC3", "register": "mine", "engine": "processes", "workers": 3,
    "metrics": ["mine"], "rules": ["mine"],
}  # fmt: skip
BESIDE: dict[str, Any] = {
    "weights_are": {"weights": "w"}, "bands": {"test_every": 3}, "fill": {"impute": "constant"}, "test_fraction": {"test_every": 0},
    "seed": {"test_every": 0, "test_fraction": 0.3}, "workers": {"engine": "processes"},
}  # fmt: skip


def test_every_knob_is_handed_over_or_tunes_own() -> None:
    """A new knob has to be one or the other."""
    knobs = RunConfig.knobs()
    paths = {name for name, knob in knobs.items() if not knob.metadata.get("pages", True)}
    steps = {name for name, knob in knobs.items() if knob.metadata.get("training")}
    assert not has_other_loss({**RunConfig().as_dict(), "model": TuneState.model})
    assert set(KNOBS) == set(VALUES) == set(knobs) - paths - steps - TUNES - OTHER_LOSS - BOUND - set(READING)


@pytest.mark.parametrize("rows", [20, 500])
@pytest.mark.parametrize("knob", VALUES)
def test_a_knob_survives_train_tune_and_the_model_that_is_trained(knob: str, rows: int, tmp_path: Path) -> None:
    chosen = {**BESIDE.get(knob, {}), knob: VALUES[knob]}
    text = handed_over({**StudyChoice.usual(rows).knobs, **chosen}, rows, '{"folds":4}')
    choice = StudyChoice.parse(text or "", rows)
    assert choice.folds == 4
    study = choice.config(Asked(Table("key", Path("/t.csv")), {}, "y"))
    write_json(tmp_path / "config.json", study.as_dict())
    write_json(tmp_path / "result.json", {"columns": ["a", "b", "c"]})
    settings = {"target": "y", "model": "lasso", "alpha": 0.5}
    run = run_config(Run(tmp_path), settings)
    usual = {} if "test_every" in chosen else StudyChoice.usual(rows).knobs
    assert run == page_config("/t.csv", {**usual, **chosen, **settings})


def test_what_a_column_had_goes_with_it(tmp_path: Path) -> None:
    config = {"target": "y", "features": ["a", "b"], "transform": ["a=bins(3)", "b=log+plain"], "weights": "w"}
    config |= {"reference": ["bins(a)=2", "c=x"]}
    write_json(tmp_path / "config.json", page_config("/t.csv", config).as_dict())
    write_json(tmp_path / "result.json", {"columns": ["a", "b"]})
    run = run_config(Run(tmp_path), {"target": "b", "model": "linear", "exclude": ["a"]})
    assert (run.features, run.transform, run.reference, run.weights) == (("a", "y"), (), ("c=x",), "w")


def weighted_table() -> tuple[str, pd.DataFrame]:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=60),
            "b": rng.normal(size=60),
            "c": 1.0 * rng.integers(9, size=60),
            "w": rng.integers(1, 9, 60),
        }
    )
    frame["y"] = 2 * frame.a - frame.b * frame.w + rng.normal(size=60)
    return uploads.key_of(uploaded(frame.to_csv(index=False).encode(), "weighted.csv")) or "", frame


def test_weights_chosen_on_train_are_those_of_tune_and_of_its_model() -> None:
    """Also of some columns only, whose target another may replace."""
    key, frame = weighted_table()
    page = settle(open_page("train", data=key, target="y"))
    page = checked(widget(page, "multiselect", "Columns to use").set_value(["a", "b"]).run())
    page = checked(widget(page, "selectbox", "Weights of the rows").set_value("w").run())
    meaning = next(w for w in page.get("button_group") + page.get("selectbox") if w.label == "What weights mean")
    page = checked(meaning.set_value("frequency").run())  # it is asked for at once
    (link,) = [link.proto for link in page.get("page_link") if link.proto.label == "Tune the penalty"]
    address = {part: values[0] for part, values in parse_qs(link.query_string).items()}
    assert json.loads(address["study"]) == {"features": ["a", "b"], "weights": "w", "weights_are": "frequency"}

    page._page_hash = calc_hash("tune")  # the menu leads there as well, and back
    page.query_params.clear()
    page = settle(page.run())
    assert "Rows count by 'w' (frequency)." in html.unescape(said(page))
    (study,) = [Run(path) for path in (jobs_directory() / "study").iterdir()]
    assert ended(study) == "finished", study.error
    assert "w" not in (study.result or {})["columns"]
    run = launch(run_config(study, {"target": "y", "model": "linear"}))
    assert ended(run) == "finished", run.error
    state = TuneState(predict="a", model="linear")
    question = state.question(whatif := studies.opened(study.directory.name).whatif)
    other = run_config(study, state.settings(question, 0.0))
    assert (other.features, other.weights) == (("b", "y"), "w")
    assert {term.name for term in whatif.setting(question).encoding.terms} == {"b", "y"}
    train = frame[np.arange(60) % 5 != 0]
    root = np.sqrt(train.w.to_numpy())
    X = np.column_stack((np.ones(len(train)), train[["a", "b"]]))
    theirs = np.linalg.lstsq(X * root[:, None], train.y * root, rcond=None)[0]
    found = (run.result or {})["coefficients"]
    np.testing.assert_allclose([found["a"], found["b"]], theirs[1:], rtol=1e-9)

    page = checked(widget(page, "selectbox", "Weights of the rows").set_value("").run())
    page = settle(page.button(key="tune:apply").click().run())
    page._page_hash = calc_hash("train")
    page.query_params.clear()
    page = settle(page.run())
    assert widget(page, "selectbox", "Weights of the rows").value == ""  # taken back on Tune
    assert widget(page, "multiselect", "Columns to use").value == ["a", "b"]


def test_what_tune_has_no_field_for_is_said() -> None:
    choice = StudyChoice.parse(json.dumps({"features": ["a", "b"], "register": "mine", "max_levels": 7}))
    assert choice.from_train == (
        "As chosen on Train: Columns to use: a, b · Most levels of a text column: 7 · Save as a version of the model: mine."
    )
    assert StudyChoice.usual(500).from_train == ""
