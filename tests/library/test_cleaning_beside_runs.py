"""Cleaning beside live runs, waiting runs and open data sets: they keep what they need."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shoal.data.cache import Cache
from shoal.library import cleaning, inventory
from shoal.library.cleaning import clean, plan
from shoal.library.inventory import items
from shoal.passes import blocks
from shoal.runs import tickets
from shoal.runs.commands import post
from shoal.runs.launch import launch, list_runs, resume
from shoal.settings.values import config_from
from shoal.tasks.train import train
from support.gates.orders import Orders
from support.library import aged, fitted, freed, upload
from support.runs import descendants, ended, made, paused, short_run, slots_taken, training, until, waiting


def test_a_live_run_keeps_all_it_needs_and_ends_with_the_same_bits(home: Path, data: Path, orders: Orders) -> None:
    """Cleaned round while it is paused; then its worker is killed, so that another opens the files by their names."""
    knobs = {"epochs": 30, "tolerance": 0, "seed": 3, "test_every": 5}
    alone = launch(short_run(data, **knobs))
    assert ended(alone) == "finished", alone.error
    expected = (alone.result or {})["coefficients"]
    orders.pause("round-10")
    run = paused(launch(short_run(data, **knobs, **orders.knobs)))  # with the data set and the shards of the first
    for name, reason in {
        "data": cleaning.IN_USE, "shards": cleaning.IN_USE, "checkpoints": cleaning.AT_WORK,
        "runs": cleaning.AT_WORK, "jobs": "", "leftovers": "",
    }.items():  # fmt: skip
        assert clean(name).kept == ({reason: 1} if reason else {}), name
    assert list_runs() == [run]  # the ended one went, this one stays
    for worker in descendants(run):
        worker.kill()
    post(run, "resume")
    assert ended(run) == "finished", run.error
    assert (run.result or {})["coefficients"] == expected
    assert (freed("data").count, freed("shards").count) == (1, 1)  # and now nobody needs them


def test_a_queued_run_keeps_its_file_and_its_data(home: Path, data: Path) -> None:
    path = upload(home, text=data.read_text())
    fitted(path)
    with slots_taken(0):
        run = launch(short_run(path))
        waiting(run)
        assert clean("uploads").kept == {cleaning.NEEDED: 1}
        assert freed("data").kept == {cleaning.NEEDED: 1}
        assert clean("runs").kept == {cleaning.AT_WORK: 1}  # the other one went
        post(run, "stop")
    assert clean("runs").count == 1
    assert clean("uploads").count == 1


def test_a_run_that_is_being_launched_or_resumed_stays(home: Path) -> None:
    new = home / "runs" / "20260101-000000-0000000"
    new.mkdir(parents=True)
    assert clean("runs").kept == {cleaning.AT_WORK: 1}
    aged(new, 1)
    assert clean("runs").count == 1
    resumed = made(state={"state": "failed", "cause": "", "at": 0})
    item = next(item for item in plan("runs").items)
    (resumed.directory / "started").unlink()  # as `resume` does just before the process comes
    (resumed.directory / "state.json").write_text(json.dumps({"state": "preparing", "cause": "", "at": time.time()}))
    assert cleaning._set_aside(item) == cleaning.AT_WORK
    aged(resumed.directory, 1)
    tickets.issue(resumed.id, tickets.Terms())
    assert cleaning._set_aside(item) == cleaning.AT_WORK
    tickets.withdraw(resumed.id)
    assert isinstance(cleaning._set_aside(item), Path)


def test_an_interrupted_run_goes(home: Path) -> None:
    run = made(state={"state": "running", "cause": "", "at": 0})
    (run.directory / "lock").write_text("1")
    assert run.state == "interrupted"
    assert clean("runs").count == 1


def test_checkpoints_go_and_the_run_stays_and_can_be_done_again(home: Path, data: Path) -> None:
    run = launch(short_run(data, epochs=1_000_000, tolerance=0))
    training(run)
    post(run, "stop")
    assert ended(run) == "stopped"
    stands = run.result
    assert clean("checkpoints").count == 1
    assert (run.state, run.result, run.model_path.exists()) == ("stopped", stands, True)
    assert not run.checkpoints_path.exists()
    resume(run)
    until(lambda: run.state == "running")
    post(run, "stop")
    assert ended(run) == "stopped"


def test_a_run_that_names_an_upload_at_the_last_moment_gets_it_back(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = upload(home)
    aside = cleaning._set_aside

    def meanwhile(item: inventory.Item) -> Path | str:
        found = aside(item)
        made(config={"file": str(path), "target": "y"})
        (list_runs()[0].directory / "started").unlink()  # it is on its way
        return found

    monkeypatch.setattr(cleaning, "_set_aside", meanwhile)
    assert clean("uploads").kept == {cleaning.NEEDED: 1}
    assert path.read_text() == "a,y\n1,2\n"


def test_somebody_who_opens_a_data_set_in_any_process_keeps_it(home: Path, data: Path) -> None:
    fitted(data)
    code = (
        "import sys; from pathlib import Path; from shoal.data.dataset import Dataset\n"
        f"found = Dataset(Path({str(next(i.path for i in items() if i.kind == 'data'))!r}))\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    reader = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with reader:
        assert reader.stdout
        assert reader.stdout.readline() == "open\n"
        assert clean("data").kept == {cleaning.IN_USE: 1}
        reader.kill()
    assert freed("data").count == 1


def test_a_data_set_is_in_use_from_the_moment_it_has_its_name(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, kept = Cache.open, []

    def cleaned_just_before(cache: Cache, key: str) -> object:
        kept.append(clean("data").kept)
        return opened(cache, key)

    monkeypatch.setattr(Cache, "open", cleaned_just_before)
    train(config_from({"file": str(data), "target": "y"}))
    assert {cleaning.IN_USE: 1} in kept


def test_a_reader_that_comes_while_a_data_set_is_set_aside_makes_it_anew(home: Path, data: Path) -> None:
    """Cleaning over and over beside fits: every fit finds a whole data set or makes one."""
    config = config_from({"file": str(data), "target": "y"})
    first = train(config).report.coefficients
    code = "import sys; from shoal.library import cleaning\nwhile True:\n    cleaning.clean('data')\n"
    cleaner = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    try:
        for _ in range(40):
            assert train(config).report.coefficients == first
            blocks.opened.cache_clear()
        assert cleaner.poll() is None, cleaner.stderr and cleaner.stderr.read()
    finally:
        cleaner.kill()
        cleaner.communicate()
