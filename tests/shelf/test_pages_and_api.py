"""Pages and the API of dashboards on two machines, with homes of their own and the models of one database."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.dashboard.api.problems import refusal_of
from shoal.errors import TrainingError
from shoal.library import aliases
from shoal.library.saved_models import Version, list_models, save_run
from shoal.people.acting import as_person
from shoal.people.person import Person
from support.browser import Server, free_port
from support.dashboard.http_client import cookie_of
from support.dashboard.team import API, SECRET, Team
from support.library import a_copy, with_another_model
from support.pages import open_page, said
from support.runs import until
from support.team.postgres import Outage

ADA = Person("ada", "editor", private=True)
ROW = {"rows": [{"a": 1.0, "b": 2.0, "c": 3.0}]}


def test_pages_show_the_models_of_the_team_and_say_when_it_cannot_be_asked(
    finished: Path, team_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outage: Outage
) -> None:
    run = a_copy(finished)
    aliases.give(save_run(run, run.result or {}, "wages"), "champion")
    mine = os.environ["SHOAL_HOME"]
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "other"))
    assert "version 1 (champion)" in said(open_page("models"))
    page = open_page("models", model="wages")
    assert "320 rows used for training" in said(page)
    assert (tmp_path / "other" / "fetched" / "wages" / "v1" / "model.json").exists()
    outage.begin()
    with pytest.raises(TrainingError) as away:
        list_models()
    assert refusal_of(away.value).status == 503  # a program may try again
    for address in ({}, {"model": "wages"}):
        assert "cannot be reached" in said(open_page("models", **address))
    monkeypatch.setenv("SHOAL_HOME", mine)
    shown = said(open_page("train", run=run.id))
    assert "Whether its model is saved cannot be told now" in shown
    outage.end()
    until(lambda: "Whether its model is saved" not in said(open_page("train", run=run.id)))


@pytest.fixture
def dashboards(tmp_path: Path, team_database: str) -> Iterator[list[Team]]:
    with contextlib.ExitStack() as stack:
        found = []
        for name in ("here", "there"):
            (tmp_path / name).mkdir(mode=0o700)
            team = Team(Server(tmp_path / name, free_port()))
            if not found:
                for who, role in (("root", "admin"), ("bob", "editor"), ("ada", "editor")):
                    team.people("add", who, "--role", role, typed=SECRET)
            stack.callback(team.server.stop)
            team.server.start()
            for who in ("root", "bob", "ada"):
                team.cookies[who] = cookie_of(team.log_in(who))
            found.append(team)
        yield found


def test_two_dashboards_list_predict_and_promote_the_same_models(
    finished: Path, dashboards: list[Team], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = dashboards
    monkeypatch.setenv("SHOAL_HOME", str(here.server.home))
    run = a_copy(finished)
    save_run(run, run.result or {}, "wages")
    with_another_model(run)
    save_run(run, run.result or {}, "wages")
    with as_person(ADA):
        save_run(run, run.result or {}, "hers")
    shutil.rmtree(run.directory)  # nobody needs it any more

    for team in dashboards:
        names = {who: [one["name"] for one in team.got(who, "GET", "/models")["items"]] for who in team.cookies}
        assert {who: sorted(found) for who, found in names.items()} == {
            "root": ["hers", "wages"], "bob": ["wages"], "ada": ["hers", "wages"],
        }  # fmt: skip
        assert team.ask("bob", "GET", f"{API}/models/hers/versions/1").status == 404
    first, second = (team.got("bob", "POST", "/models/wages/versions/1/predict", ROW) for team in dashboards)
    assert first["predictions"] == second["predictions"]
    there.got("bob", "PUT", "/models/wages/aliases/champion", {"version": 1})
    here.got("bob", "PUT", "/models/wages/aliases/champion", {"version": 2})
    assert there.got("bob", "GET", "/models/wages")["aliases"] == {"champion": 2}
    assert there.got("bob", "POST", "/models/wages/aliases/champion/rollback")["aliases"] == {"champion": 1}
    moves = here.got("bob", "GET", "/models/wages/history")["moves"]
    assert [(one["version"], one["who"]) for one in moves] == [(1, "bob"), (2, "bob"), (1, "bob")]
    assert there.got("bob", "GET", "/models/wages/versions/champion/file")["target"] == "y"
    there.got("ada", "PUT", "/models/hers/sharing", {"private": False})
    until(lambda: "hers" in str(here.got("bob", "GET", "/models")))
    assert Version("hers", 1).card.run == run.id
