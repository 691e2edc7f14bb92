"""What a warm process does before its first fork: real fits, of which nothing is left, and no thread that a fork would lose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.home import home
from shoal.processes.rehearsal import TIMES, fits_in

AFTERWARDS = """
import os, sys
from shoal.processes.rehearsal import rehearse
rehearse()
print(len(os.listdir("/proc/self/task")), "shoal.fitting.reports" in sys.modules)
"""


def test_fits_are_complete_and_stay_in_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    runs = fits_in(tmp_path)
    assert [run.state for run in runs] == ["finished"] * TIMES
    assert runs[0].result is not None
    assert runs[0].result["coefficients"]
    assert not home().exists()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_nothing_is_left_and_there_is_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, folder in (("SHOAL_HOME", "home"), ("TMPDIR", "temporary")):
        (tmp_path / folder).mkdir()
        monkeypatch.setenv(name, str(tmp_path / folder))
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    done = subprocess.run([sys.executable, "-P", "-c", AFTERWARDS], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "True"]
    assert [list((tmp_path / folder).iterdir()) for folder in ("home", "temporary")] == [[], []]
