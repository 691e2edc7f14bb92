"""What takes disk and what may go: counted as du does, and nothing outside is touched."""

from __future__ import annotations

import fcntl
import json
import subprocess
import time
from pathlib import Path

import pytest

from shoal.cli import app as cli
from shoal.errors import ConfigError
from shoal.library import archives, cleaning, kinds
from shoal.library.cleaning import Criteria, clean, plan
from shoal.library.inventory import items, survey
from shoal.runs.launch import Run, launch, launch_job
from shoal.settings.values import config_from
from support.library import aged, fitted, freed, names, run_with_model, upload
from support.runs import ended, made, short_run


def bytes_by_du(folder: Path) -> int:
    return int(subprocess.check_output(["du", "-s", "--block-size=1", str(folder)]).split()[0])


# ------------------------------------------------------------------ counting


def test_all_kinds_add_up_to_what_du_says(home: Path, data: Path) -> None:
    run = launch(short_run(data))
    assert ended(run) == "finished", run.error
    upload(home)
    (home / "cache" / "unfinished-1-2").mkdir()
    twice = home / "uploads" / ("b" * 24)
    twice.mkdir()
    (twice / "t.csv").hardlink_to(upload(home, name="large.csv", text="x" * 50_000))
    (home / "samples").mkdir()
    (home / "samples" / "s.csv").write_text("a\n")
    (home / "strange").write_text("what is this?")
    (home / "modules" / "data-1").mkdir(parents=True)
    (home / "modules" / "data-1" / "X.npy").write_bytes(b"x" * 50_000)
    found = {use.kind.name: use for use in survey()}
    assert sum(use.bytes for use in found.values()) == bytes_by_du(home)
    assert {name: found[name].count for name in ("data", "shards", "uploads", "samples", "runs", "checkpoints")} == {
        "data": 1, "shards": 1, "uploads": 2, "samples": 1, "runs": 1, "checkpoints": 1,
    }  # fmt: skip
    assert found["checkpoints"].bytes == bytes_by_du(run.checkpoints_path)
    assert found["networks"].bytes == bytes_by_du(home / "modules" / "data-1")
    assert found["data"].oldest == pytest.approx(time.time(), abs=60)


def test_an_empty_or_missing_home_has_nothing(home: Path) -> None:
    assert {use.kind.name for use in survey() if use.count} == {"other"}
    home.rmdir()
    assert sum(use.count for use in survey()) == 0
    assert clean("data").count == 0


# ------------------------------------------------------------------ removing


def test_cleaning_frees_what_it_says_and_the_next_fit_makes_it_anew(home: Path, data: Path) -> None:
    before = fitted(data)
    whole = bytes_by_du(home / "cache")
    done = freed("data")
    assert (done.count, bytes_by_du(home / "cache")) == (1, whole - done.bytes - _index_bytes())
    assert names(home / "cache") == {"index"}
    assert not names(home / "cache" / "index"), "an index entry without its data set"
    assert not [name for name in names(home) if name.startswith("removed-")]
    assert fitted(data) == before


def _index_bytes() -> int:
    return 4096  # the one entry of the index


def test_only_what_is_old_enough_goes(home: Path) -> None:
    old = aged(upload(home, "a" * 24).parent, 40)
    new = aged(upload(home, "b" * 24).parent, 20)
    assert [item.path for item in plan("uploads", Criteria(older_than=30)).items] == [old]
    assert clean("uploads", Criteria(older_than=30)).count == 1
    assert (old.exists(), new.exists()) == (False, True)
    (new / "later.csv").write_text("")  # a change in it counts as a change of it
    assert clean("uploads", Criteria(older_than=10)).count == 0
    assert clean("uploads").count == 1


def test_uploads_that_a_run_or_a_model_refers_to_are_not_unused(home: Path) -> None:
    by_run, by_model, unused = (upload(home, letter * 24) for letter in "abc")
    made(config={"file": str(by_run), "target": "y"}, result={})
    model = home / "models" / "mass" / "1" / "version.json"
    model.parent.mkdir(parents=True)
    model.write_text(json.dumps({"config": {"file": str(by_model)}}))
    done = clean("uploads", Criteria(unused=True))
    assert (done.count, dict(done.kept)) == (1, {cleaning.REFERRED: 2})
    assert [path.exists() for path in (by_run, by_model, unused)] == [True, True, False]


