"""The page of a model of several classes: calls, coefficients of each class, a form with all probabilities."""

from __future__ import annotations

import pytest

import shoal
from shoal.dashboard.tables.samples import SAMPLES
from shoal.library.saved_models import Version
from shoal.runs.launch import launch
from shoal.settings.values import config_from
from support.pages import checked, open_page, said, settle
from support.runs import ended

NAME = "kinds"


@pytest.fixture
def version() -> Version:
    knobs = {"model": "multinomial", "shrink": "ridge", "alpha": 1.0, "test_every": 5, "register": NAME}
    run = launch(config_from({"file": str(SAMPLES["penguins"].ensure()), "target": "species", **knobs}))
    assert ended(run) == "finished"
    return Version(NAME, 1)


def test_every_view_of_classes_is_drawn(version: Version) -> None:
    model = shoal.load(version.model_path)
    page = checked(open_page("models", model=NAME, version="1", view="Coefficients"))
    calls = next(frame.value for frame in page.dataframe if "Share right" in frame.value)
    assert calls["Is"].tolist() == ["Adelie", "Chinstrap", "Gentoo"]
    assert calls["Rows"].sum() == 69
    coefficients = next(frame.value for frame in page.dataframe if "Coefficient" in frame.value)
    assert coefficients["Column"].tolist()[:3] == [f"{one}: (intercept)" for one in model.classes]
    assert "no residuals" in said(checked(open_page("models", model=NAME, version="1", view="Diagnostics")))


def test_the_form_gives_all_probabilities_and_what_moves_a_class(version: Version) -> None:
    model = shoal.load(version.model_path)
    page = checked(open_page("models", model=NAME, version="1", view="Predict"))
    page.number_input(key=f"row:{NAME}:1:bill_length_mm").set_value(50.0)
    page = checked(page.run())
    row = dict.fromkeys(("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "year"))
    usual = {"island": "Biscoe", "sex": "male"}
    shares = model.predict_proba({**row, **usual, "bill_length_mm": 50.0})[0]
    shown = next(frame.value for frame in page.dataframe if "Probability" in frame.value).set_index("Class")
    assert shown["Probability"][list(model.classes)].tolist() == pytest.approx(shares.tolist())
    page.selectbox(key="row:class").set_value("Gentoo")
    assert "the score of Gentoo" in said(checked(page.run()))


def test_a_model_of_yes_or_no_has_a_report_too() -> None:
    knobs = {"model": "logistic", "test_every": 5, "register": "sexes", "features": ["body_mass_g", "island"]}
    run = launch(config_from({"file": str(SAMPLES["penguins"].ensure()), "target": "sex", **knobs}))
    assert ended(run) == "finished"
    page = settle(open_page("models", model="sexes", version="1", view="Export"), 60)
    assert "Download report" in [button.proto.label for button in page.get("download_button")]
    assert "Reports are for" not in said(page)
