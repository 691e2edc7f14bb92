"""A neural network on the pages: chosen in the form, told beside the exact model, saved, and predicted from a form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shoal.dashboard.tables import uploads
from shoal.library import saved_models
from support.dashboard.train_page import apply, start
from support.gradient.network_tables import curved, oracle, outputs
from support.pages import checked, open_page, said, settle, uploaded, widget

SHORT = "target: y\nmodel: mlp\nhidden: 8,4\nepochs: 3\nengine: inline\ntest_every: 4\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return curved(tmp_path / "curved.csv", 200)


def key_of(path: Path) -> str:
    return uploads.key_of(uploaded(path.read_bytes(), path.name)) or ""


def test_the_form_begins_with_what_suits_a_network_and_forgets_it(table: Path) -> None:
    page = settle(open_page("train", data=key_of(table), target="y"))
    page = settle(checked(widget(page, "selectbox", "Model").set_value("mlp").run()))
    assert widget(page, "text_input", "Hidden layers").value == "auto"
    assert widget(page, "number_input", "Epochs").value == 100
    assert widget(page, "selectbox", "Step rule").value == "adamw"
    assert any("A fifth of the training rows says when to stop" in caption.value for caption in page.caption)
    page = settle(checked(widget(page, "selectbox", "Model").set_value("linear").run()))
    assert widget(page, "radio", "How to solve it").value == "exact"
    page = settle(apply(page, SHORT))
    assert widget(page, "number_input", "Epochs").value == 3, "what somebody says is kept"
    assert widget(page, "text_input", "Hidden layers").value == "8,4"
    assert widget(page, "selectbox", "Step rule").value == "adamw", "what nobody says is what suits a network"


def test_it_is_told_beside_the_exact_model_saved_and_predicts(table: Path) -> None:
    key = key_of(table)
    run = start(apply(settle(open_page("train", data=key)), SHORT))
    assert run.result is not None
    page = settle(open_page("train", run=run.id))
    shown = said(page)
    assert "Beside the exact linear model" in [header.value for header in page.header]
    assert "A network with hidden layers of 8 and 4 units" in shown
    beside = run.result["network"]["beside"]
    assert beside["rows"] == 50
    assert "Coefficients" not in [header.value for header in page.header]
    saved = saved_models.save_run(run, run.result)
    for view in ("Coefficients", "Diagnostics", "Export", "Lineage", "Versions"):
        settle(open_page("models", model=saved.name, version="1", view=view))
    form = settle(open_page("models", model=saved.name, version="1", view="Predict"))
    assert "Predicted y" in [metric.label for metric in form.metric]
    form = settle(open_page("models", model=saved.name, version="1", view="Predict", rows=key))
    form = settle(checked(widget(form, "button_group", "Predict").set_value("A file").run()))
    found = form.dataframe[-1].value["Prediction"].to_numpy()
    layers = json.loads((run.directory / "model.json").read_text("utf-8"))["layers"]
    np.testing.assert_allclose(found, outputs(layers, oracle(table).X)[: len(found)], rtol=1e-9)