def test_each_of_several_uploads_that_are_one_table_is_used(home: Path) -> None:
    first, second, unused = (upload(home, letter * 24) for letter in "abc")
    made(config={"file": f"{first}\n{second}", "target": "y"}, result={})
    assert clean("uploads", Criteria(unused=True)).count == 1
    assert [path.exists() for path in (first, second, unused)] == [True, True, False]


def test_an_upload_of_another_home_is_used_by_the_run_that_brought_it_along(home: Path) -> None:
    here, unused = upload(home, "a" * 24), upload(home, "b" * 24)
    made(config={"file": f"/of/another/uploads/{here.parent.name}/{here.name}", "target": "y"}, result={})
    assert clean("uploads", Criteria(unused=True)).count == 1
    assert [path.exists() for path in (here, unused)] == [True, False]


def test_the_upload_of_a_search_is_not_unused(home: Path) -> None:
    """A search that ended can go on, also when the runs of its trials are gone."""
    file, search = upload(home), home / "searches" / "240101-000000"
    search.mkdir(parents=True)
    (search / "config.json").write_text(json.dumps({"file": str(file)}))
    aged(search, 2)
    assert dict(clean("uploads", Criteria(unused=True)).kept) == {cleaning.REFERRED: 1}
    assert clean("searches").count == 1
    assert clean("uploads", Criteria(unused=True)).count == 1


def test_data_of_an_ended_run_is_used_until_the_run_is_gone(home: Path, data: Path) -> None:
    run = launch(config_from({"file": str(data), "target": "y"}))
    ended(run)
    assert freed("data", Criteria(unused=True)).count == 0
    assert clean("runs").count == 1
    assert freed("data", Criteria(unused=True)).count == 1


def test_unknown_kinds_are_refused() -> None:
    for name in ("models", "other", "everything"):
        with pytest.raises(ConfigError, match="Expected one of data, shards"):
            clean(name)


def test_what_cannot_be_deleted_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(home)
    monkeypatch.setattr(cleaning.shutil, "rmtree", lambda path, ignore_errors: None)
    with pytest.raises(cleaning.ResourceError, match="could not be deleted"):
        clean("uploads")
    monkeypatch.undo()
    monkeypatch.setenv("SHOAL_HOME", str(home))
    assert clean("leftovers").count == 1  # the next clean-up finds it
    assert not [name for name in names(home) if name.startswith("removed-")]


# ------------------------------------------------------------------ links


def test_nothing_outside_is_touched_through_links(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "precious.csv").write_text("1")
    (outside / "inner" / "manifest.json").write_text("{}")
    (home / "cache").mkdir()
    (home / "cache" / ("c" * 24)).symlink_to(outside)
    (home / "cache" / "shards-x").symlink_to(outside)
    (home / "cache" / "unfinished-9-9").symlink_to(outside)
    inside = upload(home)
    (inside.parent / "escape").symlink_to(outside)
    (home / "uploads" / ("d" * 24)).symlink_to(outside)
    (home / "samples").symlink_to(outside)
    (home / "jobs").mkdir()
    (home / "jobs" / "inspect").symlink_to(outside)
    (home / "runs").mkdir()
    (home / "runs" / "20260101-000000-0000000").symlink_to(outside)
    assert sum(use.bytes for use in survey()) == bytes_by_du(home)
    for name in kinds.CLEANABLE:
        clean(name)
    assert (outside / "precious.csv").read_text() == "1"
    assert (outside / "inner" / "manifest.json").exists()
    assert not inside.parent.exists()  # with the link in it, not with what that leads to
    assert (home / "samples").is_symlink()
    assert all(item.kind == "other" for item in items() if item.path.is_symlink())


def test_a_home_that_is_a_link_itself_is_cleaned(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(home)
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "link"))
    assert clean("uploads").count == 1
    assert not names(home / "uploads")
    monkeypatch.setenv("SHOAL_HOME", str(home))


# ------------------------------------------------------------------ leftovers and jobs


