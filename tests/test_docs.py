"""The documentation names files that are there; whether its links and steps work is looked at by `make docs`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.parts.places import TITLES

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))]
PLACE = re.compile(
    r"`((?:[\w-]+/)+[\w.-]+\.(?:py|c|js|css|R|ini|yaml))[`:]"
)  # with a folder in front, or it may be a user's
OTHERS = ("SHOAL_HOME/", "SHOAL_DATA/")


def named_files(page: str) -> Iterator[str]:
    text = (ROOT / page).read_text("utf-8")
    yield from (place for place in PLACE.findall(text) if not place.startswith(OTHERS))


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    assert [place for place in named_files(page) if not (ROOT / place).is_file()] == []


def test_pages_do_name_files() -> None:
    assert sum(len(list(named_files(page))) for page in PAGES) > 20


def test_the_pages_of_the_dashboard_are_all_described() -> None:
    described = re.findall(r"^\| (\w+) \| `/", (ROOT / "docs" / "operations.md").read_text("utf-8"), re.MULTILINE)
    assert described == [title for title, _ in TITLES.values()]
