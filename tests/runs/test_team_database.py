"""Real runs whose records are in a real PostgreSQL: while it restarts, is cut off, takes no writes, or is gone."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.live.feed import RunFeed
from shoal.database.address import VARIABLE
from shoal.database.connections import close_all, database
from shoal.errors import ResourceError, TrainingError
from shoal.library import archives
from shoal.metrics import Round
from shoal.runs.commands import metrics_of, post, wait_settled
from shoal.runs.launch import Run, fork, launch, list_runs, resume
from shoal.storage.unsent import NAME, Unsent
from support.cli import refused
from support.records import read_log
from support.runs import SLOW, ended, endless_run, paused, run_home, small_table, training, until
from support.tables import shoal
from support.team.hosts import hosts_in, started
from support.team.postgres import PASSWORD, Postgres


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, team_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with run_home(tmp_path / "home", monkeypatch), hosts_in(tmp_path) as up:
        started(up, "one", 1, tmp_path)
        yield
    close_all()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_table(tmp_path)


def rows(postgres: Postgres, name: str, table: str) -> int:
    return int(postgres.execute(f"SELECT count(*) FROM shoal.{table}", name)[0][0])


def newest_step(run: Run) -> int:
    """By the files of its folder: it needs no database to be told."""
    found = [path.stem for path in run.checkpoints_path.glob("*") if path.is_file()]
    return max((int("".join(filter(str.isdigit, stem)) or 0) for stem in found), default=0)


def warnings(run: Run) -> list[str]:
    return [entry["text"] for entry in read_log(run.directory) if entry["level"] == "warning"]


def rounds_aside(run: Run) -> set[int]:
    """That wait in its folder for the database."""
    batches = Unsent(run.directory).after(None)
    return {one.round for batch in batches for one in batch.records if isinstance(one, Round)}


def stopped(run: Run) -> Run:
    assert wait_settled(run, post(run, "stop"), SLOW).outcome == "done"
    assert ended(run) == "stopped", run.error
    return run


def whole(run: Run) -> None:
    """Rounds go forward, and of events none is lost nor there twice."""
    with metrics_of(run) as storage:
        assert storage is not None
        found = [record.round for record in storage.rounds(10**9)]
        assert all(a < b for a, b in itertools.pairwise(found))
        events = storage.events(limit=10**9)
        assert [number for number, _ in events] == list(range(1, len(events) + 1))
        assert [event.kind for _, event in events].count("started") == 1


def test_a_run_from_launch_to_removal(postgres: Postgres, team_database: str, data: Path) -> None:
    run = launch(endless_run(data, engine="inline"))
    training(run)
    assert not run.metrics_path.exists()
    assert wait_settled(run, post(run, "set", {"learning_rate": 0.01}), SLOW).outcome == "done"
    assert f"{run.id}" in shoal("runs").out
    assert shoal("logs", run.id).code == 0
    assert shoal("send", run.id, "pause").code == 0
    paused(run)
    assert shoal("resume", run.id).code == 0
    stopped(run)
    assert shoal("show", run.id).code == 0
    whole(run)
    with metrics_of(run) as storage:
        assert storage is not None
        before = storage.last_round()
        assert [command.name for command in storage.commands()] == ["set", "pause", "resume", "stop"]
    assert before is not None
    training(resume(run))
    stopped(run)
    other = fork(run, None, {"epochs": 1})
    assert ended(other) in ("finished", "stopped"), other.error
    archives.archive(run)
    back = archives.restore(run.id)
    with metrics_of(back) as storage:
        assert storage is not None
        assert (storage.last_round() or before).round > 0
    secret = [path for path in run.directory.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert not secret
    archives.delete(back)
    assert rows(postgres, team_database, "runs") == 1
    archives.archive(other)
    archives.delete_archived(other.id)
    for table in ("runs", "rounds", "buckets", "worker_samples", "host_samples", "events", "commands"):
        assert rows(postgres, team_database, table) == 0, table


def test_a_restart_of_the_database_holds_nothing_up(postgres: Postgres, data: Path) -> None:
    run = training(launch(endless_run(data, engine="inline")))
    postgres.stop()
    try:
        until(lambda: (run.directory / NAME).exists())
        step = newest_step(run)
        until(lambda: newest_step(run) > step)  # it goes on meanwhile
        aside = until(lambda: rounds_aside(run))
        with pytest.raises(ResourceError, match="cannot be reached"):
            post(run, "pause")
        assert run.state == "running"
    finally:
        postgres.start()
    until(lambda: not (run.directory / NAME).exists())
    assert wait_settled(run, post(run, "set", {"learning_rate": 0.01}), SLOW).outcome == "done"
    stopped(run)
    whole(run)
    assert len([text for text in warnings(run) if "Records cannot be written" in text]) == 1
    with metrics_of(run) as storage:
        assert storage is not None
        assert aside <= {record.round for record in storage.rounds(10**9)}


def test_a_launch_is_refused_where_the_database_is_not_ready_or_away(
    postgres: Postgres, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = postgres.new_database()
    monkeypatch.setenv(VARIABLE, postgres.address(another))
    train = ("train", data, "--target", "y", "--solver", "gradient", "--detach")
    assert "shoal db upgrade" in refused(*train)
    close_all()
    postgres.execute(f"DROP DATABASE {another}")
    monkeypatch.setenv(VARIABLE, f"postgresql://ann:{PASSWORD}@/shoal?host={tmp_path}")
    said = refused(*train)
    assert "cannot be reached" in said
    assert PASSWORD not in said
    assert list_runs() == []
    assert shoal("train", data, "--target", "y").code == 0  # an exact fit needs none


def is_back() -> bool:
    """For a second after it was found to be away nobody asks again, and everybody is told that it is."""
    with contextlib.suppress(TrainingError), database().connection():
        return True
    return False


def test_a_run_that_is_stopped_or_killed_while_it_is_away_keeps_what_it_recorded(
    postgres: Postgres, data: Path
) -> None:
    run = training(launch(endless_run(data, engine="inline")))
    postgres.stop()
    try:
        until(lambda: (run.directory / NAME).exists())
        post(run, "stop")  # by a signal: there is nowhere to leave a command
        assert ended(run) == "stopped", run.error
    finally:
        postgres.start()
    until(is_back)
    training(resume(run))
    postgres.stop("QUIT")
    try:
        until(lambda: (run.directory / NAME).exists())
        os.kill(run.pid or 0, signal.SIGKILL)
        until(lambda: run.pid is None)
    finally:
        postgres.start()
    until(lambda: run.state == "failed")  # its host tells so, once there is somebody to tell
    with metrics_of(run) as storage:  # which sends what was left
        assert storage is not None
        assert [number for number, _ in storage.events(limit=10**9)] == list(
            range(1, len(storage.events(limit=10**9)) + 1)
        )
        assert len(storage.rounds(10**9)) > 3
    assert not (run.directory / NAME).exists()
    training(resume(run))
    stopped(run)


def test_a_browser_sees_the_records_and_why_there_are_no_new_ones(postgres: Postgres, data: Path) -> None:
    run = training(launch(endless_run(data, engine="inline")))
    feed = RunFeed(run)

    def looked() -> bool:
        feed.look()
        return len(feed.rounds.get("round", [])) > 3 and bool(feed.events)

    until(looked)
    postgres.stop()
    try:
        until(lambda: feed.look() and "cannot be reached" in str(feed.head["problem"]))
    finally:
        postgres.start()
    until(lambda: feed.look() and not feed.head["problem"])
    feed.close()
    stopped(run)
