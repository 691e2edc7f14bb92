"""What people note of runs: every place where it is kept, and lists of a team that show it."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from shoal.database.address import VARIABLE
from shoal.errors import StateError, TrainingError
from shoal.library import accounts, archives, notes
from shoal.runs.folder import Run
from shoal.shelf.base import ModelShelf
from shoal.shelf.place import patiently
from shoal.shelf.run_notes import team_notes
from support.library import a_copy
from support.team.postgres import Outage, Postgres


def test_what_is_noted_is_found_alone_and_in_lists(kept: ModelShelf, finished: Path) -> None:
    """The same, wherever it is kept."""
    run, other = a_copy(finished), a_copy(finished, "20260101-000000-0000001")
    assert notes.read(run) == notes.About()
    said = notes.write(run, ["Baseline", "try-2"], "  größer als 1 \u0000 ", "night run")
    assert said == notes.read(run) == notes.About(("baseline", "try-2"), "größer als 1 \u0000", "night run")
    listed = {one.id: one for one in accounts.summaries()}
    assert (listed[run.id].name, listed[run.id].tags) == ("night run", ("baseline", "try-2"))
    assert (listed[other.id].name, listed[other.id].tags) == ("", ())
    notes.give_name(run, "day run")
    assert notes.read(run) == notes.About(("baseline", "try-2"), "größer als 1 \u0000", "day run")
    assert accounts.have_gone_on(list(listed.values()))
    archives.archive(run)
    assert {one.id: one.name for one in accounts.summaries(archived=True)}[run.id] == "day run"
    archives.restore(run.id)
    assert notes.read(run).name == "day run"
    archives.delete(run)
    with pytest.raises(StateError, match="is gone"):
        notes.write(run, [], "too late")
    assert [one.id for one in accounts.summaries()] == [other.id]


def test_who_looks_while_others_write_sees_the_last_of_each_in_the_end(team_database: str) -> None:
    shelf, stop = team_notes(), threading.Event()

    def look() -> None:
        while not stop.is_set():
            team_notes().everything()

    def write(run: str) -> None:
        for number in range(25):
            shelf.write(run, str(number).encode())

    looking = threading.Thread(target=look)
    looking.start()
    writing = [threading.Thread(target=write, args=(f"run{number}",)) for number in range(4)]
    for thread in writing:
        thread.start()
    for thread in writing:
        thread.join()
    stop.set()
    looking.join()
    assert team_notes().everything() == {f"run{number}": b"24" for number in range(4)}
    shelf.remove("run0")
    shelf.remove("never")
    assert (shelf.read("run0"), sorted(team_notes().everything())) == (None, ["run1", "run2", "run3"])


# ------------------------------------------------------------------ of a team


def other_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Run:
    """The same run on a machine that has a copy of its folder."""
    place = tmp_path / "other" / "runs" / run.id
    shutil.copytree(run.directory, place)
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "other"))
    return Run(place)


def test_a_note_of_one_machine_is_in_the_lists_of_another(
    finished: Path, team_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_copy(finished)
    (before,) = accounts.summaries()
    assert (before.note, before.tags) == ("", ())
    notes.write(run, ["baseline"], "checked by Ada", "night run")
    assert not (run.directory / "about.json").exists()
    there = other_home(tmp_path, monkeypatch, run)
    (seen,) = accounts.summaries()
    assert (seen.name, seen.note, seen.tags) == ("night run", "checked by Ada", ("baseline",))
    assert accounts.find_named("night run").id == run.id
    notes.give_name(there, "day run")
    monkeypatch.setenv("SHOAL_HOME", str(run.directory.parents[1]))
    assert accounts.have_gone_on([seen])
    (now,) = accounts.summaries()
    assert (now.name, now.note) == ("day run", "checked by Ada")
    assert notes.read(run).name == "day run"


def test_what_a_folder_says_counts_until_it_is_written_anew_and_goes_with_its_run(
    finished: Path, team_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, address = a_copy(finished), os.environ[VARIABLE]
    monkeypatch.delenv(VARIABLE)
    notes.write(run, ["old"], "from before")
    monkeypatch.setenv(VARIABLE, address)
    assert accounts.summaries()[0].note == notes.read(run).note == "from before"
    notes.write(run, ["new"], "from now on")
    assert accounts.summaries()[0].note == notes.read(run).note == "from now on"
    archives.delete(run)
    assert team_notes().everything() == {}


def test_a_note_of_another_run_is_not_believed(finished: Path, team_database: str, postgres: Postgres) -> None:
    run, other = a_copy(finished), a_copy(finished, "20260101-000000-0000001")
    notes.write(run, [], "of this one")
    notes.write(other, [], "of the other")
    postgres.execute(
        f"UPDATE shoal.run_notes SET contents = (SELECT contents FROM shoal.run_notes WHERE run = '{run.id}')",
        team_database,
    )
    assert notes.read(run).note == "of this one"
    assert "cannot be read" in notes.read(other).note


def test_while_the_database_is_away_lists_go_on_and_nothing_is_noted(
    finished: Path, team_database: str, outage: Outage
) -> None:
    run = a_copy(finished)
    notes.write(run, [], "before")
    assert accounts.summaries()[0].note == "before"
    outage.begin()
    assert accounts.summaries()[0].note == "before"
    assert "cannot be reached" in notes.read(run).note
    with pytest.raises(TrainingError, match="cannot be reached"):
        notes.give_name(run, "lost")
    outage.end()
    patiently(lambda: notes.give_name(run, "found"), 60, lambda away: None)  # for a moment nobody asks it again
    assert (notes.read(run).name, notes.read(run).note) == ("found", "before")
