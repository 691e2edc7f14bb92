"""The file of records that wait for the database: what it gives back is what was put in, or a warning in its place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from shoal.metrics import Event
from shoal.storage.unsent import NAME, Unsent, UnsentBatch
from support.harm.damage import cut, flip, noise
from support.records import round_


def waiting(folder: Path, count: int = 5) -> Unsent:
    found = Unsent(folder)
    for i in range(count):
        found.append([UnsentBatch(f"b{i}", [round_(i, 1 / (i + 1))])])
    return found


def told(batch: UnsentBatch) -> str:
    (record,) = batch.records
    return record.text if isinstance(record, Event) else ""


@pytest.mark.parametrize("harm", [flip, noise, cut])
@pytest.mark.parametrize("seed", range(25))
def test_a_damaged_line_is_never_another_number(tmp_path: Path, harm: object, seed: int) -> None:
    unsent = waiting(tmp_path)
    whole = list(unsent.after(None))
    harm(tmp_path / NAME, random.Random(seed))  # type: ignore[operator]
    found = list(unsent.after(None))
    bad = [batch for batch in found if told(batch)]
    assert all("are missing here" in told(batch) for batch in bad)
    assert [batch for batch in found if not told(batch)] == [batch for batch in whole if batch in found]
    assert bad or found == whole  # without its last line break, a line is whole
    assert [batch.name for batch in found] == [batch.name for batch in unsent.after(None)]  # sent once, however often


@pytest.mark.parametrize("missing", [1, 30])
def test_what_comes_after_a_line_that_a_kill_cut_off_is_kept_and_what_is_missing_is_said(
    tmp_path: Path, missing: int
) -> None:
    unsent = waiting(tmp_path)
    with (tmp_path / NAME).open("r+b") as file:
        file.truncate(file.seek(0, 2) - missing)
    before = list(unsent.after("b2"))
    unsent.append([UnsentBatch("next", [round_(9)])])
    first, cut_off, last = unsent.after("b2")
    assert (first.records, last.records) == ([round_(3, 1 / 4)], [round_(9)])
    assert cut_off.records == [round_(4, 1 / 5)] if missing == 1 else "are missing here" in told(cut_off)
    assert [batch.name for batch in before] == [first.name, cut_off.name]  # whoever has sent it does not send it again


def test_the_records_of_another_run_are_not_taken_for_its_own(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    waiting(tmp_path / "one")
    (tmp_path / "one" / NAME).rename(tmp_path / "two" / NAME)
    assert all(told(batch) for batch in Unsent(tmp_path / "two").after(None))
