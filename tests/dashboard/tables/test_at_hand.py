"""The table at hand: every page is opened with it by the menu, the address names it, and one control changes it."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from shoal.dashboard.tables import at_hand, uploads
from shoal.dashboard.tables.choices import address_of
from shoal.dashboard.tables.samples import SAMPLES
from shoal.home import uploads_directory
from shoal.runs.launch import launch
from shoal.settings.values import config_from
from support.pages import checked, now_on, open_page, said, settle, uploaded, widget
from support.runs import ended

PAGES = ("train", "tune", "search", "data")
ROWS = "".join(f"{i % 4},{i},{'k.A.' if i % 9 == 0 else i * 2},{i % 4 * 3 + i}\n" for i in range(60))


def table(name: str, first: str = "code") -> str:
    key = uploads.key_of(uploaded(f"{first},size,price,y\n{ROWS}".encode(), name))
    assert key
    return key


@pytest.fixture
def key() -> str:
    return table("sales.csv")


def at(page: AppTest, name: str, **address: str) -> AppTest:
    """As a link leads there."""
    page._page_hash = calc_hash(name)
    page.query_params.clear()
    page.query_params.update(address)
    return checked(page.run())


def by_menu(page: AppTest, name: str) -> AppTest:
    """As the menu leads there, which leaves the address behind."""
    return at(page, name)


def address(page: AppTest) -> dict[str, str]:
    return {part: value if isinstance(value, str) else value[0] for part, value in page.query_params.items()}


def headings(page: AppTest) -> str:
    return " ".join([said(page), *(title.value for title in page.title)])


def test_the_menu_opens_every_page_with_the_table_as_it_was_corrected(key: str) -> None:
    page = settle(open_page(data=key))
    page = checked(page.button(key="gaps:words:price").click().run())
    now = address(page)
    assert "k.A." in now["read"]
    for name in PAGES:
        page = by_menu(page, name)
        assert address(page) == now, name
        assert "sales.csv" in headings(page)
    page = settle(by_menu(by_menu(page, "runs"), "tune"))
    assert address(page) == now


def test_the_menu_knows_the_table_after_the_dashboard_was_started_again(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = settle(open_page(data=key))
    now = address(checked(page.button(key="gaps:words:price").click().run()))
    monkeypatch.setattr(at_hand, "said_by_browser", lambda: quote(key, safe=""))
    assert address(by_menu(open_page("runs"), "train")) == now  # a session that knows nothing of the tab
    (uploads_directory() / key).unlink()
    assert address(open_page("search")) == {}


def test_another_table_is_at_hand_everywhere_from_then_on(key: str) -> None:
    page = open_page("tune", data=key, model="ridge")
    page = by_menu(by_menu(page, "train"), "tune")
    assert address(page)["model"] == "ridge"  # of this table and this page
    page = now_on(page.button(key="new").click().run())
    assert address(page) == {"choose": "table"}
    assert "What would you like to predict?" in headings(page)
    page = by_menu(page, "train")
    assert address(page)["data"] == key  # nothing was chosen
    other = table("others.csv", "kind")
    page = at(page, "data", data=other)
    for name in PAGES:
        page = by_menu(page, name)
        assert address(page) == {"data": other}, name
    settle(page)


def test_back_from_the_first_table_leads_to_the_choice_again(key: str) -> None:
    page = open_page()
    page = settle(checked(page.button(key=f"recent:{key}").click().run()))
    assert address(page) == {"data": key}
    page.query_params.clear()  # as Back does, on the same page
    page = checked(page.run())
    assert "What would you like to predict?" in headings(page)
    assert address(checked(page.run())) == {}  # and stays there, whatever is drawn again


def test_a_table_that_was_removed_meanwhile_is_said_and_others_are_offered(key: str) -> None:
    page = settle(open_page(data=key))
    (uploads_directory() / key).unlink()
    page = by_menu(page, "train")
    assert address(page) == {}
    assert "Train a model" in headings(page)
    page = by_menu(page, "data")
    assert "What would you like to predict?" in headings(page)


def test_two_tabs_have_a_table_each_and_share_what_is_chosen_for_one(key: str) -> None:
    one, two = settle(open_page(data=key)), open_page(data="penguins")
    assert address(by_menu(two, "search"))["data"] == "penguins"
    two = at(two, "data", data=key)
    checked(widget(one, "selectbox", "Column to predict").set_value("size").run())
    assert address(by_menu(two, "search")) == {"data": key, "target": "size"}
    settle(two)


def test_a_run_leads_to_the_form_with_its_table(key: str) -> None:
    run = launch(config_from({"file": str(SAMPLES["penguins"].ensure()), "target": "body_mass_g"}))
    assert ended(run) == "finished"
    page = at(open_page("search", data=key), "train", run=run.id)
    assert address(by_menu(page, "search")) == {"data": "penguins"}
    assert address(by_menu(page, "train")) == {"data": "penguins"}
    settle(page)


def test_an_address_with_a_table_alone_has_what_was_chosen_for_it_and_back_still_undoes(key: str) -> None:
    page = settle(open_page(data=key))
    page = checked(page.button(key="gaps:words:price").click().run())
    chosen = address(page)
    assert address(open_page(data=key)) == chosen  # typed, or kept as a bookmark
    page = settle(open_page("train", data=key))
    assert address(page) == chosen
    page = checked(widget(page, "selectbox", "Column to predict").set_value("y").run())
    assert address_of(key) == {**chosen, "target": "y"}  # one more choice, and none is lost
    assert address(at(page, "train", data=key)) == {"data": key}  # Back, in the tab where they were made
