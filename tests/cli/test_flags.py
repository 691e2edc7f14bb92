"""What the command line says before it does anything: version, defaults, what was meant, and completion in shells."""

from __future__ import annotations

import dataclasses
import os
import pty
import re
import shutil
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import shoal as package
from shoal.cli.app import _parser, main
from shoal.cli.flags import OTHER_NAMES, SECTIONS
from shoal.settings.checks import KNOB_GROUPS
from shoal.settings.config import RunConfig
from support.tables import shoal

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def test_there_is_one_version() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "shoal.__version__"}
    assert shoal("--version").out == f"shoal {package.__version__}\n"
    assert version("shoal") == package.__version__


# ------------------------------------------------------------------ help


def told(command: str) -> dict[str, str]:
    """What help says of every flag."""
    entries = re.split(r"\n\s+(?=-)", shoal(command, "--help").out.partition("options:")[2])
    return {
        flag: " ".join(entry.split()) for entry in entries for flag in re.findall(r"--[\w-]+", entry.split("  ")[0])
    }


def test_help_says_the_default_of_every_knob_that_has_one() -> None:
    said = told("train")
    for knob in dataclasses.fields(RunConfig):
        if knob.default in (None, "", ()):
            continue
        line = said["--" + knob.name.replace("_", "-")]
        shown = line.partition("(default: ")[2].partition(")")[0]
        if "auto" in knob.metadata and knob.default == knob.metadata["auto"]:
            assert shown == "auto", line
        elif isinstance(knob.default, bool):
            assert shown == ("yes" if knob.default else "no"), line
        else:
            assert type(knob.default)(shown) == knob.default, line


def test_help_has_every_command_in_one_section() -> None:
    sections = [name for names in SECTIONS.values() for name in names]
    assert sorted([*sections, *OTHER_NAMES]) == sorted(_parser().commands)
    page = shoal("--help").out
    for title, names in SECTIONS.items():
        part = page.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  ([a-z-]+)", part, re.M) == list(names)


def test_help_has_every_knob_under_what_it_is_about() -> None:
    page = shoal("train", "--help").out
    for knob in dataclasses.fields(RunConfig):
        if knob.name == "file":
            continue
        group, training = knob.metadata["group"], knob.metadata.get("training")
        title = KNOB_GROUPS[group].lower()
        if training:
            title = "gradient runs" if group == "solver" else f"gradient runs, {title}"
        part = re.split(r"\n\n(?=\S)", page.partition(f"\n{title}:\n")[2])[0]
        assert re.search(rf"^  --{knob.name.replace('_', '-')}\b", part, re.M), (title, knob.name)


def test_a_command_with_a_default_of_its_own_says_that() -> None:
    assert "(default: lasso)" in told("tune")["--model"]
    assert "(default: 5000)" in told("dashboard")["--port"]


