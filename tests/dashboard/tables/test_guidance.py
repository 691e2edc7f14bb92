"""What is worth knowing before a fit, on the pages that lead to one: a short list, one click, and the way back."""

from __future__ import annotations

import json
import urllib.parse

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.tables import uploads
from shoal.dashboard.tables.choices import address_of
from support.dashboard.train_page import address as address_on
from support.dashboard.train_page import start
from support.pages import checked, open_page, said, settle, uploaded, widget

ROWS = 120


@pytest.fixture
def key() -> str:
    """Sales with a column that gives the target away, copies, an id, a date and a constant."""
    random = np.random.default_rng(4)
    price, feet = random.normal(size=(2, ROWS)).round(4)
    sold = (3 * price + feet + random.normal(size=ROWS)).round(4)
    lines = ["id,day,price,cents,feet,same,late,answer,none,sold"]
    for i in range(ROWS):
        lines.append(
            f"{i + 1},2023-{i % 12 + 1:02d}-{i % 28 + 1:02d},{price[i]},{100 * price[i]:.2f},{feet[i]},7,"
            f"{2 * sold[i]:.4f},{'yes' if sold[i] > 0 else 'no'},,{sold[i]}"
        )
    found = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "sales.csv"))
    assert found
    return found


def press(page: AppTest, name: str) -> AppTest:
    return settle(checked(page.button(key=name).click().run()))


def buttons(page: AppTest) -> dict[str, str]:
    return {button.key: button.label for button in page.button if str(button.key).startswith("guidance:")}


def test_a_leak_is_left_out_with_one_click_kept_with_the_table_and_taken_back(key: str) -> None:
    page = settle(open_page("train", data=key, target="sold"))
    assert "late' alone predicts" in said(page).replace("&#x27;", "'")
    assert [e.label for e in page.expander if "worth knowing" in e.label] == ["2 more things worth knowing"]
    page = press(page, "guidance:0")
    assert json.loads(page.query_params["read"]) == {"exclude": ["late"]}
    assert json.loads(address_of(key)["read"]) == {"exclude": ["late"]}
    assert widget(page, "multiselect", "Columns to leave out").value == ["late"]
    assert "late' alone predicts" not in said(page).replace("&#x27;", "'")
    result = start(page).result
    assert result is not None
    assert "late" not in result["coefficients"]
    page = press(settle(open_page("train", **{**address_of(key), "target": "sold"})), "guidance:back")
    assert "read" not in page.query_params
    assert address_of(key) == {"data": key, "target": "sold"}
    assert "Leave out late" in buttons(page).values()


def test_advice_about_few_rows_suits_the_model_that_is_chosen() -> None:
    random = np.random.default_rng(2)
    lines = ["".join(f"x{j}," for j in range(20)) + "y"]
    lines += [",".join(f"{value:.3f}" for value in random.normal(size=21)) for _ in range(60)]
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "few.csv")) or ""
    page = settle(open_page("train", data=key, target="y"))
    assert "may fit them by chance. Let a penalty help: set" in said(page).replace("&#x27;", "'")
    page = checked(widget(page, "selectbox", "Model").set_value("lasso").run())
    assert "may fit them by chance. Its penalty helps" in said(page)
    page = checked(widget(page, "selectbox", "Model").set_value("gamma").run())
    assert "Let a penalty help: set &#x27;Penalty&#x27;" in said(page)


def test_tune_shows_the_same_list_and_what_is_left_out_loses_its_tick(key: str) -> None:
    page = settle(open_page("tune", data=key, target="sold", out='["feet"]'))
    assert buttons(page)["guidance:0"] == "Leave out late"
    page = press(page, "guidance:0")
    assert json.loads(page.query_params["out"]) == ["feet", "late"]
    assert json.loads(address_of(key)["read"]) == {"exclude": ["late"]}


