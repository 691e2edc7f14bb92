"""Plug-ins that give advice, installed as a person would and used through the product."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.home import cache_directory, runs_directory
from shoal.runs.folder import Run
from shoal.runs.launch import launch
from shoal.training.checkpoints import Checkpoints
from support.brought.example_plugin import installed, shoal
from support.chaos import bits, events, joined, log_texts
from support.gates.orders import Orders
from support.runs import ended, run_home, short_run
from support.training import plain


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    return installed(tmp_path_factory.mktemp("example"))


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with run_home(tmp_path / "home", monkeypatch):
        yield


STEPS = ("--solver", "gradient", "--shards", "4", "--partition", "contiguous", "--batch-size", "20", "--tolerance", "0",
         "--epochs", "5", "--workers", "1", "--json")  # fmt: skip


def test_a_strategy_says_when_checkpoints_are_written_and_which_stay(site: str, tmp_path: Path) -> None:
    """320 rows in 4 shards of 80: an epoch has 4 rounds."""
    path = plain(tmp_path)
    done = shoal(site, "train", path, "--target", "y", *STEPS, "--checkpoint-strategy", "each_epoch")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    written = [event["round"] for event in report["events"] if event["kind"] == "checkpoint"]
    assert [*dict.fromkeys(written)] == [0, 4, 8, 12, 16, 20]  # the first and the last belong to every run
    run = Run(runs_directory() / report["run_id"])
    assert Checkpoints(run.checkpoints_path).steps() == [0, 16, 20]


def test_a_handler_stops_at_a_lost_worker_and_lets_the_run_go_on_with_new_ones(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The killed one ends the work; the second attempt goes on from the checkpoint, and comes to the same bits."""
    path, orders = plain(tmp_path), Orders(tmp_path / "gates", monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([site, os.environ["PYTHONPATH"]]))
    knobs = {"shards": 4, "batch_size": 20, "tolerance": 0, "epochs": 5, "retries": 3, **Orders.knobs}
    undisturbed = launch(short_run(path, **knobs, engine="inline"))
    assert ended(undisturbed) == "finished", undisturbed.error
    orders.hold("round-7")
    orders.checkpoint("round-5")
    run = launch(short_run(path, **knobs, recovery="stop_first"))
    with orders.held(run, "round-7"):
        (worker,) = joined(run)
        worker.process.kill()
    assert ended(run) == "finished", run.error
    assert bits(run) == bits(undisturbed)
    said = " ".join(log_texts(run, "warning"))
    assert "The recovery handler 'stop_first' says of worker 0, which is gone: stop." in said
    assert "the recovery handler 'stop_first' lets it go on (try 1 of 3): Worker 0 was lost" in said
    begun = [event.text for event in events(run, "started")]
    assert begun[0] == "Training begins."
    assert begun[1].endswith("Resuming from the checkpoint of round 5.")


def test_a_policy_says_which_data_sets_go_first(site: str, tmp_path: Path) -> None:
    for rows in (2000, 400, 900):
        done = shoal(site, "train", plain(tmp_path, rows), "--target", "y")
        assert done.returncode == 0, done.stderr
    folder = cache_directory()
    before = {path.name: size_of(path) for path in folder.iterdir() if (path / "manifest.json").exists()}
    done = shoal(site, "clean", "data", "--enough", "1", "--first", "shards_first", "--yes")
    assert done.returncode == 0, done.stderr
    after = {path.name for path in folder.iterdir()}
    assert before.keys() - after == {min(before, key=before.__getitem__)}  # the smallest alone is enough


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
