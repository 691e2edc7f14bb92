"""Where `--out` may lead: every command that has it, to every sort of place; nothing of a person's is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.cli.app import _parser
from support.tables import Answer, shoal

ROWS = "a,y\n1,2\n2,3\n3,5\n4,6\n5,9\n"

# By name: the words of the command, and what what it writes begins with.
COMMANDS: dict[str, tuple[list[str], bytes]] = {
    "train": (["train", "data.csv", "--target", "y"], b"{"),
    "train by steps": (["train", "data.csv", "--target", "y", "--solver", "gradient", "--epochs", "1", "--workers", "1"], b"{"),
    "tune": (["tune", "data.csv", "--target", "y", "--folds", "2", "--n-alphas", "3"], b"{"),
    "predict": (["predict", "model.json", "data.csv"], b"row,prediction\n"),
    "plan": (["plan", "data.csv", "--target", "y", "--nodes", "1", "--modes", "sync", "--compressions", "none"], b"way,"),
    "export": (["export", "model.json", "--to", "sql"], b"--"),
    "report": (["export", "model.json", "--to", "report"], b"<!doctype html>"),
}  # fmt: skip

WITH_SETTINGS = ["train", "train by steps", "tune"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a model of these rows, fitted once; commands that read it need no more than that file."""
    place = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(place / "home"))
        patch.chdir(place)
        Path("data.csv").write_text(ROWS)
        assert shoal("train", "data.csv", "--target", "y", "--out", "model.json").code == 0
    return (place / "model.json").read_bytes()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, model: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with data and a model; a command leaves no unfinished file in it."""
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    (place / "data.csv").write_text(ROWS)
    (place / "model.json").write_bytes(model)
    yield place
    assert [path.name for path in place.iterdir() if path.name.startswith(".")] == []


def test_every_command_with_the_flag_is_here() -> None:
    having = {
        name
        for name, parser in _parser().commands.items()
        if any("--out" in action.option_strings for action in parser.actions())
    }
    assert having == {words[0] for words, _ in COMMANDS.values()}


def run(command: str, out: str | Path) -> Answer:
    return shoal(*COMMANDS[command][0], "--out", out)


def starts(command: str, data: bytes) -> bool:
    return data.startswith(COMMANDS[command][1])


def _itself(path: Path) -> Path:
    return path


def _absolute(path: Path) -> Path:
    return path.absolute()


def _around(path: Path) -> Path:
    return Path("..") / "place" / path


def _hard_link(path: Path) -> Path:
    other = Path("hard-link")
    os.link(path, other)
    return other


def _link(path: Path) -> Path:
    other = Path("link")
    other.symlink_to(path)
    return other


@pytest.mark.parametrize("name", [_itself, _absolute, _around, _hard_link, _link])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_input_is_never_written_over(command: str, name: Callable[[Path], Path]) -> None:
    inputs = [word for word in COMMANDS[command][0] if Path(word).exists()]
    if command in ("export", "report"):
        inputs.append("data.csv")  # the model was trained on it
    for number, given in enumerate(inputs):
        before = Path(given).read_bytes()
        there = name(Path(given))
        answer = run(command, there)
        assert (answer.code, answer.is_plain()) == (1, True), answer.err
        assert "would destroy it" in answer.err
        assert "Give another name with --out" in answer.err
        assert Path(given).read_bytes() == before
        if name in (_hard_link, _link):
            there.rename(f"other-{number}")


def test_every_command_with_settings_is_here() -> None:
    having = {
        name
        for name, parser in _parser().commands.items()
        if any("--config" in action.option_strings for action in parser.actions())
    }
    assert having == {COMMANDS[command][0][0] for command in WITH_SETTINGS}


@pytest.mark.parametrize("said", ["by flag", "in the file"])
@pytest.mark.parametrize("command", WITH_SETTINGS)
def test_settings_are_an_input_too(command: str, said: str) -> None:
    settings = "model: ridge\n" + ("" if said == "by flag" else "out: run.yaml\n")
    Path("run.yaml").write_text(settings)
    out = ["--out", "run.yaml"] if said == "by flag" else []
    answer = shoal(*COMMANDS[command][0], "--config", "run.yaml", *out)
    assert "would destroy it" in answer.err
    assert Path("run.yaml").read_text() == settings


@pytest.mark.parametrize("command", COMMANDS)
def test_a_link_stays_and_what_it_leads_to_is_written(command: str) -> None:
    Path("real").mkdir()
    Path("real/old").write_text("old")
    Path("link").symlink_to("real/old")
    Path("dangling").symlink_to("real/new")
    for link, target in (("link", "real/old"), ("dangling", "real/new")):
        assert run(command, link).code == 0
        assert Path(link).is_symlink()
        assert starts(command, Path(target).read_bytes())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_is_written_to(command: str) -> None:
    os.mkfifo("pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_bytes()))
    reader.start()
    answer = run(command, "pipe")
    if answer.code:
        os.close(os.open("pipe", os.O_RDWR))  # let the reader go
    reader.join()
    assert answer.code == 0, answer.err
    assert Path("pipe").is_fifo()
    assert starts(command, read[0])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_is_written_to(command: str) -> None:
    assert run(command, "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()
    answer = run(command, "/dev/full")
    assert answer.code == 1
    assert answer.err.splitlines()[-1].startswith("shoal: The disk is full")


@pytest.mark.parametrize("command", COMMANDS)
def test_standard_output_has_nothing_else(command: str) -> None:
    answer = run(command, "-")
    assert answer.code == 0, answer.err
    assert starts(command, answer.out.encode())
    assert not Path("-").exists()
    again = run(command, "file")
    assert again.code == 0
    if not command.startswith(("train", "tune", "plan")):  # these know where they went or how long something took
        texts = answer.out, Path("file").read_text("utf-8")
        first, second = (re.sub(r"\d\d:\d\d:\d\d UTC", "", text) for text in texts)
        assert first == second  # but for the second that a report was made in
        assert answer.err == again.out.replace("written to file", "written to -")


@pytest.mark.parametrize("out", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_all_its_names(out: str) -> None:
    """As a process whose output is appended to a file, of which nothing may be lost."""
    Path("all.txt").write_text("before\n")
    words = [sys.executable, "-m", "shoal.cli.app", *COMMANDS["predict"][0], "--out", out]
    with Path("all.txt").open("ab") as file:
        done = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = Path("all.txt").read_text().splitlines()
    assert lines[:2] == ["before", "row,prediction"]
    assert len(lines) == 7
    assert b"5 predictions" in done.stderr


def test_output_that_is_appended_to_the_data_is_refused() -> None:
    words = [sys.executable, "-m", "shoal.cli.app", *COMMANDS["predict"][0], "--out", "-"]
    with Path("data.csv").open("ab") as file:
        done = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 1
    assert Path("data.csv").read_text() == ROWS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_is_no_file(command: str) -> None:
    Path("folder").mkdir()
    answer = run(command, "folder")
    assert (answer.code, answer.is_plain()) == (1, True), answer.err
    assert "got the folder 'folder'. Add a name to it." in answer.err
    assert list(Path("folder").iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_folders_are_made(command: str) -> None:
    assert run(command, "new/folder/file").code == 0
    assert starts(command, Path("new/folder/file").read_bytes())
    assert [path.name for path in Path("new/folder").iterdir()] == ["file"]


@pytest.mark.parametrize("command", COMMANDS)
def test_rights_are_those_of_new_files_or_of_the_old_one(command: str) -> None:
    Path("old").write_text("old")
    Path("old").chmod(0o640)
    before = os.umask(0o026)
    try:
        assert run(command, "new").code == 0
        assert run(command, "old").code == 0
    finally:
        os.umask(before)
    assert oct(Path("new").stat().st_mode & 0o777) == oct(0o640)
    assert oct(Path("old").stat().st_mode & 0o777) == oct(0o640)
    Path("old").chmod(0o664)
    assert run(command, "old").code == 0
    assert oct(Path("old").stat().st_mode & 0o777) == oct(0o664)


def test_a_detached_run_needs_a_file() -> None:
    answer = shoal("train", "data.csv", "--target", "y", "--detach", "--out", "-")
    assert answer.code == 1
    assert "Name a file with --out" in answer.err


@pytest.mark.skipif(not hasattr(os, "mknod") or os.geteuid() != 0, reason="only the superuser can make such a node")
def test_a_disk_is_not_overwritten() -> None:
    try:
        os.mknod("disk", 0o060600, os.makedev(240, 77))  # no driver has it: even a fault would harm nothing
    except PermissionError:
        pytest.skip("no such node can be made here")
    answer = run("train", "disk")
    assert answer.code == 1
    assert "got the disk" in answer.err
