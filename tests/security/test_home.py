"""Other users of the machine: they read nothing below SHOAL_HOME, hold no lock in it, and cannot lend us theirs."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shoal as api
from shoal.errors import StateError
from shoal.files.locks import is_held
from shoal.home import cache_directory, kernels_directory, make_folder, runs_directory, tightened
from shoal.runs.launch import launch, launch_job
from shoal.settings.values import config_from
from support.browser import ROOT
from support.runs import until
from support.tables import written

SOMEBODY = 54321  # a user that has nothing
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def shoal(home: Path, *arguments: object, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal.cli.app", *map(str, arguments)]
    environment = {**os.environ, "SHOAL_HOME": str(home)}
    environment.pop("SHOAL_UMASK", None)
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, umask=umask, timeout=120)


def open_to_others(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.stat().st_mode & 0o077} - {"kernels"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "".join(f"{i},{2 * i + i % 3}\n" for i in range(200)))
    return path


def test_all_that_a_command_leaves_is_its_owners_but_what_was_asked_for(table: Path, tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "model.json"
    arguments = ("train", table, "--target", "y", "--engine", "processes", "--workers", 1, "--out", out)
    assert shoal(home, *arguments).returncode == 0
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert any(home.rglob("*.json"))
    assert open_to_others(home) == set()
    assert stat.S_IMODE(out.stat().st_mode) == 0o644
    other = tmp_path / "detached.json"
    done = shoal(home, "train", table, "--target", "y", "--detach", "--out", other, umask=0o027)
    assert done.returncode == 0, done.stderr
    run = next((home / "runs").iterdir())
    until((run / "result.json").exists)
    until(lambda: not is_held(run / "lock"))
    assert open_to_others(home) == set()
    assert stat.S_IMODE(other.stat().st_mode) == 0o640


def test_an_older_home_is_closed_once_and_it_is_said(table: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "runs").mkdir(parents=True, mode=0o755)
    outside = written(tmp_path, "not ours", "outside.txt")
    for path in (home / "runs" / "log.txt", home / "notes.json", outside):
        path.write_text("{}")
        path.chmod(0o644)
    (home / "runs" / "link.txt").symlink_to(outside)
    home.chmod(0o755)
    first, second = (shoal(home, "runs") for _ in range(2))
    assert open_to_others(home) <= {"runs/link.txt"}
    assert stat.S_IMODE((home / "notes.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
    assert first.stderr.count("could be read by other users of this machine") == 1
    assert second.stderr == ""
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def _folder(table: Path) -> None:
    make_folder(cache_directory() / "index")


def _run(table: Path) -> None:
    run = launch(config_from({"file": str(table), "target": "y"}))
    until(lambda: not run.is_active and not run.is_alive)


def _job(table: Path) -> None:
    run = launch_job("inspect", config_from({"file": str(table), "target": "y"}))
    until(lambda: not run.is_active and not run.is_alive)


@pytest.mark.parametrize("make", [_folder, _run, _job])
def test_whoever_makes_it_the_home_is_private(make: Callable[[Path], None], table: Path, home: Path) -> None:
    """In a notebook the rights of new files are the person's own business; the home is ours."""
    make(table)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert tightened() == ""


@only_root
def test_a_home_of_another_user_is_refused(tmp_path: Path, home: Path) -> None:
    home.mkdir(mode=0o700)
    os.chown(home, SOMEBODY, SOMEBODY)
    with pytest.raises(StateError, match="belongs to another"):
        tightened()
    done = shoal(home, "runs")
    assert done.returncode == 1
    assert "Set SHOAL_HOME to a folder of your own." in done.stderr
    assert list(home.iterdir()) == []


@only_root
def test_python_refuses_a_home_of_another_user_as_the_command_line_does(table: Path, home: Path) -> None:
    home.mkdir(mode=0o755)
    os.chown(home, SOMEBODY, SOMEBODY)
    for ask in (lambda: api.fit(str(table), "y"), lambda: api.inspect(str(table)), runs_directory, kernels_directory):
        with pytest.raises(StateError, match=r"belongs to another\. Set SHOAL_HOME to a folder"):
            ask()
    assert list(home.iterdir()) == []
    os.chown(home, os.geteuid(), os.getegid())
    assert api.fit(str(table), "y").target == "y"


@only_root
def test_a_link_that_somebody_else_laid_is_refused(tmp_path: Path, home: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o755)
    home.symlink_to(mine)
    assert "only its owner can" in tightened()  # one's own link to one's own folder is fine
    os.lchown(home, SOMEBODY, SOMEBODY)
    with pytest.raises(StateError, match="the link"):
        tightened()


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody may look into; those of tests are private, which would hide what is tested."""
    with tempfile.TemporaryDirectory(prefix="shoal-public-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


TRY = """
import fcntl, os, sys
os.setgroups([]); os.setgid({user}); os.setuid({user})
try:
    with open(sys.argv[1]) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("held")
except PermissionError:
    print("refused")
"""


@only_root
def test_another_user_can_hold_no_lock(public: Path) -> None:
    home, table = public / "home", written(public, "x,y\n" + "".join(f"{i},{i % 7}\n" for i in range(50)))
    table.chmod(0o644)
    assert shoal(home, "train", table, "--target", "y").returncode == 0
    locks = [path for path in home.rglob("*") if path.is_file()]
    assert locks
    for path in (*locks, table):
        code = TRY.format(user=SOMEBODY)
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, cwd="/")
        assert done.stdout.strip() == ("held" if path == table else "refused"), (path, done.stderr)


def test_tests_cannot_write_to_the_home_of_whoever_runs_them() -> None:
    """A process that is given no SHOAL_HOME has one of the session; `tests/conftest.py` fails where it writes there."""
    person = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".shoal"
    without = {name: value for name, value in os.environ.items() if name != "SHOAL_HOME"}
    asked = [sys.executable, "-P", "-c", "from shoal.home import home; print(home())"]
    for environment in (without, dict(os.environ)):
        found = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout.strip()
        assert not Path(found).is_relative_to(person)
        assert not Path(found).resolve().is_relative_to(person)
