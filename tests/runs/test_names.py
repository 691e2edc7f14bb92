"""Names of runs and searches in order whatever the clock says, and folders that cannot be read."""

from __future__ import annotations

import errno
import html
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cli import app
from shoal.errors import Reason, StateError
from shoal.home import (
    archive_directory,
    jobs_directory,
    models_directory,
    runs_directory,
    searches_directory,
    waiting_directory,
)
from shoal.library import accounts, cleaning, inventory
from shoal.library.saved_models import list_models
from shoal.runs import scheduling, tickets
from shoal.runs.folder import Run, find_run, list_runs, new_run_id
from shoal.runs.launch import launch, resolve, resume
from shoal.search import folder as searches
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from support.pages import open_page, said
from support.runs import ended, made, run_home, small_table


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path
        for entry in (*path.glob("*"), *path.glob("queue/*")):
            if entry.is_symlink():
                entry.unlink()


def unreadable(path: Path) -> Path:
    """A folder that nobody can read, whoever asks: a link to a name that is too long, which `Path.exists` and `is_dir`
    raise for, as they do where rights are missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("x" * 300)
    return path


# ------------------------------------------------------------------ order


def test_the_newest_run_is_the_last_one_though_the_clock_was_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(file=str(small_table(tmp_path)), target="y")
    runs = [launch(config)]
    with monkeypatch.context() as patch:
        now = time.time_ns()
        patch.setattr(time, "time_ns", lambda: now - 3600 * 10**9)
        runs += [launch(config) for _ in range(2)]
    runs.append(launch(config))
    assert resolve("last") == runs[-1]
    assert list_runs() == runs[::-1]
    assert [summary.id for summary in accounts.summaries()] == [run.id for run in runs[::-1]]
    assert {ended(run) for run in runs} == {"finished"}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ("29990101-101010-0000009", "29990101-101010-0000010"),
        ("29991231-235959-9999999", "30000101-000000-0000000"),
    ],
)
def test_a_name_comes_after_all_others_archived_ones_too(there: str, expected: str) -> None:
    archive_directory().mkdir(parents=True)
    (archive_directory() / f"{there}.tar.xz").touch()
    assert new_run_id() == expected


def test_names_that_are_none_of_ours_do_not_count() -> None:
    runs_directory().mkdir(parents=True)
    for name in ("zzz", "99999999-999999-9999999"):
        (runs_directory() / name).mkdir()
    assert new_run_id() < "3"


def test_searches_are_in_order_though_the_clock_was_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for now in ("261116-120000", "261116-110000", *["261116-120000"] * 10):
        monkeypatch.setattr(time, "strftime", lambda form, now=now: now)
        names.append(searches._new_directory().name)
        (searches_directory() / names[-1] / "search.json").touch()
    assert [search.id for search in searches.list_searches()] == names[::-1]
    (searches_directory() / names[0] / "search.json").unlink()
    (searches_directory() / names[0]).rmdir()
    assert searches._in_order(searches._new_directory().name) > searches._in_order(names[-1])


# ------------------------------------------------------------------ what cannot be read


def test_a_folder_of_runs_that_cannot_be_read_is_not_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["runs"]) == 0
    assert "no runs yet" in capsys.readouterr().out
    unreadable(runs_directory())
    for look in (list_runs, accounts.summaries, accounts.run_names, lambda: resolve("last"), new_run_id):
        with pytest.raises(StateError, match=r"Expected to read the folder '.*/runs', got: "):
            look()
    assert app.main(["runs"]) == 1
    assert "Expected to read the folder" in capsys.readouterr().err
    assert "Expected to read the folder" in said(open_page("runs"))


def test_a_folder_of_searches_that_cannot_be_read_is_not_empty() -> None:
    unreadable(searches_directory())
    with pytest.raises(StateError, match="Expected to read the folder"):
        searches.list_searches()


def test_one_run_that_cannot_be_read_is_shown_as_such_beside_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    other = made(state={"state": "failed", "cause": "No.", "at": 0})
    bad = Run(unreadable(runs_directory() / new_run_id()))
    assert list_runs() == [bad, other]
    assert find_run(bad.id) == bad
    assert bad.state == "failed"
    assert f"Expected to read the folder '{bad.directory}', got: " in bad.cause
    assert [(found.id, found.state) for found in accounts.summaries()] == [(bad.id, "failed"), (other.id, "failed")]
    assert app.main(["runs"]) == 0
    assert bad.id in capsys.readouterr().out
    assert not open_page("runs").exception


def test_models_that_cannot_be_read_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    bad = unreadable(models_directory() / "prices")
    (found,) = list_models()
    assert (found.name, found.latest.known) == ("prices", None)
    assert app.main(["models"]) == 0
    words = f"Expected the card of prices:1 at '{bad}/v1/card.json', got: "
    assert words in capsys.readouterr().out
    assert words in html.unescape(said(open_page("models")))
    bad.unlink()
    models_directory().rmdir()
    unreadable(models_directory())
    assert app.main(["models"]) == 1
    assert f"Expected to read the folder '{models_directory()}', got: " in capsys.readouterr().err


def test_what_takes_disk_and_cannot_be_read_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, closed = os.scandir, home / "cache"

    def scandir(folder: str | Path) -> Iterator[os.DirEntry[str]]:
        if Path(folder) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return real(folder)

    (closed / "some").mkdir(parents=True)
    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(inventory, "names_in", lambda folder: list(scandir(folder)))
    words = f"Not counted, since nobody can read it: '{closed}' (Permission denied)."
    assert app.main(["disk"]) == 0
    assert words in capsys.readouterr().out
    assert words in html.unescape(said(open_page("system")))
    with pytest.raises(PermissionError):  # as `names_in` says it
        cleaning.plan("data")


def test_a_queue_that_cannot_be_read_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that waits in it waits; nobody is told that its process was killed, and none is put into it."""
    run = made(state={"state": "queued", "cause": "", "at": 0})
    unreadable(waiting_directory())
    assert (run.state, run.standing.reason) == ("queued", Reason.RESOURCES)
    words = f"It waits, but the queue cannot be read. Expected to read the folder '{waiting_directory()}', got: "
    assert words in run.cause
    scheduling.keep_going()
    assert app.main(["runs"]) == 0
    assert "queued" in capsys.readouterr().out
    gradient = config_from({"file": str(small_table(tmp_path)), "target": "y", "solver": "gradient"})
    for ask in (lambda: resume(run), lambda: launch(gradient), tickets.tickets):
        with pytest.raises(StateError, match=r"Expected to read the folder '.*/queue/waiting', got: "):
            ask()
    assert list_runs() == [run]
    page = open_page("system")
    assert not page.exception
    assert "the queue cannot be read" in said(page)


@pytest.mark.parametrize("folder", [runs_directory, searches_directory, jobs_directory, waiting_directory])
def test_nothing_is_cleaned_while_nobody_can_tell_who_needs_it(folder: object) -> None:
    unreadable(folder())  # type: ignore[operator]
    with pytest.raises(StateError, match="Expected to read the folder"):
        cleaning.plan("data")
