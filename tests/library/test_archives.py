"""Archives: restored to the byte, killed at any step without loss, and refused where they are not ours."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import StateError
from shoal.files.locks import lock_file
from shoal.home import archive_directory
from shoal.library import accounts, archives, notes
from shoal.runs.folder import Run, find_run
from shoal.runs.launch import launch_job, list_runs, resume
from shoal.settings.config import RunConfig
from support.library import a_copy, launched, only
from support.runs import ended, endless_run, made, short_run, small_table, training
from support.tables import shoal


def contents(folder: Path) -> dict[str, str]:
    """Every file of a folder, by its digest; not the account, which is made anew where times differ."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != accounts.FILE]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# ------------------------------------------------------------------ archive and restore


def test_round_trip_is_the_same_to_the_byte(finished: Path) -> None:
    run = a_copy(finished)
    notes.write(run, ["kept"], "a note")
    (run.directory / "checkpoints" / "archive").mkdir(exist_ok=True)
    account, before = only(), contents(run.directory)
    started = run.started_at
    assert any(name.startswith("checkpoints/") for name in before)
    path = archives.archive(run)
    assert not run.directory.exists()
    assert accounts.summaries() == []
    assert accounts.summaries(archived=True) == [dataclasses.replace(account, archived=True)]
    assert archives.is_archived(run.id)
    assert archives.archive_size(run.id) == path.stat().st_size < sum(f.stat().st_size for f in finished.rglob("*"))
    assert archives.restore(run.id) == run
    assert contents(run.directory) == before
    assert run.started_at == pytest.approx(started)
    assert dataclasses.replace(only(), started=account.started) == account
    assert [p.name for p in archive_directory().iterdir()] == [".lock"]
    assert not list((Path(os.environ["SHOAL_HOME"]) / "trash").iterdir())


def test_active_runs_are_refused(tmp_path: Path) -> None:
    run = training(launched(endless_run(small_table(tmp_path))))
    for action in (archives.archive, archives.delete):
        with pytest.raises(StateError, match=r"is running. Stop it first"):
            action(run)  # type: ignore[operator]
    assert run.state == "running"
    queued = made(state={"state": "queued", "cause": "", "at": time.time()})
    waiting = Path(os.environ["SHOAL_HOME"]) / "queue" / "waiting"
    (waiting / f"00000000000000000001-{queued.id}").write_text("{}")
    with pytest.raises(StateError, match="is queued"):
        archives.archive(queued)


def test_a_run_in_the_hands_of_another_process_is_refused(finished: Path) -> None:
    run = a_copy(finished)
    lock = lock_file(run.directory / "lock")
    assert lock is not None
    with lock, pytest.raises(StateError, match="is at work"):
        archives.archive(run)
    assert contents(run.directory) == contents(finished)


def test_nobody_resumes_a_run_while_it_is_packed(tmp_path: Path, finished: Path) -> None:
    run = a_copy(finished)
    (run.directory / "result.json").unlink()
    (run.directory / "state.json").write_text('{"state": "stopped", "cause": "", "at": 1}')
    refusals: list[str] = []

    def meanwhile(fraction: float) -> None:
        if not refusals:
            thread = threading.Thread(target=_resumed, args=(run, refusals))
            thread.start()
            thread.join()

    archives.archive(run, meanwhile)
    assert len(refusals) == 1
    assert "resumed by somebody else" in refusals[0]
    assert archives.is_archived(run.id)


def _resumed(run: Run, refusals: list[str]) -> None:
    try:
        resume(run)
    except StateError as error:
        refusals.append(str(error))


def test_an_archive_that_is_not_the_same_does_not_count(finished: Path) -> None:
    run = a_copy(finished)

    def meanwhile(fraction: float) -> None:
        (run.directory / "log.txt").write_text(f"changed at {fraction}")

    with pytest.raises(StateError, match="not the same as its folder"):
        archives.archive(run, meanwhile)
    assert run.state == "finished"
    assert not archives.archive_path(run.id).exists()


# Where a process is killed: at a call of this function, or at the so-manieth word of progress.
ARCHIVE_DEATHS = [
    "progress 1",
    "progress 4",
    "_compare",
    "write_json",
    "os.replace",
    "sync_folder",
    "_remove_folder",
    "empty_trash",
]
RESTORE_DEATHS = ["progress 1", "progress 4", "os.rename", "sync_folder", "_remove_archive"]
KILL = """
import os, sys, signal
from shoal.library import archives
from shoal.home import runs_directory
from shoal.runs.folder import Run

def die(*arguments, **more):
    os.kill(os.getpid(), signal.SIGKILL)

where, words = {where!r}, 0
def progress(fraction):
    global words
    words += 1
    if where == f"progress {{words}}":
        die()

if where.startswith("os."):
    really = getattr(os, where[3:])
    setattr(os, where[3:], lambda a, b: die() if "/archive/" in str(a) else really(a, b))
elif not where.startswith("progress"):
    setattr(archives, where, die)
if {action!r} == "archive":
    archives.archive(Run(runs_directory() / {name!r}), progress)
else:
    archives.restore({name!r}, progress)
"""


