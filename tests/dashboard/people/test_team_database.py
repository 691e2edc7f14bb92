"""The People page where accounts are in a team's database, also while that is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.http.access import PEOPLE
from shoal.people import accounts, acting, known, passwords
from shoal.people.acting import Acting
from shoal.people.person import STRANGER
from support.pages import open_page, said
from support.team.postgres import Outage

SECRET = "correct horse"


@pytest.fixture(autouse=True)
def root_looks(tmp_path: Path, team_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An admin draws the pages, with what the server knows of them."""

    def looking() -> Acting:
        found = PEOPLE.active("root")
        return Acting(found.person if found else STRANGER, "10.0.0.1")

    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    monkeypatch.setattr(passwords, "MEMORY", 64)
    passwords._hasher.cache_clear()
    accounts.add("root", SECRET, "admin")
    acting.pages_are_of(looking)
    yield
    acting._Pages.find = None
    passwords._hasher.cache_clear()


def test_what_is_changed_on_the_page_is_changed_once() -> None:
    page = open_page("people")
    page.toggle(key="people:private").set_value(True).run()
    assert not page.exception
    assert [one.deed for one in accounts.audit()].count("begins private") == 1
    assert accounts.named("root").private


def test_the_page_says_that_the_database_is_away(outage: Outage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "GRACE", 1e9)  # however busy the machine is
    assert PEOPLE.active("root")
    outage.begin()
    page = open_page("people")
    assert not page.exception
    assert "cannot be reached" in said(page)
