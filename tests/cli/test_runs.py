"""The commands about detached runs, as a person types them; the runs behind them are real."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.cli import steer
from shoal.errors import ConfigError
from shoal.home import runs_directory
from shoal.runs.launch import Run, list_runs
from shoal.settings.config import RunConfig
from support.runs import SLOW, ended, rounds, run_home, small_table, until
from support.tables import Answer, shoal

ROOT = Path(__file__).parents[2]
ENDLESS = ("--solver", "gradient", "--workers", "1", "--epochs", "1000000", "--tolerance", "0")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with run_home(tmp_path / "home", monkeypatch):
        yield


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


def train(data: Path, *flags: str) -> Answer:
    return shoal("train", data, "--target", "y", "--solver", "gradient", "--workers", "1", *flags)


def refused(*arguments: str | Path) -> str:
    answer = shoal(*arguments)
    assert (answer.code, answer.out) == (1, "")
    assert answer.is_plain(), answer.err
    return answer.err


def process(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "shoal.cli.app", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def newest() -> Run:
    return until(lambda: list_runs())[0]  # type: ignore[no-any-return]


# ------------------------------------------------------------------ words to values


@pytest.mark.parametrize(("name", "words", "arguments"), [
    ("set", ["learning_rate=0.1"], {"learning_rate": 0.1}), ("set", ["alpha=2", "compression=topk"], {"alpha": 2, "compression": "topk"}),
    ("shards", ["2"], {"count": 2}), ("kill_shard", ["1"], {"shard": 1}),
    ("kill_worker", ["1"], {"rank": 1}), ("slow_worker", ["1", "4"], {"rank": 1, "factor": 4}),
    ("slow_worker", ["factor=2.5", "1"], {"rank": 1, "factor": 2.5}), ("add_worker", [], {}), ("checkpoint", [], {}),
    ("of_a_plug_in", ["x=y"], {"x": "y"}), ("slow_worker", ["3"], {"rank": 3}),
])  # fmt: skip
def test_arguments_of_commands(name: str, words: list[str], arguments: dict[str, Any]) -> None:
    assert steer.arguments_of(name, words) == arguments


@pytest.mark.parametrize(("name", "words", "said"), [
    ("kill_worker", ["1", "2"], "RANK after 'kill_worker'"), ("set", ["0.1"], "learning_rate=0.1"), ("pause", ["now"], "none after"),
    ("kil_worker", ["1"], "one of the commands"), ("set", ["=1"], "a name and a value"),
])  # fmt: skip
def test_arguments_that_do_not_fit(name: str, words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        steer.arguments_of(name, words)


def test_set_takes_any_knob_of_an_exact_fit_as_well(data: Path) -> None:
    flags = shoal(
        "train", data, "--target", "y", "--model", "ridge", "--alpha", "3", "--no-intercept", "--exclude", "a", "--json"
    )
    settings = [f"--set={pair}" for pair in ("target=y", "model=ridge", "alpha=3", "intercept=no", "exclude=a")]
    same = shoal("train", data, *settings, "--json")
    assert (flags.code, same.code) == (0, 0), same.err
    for key in ("coefficients", "intercept", "train"):
        assert same.json[key] == flags.json[key]
    assert same.json["intercept"] == 0
    for pair, words in (
        ("alpha", "a name and a value"),
        ("alpah=1", "names of knobs"),
        ("intercept=maybe", "true or false"),
    ):
        assert words in refused("train", data, "--target", "y", "--set", pair)


def test_help_keeps_the_knobs_of_gradient_runs_apart() -> None:
    text = shoal("train", "--help").out
    exact, gradient = text.split("gradient runs:")
    for flag in ("--alpha", "--target", "--test-every", "--solver", "--set", "--detach"):
        assert re.search(rf"^  {flag}\b", exact, re.M), flag
    for name, knob in RunConfig.__dataclass_fields__.items():
        if knob.metadata.get("training"):
            flag = "--" + name.replace("_", "-")
            assert re.search(rf"^  {flag}\b", gradient, re.M), flag
            assert f"  {flag} " not in exact
    assert len(text.split("\n\n")[0].splitlines()) == 1  # a usage that can be read
    for command in ("runs", "show", "logs", "pause", "resume", "stop", "send", "fork"):
        answer = shoal(command, "--help")
        assert (answer.code, command in shoal("--help").out) == (0, True)


def test_list_and_show_of_a_damaged_folder_and_of_unknown_runs() -> None:
    assert "no runs yet" in shoal("runs").out
    assert shoal("runs", "--json").json == {"runs": []}
    assert "no runs yet" in refused("show", "last")
    for name in ("20260101-000000-0000000", "20260101-000000-0000001"):
        (runs_directory() / name).mkdir(parents=True)
        (runs_directory() / name / "config.json").write_text("{torn")
        (runs_directory() / name / "started").touch()
    answer = shoal("runs")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("interrupted") == 2
    assert "interrupted" in shoal("show", "last").out
    assert "is damaged" in refused("resume", "last")
    assert "2 begin with '2026'" in refused("stop", "2026")
    for command in ("show", "logs", "pause", "resume", "stop", "fork"):
        assert "got 'nothing'" in refused(command, "nothing")
    assert "takes no commands" in refused("send", "last", "checkpoint")


@pytest.mark.parametrize(("flags", "words"), [
    ((), "Expected a target"), (("--target", "y", "--set", "epochs=x"), "whole number"),
    (("--target", "y", "--mode", "often"), "often"), (("absent.csv", "--target", "y"), "Expected a file at"),
])  # fmt: skip
def test_what_would_fail_at_once_makes_no_run(flags: tuple[str, ...], words: str, data: Path) -> None:
    file = () if flags and not flags[0].startswith("-") else (data,)
    assert words in refused("train", *file, *flags, "--solver", "gradient")
    assert list_runs() == []


# ------------------------------------------------------------------ a whole life


def test_train_json_prints_nothing_but_the_object_and_the_model_is_where_it_was_asked_for(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = train(Path("table.csv"), "--tolerance", "1e-10", "--out", "model.json", "--json")
    assert (answer.code, answer.err) == (0, "")
    found = answer.json
    rows = np.loadtxt(data, delimiter=",", skiprows=1)
    best = np.linalg.lstsq(np.column_stack([rows[:, :3], np.ones(len(rows))]), rows[:, 3], rcond=None)[0]
    np.testing.assert_allclose([*found["coefficients"].values(), found["intercept"]], best, rtol=1e-4)
    assert (found["state"], found["solver"], found["run_id"]) == ("finished", "gradient", newest().id)
    assert json.loads((tmp_path / "model.json").read_text())["coefficients"] == found["coefficients"]
    assert json.loads(newest().model_path.read_text())["coefficients"] == found["coefficients"]
    row = shoal("runs", "--json").json["runs"][0]
    assert (row["run"], row["state"], row["distance"]) == (newest().id, "finished", found["distance_to_optimum"])
    shown = shoal("show", "last")
    assert (shown.code, shown.err) == (0, "")
    for word in (newest().id, "finished", "linear model of y", "R2", "mode sync", "rounds", str(newest().directory)):
        assert word in shown.out
    assert shoal("show", newest().id[:-1], "--json").json["result"] == found
    assert "Training begins" in shoal("logs", "last").out
    assert "is finished" in refused("resume", "last")
    again = shoal("fork", "last", "--set", "model=ridge", "--set", "alpha=5", "--json")
    assert (again.code, again.err) == (0, "")
    assert (again.json["model"], again.json["alpha"]) == ("ridge", 5)


def test_a_detached_run_is_steered_by_commands(data: Path) -> None:
    answer = shoal("train", data, "--target", "y", *ENDLESS, "--detach")
    assert (answer.code, answer.err) == (0, "")
    run = newest()
    assert f"shoal show {run.id}" in answer.out
    until(lambda: rounds(run) > 3 or not run.is_active)
    assert re.match(r"set: done, in effect from round [\d,]+\n", shoal("send", "last", "set", "learning_rate=0.1").out)
    assert "did not do 'kill_worker'" in refused("send", "last", "kill_worker", "7")
    assert shoal("pause", "last").out.startswith("pause: done")
    until(lambda: run.state == "paused")
    assert " paused " in shoal("runs").out
    assert shoal("resume", "last").out.startswith("resume: done")
    until(lambda: run.state == "running")
    found = shoal("show", "last", "--json").json
    assert (found["state"], found["last_round"]["round"] > 3, found["pid"]) == ("running", True, run.pid)
    assert [command["name"] for command in found["commands"]] == ["set", "kill_worker", "pause", "resume"]
    assert "is running" in refused("resume", "last")
    assert shoal("stop", "last").out.startswith("stop: done")
    assert ended(run) == "stopped"
    assert "Resume it first" in refused("pause", "last")


def test_ctrl_c_stops_the_run_that_is_followed_and_prints_what_it_has(data: Path) -> None:
    following = process("train", data, "--target", "y", *ENDLESS, "--json", start_new_session=True)
    run = newest()
    until(lambda: rounds(run) > 3)
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=SLOW)
    assert (following.returncode, err) == (130, "")
    assert json.loads(out)["state"] == "stopped"
    assert run.state == "stopped"


def test_a_second_ctrl_c_leaves_the_run_and_says_how_to_find_it(data: Path) -> None:
    following = process("train", data, "--target", "y", *ENDLESS, start_new_session=True)
    assert following.stderr is not None
    run = newest()
    until(lambda: rounds(run) > 3)
    os.kill(run.pid or 0, signal.SIGSTOP)  # it cannot answer
    following.send_signal(signal.SIGINT)
    said = iter(following.stderr.readline, "")
    assert any("Ctrl-C again" in line for line in said)
    following.send_signal(signal.SIGINT)
    assert f"shoal show {run.id}" in following.communicate(timeout=SLOW)[1]
    assert following.returncode == 130
    assert run.is_active
    os.kill(run.pid or 0, signal.SIGCONT)
    assert ended(run) == "stopped"


def test_a_run_whose_folder_is_removed_while_it_is_followed(data: Path) -> None:
    following = process("train", data, "--target", "y", *ENDLESS)
    run = newest()
    until(lambda: rounds(run) > 3)
    pid = run.pid
    gone = run.directory.rename(data.parent / "gone")  # at once: the run may write a file while its others are removed
    shutil.rmtree(gone, ignore_errors=True)
    err = following.communicate(timeout=SLOW)[1]
    assert following.returncode == 1
    assert f"shoal: The folder of the run {run.id} was removed" in err
    assert "Traceback" not in err
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_the_view_on_a_terminal_is_drawn_anew_and_gives_way_to_the_table(data: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "shoal.cli.app", "train", str(data), "--target", "y", *ENDLESS]
    environment = {**os.environ, "COLUMNS": "100"}
    running = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    text, stopped = "", False
    with contextlib.suppress(OSError):  # it has hung up
        while select.select([ours], [], [], SLOW)[0]:
            text += os.read(ours, 1 << 16).decode().replace("\r", "")
            if not stopped and text.count("worker 0: ") > 2:
                running.send_signal(signal.SIGINT)
                stopped = True
    os.close(ours)
    assert running.wait(SLOW) == 130, text
    frames = text.split("\x1b[J")
    live = next(frame for frame in frames if "worker 0: " in frame)
    assert re.search(r"\[[#.]{30}\] epoch [\d.,]+ of 1,000,000, round [\d,]+\nloss [\d.e-]+; distance to optimum", live)
    assert re.search(r"worker 0: \w+, cpu \d+%.* rows, waits \d+%\nCtrl-C stops it", live)
    assert max(len(line) for frame in frames[:-1] for line in frame.splitlines()) < 100
    assert frames[-1].startswith("linear model of y\n")
    assert "stopped: stopped by a command" in frames[-1]


def test_lists_load_no_numpy_where_nothing_is_running(data: Path) -> None:
    assert shoal("train", data, "--target", "y", "--detach").code == 0
    run = newest()
    assert ended(run) == "finished", run.error
    code = "import sys; from shoal.cli import app as cli; cli.main([*sys.argv[1:]]); print('numpy' in sys.modules)"
    for arguments in (["runs"], ["show", "last"], ["logs", "last"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=SLOW
        )
        assert done.stdout.endswith("False\n"), done.stdout + done.stderr


def test_the_log_is_followed_to_the_end(data: Path) -> None:
    assert shoal("train", data, "--target", "y", *ENDLESS, "--set", "max_seconds=1", "--detach").code == 0
    answer = shoal("logs", "last", "--follow")
    assert answer.code == 0
    assert answer.out.rstrip().endswith("the time limit of 1 s is reached")
    assert newest().state == "finished"