def test_findings_stand_beside_the_result(key: str) -> None:
    page = settle(open_page("train", data=key, target="sold"))
    run = start(page)
    text = said(settle(open_page("train", run=run.id))).replace("&#x27;", "'")
    assert "'late' alone predicts 'sold'" in text
    assert "set 'Columns to leave out' to 'late'" in text


@pytest.mark.parametrize("name", ["data", "train", "tune", "search"])
def test_text_targets_are_offered_with_what_can_be_done_and_empty_ones_are_not(key: str, name: str) -> None:
    page = settle(open_page(name, data=key))
    offered = widget(page, "selectbox", "Column to predict").options
    assert ("answer" in offered) == (name != "search")  # which is for linear models
    assert "none" not in offered
    page = settle(open_page(name, data=key, target="answer"))
    text = said(page).replace("&#x27;", "'")
    if name == "tune":
        assert "over the rows; no point is further from its optimum" in text  # of the model that the target asks for
    elif name != "train":  # where it is chosen
        assert "yes or no" in text or "logistic" in text.lower()
    enabled = {button.key for button in page.button if button.key in ("start", "train", "tune") and not button.disabled}
    assert enabled == {"data": {"train", "tune"}, "train": {"start"}}.get(name, set())


def test_of_columns_that_tell_side_by_side_each_is_offered() -> None:
    random = np.random.default_rng(7)
    area, rate, age = (
        random.uniform(40, 200, ROWS).round(),
        random.uniform(2, 9, ROWS).round(3),
        random.normal(size=ROWS),
    )
    rows = [f"{a},{r},{o:.3f},{a * r:.2f}" for a, r, o in zip(area, rate, age, strict=True)]
    key = uploads.key_of(uploaded(("area,rate,age,price\n" + "\n".join(rows) + "\n").encode(), "lots.csv")) or ""
    page = settle(open_page("train", data=key, target="price"))
    assert list(buttons(page).values())[:2] == ["Leave out area", "Leave out rate"]
    page = press(page, "guidance:0:1")
    assert json.loads(address_of(key)["read"]) == {"exclude": ["rate"]}
    assert "Leave out area" not in buttons(page).values()


def test_a_number_that_may_mean_none_is_settled_with_one_click() -> None:
    random = np.random.default_rng(8)
    age = ["-999" if i % 20 == 0 else f"{value:.0f}" for i, value in enumerate(random.uniform(20, 70, ROWS))]
    rows = [f"{one},{y:.3f}" for one, y in zip(age, random.normal(size=ROWS), strict=True)]
    key = uploads.key_of(uploaded(("age,y\n" + "\n".join(rows) + "\n").encode(), "ages.csv")) or ""
    page = settle(open_page("train", data=key, target="y"))
    assert buttons(page)["guidance:0"] == "Treat as missing"
    page = press(page, "guidance:0")
    assert json.loads(address_of(key)["read"]) == {"also_missing": ["age=-999"]}
    assert "Treat as missing" not in buttons(page).values()


def test_dates_lead_to_folds_by_time(key: str) -> None:
    page = settle(open_page("train", data=key, target="sold"))
    link = next(one for one in page.get("page_link") if one.proto.label == "Tune by time")
    address = dict(urllib.parse.parse_qsl(link.proto.query_string))
    assert json.loads(address["study"]) == {"fold_by": "time:day"}
    assert (address["data"], address["target"]) == (key, "sold")
    page = settle(open_page("tune", data=key, target="sold"))
    assert widget(page, "selectbox", "Folds by").value == "hash"
    button = widget(page, "button", "Tune by time")  # a link from a page to itself would leave the browser's address
    page = checked(button.click().run())
    assert address_on(page, "study") == '{"fold_by":"time:day"}'
    by = widget(page, "selectbox", "Folds by")  # said to the browser, which would else keep what this field had before
    assert (by.value, by.proto.set_value) == ("time", True)
    page = settle(page)
    assert "folds by time (day)" in said(page)
    assert widget(page, "selectbox", "Column of the folds").value == "day"
    assert "Tune with folds by time" not in said(page)
    assert "Tune by time" not in buttons(page).values()


