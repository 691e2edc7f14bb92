"""What `make` says in a folder whose name Python's own tools cannot take, before anything is made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def made(folder: Path) -> subprocess.CompletedProcess[str]:
    """The first step of every target, in a folder of that name, with a Python that only says that it was asked."""
    (folder / ".venv").mkdir(parents=True)  # which a real Python would make
    shutil.copy(ROOT / "Makefile", folder)
    make = ["make", ".venv/.python", "PYTHON=echo asked"]
    return subprocess.run(make, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize("name", ["a$b", "a:b"])
def test_a_folder_that_cannot_be_installed_from_is_said(name: str, tmp_path: Path) -> None:
    answer = made(tmp_path / name)
    assert answer.returncode
    assert "Expected a folder without ':' and '$' in its path" in answer.stderr
    assert "asked" not in answer.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize("name", ["it's; here", "models and utils", 'a "b" & c'])
def test_other_names_do_no_harm(name: str, tmp_path: Path) -> None:
    answer = made(tmp_path / name)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "asked" in answer.stdout
