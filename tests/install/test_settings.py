"""What is written down for other tools: requirements.txt, Replit's start, the hooks of pre-commit."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_requirements_are_those_of_the_constraints() -> None:
    done = subprocess.run([sys.executable, "-m", "tools.requirements"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (ROOT / "requirements.txt").read_text() == done.stdout, "run: make requirements"
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    listed = done.stdout.splitlines()[1:]
    assert set(listed) <= set(pinned)
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    names = {line.partition("==")[0].lower() for line in listed}
    assert {re.split(r"[\[<>=]", line)[0].lower() for line in wanted} < names


def test_everything_that_this_project_installs_is_pinned() -> None:
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    assert {re.split(r"[\[<>=]", line)[0].lower() for line in wanted} <= pinned


def test_replit_starts_a_command_of_ours() -> None:
    settings = tomllib.loads((ROOT / ".replit").read_text())
    program, target, arguments = settings["run"]
    assert (program, target) == ("make", "run")
    assert arguments.startswith(f"ARGS=--port {settings['ports'][0]['localPort']} -- --server.address 0.0.0.0")


def test_hooks_use_the_tools_of_the_environment() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"  # nothing is fetched
    assert all(".venv/bin/" in hook["entry"] for hook in repository["hooks"])
