"""What is to be minded of a fit: first, with one click where there is a remedy; what is routine is folded away."""

from __future__ import annotations

import html

import numpy as np
import pytest

from shoal.dashboard.tables import uploads
from shoal.runs.launch import find_run
from support.dashboard.train_page import address, apply, start
from support.pages import checked, open_page, said, settle, uploaded, widget


@pytest.fixture
def key() -> str:
    """Classes that a column tells apart in the training rows alone: every fifth row, kept for testing, is at random."""
    rng = np.random.default_rng(4)
    names = ["base", "plus", "ultra"]
    lines = ["tarif;x;note"]
    for i in range(150):
        kind = i % 3
        x = float(rng.uniform(0, 3)) if i % 5 == 0 else kind + float(rng.uniform(0.2, 0.8))
        lines.append(f"{names[kind]};{x:.3f}".replace(".", ",") + f";n{i}")
    return uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "tariffs.csv")) or ""


def test_classes_without_an_end_are_warned_of_first_and_held_with_one_click(key: str) -> None:
    settings = "target: tarif\nmodel: multinomial\ntest_every: 5\n"
    run = start(apply(settle(open_page("train", data=key)), settings))
    page = settle(open_page("train", run=run.id))
    told = html.unescape(said(page))
    assert "worse than the baseline: a log loss of" in told
    assert "coefficients grow without end here" in told
    assert "Left out of the model: note." in told
    assert told.index("Without a penalty its coefficients have no end") < told.index("There is no optimum")
    folded = next(one for one in page.expander if "on how it was read and fitted" in one.label)
    notes = html.unescape(" ".join(element.proto.body for element in folded.get("html")))
    assert "Text column 'note' has 150 different values and is left out" in notes
    assert "no finite optimum" not in notes
    page = checked(widget(page, "button", "Fit again: Ridge").click().run())
    held = find_run(address(page, "run"))
    assert held is not None
    assert held.id != run.id
    settle(page)
    assert held.result is not None
    assert held.config["shrink"] == "ridge"
    assert held.config["test_every"] == 5
    assert not held.result["outcome"]["separated"]
    assert not [button for button in settle(open_page("train", run=held.id)).button if "Fit again" in button.label]


def test_gaps_that_tell_something_are_marked_with_one_click_before_the_fit_or_after_it() -> None:
    rng = np.random.default_rng(3)
    lines = ["area,price"]
    for _ in range(200):
        area, gone = float(rng.normal(50, 10)), rng.random() < 0.2
        lines.append(f"{'' if gone else round(area, 2)},{3 * area + 90 * gone + float(rng.normal()):.3f}")
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "flats.csv")) or ""
    page = settle(open_page("train", data=key, target="price"))
    assert "Missing numbers are filled, but they tell something" in said(page)
    run = start(page)
    page = settle(open_page("train", run=run.id))
    assert "Replaced as follows." in said(page)
    page = checked(widget(page, "button", "Fit again: with gaps marked").click().run())
    again = find_run(address(page, "run"))
    assert again is not None
    settle(page)
    assert again.config["indicators"] is True
    assert again.result is not None
    assert run.result is not None
    assert again.result["test"]["r2"] > run.result["test"]["r2"] + 0.2
    page = settle(open_page("train", data=key, target="price"))
    page = checked(widget(page, "button", "Mark missing numbers").click().run())
    assert "they tell something" not in said(page)
    assert widget(page, "toggle", "Mark missing numbers with a column of their own").value is True
    page = settle(open_page("tune", data=key, target="price"))
    page = checked(widget(page, "button", "Mark missing numbers").click().run())
    assert "indicators" in address(page, "study")
