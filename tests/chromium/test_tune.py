"""The Tune page in a real Chromium: sliders, ticks, targets and buttons, held against scikit-learn. No error passes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlparse

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Locator, Page, Route, expect
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler

from support.browser import LOOK, Server, Visitor, fits, needs_chromium, opens, settled

pytestmark = needs_chromium
HOSTILE = '<img src=x onerror="document.title=1">'


ALL_ROWS = "study=" + quote('{"fold_by":"row","test_every":0}')  # as scikit-learn is given them


def opened(visitor: Visitor, address: str = "tune?data=penguins") -> Page:
    page = visitor.visit(f"{address}&{ALL_ROWS}")
    expect(page.locator(".tune[aria-busy=false][data-drawn]")).to_be_visible()
    expect(page.locator(".tune-plot.js-plotly-plot")).to_have_count(2)
    return page


def slider(page: Page) -> Locator:
    return page.get_by_role("slider", name="Penalty strength (alpha)")


def drawn_alpha(page: Page) -> float:
    """Once what is drawn is the answer to the last question."""
    expect(page.locator(".tune[aria-busy=false]")).to_be_visible()
    return float(page.locator(".tune").get_attribute("data-drawn") or "nan")


def moved(page: Page, from_alpha: float) -> float:
    """The next alpha that is drawn, once its curve is there."""
    page.wait_for_function(
        "was => { const t = document.querySelector('.tune'); "
        "return t.getAttribute('aria-busy') === 'false' && Number(t.dataset.drawn) !== was }",
        arg=from_alpha,
        polling=LOOK,
    )
    return drawn_alpha(page)


def coefficients(page: Page) -> dict[str, float]:
    """What the table says, by the names of terms; all that is not there is 0."""
    rows = page.locator("[data-part=coefficients] tr[data-term]")
    found: list[list[str]] = rows.evaluate_all(
        "rows => rows.map(r => [r.dataset.term, r.lastChild.dataset.value, r.lastChild.textContent])"
    )
    for _, value, text in found:
        assert float(text.replace(",", "")) == pytest.approx(float(value), rel=1e-3)
    return {name: float(value) for name, value, _ in found}


def penguins(server: Server) -> pd.DataFrame:
    return pd.read_csv(server.home / "samples" / "penguins.csv")


def design(frame: pd.DataFrame, target: str, left_out: tuple[str, ...] = ()) -> tuple[pd.DataFrame, pd.Series]:
    """The rows with a target; medians and 0/1 columns as the page's study has them."""
    frame = frame[frame[target].notna()]
    columns: dict[str, Any] = {}
    for name in frame.columns.drop([target, *left_out]):
        if frame[name].dtype.kind in "if":
            columns[name] = frame[name].fillna(frame[name].median())
        else:
            levels = frame[name].fillna("(no value)")
            compared = min(level for level in levels.unique() if level != "(no value)")
            others = sorted({*levels.unique()} - {compared})
            columns |= {f"{name}={level}": (levels == level).astype(float) for level in others}
    return pd.DataFrame(columns), frame[target]


def lasso(server: Server, target: str, alpha: float, left_out: tuple[str, ...] = ()) -> dict[str, float]:
    X, y = design(penguins(server), target, left_out)
    scaler = StandardScaler().fit(X)
    fitted = Lasso(alpha=alpha, tol=1e-13, max_iter=1_000_000).fit(scaler.transform(X), y)
    return {name: w for name, w in zip(X.columns, fitted.coef_ / scaler.scale_, strict=True) if w}


def same(shown: dict[str, float], theirs: dict[str, float]) -> None:
    assert shown.keys() == theirs.keys()
    for name, value in theirs.items():
        assert shown[name] == pytest.approx(value, rel=1e-6), name


def address(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlparse(page.url).query).items()}


# ------------------------------------------------------------------ alpha


