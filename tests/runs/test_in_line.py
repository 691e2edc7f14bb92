"""Who waits and how much room there is, as lists, figures and forms see it: by tickets, or by the team's queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.queueing.homes import home_mark
from shoal.queueing.jobs import RunHost
from shoal.queueing.team import forget_looks, needed_queue, put
from shoal.runs import tickets
from shoal.runs.tickets import Terms, in_line, issue, room


def test_tickets_are_in_line_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    monkeypatch.setenv("SHOAL_SLOTS", "3")
    assert in_line() == []
    issue("one", Terms(need=2, slots=3))
    issue("two", Terms(need=1, slots=3))
    assert [(one.run_id, one.need) for one in in_line()] == [("one", 2), ("two", 1)]
    assert all(0 <= one.seconds < 3600 for one in in_line())
    (first, _) = sorted((tmp_path / "queue" / "waiting").iterdir())
    first.write_text("damaged")
    assert [(one.run_id, one.need) for one in in_line()] == [("one", 1), ("two", 1)]
    assert room() == (3, 3)


def test_jobs_of_a_team_are_in_line_and_its_hosts_are_the_room(
    team_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    assert room() == (0, 0)
    put("one", need=2, allowed=0, owner="ada")
    put("two", need=1, allowed=0, owner="bob")
    assert [(one.run_id, one.need) for one in in_line()] == [("one", 2), ("two", 1)]
    queue = needed_queue()
    host = queue.greet(RunHost("a", 3, "mark", home=home_mark()))
    forget_looks()
    assert room() == (3, 3)
    taken = queue.claim(host, 3)
    forget_looks()
    assert taken is not None
    assert room() == (3, 3 - taken.need)
    assert [one.run_id for one in in_line()] == [name for name in ("one", "two") if name != taken.id]


def test_what_each_waits_for_is_told_by_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look for each of 10,000 took minutes."""
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    for number in range(30):
        issue(f"run-{number}", Terms(need=1))
    looks: list[int] = []
    look = tickets.tickets
    monkeypatch.setattr(tickets, "tickets", lambda: looks.append(1) or look())
    told = [one.words for one in in_line()]
    assert len(looks) == 1
    assert told == [tickets.place_in_words(f"run-{number}") for number in range(30)]
    assert told[29] == "It waits in the queue: 29 runs are ahead of it."
