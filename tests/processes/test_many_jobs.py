"""Many small fits while run hosts are killed: each is finished once, and the lists can be read all the while."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.runs import run_home, small_table
from support.team.marathon import marathon

JOBS, KILLS = 60, 4


@pytest.mark.parametrize("apart", [False, True], ids=["one home", "homes apart"])
def test_each_is_finished_once_whoever_is_killed(
    apart: bool, team_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_home(tmp_path / "home", monkeypatch):
        outcome = marathon(small_table(tmp_path), tmp_path, JOBS, KILLS, apart=apart)
    assert outcome.kills == KILLS
    assert outcome.folders == outcome.states == {"finished": JOBS}
    assert len(outcome.finished) == JOBS
    assert set(outcome.finished.values()) == {1}
    assert outcome.run_reads
