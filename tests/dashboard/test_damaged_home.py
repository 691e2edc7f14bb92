"""Pages and lists over a home with a damaged file of each kind: the bad entry is named, the rest is there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.tables import recent
from shoal.errors import Standing, StateError
from shoal.files.locks import lock_file, own_lock
from shoal.home import queue_directory, recent_tables_file, runs_directory, searches_directory
from shoal.library import archives, notes
from shoal.library.saved_models import Version, copy_version, list_models, version_of, write_note
from shoal.runs import scheduling, tickets
from shoal.runs.folder import Run, write_json, write_state
from shoal.runs.launch import launch
from shoal.search.folder import Search
from shoal.search.plan import Account, SearchPlan, Trial
from shoal.search.space import usual_space
from shoal.settings.values import config_from
from support.cli import shoal
from support.pages import open_page, said
from support.runs import ended, run_home, small_table

KINDS = ("config.json", "job.json", "state.json", "result.json", "model.json", notes.FILE)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as found:
        yield found


def damage(path: Path) -> None:
    """A bit of the middle: JSON as before, but not what was written."""
    content = path.read_bytes()
    place = next(i for i in range(len(content) // 2, len(content)) if content[i : i + 1].isalnum())
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


@pytest.fixture
def good(tmp_path: Path) -> Run:
    run = launch(config_from({"file": str(small_table(tmp_path)), "target": "y", "register": "table-y"}))
    assert ended(run) == "finished", run.cause
    notes.write(run, ["baseline"], "as it should be")
    return run


def copies(run: Run) -> dict[str, Run]:
    """The run again for each kind of document, with that one damaged."""
    found = {}
    for i, kind in enumerate(KINDS):
        found[kind] = Run(shutil.copytree(run.directory, runs_directory() / f"20260101-000000-000000{i}"))
        (found[kind].directory / "summary.json").unlink(missing_ok=True)
        damage(found[kind].directory / kind)
    return found


def test_runs_with_damaged_documents_beside_a_good_one(good: Run) -> None:
    damaged = copies(good)
    text = shoal("runs").out
    assert all(run.id in text for run in [good, *damaged.values()])
    assert (damaged["result.json"].state, damaged["state.json"].state, good.state) == ("failed", "finished", "finished")
    assert shoal("disk").code == 0
    open_page("runs")
    for kind, run in damaged.items():
        page = open_page("train", run=run.id)
        assert kind in ("state.json", "model.json", notes.FILE, "job.json") or "is damaged" in said(page), kind
    open_page("runs", compare=",".join([good.id, *[run.id for run in damaged.values()][:5]]))
    open_page("system")


def test_models_with_damaged_cards_and_files_beside_a_good_one(good: Run) -> None:
    version = version_of(good)
    assert version is not None
    for name in ("bad-card", "typed-card", "bad-file", "no-card"):
        copy_version(version, name)
    damage(Version("bad-card", 1).directory / "card.json")
    typed = Version("typed-card", 1).directory / "card.json"
    typed.write_text(json.dumps({**Version("typed-card", 1).card.as_dict(), "created": [], "data": 3}))
    damage(Version("bad-file", 1).model_path)
    (Version("no-card", 1).directory / "card.json").unlink()
    assert {model.name for model in list_models()} == {version.name, "bad-card", "typed-card", "bad-file", "no-card"}
    page = open_page("models")
    assert "The card of bad-card:1 cannot be read" in said(page)
    assert "The card of typed-card:1 is damaged (" in said(page)
    listed = shoal("models")
    assert (listed.code, "The card of bad-card:1 cannot be read" in listed.out) == (0, True)
    assert len(shoal("models", "--json").json["models"]) == 5
    for name in ("bad-card", "typed-card", "no-card"):
        for view in ("Coefficients", "Lineage", "Versions"):
            open_page("models", model=name, view=view)
    assert "This version cannot be read" in said(open_page("models", model="bad-file"))
    mended = write_note(Version("bad-card", 1), "made anew")
    assert (mended.card.note, mended.card.target, mended.damage) == ("made anew", "y", None)


def test_searches_with_damaged_documents(home: Path) -> None:
    for name in ("260101-000001", "260101-000002", "260101-000003"):
        directory = searches_directory() / name
        directory.mkdir(parents=True)
        config = config_from({"file": "/nowhere/t.csv", "target": "y", "solver": "gradient"})
        write_json(directory / "job.json", {"task": "search"})
        write_json(directory / "config.json", config.as_dict())
        write_json(directory / "search.json", SearchPlan(usual_space()).as_dict())
        trial = Trial(1, "reached", {"mode": "sync"}, score=1.0, distance=1e-7, seconds=1.0, cause="reached.")
        write_json(directory / "account.json", Account([trial], {}, 2.0).as_dict())
        write_state(directory, Standing("finished", "All 1 trials are done."))
        (directory / "started").touch()
    damage(searches_directory() / "260101-000002" / "account.json")
    damage(searches_directory() / "260101-000003" / "search.json")
    assert "What is known of its trials cannot be read" in str(Search(searches_directory() / "260101-000002").standing)
    assert shoal("search", "--list").out.count("260101-00000") == 3
    open_page("search")
    assert "What is known of its trials cannot be read" in said(open_page("search", id="260101-000002"))
    assert "cannot be read" in said(open_page("search", id="260101-000003"))


def test_a_list_of_recent_tables_that_is_damaged_is_said_and_begins_anew(good: Run) -> None:
    words = "Which tables were used lately cannot be read"
    assert words not in said(open_page("data"))
    recent_tables_file().write_text(json.dumps({"tables": [{"key": 1}], "checksum": "00000000"}))
    assert words in said(open_page("data"))
    recent.remember("x", 1, 2)
    assert words not in said(open_page("data"))


def test_errors_and_states_of_runs_and_tickets_of_the_queue(good: Run) -> None:
    failed, waiting, alive = (Run(runs_directory() / f"20260101-000000-000000{i}") for i in range(3))
    for run in (failed, waiting, alive):
        shutil.copytree(good.directory, run.directory)
        for name in ("result.json", "summary.json"):
            (run.directory / name).unlink(missing_ok=True)
        write_state(run.directory, Standing("queued" if run is waiting else "running"))
    write_json(failed.directory / "error.json", {"state": "failed", "message": "Expected numbers, got words."})
    write_json(alive.directory / "progress.json", {"stage": "training", "fraction": 0.25})
    tickets.issue(waiting.id, tickets.Terms())
    for path in (failed.directory / "error.json", tickets.tickets()[0].path, alive.directory / "progress.json"):
        damage(path)
    with own_lock(alive.directory), lock_file(queue_directory() / scheduling.LOCK) or pytest.fail("somebody has it"):
        assert "cannot be read" in alive.progress[0]
        assert "its ticket cannot be read and is worked out again" in waiting.cause
        page = said(open_page("train", run=failed.id))
        assert "it failed, and why cannot be read" in page
        for run in (waiting, alive):
            open_page("train", run=run.id)
        open_page("runs")
        assert scheduling._terms(waiting, tickets.tickets()[0]) == tickets.terms_here(1)  # as it was launched
        tickets.withdraw(waiting.id)


def test_archives_and_their_accounts(good: Run) -> None:
    packed = [Run(shutil.copytree(good.directory, runs_directory() / f"20260101-000000-000000{i}")) for i in range(2)]
    for run in packed:
        archives.archive(run)
    damage(archives.archive_path(packed[0].id).with_name(f"{packed[0].id}.json"))
    damage(archives.archive_path(packed[1].id))
    text = shoal("runs", "--archived").out
    assert all(run.id in text for run in [good, *packed])
    open_page("runs", archived="yes")
    with pytest.raises(StateError, match="cannot be used: it is damaged"):
        archives.restore(packed[1].id)
    assert archives.restore(packed[0].id).state == "finished"