def test_keys_and_a_drag_move_the_model_along_its_path(visitor: Visitor, server: Server) -> None:
    page = opened(visitor)
    best = drawn_alpha(page)
    same(coefficients(page), lasso(server, "body_mass_g", best))
    slider(page).focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    stronger = drawn_alpha(page)
    assert stronger > 2 * best
    same(coefficients(page), lasso(server, "body_mass_g", stronger))
    box = slider(page).bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.52, middle)
    page.mouse.down()
    for share in np.linspace(0.52, 0.85, 25):
        page.mouse.move(box["x"] + box["width"] * share, middle)
    page.mouse.up()
    last = moved(page, stronger)
    assert last > 5 * stronger
    shown = coefficients(page)
    same(shown, lasso(server, "body_mass_g", last))
    assert len(shown) < len(lasso(server, "body_mass_g", best))
    expect(page.locator("[data-part=coefficients] header")).to_contain_text("are exactly 0")
    line = "at => document.querySelectorAll('.tune-plot')[1].layout.shapes[0].x0 === at"
    page.wait_for_function(line, arg=last, polling=LOOK)
    label = page.locator(".tune-plot").first.get_attribute("aria-label") or ""
    assert "Cross-validated mean squared error over 100 penalties" in label


def test_best_and_one_se_lead_to_the_marks_of_the_curve_and_a_command_is_that_of_the_model_shown(
    visitor: Visitor,
) -> None:
    page = opened(visitor, "tune?data=penguins&alpha=50")
    assert drawn_alpha(page) == 50
    page.get_by_role("button", name="Copy command").click()
    command = page.locator(".tune-command")
    expect(command).to_contain_text("--alpha 50")
    button = page.get_by_role("button", name="1-SE")
    button.click()
    simple = moved(page, 50)
    expect(command).to_be_hidden()
    expect(page.locator(".tune-actions")).not_to_contain_text("Copied")
    marks = page.evaluate("document.querySelectorAll('.tune-plot')[0].data.map(t => [t.name, t.x[0], t.y[0]])")
    found = {name: (x, y) for name, x, y in marks if name}
    assert simple == pytest.approx(found["1-SE"][0])
    expect(button).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Best").click()
    best = moved(page, simple)
    expect(page.get_by_role("button", name="Best")).to_have_attribute("aria-pressed", "true")
    assert best == pytest.approx(found["Best"][0])
    assert best < simple
    shown = float(page.locator("[data-tile=cv] .tune-big").inner_text().replace(",", ""))
    assert shown == pytest.approx(found["Best"][1] ** 0.5, rel=1e-3)

    doubt = page.locator("[data-part=doubt]")
    doubt.get_by_role("button", name="Work out intervals").click()
    expect(doubt.locator("tbody tr").first).to_be_visible()
    expect(doubt).to_contain_text("500 resamples")
    expect(doubt).to_contain_text("it is not the chance that the column matters")
    assert doubt.locator(".is-sure").count() > 2


# ------------------------------------------------------------------ columns, targets, models


def test_columns_and_targets_follow_at_once(visitor: Visitor, server: Server) -> None:
    page = opened(visitor, "tune?data=penguins&alpha=20")
    columns = page.locator("[data-part=columns]")
    expect(columns.get_by_text(re.compile(r"^\+\d")).first).to_be_visible()  # what they are worth
    before = coefficients(page)
    columns.get_by_role("checkbox", name="species").uncheck()
    expect(page.locator("[data-tile=kept] .tune-big")).to_contain_text("of 6")
    assert drawn_alpha(page) == 20
    shown = coefficients(page)
    assert shown.keys() != before.keys()
    same(shown, lasso(server, "body_mass_g", 20, ("species",)))
    columns.get_by_role("button", name="None").click()
    expect(page.get_by_role("alert").filter(has_text="at least one column")).to_be_visible()
    expect(page.get_by_role("button", name="Train this model")).to_be_disabled()  # it would be that of before
    columns.get_by_role("button", name="All").click()
    expect(page.locator("[data-tile=kept] .tune-big")).to_contain_text("of 7")
    expect(page.get_by_role("button", name="Train this model")).to_be_enabled()
    page.get_by_role("combobox", name="Column to predict").last.select_option("year")
    expect(columns.get_by_role("checkbox", name="body_mass_g")).to_be_visible()
    settled(page)
    page.get_by_role("combobox", name="Column to predict").last.select_option("bill_length_mm")  # which has gaps
    page.wait_for_url(re.compile("target=bill_length_mm"))
    expect(columns.get_by_role("checkbox", name="year")).to_be_visible()
    expect(page.locator(".tune[aria-busy=false][data-drawn]")).to_be_visible()
    same(coefficients(page), lasso(server, "bill_length_mm", drawn_alpha(page)))


