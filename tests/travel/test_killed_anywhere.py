"""A run on its way through three homes, cut off at any statement and any file that gets its name: nothing is lost.

The work is a list of steps in a checkpoint, so that one that is lost or done twice is seen. All happens in this
process: what a kill leaves is what was done until then, and an open transaction that is rolled back.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from shoal.errors import Standing
from shoal.queueing.homes import home_mark
from shoal.queueing.jobs import RUNNING, RunHost
from shoal.queueing.team import needed_queue
from shoal.runs.folder import Run, write_json, write_state
from shoal.runs.launch import launch
from shoal.travel import journeys, packing
from shoal.travel.parcels import SMALL, parcels
from support.runs import short_run
from support.team.homes import Homes
from support.team.hosts import job_of

HOMES = ("near", "far", "third")
EVERY = 4  # of about 80 moments of one life


class Killed(BaseException):
    """What nobody catches, as a kill."""


class Fate:
    """Counts moments, and ends whoever comes to the one that was chosen."""

    def __init__(self) -> None:
        self.left, self.counts = 0, False

    def moment(self) -> None:
        if self.counts:
            self.left -= 1
            if self.left == 0:
                raise Killed

    def lets(self, does: Callable[[], None]) -> bool:
        """Whether it came to its end."""
        self.counts = True
        try:
            does()
        except Killed:
            return False
        finally:
            self.counts = False
        return True


@pytest.fixture
def fate(monkeypatch: pytest.MonkeyPatch) -> Fate:
    found = Fate()

    def around(place: Any, name: str) -> None:
        does = getattr(place, name)

        def watched(*arguments: Any, **more: Any) -> Any:
            found.moment()
            done = does(*arguments, **more)
            found.moment()
            return done

        monkeypatch.setattr(place, name, watched)

    around(psycopg.Connection, "execute")
    around(packing, "put_in_place")
    around(journeys, "seize")
    return found


class Life:
    """What a run host does with a run, in one home."""

    def __init__(self, homes: Homes, home: str, run: Run) -> None:
        self.homes, self.home, self.run = homes, home, run
        self.folder, self.sent = homes.path(home) / "runs" / run.id, journeys.Sent()

    def whole(self) -> None:
        with self.homes.inside(self.home):
            job = needed_queue().claim(RunHost(self.home, 4, "a process", home=home_mark()), 4)
            assert job is not None
            assert job.id == self.run.id
            if journeys.is_to_be_fetched(self.run.id):
                journeys.fetch(self.run.id, job.fence)
            parcel = parcels().find(self.run.id)
            assert parcel is not None
            assert all(packing.place_of(self.folder, name).exists() for name in parcel.files)
        for steps in (2, 3):
            with self.homes.inside(self.home):
                self._work(job.fence, steps)
            journeys.bring_home(self.run.id)
        with self.homes.inside(self.home):
            self._end(job.fence)

    def _work(self, fence: int, steps: int) -> None:
        known = [path.read_text().strip() for path in packing.newest_checkpoint(self.folder).values()]
        done = known[0].split() if known else []
        (self.folder / "checkpoints").mkdir(exist_ok=True)
        while len(done) < steps:
            done.append(str(len(done) + 1))
            name = f"checkpoints/step-{len(done):012d}.ckpt"
            (self.folder / name).write_text(" ".join(done) + " " * SMALL)
            (self.folder / "log.txt").write_text(" ".join(done))
            self.sent.send(self.folder, fence)

    def _end(self, fence: int) -> None:
        if not (self.folder / "result.json").exists():
            (self.folder / "model.json").write_text((self.folder / "log.txt").read_text())
            write_state(self.folder, Standing("finished", "It is done."))
            write_json(self.folder / "result.json", {"state": "finished", "cause": "It is done."}, last=True)
        if journeys.is_wanted_elsewhere(self.folder):
            self.sent.send(self.folder, fence, all_of_it=True)
        assert needed_queue().finish(self.run.id, fence)


def lived(homes: Homes, run: Run, fate: Fate, chance: random.Random) -> int:
    """Take the run up again and again until it is done; how often it was killed."""
    kills, home = 0, chance.choice(HOMES)
    while job_of(run.id).is_open:
        if not fate.lets(Life(homes, home, run).whole):
            kills += 1
            if (job := job_of(run.id)).state == RUNNING:
                needed_queue().fail(run.id, job.fence, "Its host was lost.", again=True)
            homes.execute("UPDATE shoal.queue_jobs SET ready_at = 0")
            home = chance.choice((home, *HOMES))
    while not fate.lets(lambda: journeys.bring_home(run.id)):
        kills += 1
    return kills


def test_whoever_is_killed_at_any_moment_of_a_trip_each_step_is_done_once(
    homes: Homes, upload: Callable[..., Path], fate: Fate
) -> None:
    table, number = upload(), 1
    while True:
        run = launch(short_run(table, retries=99))
        fate.left = number
        kills = lived(homes, run, fate, random.Random(number))
        unharmed, fate.left = fate.left > 0, 0
        assert run.state == "finished", number
        assert run.model_path.read_text() == "1 2 3", number
        newest = packing.newest_checkpoint(run.directory)
        assert [path.read_text().strip() for path in newest.values()] == ["1 2 3"], number
        unfinished = [path.name for path in run.directory.rglob(".*") if path.is_file()]
        assert not unfinished, number
        assert kills == (0 if unharmed else 1)
        if unharmed:
            break
        number += EVERY
    parcels().sweep()
    assert homes.asked("SELECT count(*) FROM shoal.travel_contents") == (0,)
    for home in HOMES[1:]:
        with homes.inside(home):
            journeys.see_off([])
        assert not list((homes.path(home) / "runs").iterdir())
