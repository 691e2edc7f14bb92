"""Two dashboards with homes of their own, as on two machines, and one database with the accounts of both."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browser import Server, free_port
from support.dashboard.http_client import ask, cookie_of
from support.dashboard.team import API, SECRET, Team
from support.runs import until
from support.team.postgres import Outage


@pytest.fixture
def dashboards(tmp_path: Path, team_database: str) -> Iterator[list[Team]]:
    with contextlib.ExitStack() as stack:
        found = []
        for name in ("here", "there"):
            (tmp_path / name).mkdir()
            team = Team(Server(tmp_path / name, free_port()))
            if not found:
                team.people("add", "root", typed=SECRET)
                team.people("add", "bob", "--role", "editor", typed=SECRET)
            stack.callback(team.server.stop)
            team.server.start()
            found.append(team)
        yield found


def status(team: Team, who: str) -> int:
    return team.ask(who, "GET", f"{API}/runs").status


def test_whoever_is_disabled_is_out_of_both_and_nobody_comes_in_without_the_database(
    dashboards: list[Team], outage: Outage
) -> None:
    here, there = dashboards
    for team in dashboards:
        for who in ("root", "bob"):
            team.cookies[who] = cookie_of(team.log_in(who))
            assert status(team, who) == 200

    here.people("disable", "bob")
    for team in dashboards:
        until(lambda team=team: status(team, "bob") == 401)
        assert status(team, "root") == 200
        assert team.log_in("bob").status == 401
    there.people("enable", "bob")
    for team in dashboards:
        assert team.log_in("bob").status == 303
        assert status(team, "bob") == 200  # the session that it had
    sent = there.got("bob", "POST", "/datasets?name=his.csv", b"a,b\n1,2\n3,4\n", 201)
    assert sent["id"]

    outage.begin()
    for team in dashboards:
        refused = team.log_in("root")
        assert refused.status == 503
        assert b"cannot be reached, so nobody can log in now" in refused.body
        shown = team.log_in("root", Accept="text/html").body
        assert b"cannot be reached, so nobody can log in now" in shown
        assert team.ask("bob", "POST", f"{API}/datasets?name=lost.csv", b"a,b\n1,2\n").status >= 400
        assert ask(team.server, "/_stcore/health").status == 200
        alive = ask(team.server, "/health")
        assert (alive.status, alive.json()["status"], alive.json()["parts"]["database"]) == (200, "degraded", "away")
        assert ask(team.server, "/health/ready").status == 503
        assert b"postgres" not in alive.body  # everybody may ask
    outage.end()
    for team in dashboards:
        until(lambda team=team: status(team, "root") == 200)  # by the session that it had
        until(lambda team=team: ask(team.server, "/health/ready").status == 200)
        assert b"lost.csv" not in team.ask("root", "GET", f"{API}/datasets").body
    log = json.loads(there.people("audit", "--json"))
    assert log["broken_at"] is None
    assert {"person disabled", "person enabled", "logged in"} <= {one["deed"] for one in log["entries"]}
