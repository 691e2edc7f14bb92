"""Names and values from files are seen on a terminal, never obeyed by it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shoal.cli import app as cli
from shoal.words import seen

TITLE = "\x1b]0;owned\x07"  # would give the window another title
CLEAR = "\x1b[2J"  # would clear the screen
BACKWARDS = "\u202etxt.exe"  # would be read from the right
C1 = "\x9b31m"  # a terminal's command in one character
COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    names = ["a" + TITLE, "b" + CLEAR, BACKWARDS, "k" + C1, "y"]
    rows = [f"{i},{i * i % 7},{i % 5},{CLEAR if i % 2 else TITLE}{i % 2},{2 * i + i % 3}" for i in range(40)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join([",".join(names), *rows, f"x{CLEAR},{TITLE},1,2,3", ""]), "utf-8")
    return path


COMMAND_LINES = {
    "inspect": ["inspect", "TABLE"],
    "train": ["train", "TABLE", "--target", "y", "--on-bad-rows", "skip"],
    "tune": ["tune", "TABLE", "--target", "y", "--on-bad-rows", "skip", "--folds", "4"],
    "bad rows": ["train", "TABLE", "--target", "y"],
    "no such column": ["train", "TABLE", "--target", f"z{CLEAR}"],
    "no such file": ["train", f"TABLE{CLEAR}", "--target", "y"],
    "no such run": ["show", f"run{TITLE}"],
    "no such flag": ["train", "TABLE", f"--x{CLEAR}"],
}


@pytest.mark.parametrize("kind", COMMAND_LINES)
def test_no_command_of_a_file_reaches_the_terminal(table: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [part.replace("TABLE", str(table)) for part in COMMAND_LINES[kind]]
    try:
        cli.main(arguments)
    except SystemExit:  # what argparse refuses
        assert kind == "no such flag"
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert text
    assert not COMMANDS.search(text), kind
    assert "\\u001b" in text


def test_json_says_the_names_as_they_are(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(table), "--json"]) == 0
    text = capsys.readouterr().out
    assert not COMMANDS.search(text)
    assert [column["name"] for column in json.loads(text)["columns"]][:3] == ["a" + TITLE, "b" + CLEAR, BACKWARDS]


def test_what_is_text_stays_as_it_is() -> None:
    for text in ("Größe (m²) – 日本語 🙂", "a\tb\nc", "שלום"):
        assert seen(text) == text
