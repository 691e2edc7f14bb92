"""What tests of the installed program need: a copy of this checkout, environments without it, folders full of traps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
NOT_COPIED = (".git", ".venv*", ".*_cache", ".hypothesis", "build", "dist", "__pycache__", "*.egg-info")
SLOW = 200.0  # seconds; the machine may be busy with other things
# Names of our own modules and of the usual ones of other people.
TRAPS = [
    "config", "dashboard", "data", "data_pipeline", "datasets", "errors", "home", "main", "metrics", "models", "plugins",
    "runs", "search", "settings", "storage", "tasks", "training", "words", "worker",
]  # fmt: skip
OWN_UTILS = "def double(x: int) -> int:\n    return 2 * x\n"


@dataclass
class Installed:
    """A Python environment with Shoal in it."""

    folder: Path

    @property
    def shoal(self) -> Path:
        return self.folder / "bin" / "shoal"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def package(self) -> Path:
        """Where the module `shoal` is, if it is not somewhere else by an editable install."""
        (found,) = self.folder.glob("lib/python*/site-packages/shoal")
        return found


def copy_of_checkout(folder: Path) -> Path:
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_COPIED))
    return folder


def environment(folder: Path, *what: str | Path) -> Installed:
    """An empty environment with what is named installed, which sees the dependencies of this one, but not its Shoal."""
    call(sys.executable, "-m", "venv", "--without-pip", folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # no .pth file there is read
    offline = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    call(sys.executable, "-m", "pip", "--python", folder, "install", *offline, *what)
    return Installed(folder)


def call(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a command prints; it has to succeed."""
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def trapped_folder(folder: Path) -> Path:
    """A folder in which the names of our modules, and the settings of our server, are somebody else's."""
    folder.mkdir()
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"raise SystemError('the {name}.py of the current folder was imported')\n")
    (folder / "utils.py").write_text(OWN_UTILS)
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "config.toml").write_text(
        '[server]\nport = 1\naddress = "0.0.0.0"\nbaseUrlPath = "elsewhere"\nheadless = false\n'
    )
    return folder


def environment_variables(home: Path, **more: str) -> dict[str, str]:
    """Those of this process with a home of its own, and without a way to a compiler or to our modules."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "PYTHON", "CC"))}
    return {**inherited, "PATH": "/nowhere", "SHOAL_HOME": str(home), "SHOAL_SLOTS": "2", **more}


def table(path: Path) -> tuple[Path, dict[str, float]]:
    """A file of 2,000 rows, and the coefficients of its linear model by NumPy."""
    random = np.random.default_rng(7)
    X = random.normal(size=(2_000, 2)).round(4)
    y = (X @ [3.0, -2.0] + 1.5 + random.normal(size=2_000)).round(4)
    np.savetxt(path, np.column_stack([X, y]), "%.4f", ",", header="a,b,y", comments="")
    found = np.linalg.lstsq(np.column_stack([X, np.ones(2_000)]), y, rcond=None)[0]
    return path, {"a": float(found[0]), "b": float(found[1])}


@contextmanager
def dashboard(command: list[str | Path], cwd: Path, env: dict[str, str], log: Path) -> Iterator[str]:
    """The address of a dashboard that a command starts; it is told to end afterwards."""
    with (
        log.open("wb") as said,
        subprocess.Popen([*map(str, command)], cwd=cwd, env=env, stdout=said, stderr=said) as run,
    ):
        try:
            deadline = time.monotonic() + SLOW
            while not (found := re.search(r"(http://127\.0\.0\.1:\d+)/\?token=[\w-]+", log.read_text())):
                assert run.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            assert answer(found[0])[0] == 200  # a browser that came by the printed address is in from then on
            yield found[1]
        finally:
            run.terminate()


BROWSER = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())


def answer(address: str) -> tuple[int, str]:
    with BROWSER.open(address, timeout=SLOW) as found:
        return found.status, found.read().decode()
