"""Plug-ins that give advice, installed as a person would and used through the product."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.home import runs_directory
from shoal.runs.folder import Run
from shoal.training.checkpoints import Checkpoints
from support.brought.example_plugin import installed, shoal
from support.training import plain


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    return installed(tmp_path_factory.mktemp("example"))


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


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
