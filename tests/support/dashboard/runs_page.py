"""The Runs page as its visitors use it: rows, a choice, and what can be done to it."""

from __future__ import annotations

import json

from streamlit.testing.v1 import AppTest

from shoal.home import runs_directory
from shoal.settings.values import config_from
from support.pages import checked, widget

FIRST, SECOND, EXACT = "20260101-080000-0000001", "20260102-080000-0000002", "20260103-080000-0000003"


def many(count: int) -> None:
    """Runs without more than their settings and a result."""
    for i in range(count):
        folder = runs_directory() / f"20260101-000000-{i:07d}"
        folder.mkdir(parents=True)
        config = config_from({"file": f"/data/table{i % 3}.csv", "target": f"y{i % 2}"})
        (folder / "config.json").write_text(json.dumps(config.as_dict()))
        (folder / "result.json").write_text(json.dumps({"train": {"r2": i / count}, "timings": {"total": i + 1.0}}))


def rows(page: AppTest) -> list[str]:
    return list(page.dataframe[0].value["Run"]) if page.dataframe else []


def choose(page: AppTest, *ids: str) -> AppTest:
    page.session_state["runs_chosen"] = list(ids)
    page.session_state["runs_fresh"] = (page.session_state.get("runs_fresh", 0)) + 1
    return checked(page.run())


def asked(page: AppTest, name: str) -> str:
    """A part of the address."""
    found = page.query_params.get(name, "")
    return found if isinstance(found, str) else found[0]


def press(page: AppTest, label: str) -> AppTest:
    return checked(widget(page, "button", label).click().run())


def awake(page: AppTest) -> set[str]:
    """Actions that the choice allows."""
    names = ("Open", "Compare", "Resume", "Fork", "Tags and note", "Archive", "Restore", "Delete")
    return {button.label for button in page.button if button.label in names and not button.disabled}