# ------------------------------------------------------------------ what was meant


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["trian", "DATA"], "'train'"),
        (["Predict", "DATA"], "'predict'"),
        (["train", "DATA", "--targt", "price"], "'--target'"),
        (["--vresion", "train", "DATA"], "'--version'"),
        (["train", "DATA", "--target", "price", "--model", "rigde"], "'ridge'"),
        (["completion", "zhs"], "'zsh'"),
        (["train", "DATA", "--target", "price", "--alphas=1"], "'--alpha'"),
        (["tune", "DATA", "--target", "price", "--n-alpha", "3"], "'--n-alphas'"),
        (["train", "DATA", "--target", "prise"], "'price'"),
        (["train", "DATA", "--target", "price", "--features", "Room"], "'rooms'"),
        (["train", "DATA", "--target", "price", "--categorical", "roms"], "'rooms'"),
        (["train", "DATA", "--target", "price", "--set", "learning_rat=1"], "'learning_rate'"),
    ],
)
def test_a_slip_is_met_with_what_was_meant(arguments: list[str], meant: str, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("rooms,price\n1,2\n2,3\n3,5\n4,4\n")
    answer = shoal(*(str(data) if word == "DATA" else word for word in arguments))
    assert answer.code == 1
    assert f"Did you mean {meant}?" in answer.err
    assert answer.err.count("\n") == 1


def test_what_is_like_nothing_gets_no_guess() -> None:
    for arguments in (["xyzzy"], ["runs", "--xyzzy"], ["models", "xyzzy"]):
        answer = shoal(*arguments)
        assert answer.code == 1
        assert "xyzzy" in answer.err
        assert "Did you mean" not in answer.err
        assert "--help'." in answer.err


# ------------------------------------------------------------------ completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_understand_their_scripts(shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell} on this machine")
    script = tmp_path / "script"
    script.write_text(shoal("completion", shell).out)
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def completed(words: list[str], tmp_path: Path) -> list[str]:
    script = tmp_path / "script"
    script.write_text(shoal("completion", "bash").out)
    code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shoal; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", code, "bash", script, "shoal", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_bash_completes_commands_flags_and_values(tmp_path: Path) -> None:
    assert completed(["tr"], tmp_path) == ["train"]
    assert {"inspect", "train", "dashboard", "--version"} <= set(completed([""], tmp_path))
    assert completed(["train", "x.csv", "--targ"], tmp_path) == ["--target"]
    assert completed(["tune", "x.csv", "--fold"], tmp_path) == ["--folds", "--fold-by"]
    assert completed(["train", "--model", "l"], tmp_path) == ["linear", "lasso", "logistic", "lognormal"]
    assert completed(["completion", ""], tmp_path) == ["bash", "zsh", "fish"]
    assert completed(["train", "x"], tmp_path) == []  # the names of files are the shell's own business


SAY = "say() { print -r -- \"<$BUFFER>\"; BUFFER=; zle .accept-line; }; zle -N say; bindkey '^X' say"


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh on this machine")
def test_zsh_completes_commands_flags_and_values(tmp_path: Path) -> None:
    """A real one on a terminal: what is typed, Tab, and then what stands in its line."""
    script = tmp_path / "script"
    script.write_text(shoal("completion", "zsh").out)
    terminal, its_side = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "HOME": str(tmp_path)}
    ends = dict.fromkeys(("stdin", "stdout", "stderr"), its_side)
    process = subprocess.Popen(["zsh", "-f", "-i"], env=environment, start_new_session=True, **ends)
    os.close(its_side)
    try:
        with os.fdopen(terminal, "r+b", buffering=0) as zsh:

            def heard(until: bytes) -> bytes:
                said = b""
                while until not in said:
                    said += zsh.read(4096) or b""
                return said

            zsh.write(f"autoload -Uz compinit; compinit -u -D; source {script}; {SAY}; print rea''dy\n".encode())
            heard(b"\nready")
            for typed, line in {
                "shoal tr": "shoal train ", "shoal train x.csv --targ": "shoal train x.csv --target ",
                "shoal train --model r": "shoal train --model ridge ", "shoal completion z": "shoal completion zsh ",
                "shoal tune x.csv --folds-": "shoal tune x.csv --folds-",
            }.items():  # fmt: skip
                zsh.write(f"{typed}\t\x18".encode())
                assert f"<{line}>".encode() in heard(b">\r\n"), typed
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish on this machine")
def test_fish_completes_commands_flags_and_values(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(shoal("completion", "fish").out)
    for typed, found in {
        "shoal tr": ["train"], "shoal train x.csv --targ": ["--target"], "shoal completion ": ["bash", "fish", "zsh"],
        "shoal train --model l": ["lasso", "linear", "logistic", "lognormal"], "shoal tune x.csv --folds-": [],
    }.items():  # fmt: skip
        code = f"source '{script}'; complete -C '{typed}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", code],
            cwd=tmp_path,  # names of its files would be told too
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert [line.split("\t")[0] for line in done.stdout.splitlines()] == found, typed


def test_every_flag_that_help_shows_is_completed(tmp_path: Path) -> None:
    for command in ("train", "search", "explain", "dashboard"):
        assert set(told(command)) == set(completed([command, "--"], tmp_path))


def test_help_names_no_flag_that_its_command_lacks() -> None:
    for name, command in _parser().commands.items():
        known = {flag for action in command.actions() for flag in action.option_strings}
        named = set(re.findall(r"(?<![\w.-])--[a-z][a-z-]+(?![\w.-])", command.format_help()))
        assert named - known - {"--server"} == set(), name


def test_a_search_refuses_what_has_no_effect_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "t.csv"
    data.write_text("x,y\n1,2\n2,3\n3,5\n")
    assert main(["search", str(data), "--target", "y", "--alpha", "3"]) == 1
    assert "give it one with --model ridge" in capsys.readouterr().err
