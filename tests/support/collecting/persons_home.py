"""The home of whoever runs the tests is not the tests' to write to: they have one that looks the same, but for `.shoal`.

All that is in the person's folder is there as links, so that browsers, caches and settings are found. What tests write
without naming a home goes to a folder of the session; what a process of theirs writes past that is a failure at the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

MARK = "SHOAL_TESTS_HOME"  # where the first process of the session has made the home, for those that it starts
_made: list[Path] = []


def stand_in() -> None:
    """For this process and those that it starts; before anything of ours is used."""
    if MARK in os.environ:
        return
    person, folder = Path.home(), Path(tempfile.mkdtemp(prefix="shoal-tests-home-"))
    with contextlib.suppress(OSError):
        for entry in os.listdir(person):
            if entry != ".shoal":
                (folder / entry).symlink_to(person / entry)
    os.environ.update({MARK: str(folder), "HOME": str(folder)})
    os.environ.setdefault("SHOAL_HOME", str(folder / "unnamed"))
    _made.append(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)
    _made.clear()


def written() -> list[str]:
    """What would have been written into the person's own `.shoal`."""
    folder = Path(os.environ[MARK]) / ".shoal"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))[:10] if folder.exists() else []
