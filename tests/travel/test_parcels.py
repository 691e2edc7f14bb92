"""Parcels in a real database: what is sent comes back, is there once, goes when nobody needs it, and obeys the fence."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import pytest

from shoal.errors import StateError
from shoal.queueing.jobs import FINISHED, Job, RunHost
from shoal.queueing.team import needed_queue
from shoal.travel import packing
from shoal.travel.packing import place_of
from shoal.travel.parcels import PIECE, SMALL, FileMark, Parcels, parcels
from support.team.homes import Homes

HOST = RunHost("one", 4, "a process", home="far")


@pytest.fixture
def known(homes: Homes) -> Parcels:
    return parcels()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_bytes(b"0123456789abcdef" * (PIECE // 16) + b"the rest")
    return path


def held(run: str) -> int:
    queue = needed_queue()
    queue.put(Job(run))
    job = queue.claim(HOST, 4)
    assert job is not None
    return job.fence


def contents(homes: Homes) -> int:
    return int(str(homes.asked("SELECT count(*) FROM shoal.travel_contents")[0]))


def test_a_large_file_comes_back_in_pieces_and_is_there_once_for_all_runs(
    homes: Homes, known: Parcels, table: Path
) -> None:
    name = "uploads/0/table.csv"
    for run in ("a", "b"):
        known.begin(run, "near", {name: table, "job.json": b"{}"})
    assert b"".join(known.pieces("b", name)) == table.read_bytes()
    assert list(known.pieces("b", "job.json")) == [b"{}"]
    assert contents(homes) == 1
    known.drop("a")
    assert b"".join(known.pieces("b", name)) == table.read_bytes()
    known.drop("b")
    assert contents(homes) == 0


def test_only_the_newest_checkpoint_is_kept_and_tables_stay(homes: Homes, known: Parcels, table: Path) -> None:
    known.begin("a", "near", {"uploads/0/table.csv": table, "state.json": b"1"})
    fence = held("a")
    for step in range(3):
        checkpoint = table.with_name(f"{step}.ckpt")
        checkpoint.write_bytes(bytes([step]) * (SMALL + 1))
        name = f"checkpoints/step-{step:012d}.ckpt"
        known.send("a", fence, {name: checkpoint, "state.json": b"2"}, {name, "state.json"})
    found = known.find("a")
    assert found is not None
    assert set(found.files) == {"uploads/0/table.csv", "checkpoints/step-000000000002.ckpt", "state.json"}
    assert contents(homes) == 2


def test_whoever_lost_a_run_changes_nothing(known: Parcels) -> None:
    known.begin("a", "near", {"state.json": b"before"})
    fence = held("a")
    queue = needed_queue()
    assert queue.give_back("a", fence)
    with pytest.raises(StateError, match="Another host has taken over the run a"):
        known.send("a", fence, {"state.json": b"from the dead"}, ["state.json"])
    assert not known.settle("a", fence, "far")
    known.bind("a", fence, "far")
    found, job = known.find("a"), queue.get("a")
    assert found is not None
    assert job is not None
    assert (found.home, job.home) == ("near", "")
    assert list(known.pieces("a", "state.json")) == [b"before"]


def test_what_was_finished_at_home_goes_and_what_is_away_stays_until_it_is_fetched(known: Parcels) -> None:
    for run, home in (("a", "near"), ("b", "far")):
        known.begin(run, "near", {"state.json": b"1"})
        fence = held(run)
        assert known.settle(run, fence, home)
        assert needed_queue().finish(run, fence)
    known.sweep()
    assert known.find("a") is None
    assert [(parcel.run, parcel.home, parcel.state) for parcel in known.away_from("near")] == [("b", "far", FINISHED)]


def test_a_file_that_changes_while_it_is_sent_is_not_sent(known: Parcels, table: Path) -> None:
    class Changing(type(table)):  # type: ignore[misc]
        """The first look, which sums it up, sees another file than the second."""

        def open(self, *arguments: object, **more: object) -> object:
            found = super().open(*arguments, **more)
            table.write_bytes(table.read_bytes() + b"more")
            return found

    with pytest.raises(StateError, match="to stay as it is while it is sent"):
        known.begin("a", "near", {"model.json": Changing(table)})
    assert known.find("a") is None


@pytest.mark.parametrize(
    "name", ["../other/model.json", "/etc/passwd", "checkpoints/../../x", "uploads/../people.sqlite", "a/b", "", "a\\b"]
)
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="in its parcel"):
        place_of(tmp_path / "run", name)


def test_of_more_than_was_sent_no_disk_becomes_full(tmp_path: Path) -> None:
    whole = b"x" * 10
    mark = FileMark(hashlib.sha256(whole).hexdigest(), len(whole))
    packing.put(tmp_path / "model.json", mark, iter([whole[:4], whole[4:]]))
    with pytest.raises(StateError, match=r"'log.txt' of a run is damaged .* expected 10 bytes .* got more\."):
        packing.put(tmp_path / "log.txt", mark, itertools.repeat(whole))
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]