def test_coming_back_before_a_curve_is_there_shows_the_terms_of_the_model_at_hand(
    visitor: Visitor, server: Server
) -> None:
    page = opened(visitor, "tune?data=penguins&alpha=20")

    def without_curve(route: Route) -> None:
        answer = route.fetch().json()
        if "terms" in answer and "wait=1" not in route.request.url:  # as where a path takes long
            answer.pop("curve", None)
            answer["pending"] = True
        route.fulfill(json=answer)

    page.route("**/api/tune/*?*out=*", without_curve)
    page.route("**/api/tune/*?*wait=1*", lambda route: None)  # and it does not come
    page.get_by_role("button", name="Best").click()
    expect(page.get_by_role("button", name="Best")).to_have_attribute("aria-pressed", "true")
    species = page.locator("[data-part=columns]").get_by_role("checkbox", name="species")
    species.uncheck()
    expect(page.locator(".tune[aria-busy=true]")).to_be_visible()
    expect(page.locator("[data-tile=kept] .tune-big")).to_contain_text("of 6")
    # Which alpha is the best is not known yet: nothing says that it is, and nothing is trained as if it were.
    expect(page.locator("[data-part=waiting]")).to_contain_text("to find the best alpha; until then the model at")
    expect(page.get_by_role("button", name="Best")).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("button", name="Train this model")).to_be_disabled()
    species.check()
    expect(page.locator("[data-tile=kept] .tune-big")).to_contain_text("of 7")
    expect(page.locator(".tune[aria-busy=false]")).to_be_visible()
    expect(page.locator("[data-part=waiting]")).to_be_hidden()
    expect(page.get_by_role("button", name="Best")).to_have_attribute("aria-pressed", "true")
    same(coefficients(page), lasso(server, "body_mass_g", drawn_alpha(page)))
    page.unroute_all(behavior="ignoreErrors")


def test_the_mixing_ratio_moves_and_a_reload_restores_everything(visitor: Visitor) -> None:
    page = opened(visitor)
    lasso_best = drawn_alpha(page)
    page.get_by_role("radio", name="Elastic net").check(force=True)
    mixing = page.get_by_role("slider", name="Mixing ratio (l1_ratio)")
    expect(mixing).to_be_visible()
    first = moved(page, lasso_best)
    mixing.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    moved(page, first)
    expect(page.locator(".tune-value")).to_have_text("0.70")
    page.locator("[data-part=columns]").get_by_role("checkbox", name="island").uncheck()
    page.wait_for_url("**out=*")
    said = address(page)
    assert said["model"] == "elasticnet"
    assert said["ratio"] == "0.7"
    assert json.loads(said["out"]) == ["island"]
    was, shown = drawn_alpha(page), coefficients(page)
    page.route("**/api/tune/*?*", lambda route: None)  # there is no answer
    page.reload()
    expect(page.get_by_role("radio", name="Elastic net")).to_be_checked()
    expect(page.get_by_role("combobox", name="Column to predict")).to_have_value("body_mass_g")
    page.unroute("**/api/tune/*?*")
    page.reload()
    expect(page.locator(".tune[aria-busy=false][data-drawn]")).to_be_visible()
    assert drawn_alpha(page) == was
    same(coefficients(page), shown)
    expect(page.locator("[data-part=columns]").get_by_role("checkbox", name="island")).not_to_be_checked()
    page.get_by_role("radio", name="Linear").check(force=True)
    expect(page.get_by_text("A linear model has no penalty")).to_be_visible()
    expect(slider(page)).to_be_hidden()


# ------------------------------------------------------------------ training, names, nonsense