def skewed() -> str:
    """Amounts with a long end, all above zero, and a yes/no column that goes with them."""
    random = np.random.default_rng(8)
    x = random.normal(size=ROWS)
    amount = np.exp(1.6 * x + random.normal(size=ROWS)).round(4) + 0.01
    lines = ["x,amount,big", *(f"{a:.4f},{b:.4f},{'yes' if b > 3 else 'no'}" for a, b in zip(x, amount, strict=True))]
    return uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "amounts.csv")) or ""


def links(page: AppTest) -> dict[str, dict[str, list[str]]]:
    """What the links of a page say, and the addresses that they lead to."""
    shown = [link.proto for link in page.get("page_link")]
    return {link.label: urllib.parse.parse_qs(link.query_string) for link in shown}


def test_a_skewed_target_leads_to_its_model_with_one_click() -> None:
    key = skewed()
    page = settle(open_page("train", data=key, target="amount"))
    assert "has positive numbers with a long tail" in said(page)
    offered = next(address for name, address in links(page).items() if name.startswith("Fit: Gamma"))
    page = settle(open_page("train", **{part: values[0] for part, values in offered.items()}))
    assert widget(page, "selectbox", "Model").value == "gamma"
    assert "long tail" not in said(page)
    page = checked(widget(page, "selectbox", "Model").set_value("lognormal").run())
    assert "long tail" not in said(page)
    page = settle(open_page("tune", data=key, target="amount"))
    offered = next(address for name, address in links(page).items() if name.startswith("Tune: Gamma"))
    assert offered["loss"] == ["gamma"]


def test_folds_by_class_are_called_so() -> None:
    page = settle(open_page("tune", data=skewed(), target="big"))
    assert "10 folds by class" in said(page)
    assert "by chance" not in said(page)


@pytest.mark.parametrize(("first", "button"), [("data", "gaps:categorical"), ("train", "guidance:0")])
def test_codes_with_leading_zeros_are_read_as_names_with_one_click(first: str, button: str) -> None:
    random = np.random.default_rng(2)
    lines = [
        f"{('01067', '04109', '99084')[i % 3]},{a:.3f},{a + i % 3:.3f}" for i, a in enumerate(random.normal(size=90))
    ]
    key = uploads.key_of(uploaded("\n".join(["plz,a,y", *lines, ""]).encode(), "codes.csv")) or ""
    page = settle(open_page(first, data=key, target="y"))
    assert "has leading zeros, as postal codes have (01067)" in said(page)
    page = press(page, button)
    assert json.loads(page.query_params["read"]) == {"categorical": ["plz"]}
    assert "has leading zeros" not in said(page)
    page = settle(open_page("train", **{**address_of(key), "target": "y"}))
    assert "has leading zeros" not in said(page)
    result = start(page).result
    assert result is not None
    assert {"plz=04109", "plz=99084"} <= set(result["coefficients"])


@pytest.mark.parametrize(("place", "button"), [("data", "gaps:one_spelling"), ("train", "guidance:0")])
def test_spellings_of_one_value_are_read_as_one_with_one_click(place: str, button: str) -> None:
    random = np.random.default_rng(6)
    answers = [["Ja", "ja ", "JA", "Nej", "NEJ"][i] for i in random.integers(0, 5, ROWS)]
    lines = ["answer,x,y", *(f"{answer},{i % 13},{random.normal():.3f}" for i, answer in enumerate(answers))]
    key = uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "asked.csv")) or ""
    page = settle(open_page(place, data=key, target="y"))
    assert "Only capitals or blanks tell values apart in 'answer'" in said(page).replace("&#x27;", "'")
    page = press(page, button)
    assert json.loads(page.query_params["read"]) == {"one_spelling": ["answer"]}
    assert json.loads(address_of(key)["read"]) == {"one_spelling": ["answer"]}
    assert "Only capitals" not in said(page)
