"""A team in real browsers: log in with a name, see who is in, and only the pages of one's role; out by link and by an admin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser import Server, free_port, needs_chromium, settled
from support.dashboard.team import SECRET, Team

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    found = Team(Server(tmp_path_factory.mktemp("team"), free_port()))
    found.people("add", "root", typed=SECRET)
    found.people("add", "vera", "--role", "viewer", typed=SECRET)
    found.server.start()
    yield found
    found.server.stop()


def logged_in(browser: Browser, team: Team, name: str, address: str = "") -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(team.server.url + address)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(SECRET)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Log out")).to_be_visible()
    settled(page)
    return page


def test_a_viewer_is_named_and_has_the_pages_of_the_role(browser: Browser, team: Team) -> None:
    page = logged_in(browser, team, "vera", "runs")
    expect(page.get_by_text("vera, viewer")).to_be_visible()
    expect(page.get_by_role("link", name="People")).to_be_visible()
    expect(page.get_by_role("link", name="System")).to_have_count(0)
    page.goto(team.server.url + "system")
    settled(page)
    expect(page.get_by_text("This page is for admins.")).to_be_visible()
    expect(page.get_by_role("heading", name="Disk space")).to_have_count(0)
    page.get_by_text("Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.context.close()


def test_an_admin_sees_everybody_and_whoever_is_disabled_is_out(browser: Browser, team: Team) -> None:
    vera = logged_in(browser, team, "vera", "people")
    root = logged_in(browser, team, "root", "people")
    root.get_by_role("tab", name="Log").click()
    expect(root.get_by_text("Every entry is as it was written")).to_be_visible()
    team.people("disable", "vera")
    vera.reload()
    expect(vera.get_by_role("heading", name="Log in")).to_be_visible()
    vera.get_by_label("Name").fill("vera")
    vera.get_by_label("Password").fill(SECRET)
    vera.get_by_role("button", name="Log in").click()
    expect(vera.get_by_role("alert")).to_contain_text("That is not a name and its password.")
    for page in (vera, root):
        page.context.close()
