"""The example plug-in as a person would install it, and fresh processes that have it on their path."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "shoal_example_plugin"
FLAGS = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")


def installed(folder: Path) -> str:
    """A folder that pip has installed the example into, without an index."""
    shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))  # a build leaves folders
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *FLAGS, "--target", folder / "site", folder / "source"],
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(folder / "site")


def python(code: str, path: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh process that has the project and, perhaps, an installed plug-in on its path."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], capture_output=True, text=True, timeout=90, cwd="/",
        env={**os.environ, "PYTHONPATH": path, **environment},
    )  # fmt: skip


def shoal(site: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command line, with what is installed there."""
    return python(
        "import sys; from shoal.cli import app as cli; sys.exit(cli.main(sys.argv[1:]))", site, *map(str, arguments)
    )


def distribution(place: Path, name: str, group: str, entries: str, code: str = "", version: str = "1.2") -> None:
    """A module in a folder, and the metadata that pip would write beside it."""
    module = name.replace("-", "_")
    (place / f"{module}.py").write_text(textwrap.dedent(code))
    info = place / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")


def at_hand(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """For a fixture: puts distributions on the path of this process, and forgets their modules afterwards."""
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    yield functools.partial(distribution, place)
    for module in place.glob("*.py"):
        sys.modules.pop(module.stem, None)