def test_leftovers_go_unless_somebody_works_on_them(home: Path) -> None:
    busy, dead, fresh = (home / "cache" / f"unfinished-{name}" for name in ("1-a", "2-b", "3-c"))
    for folder in (busy, dead, fresh):
        folder.mkdir(parents=True)
    (dead / "lock").touch()
    partial = home / "uploads" / ".unfinished-xyz"
    partial.parent.mkdir()
    partial.write_text("half")
    (home / "removed-1234").mkdir()
    with (busy / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert clean("leftovers").kept == {cleaning.IN_USE: 3}
    assert names(home / "cache") == {"unfinished-1-a", "unfinished-3-c"}
    aged(partial, 1)
    aged(fresh, 1)
    assert clean("leftovers").count == 3
    assert names(home / "cache") | names(home / "uploads") == set()


def test_archives_go_with_their_accounts_and_their_uploads_are_used(home: Path) -> None:
    path = upload(home)
    run = made(config={"file": str(path), "target": "y"}, result={"state": "finished"})
    archives.archive(run)
    assert not run.directory.exists()
    assert {use.kind.name: use.count for use in survey()}["archives"] == 1
    assert clean("uploads", Criteria(unused=True)).kept == {cleaning.REFERRED: 1}
    aged(home / "archive" / ".lock", 1)
    assert clean("leftovers").count == 0  # the lock of the archive is no leftover
    assert clean("archives", Criteria(older_than=1)).count == 0
    done = clean("archives")
    assert (done.count, done.bytes > 0) == (1, True)
    assert names(home / "archive") == {".lock"}
    assert clean("uploads", Criteria(unused=True)).count == 1


def test_a_look_at_a_file_goes_once_it_has_ended(home: Path, data: Path) -> None:
    look = launch_job("inspect", config_from({"file": str(data)}))
    assert plan("jobs").kept or not look.is_active
    assert ended(look) == "finished", look.error
    assert clean("jobs").count == 1
    again = launch_job("inspect", config_from({"file": str(data)}))
    assert ended(Run(again.directory)) == "finished"


# ------------------------------------------------------------------ the command line


def test_disk_and_clean_on_the_command_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = aged(upload(home, text="x" * 10_000).parent, 10)
    assert cli.main(["disk"]) == 0
    said = capsys.readouterr().out
    assert "uploads          1" in said
    assert str(home) in said
    assert cli.main(["clean", "uploads"]) == 1
    assert "This removes 1 upload, 16 kB. Gone for good" in capsys.readouterr().out
    assert folder.exists()
    assert cli.main(["clean", "uploads", "--older-than", "30", "--yes"]) == 0
    assert "Nothing to remove. Kept: 1 changed in the last 30 days." in capsys.readouterr().out
    assert cli.main(["clean", "uploads", "--older-than", "5", "--yes"]) == 0
    assert "Removed 1 upload; 16 kB are free again." in capsys.readouterr().out
    assert not folder.exists()
    assert cli.main(["disk", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kinds"]["uploads"] == {"count": 0, "bytes": 0, "oldest": None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clean", "uploads", "--older-than", "-1"], "a number of days"),
        (["clean", "shards", "--unused"], "--unused with data, uploads, networks only"),
        (["clean", "pictures"], "Expected one of data"),
    ],
)
def test_wrong_words_are_a_plain_sentence(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 1
    assert message in capsys.readouterr().err


def _module(home: Path, key: str, rows: str) -> Path:
    """A module as `train_module` stores one, an hour and more ago."""
    folder, data = home / "modules" / (key * 24), home / "modules" / f"data-{rows * 24}"
    for path, text in ((folder / "Net.module", json.dumps({"data": {"key": rows * 24}})), (data / "X.npy", "x" * 9000)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        aged(path.parent, 1)
    return folder / "Net.module"


def test_modules_that_no_run_names_go_with_their_rows(home: Path) -> None:
    used, _, packed = _module(home, "a", "d"), _module(home, "b", "e"), _module(home, "c", "f")
    run = run_with_model().directory
    (run / "config.json").write_text(json.dumps({"file": str(used), "target": "Net"}))
    aged(run, 1)
    (home / "archive").mkdir()
    (home / "archive" / "old.json").write_text(json.dumps({"config": {"file": str(packed)}}))
    (home / "modules" / ".making-1").mkdir()
    assert {item.path.name for item in items() if item.kind == "leftovers"} == {".making-1"}
    done = clean("networks", Criteria(unused=True))
    assert (done.count, done.kept) == (2, {cleaning.REFERRED: 4})
    left = {"a" * 24, "c" * 24, f"data-{'d' * 24}", f"data-{'f' * 24}", ".making-1"}
    assert names(home / "modules") == left
    (home / "modules" / ("c" * 24)).touch()  # as whoever trains it once more does
    assert clean("networks").kept == {cleaning.IN_USE: 1}
    assert names(home / "modules") == {"c" * 24, ".making-1"}, "those of runs that have ended go when all are asked for"