def test_the_model_is_trained_and_once_saved_waits_in_models(visitor: Visitor, server: Server) -> None:
    page = opened(visitor, "tune?data=penguins&alpha=20&out=%5B%22species%22%5D")
    shown = coefficients(page)
    page.get_by_role("button", name="Train this model").click()
    page.wait_for_url(re.compile("train.*run="))
    expect(page.get_by_text("flipper_length_mm").first).to_be_visible()
    run = server.home / "runs" / address(page)["run"]
    model = json.loads((run / "model.json").read_text())
    config = json.loads((run / "config.json").read_text())
    assert (config["model"], config["alpha"], config["exclude"]) == ("lasso", 20, ["species"])
    same(shown, {name: value for name, value in model["coefficients"].items() if value})
    name = page.get_by_role("textbox", name="Name of the model")
    opens(page.get_by_role("button", name="Save as model"), name)
    expect(name).to_have_value("penguins-body_mass_g")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(re.compile("models.*model=penguins-body_mass_g"))
    assert address(page)["version"] == "1"  # nothing was saved before it was said
    page.goto(server.url + "models")
    expect(page.get_by_role("link", name="penguins-body_mass_g")).to_be_visible()


def test_names_from_files_stay_text_and_a_phone_shows_it_all(visitor: Visitor, server: Server, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {HOSTILE: rng.normal(size=90), "a very long name " * 6: rng.normal(size=90), "b": rng.normal(size=90)}
    )
    asked = f"Q1. {'Thinking about the office ' * 4}do you agree?"
    frame[asked] = rng.choice(["Agree", "Strongly disagree", "Neither agree nor disagree"], size=90)
    frame["y"] = 2 * frame[HOSTILE] + frame["b"] + 5 * (frame[asked] == "Agree") + rng.normal(size=90)
    file = tmp_path / "hostile.csv"
    frame.to_csv(file, index=False)
    page = visitor.visit()
    page.locator("input[type=file]").first.set_input_files(file)
    page.wait_for_url(re.compile("data="))
    page.set_viewport_size({"width": 420, "height": 900})
    opened(visitor, f"tune?data={address(page)['data']}&target=y")
    expect(page.locator("[data-part=coefficients]").get_by_text(HOSTILE)).to_be_visible()
    levels = page.locator("[data-part=coefficients] .tune-level")  # whole: cut in the middle both end in "disagree"
    assert sorted(levels.all_inner_texts()) == ["= Neither agree nor disagree", "= Strongly disagree"]
    fits(page)
    assert page.locator(".tune img").count() == 0
    assert any(name.startswith("a very long") for name in page.locator(".tune-names li").all_inner_texts())
    page.set_viewport_size({"width": 780, "height": 900})  # half a screen: two cards side by side, and no figure is cut
    figures = page.locator("[data-part=coefficients] .tune-scroll")
    expect(figures).to_be_visible()
    assert figures.evaluate("box => box.scrollWidth - box.clientWidth") == 0
    assert (
        page.locator(".tune .legend").count() == 0
    )  # Plotly's covers lines where it needs more room than it was given


def test_nonsense_for_alpha_does_not_stay_but_the_slider_does_through_a_model_without_a_penalty(
    visitor: Visitor,
) -> None:
    page = opened(visitor, "tune?data=penguins&alpha=10")
    box = page.get_by_label("Alpha as a number")
    box.fill("abc")
    box.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="got 'abc'")).to_be_visible()
    box.press("Tab")
    expect(box).to_have_value("10")
    box.fill("12,5")
    box.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="got 'abc'")).to_have_count(0)
    settled(page)
    box.press("Tab")
    expect(box).to_have_value("12.5")
    assert moved(page, 10) == 12.5
    slider = page.get_by_role("slider", name="Penalty strength (alpha)")
    before = int(slider.input_value())
    for model in ("Linear", "Ridge"):
        page.get_by_text(model, exact=True).click()
        drawn_alpha(page)
    assert abs(int(slider.input_value()) - before) <= 1


def test_words_stand_where_charts_will_be_drawn(visitor: Visitor) -> None:
    held: list[Route] = []
    visitor.page.route(re.compile(r"plotly[^/]*\.js"), lambda route: held.append(route))
    page = visitor.visit("tune?data=penguins")
    waiting = page.get_by_text("Drawing …", exact=True)
    expect(waiting).to_have_count(2)
    for route in held:
        route.continue_()
    expect(page.locator(".tune-plot.js-plotly-plot")).to_have_count(2)
    expect(waiting).to_have_count(0)
