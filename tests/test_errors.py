"""What a person is told: every remedy in the words of the command line and of the pages, whichever way it came."""

from __future__ import annotations

import ast
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal import errors
from shoal.cli.app import _parser
from shoal.dashboard.parts import wording
from shoal.errors import ConfigError, Reason, Remedy, RemedyKind, Standing, StateError, TrainingError, remedies_from
from shoal.results.findings import LEAVE_OUT, YES_OR_NO
from shoal.settings.config import RunConfig

ROOT = Path(__file__).parents[1]
REMEDIES = {
    RemedyKind.SAY: (Remedy.say("Start it again"), "Start it again.", "Start it again."),
    RemedyKind.SET: (
        Remedy.set("Leave these rows out", "on_bad_rows", "skip"),
        "Leave these rows out with --on-bad-rows skip.",
        "Leave these rows out: set 'Rows that cannot be read' to 'skip all of them'.",
    ),
    RemedyKind.CHOOSE: (
        Remedy.choose("Name it", "target"), "Name it with --target.", "Name it under 'Column to predict'.",
    ),
    RemedyKind.RUN: (
        Remedy.run("Start it again, or resume it", "resume", "2026-1"),
        "Start it again, or resume it: shoal resume 2026-1.",
        "Start it again, or resume it with the button Resume.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", RemedyKind)
def test_every_kind_of_remedy_has_words_for_both(kind: RemedyKind) -> None:
    remedy, typed, shown = REMEDIES[kind]
    assert remedy.kind == kind
    assert (str(remedy), wording.remedied(remedy)) == (typed, shown)
    error = StateError("Expected this, got that.", remedy)
    assert (str(error), wording.told(error)) == (
        f"Expected this, got that. {typed}",
        f"Expected this, got that. {shown}",
    )
    standing = Standing.after(error)
    assert (str(standing), wording.told(standing)) == (str(error), wording.told(error))


@pytest.mark.parametrize("kind", RemedyKind)
def test_a_remedy_comes_through_pickles_and_files(kind: RemedyKind) -> None:
    error = ConfigError("Expected this, got that.", REMEDIES[kind][0], Remedy.say("Or wait"), knobs=["alpha"])
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.remedies, copy.knobs) == (str(error), error.remedies, ("alpha",))
    standing = Standing.after(error)
    kept = json.loads(json.dumps(standing.as_dict()))
    assert kept["reason"] == "bad_settings"
    assert Standing.read(kept, "") == standing


def test_what_another_version_wrote_is_read_as_far_as_it_goes() -> None:
    assert Standing.read({}, "finished", "Done.") == Standing("finished", "Done.", Reason.UNKNOWN)
    assert Standing.read({"state": "stopped", "reason": "eclipse"}, "").reason == Reason.UNKNOWN
    for torn in (None, 3, "text", [{}], [{"kind": "pray", "advice": "x", "name": "", "arguments": []}]):
        assert remedies_from(torn) == ()


def test_every_error_says_why_a_run_ended() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, TrainingError)]
    assert len(kinds) > 10
    unspecific = [kind.__name__ for kind in kinds if kind.reason == Reason.UNFORESEEN]
    assert unspecific == ["TrainingError"]


# ------------------------------------------------------------------ in the source


def calls() -> Iterator[tuple[Path, ast.Call]]:
    folders = {path.parent for path in ROOT.glob("*/__init__.py")} - {ROOT / "tests"}
    files = [*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                yield path, node


def remedies_in_source() -> list[tuple[str, str]]:
    """The kind and the knob or command of all remedies that the source makes."""
    found = []
    for path, call in calls():
        made = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "Remedy"
        if made and isinstance(call.func, ast.Attribute) and call.func.attr != "say":
            if path in (ROOT / "settings" / "meaning.py", ROOT / "results" / "findings.py"):
                continue  # they name what a knob needs, and what a finding sets
            assert isinstance(call.args[1], ast.Constant), f"{path}: {ast.unparse(call)}"
            found.append((call.func.attr, str(call.args[1].value)))
    needs = {name for knob in RunConfig.knobs().values() for name, _ in knob.metadata.get("needs", ())}
    return found + [(RemedyKind.SET, name) for name in sorted({*needs, LEAVE_OUT, YES_OR_NO[0]})]


def test_all_remedies_name_what_there_is() -> None:
    found = remedies_in_source()
    assert {kind for kind, _ in found} == {RemedyKind.SET, RemedyKind.CHOOSE, RemedyKind.RUN}
    (commands,) = (a.choices for a in _parser()._subparsers._group_actions)  # type: ignore[union-attr]
    for kind, name in found:
        if kind == RemedyKind.RUN:
            command, _, flag = name.partition(" ")
            assert command in commands  # type: ignore[operator]
            assert not flag or flag in commands[command].format_help()  # type: ignore[index]
            assert name in wording.PLACES
        else:
            assert name in RunConfig.knobs()
            assert name in wording.LABELS or name == "out"  # a page writes no file of a person's choice
    assert set(wording.PLACES) == {name for kind, name in found if kind == RemedyKind.RUN}


def test_pages_take_no_words_of_errors_apart() -> None:
    """What a page says of an error is made by `wording.told`, from what the error carries."""
    said = [
        f"{path.name}: {ast.unparse(call)}" for path, call in calls()
        if path.is_relative_to(ROOT / "dashboard") and ast.unparse(call) == "str(error)"
    ]  # fmt: skip
    assert said == []
    for module in ("parts/wording.py", "parts/results.py", "live/story.py", "search/view.py"):
        assert "import re\n" not in (ROOT / "dashboard" / module).read_text("utf-8")
