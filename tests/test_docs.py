"""The documentation names files that are there; whether its links and steps work is looked at by `make docs`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cli.app import _parser
from shoal.dashboard.parts.places import TITLES
from shoal.search.plan import PASSES

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


# ------------------------------------------------------------------ commands

FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*(?![\w.-])")  # those with a dot are Streamlit's
COMMAND = re.compile(r"(?<![\w/.-])shoal ([a-z]+(?:-[a-z]+)*)((?: \\\n|[^\n`])*)")


def commands(page: str) -> Iterator[tuple[str, str]]:
    """Every command that a page shows, in blocks and within sentences, with what stands behind its name."""
    for name, rest in COMMAND.findall((ROOT / page).read_text("utf-8")):
        yield name, rest.replace("\\\n", " ").split("   #")[0].split(" -- ")[0]


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_flags_that_a_page_shows_are_there(page: str) -> None:
    known = flags()
    for name, rest in commands(page):
        if name in known:  # else a sentence about Shoal
            missing = set(FLAG.findall(rest)) - known[name]
            assert not missing, f"shoal {name} {rest}"
        else:
            assert not FLAG.search(rest), f"there is no 'shoal {name}': {rest}"


def test_pages_do_show_commands() -> None:
    assert len({name for page in PAGES for name, _ in commands(page)} & set(flags())) > 15


def flags() -> dict[str, set[str]]:
    """The flags of every command, as the command line itself has them."""
    return {name: set(command._option_string_actions) for name, command in _parser().commands.items()}


def test_a_help_names_flags_only_that_the_command_has() -> None:
    for name, command in _parser().commands.items():
        said = set(FLAG.findall(command.format_help()))
        assert said <= flags()[name], name


def test_a_help_says_the_default_that_holds() -> None:
    assert f"before the finish (default: {PASSES})" in " ".join(_parser().commands["search"].format_help().split())
