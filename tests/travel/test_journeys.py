"""What is decided where a run's files count, without hosts: fetched, sent, brought home, and what stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import Standing
from shoal.home import uploads_directory
from shoal.people.belongings import PRIVATE, SHARED, belong, wishes
from shoal.queueing.homes import home_mark
from shoal.queueing.jobs import RunHost
from shoal.queueing.team import needed_queue
from shoal.runs.folder import Run, list_runs, write_json, write_state
from shoal.runs.launch import launch
from shoal.travel import journeys
from shoal.travel.packing import UNSENT
from shoal.travel.parcels import SMALL, parcels
from support.runs import short_run, until
from support.team.homes import Homes

Upload = Callable[..., Path]
FIRST = "checkpoints/step-000000000001.ckpt"


def taken(homes: Homes, run: Run, home: str = "far") -> int:
    """As a host of a home does it; the fence."""
    with homes.inside(home):
        job = needed_queue().claim(RunHost("one", 4, "a process", home=home_mark()), 4)
        assert job is not None
        assert job.id == run.id
        if journeys.is_to_be_fetched(run.id):
            journeys.fetch(run.id, job.fence)
        return job.fence


def there(homes: Homes, run: Run, home: str = "far") -> Path:
    return homes.path(home) / "runs" / run.id


def checkpoint(folder: Path, step: int, said: bytes) -> None:
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / f"checkpoints/step-{step:012d}.ckpt").write_bytes(said)


def lock_of(run: Run) -> int:
    return (run.directory / "lock").stat().st_ino


def test_whose_a_table_is_comes_along_but_not_over_that_of_people_there(homes: Homes, upload: Upload) -> None:
    table = upload()
    belong(table, {"ada": PRIVATE})
    run = launch(short_run(table))
    with homes.inside("far"):
        own = upload()
        belong(own, {"bob": SHARED})
    taken(homes, run)
    with homes.inside("far"):
        assert wishes(uploads_directory() / own.parent.name / own.name) == {"bob": SHARED}
    assert wishes(table) == {"ada": PRIVATE}


def test_a_checkpoint_is_not_sent_before_the_records_up_to_it(homes: Homes, upload: Upload) -> None:
    run = launch(short_run(upload()))
    fence = taken(homes, run)
    sent, folder = journeys.Sent(), there(homes, run)
    checkpoint(folder, 1, b"weights")
    (folder / UNSENT).write_text("a record that could not be sent")
    with homes.inside("far"):
        sent.send(folder, fence)
        before = parcels().find(run.id)
        (folder / UNSENT).unlink()
        sent.send(folder, fence)
    after = parcels().find(run.id)
    assert before is not None
    assert after is not None
    assert (FIRST in before.files, FIRST in after.files) == (False, True)


def test_what_a_lost_life_has_left_does_not_count_where_the_run_went_on_elsewhere(homes: Homes, upload: Upload) -> None:
    run = launch(short_run(upload(), retries=9))
    first = taken(homes, run, "near")
    checkpoint(run.directory, 1, b"sent")
    journeys.Sent().send(run.directory, first)
    checkpoint(run.directory, 2, b"never sent")
    for name in (UNSENT, "error.json", "model.json"):
        (run.directory / name).write_text("of the life that was lost")
    needed_queue().give_back(run.id, first)
    lock = lock_of(run) if (run.directory / "lock").exists() else 0
    second = taken(homes, run, "far")
    assert (there(homes, run) / FIRST).read_bytes() == b"sent"
    journeys.bring_home(run.id)
    assert not (run.directory / "error.json").exists()
    assert not (run.directory / UNSENT).exists()
    seized = lock_of(run)
    assert seized != lock, "whoever had the run here writes no more"
    needed_queue().give_back(run.id, second)
    third = taken(homes, run, "near")
    assert sorted(path.name for path in run.checkpoints_path.iterdir()) == ["step-000000000001.ckpt"]
    assert not run.model_path.exists()
    needed_queue().give_back(run.id, third)
    taken(homes, run, "far")
    before = lock_of(run)
    journeys.bring_home(run.id)
    assert lock_of(run) != before, "each time anew"


def test_a_guest_stays_while_it_may_go_on_there_and_goes_when_it_has_ended(homes: Homes, upload: Upload) -> None:
    """One that failed for a moment may be in the hands of another host of that home already."""
    run = launch(short_run(upload(), retries=9))
    fence = taken(homes, run)
    needed_queue().fail(run.id, fence, "Its process ended by signal 9.", again=True)
    with homes.inside("far"):
        assert journeys.see_off([]) == []
        assert there(homes, run).is_dir()
        needed_queue().cancel(run.id)
        assert journeys.see_off([run.id]) == [], "this host has it"
        assert journeys.see_off([]) == [run.id]
    assert not there(homes, run).exists()


def test_a_long_log_goes_with_checkpoints_and_not_with_each_of_its_lines(homes: Homes, upload: Upload) -> None:
    run = launch(short_run(upload()))
    fence, sent, folder = taken(homes, run), journeys.Sent(), there(homes, run)

    def known() -> dict[str, int]:
        with homes.inside("far"):
            sent.send(folder, fence)
        found = parcels().find(run.id)
        assert found is not None
        return {name: mark.size for name, mark in found.files.items()}

    (folder / "log.txt").write_bytes(b"short")
    assert known()["log.txt"] == 5
    (folder / "log.txt").write_bytes(b"long " * SMALL)
    assert known()["log.txt"] == 5
    checkpoint(folder, 1, b"weights")
    assert known()["log.txt"] == 5 * SMALL


def test_a_launch_that_fails_leaves_nothing_in_the_database(
    homes: Homes, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("shoal.queueing.team.put", refuse)
    with pytest.raises(Exception, match="no room"):
        launch(short_run(upload()))
    assert not list_runs()
    assert homes.asked("SELECT count(*) FROM shoal.travel_runs") == (0,)


def test_a_checkpoint_that_is_too_large_binds_the_run_and_tables_that_are_let_it_stay(
    homes: Homes, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch(short_run(upload()))
    fence = taken(homes, run, "near")
    checkpoint(run.directory, 1, b"weights of a large network")
    monkeypatch.setattr("shoal.travel.packing.CHECKPOINT", 10)
    assert not journeys.Sent().send(run.directory, fence)
    monkeypatch.setattr("shoal.travel.packing.TABLES", 10)
    other = launch(short_run(upload()))
    job = needed_queue().get(other.id)
    assert job is not None
    assert job.home == home_mark()
    assert parcels().find(other.id) is None


def test_what_people_say_of_a_run_at_home_is_not_undone_by_what_comes_back(homes: Homes, upload: Upload) -> None:
    run = launch(short_run(upload()))
    belong(run.directory, {"ada": SHARED})
    parcels().drop(run.id)
    journeys.send_off(run.directory, run.config)
    fence = taken(homes, run)
    belong(run.directory, {"ada": PRIVATE})
    journeys.bring_home(run.id)
    assert wishes(run.directory) == {"ada": PRIVATE}, "while it is at work"
    with homes.inside("far"):
        journeys.Sent().send(there(homes, run), fence, all_of_it=True)
    needed_queue().finish(run.id, fence)
    journeys.bring_home(run.id)
    assert wishes(run.directory) == {"ada": PRIVATE}, "at its end"


def test_one_that_is_damaged_on_its_way_home_keeps_no_other_from_coming(homes: Homes, upload: Upload) -> None:
    runs = [launch(short_run(upload())) for _ in range(2)]
    for run in runs:
        fence = taken(homes, run)
        with homes.inside("far"):
            (there(homes, run) / "log.txt").write_text("done there")
            write_state(there(homes, run), Standing("finished", "It is done."))
            write_json(there(homes, run) / "result.json", {"state": "finished", "cause": "It is done."}, last=True)
            journeys.Sent().send(there(homes, run), fence, all_of_it=True)
        needed_queue().finish(run.id, fence)
    homes.execute(f"UPDATE shoal.travel_files SET small = 'x' WHERE file = 'log.txt' AND run = '{runs[0].id}'")
    until(lambda: runs[1].state == "finished")
    assert runs[0].state == "interrupted"
    assert "'log.txt' of a run is damaged in the team's database: expected 10 bytes" in runs[0].cause