def killed(action: str, name: str, where: str) -> None:
    code = KILL.format(where=where, action=action, name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, (where, done.stderr)


@pytest.mark.parametrize("where", ARCHIVE_DEATHS)
def test_killed_while_archiving_nothing_is_lost(where: str, finished: Path) -> None:
    run = a_copy(finished)
    only()
    before = contents(run.directory)
    killed("archive", run.id, where)
    (account,) = accounts.summaries(archived=True)
    if account.archived:
        assert where == "empty_trash"
    else:
        assert contents(run.directory) == before
        archives.archive(run)
    archives.restore(run.id)
    assert contents(run.directory) == before
    assert [p.name for p in archive_directory().iterdir()] == [".lock"]
    archives.empty_trash()


@pytest.mark.parametrize("where", RESTORE_DEATHS)
def test_killed_while_restoring_nothing_is_lost(where: str, finished: Path) -> None:
    run = a_copy(finished)
    only()
    before = contents(run.directory)
    archives.archive(run)
    killed("restore", run.id, where)
    (account,) = accounts.summaries(archived=True)
    if account.archived:
        archives.restore(run.id)
    else:
        assert where in ("sync_folder", "_remove_archive")  # both are there, and the folder counts
        with pytest.raises(StateError, match=r"the folder of .* is there"):
            archives.restore(run.id)
    assert contents(run.directory) == before
    archives.archive(run)  # over what may be left
    archives.restore(run.id)
    assert contents(run.directory) == before
    assert [p.name for p in archive_directory().iterdir()] == [".lock"]


def test_deleted_runs_and_archives_are_gone(finished: Path) -> None:
    run, other = a_copy(finished), a_copy(finished, "20260101-000000-0000001")
    size = archives.size_of(other.directory)
    archives.archive(run)
    packed = archives.archive_size(run.id)
    assert archives.delete(other) == size
    assert archives.delete_archived(run.id) == packed
    assert accounts.summaries(archived=True) == []
    with pytest.raises(StateError, match="there is no archive"):
        archives.delete_archived(run.id)
    with pytest.raises(StateError, match="gone"):
        archives.delete(other)


# ------------------------------------------------------------------ archives that are not ours


def packed(run_id: str, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    path = archives.archive_path(run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:xz") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found


@pytest.mark.parametrize("bad", [
    member("../escape"), member("/tmp/shoal-escape"), member("RUN/../../escape"), member("OTHER/config.json"), member("escape"),
    member("RUN/link", tarfile.SYMTYPE, "/etc/passwd"), member("RUN/link", tarfile.LNKTYPE, "../../escape"),
    member("RUN/device", tarfile.CHRTYPE), member("RUN/pipe", tarfile.FIFOTYPE),
], ids=lambda found: f"{found.name} {found.type!r}")  # fmt: skip
def test_hostile_members_are_refused(bad: tarfile.TarInfo, home: Path) -> None:
    path = packed("RUN", (member("RUN/config.json"), b"{}"), (bad, b""))
    everything = set(home.rglob("*"))
    with pytest.raises(StateError, match=r"cannot be used: it holds .* Nothing was restored"):
        archives.restore("RUN")
    assert path.exists()
    assert set(home.rglob("*")) - everything <= {path.parent / ".lock"}
    assert not Path("/tmp/shoal-escape").exists()
    assert find_run("RUN") is None


@pytest.mark.parametrize("data", [b"", b"not packed at all", b"\xfd7zXZ\x00\x00\x04" + b"0" * 50])
def test_damaged_archives(data: bytes, finished: Path) -> None:
    run = a_copy(finished)
    path = archives.archive(run)
    whole = path.read_bytes()
    for damaged in (data, whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(StateError, match="cannot be used"):
            archives.restore(run.id)
        assert accounts.summaries(archived=True)[0].archived
    path.with_suffix("").with_suffix(".json").write_text("{torn")
    assert accounts.summaries(archived=True)[0].cause.startswith("What is known of this run is inside its archive")
    path.write_bytes(whole)
    assert contents(archives.restore(run.id).directory).keys() >= contents(finished).keys()


# ------------------------------------------------------------------ as a job, and on the command line


def test_jobs_archive_and_restore_several(finished: Path) -> None:
    run = a_copy(finished)
    other = a_copy(finished, "20260101-000000-0000001")
    job = launch_job("archive", RunConfig(), {"runs": [run.id, other.id, "absent"]}, anew=True)
    assert ended(job) == "finished", job.error
    assert job.result is not None
    assert job.result["done"] == [run.id, other.id]
    assert list(job.result["problems"]) == ["absent"]
    job = launch_job("restore", RunConfig(), {"runs": [run.id, other.id]}, anew=True)
    assert ended(job) == "finished", job.error
    assert {found.id for found in list_runs()} == {run.id, other.id}


def test_command_line(finished: Path) -> None:
    run = a_copy(finished)
    assert f"shoal restore {run.id}" in shoal("archive", "last").out
    assert "no runs yet" in shoal("runs").out
    assert shoal("runs", "--archived", "--json").json["runs"][0]["archived"] is True
    assert "is back" in shoal("restore", run.id[:8]).out
    assert "Expected the name of an archived run" in shoal("restore", run.id).err
    asked = shoal("delete", run.id)
    assert (asked.code, "--yes" in asked.err) == (1, True)
    assert find_run(run.id) is not None
    assert "is deleted" in shoal("delete", run.id, "--yes").out
    assert list_runs() == []
    a_copy(finished)
    shoal("archive", "last")
    assert "is deleted" in shoal("delete", run.id, "--yes").out
    assert accounts.summaries(archived=True) == []


def test_short_runs_use_the_index(tmp_path: Path) -> None:
    """What `shoal runs` prints is what the run says."""
    run = launched(short_run(small_table(tmp_path)))
    ended(run)
    row: dict[str, Any] = shoal("runs", "--json").json["runs"][0]
    assert run.result is not None
    assert (row["state"], row["epochs"], row["started"]) == ("finished", run.result["epochs"], run.started_at)
