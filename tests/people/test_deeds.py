"""What a job may change is what whoever asks for it may: a promotion, by the API of a real server and in its history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.errors import DiskFull, NotAllowed, TrainingError
from shoal.home import models_directory, names_in, runs_directory, uploads_directory
from shoal.people import accounts, jobs
from shoal.people.acting import acting, as_person
from shoal.people.person import MACHINE, Person
from shoal.runs.launch import launch
from shoal.settings.values import page_config
from support.dashboard.team import API, Team

ASKED = "/models/hers/versions/1/promotions"


@pytest.fixture
def shared(team: Team) -> Any:
    """Ada's model and table, for all to see."""
    places = ["/models/hers/sharing", f"/datasets/{team.things['dataset']}/sharing"]
    for place in places:
        team.got("ada", "PUT", place, {"private": False})
    yield {"dataset": team.things["dataset"], "alias": "stable"}
    for place in places:
        team.got("ada", "PUT", place, {"private": True})


def deeds_of(team: Team) -> list[tuple[str, str, str]]:
    entries = json.loads(team.people("audit", "--json", "--limit", "1000"))["entries"]
    return [(one["who"], one["deed"], one["thing"]) for one in entries]


def test_only_those_who_may_change_a_model_promote_and_the_history_says_who(team: Team, shared: dict[str, str]) -> None:
    for who in ("vera", "bob"):
        refused = team.ask(who, "POST", f"{API}{ASKED}?wait=30", shared)
        assert refused.status == 403, refused.body
        assert team.got("ada", "GET", "/models/hers")["aliases"] == {"champion": 1}
    assert ("ada", "alias stable 1", "model hers") not in deeds_of(team)
    done = team.got("ada", "POST", f"{ASKED}?wait=30", shared)
    assert done["result"]["promoted"], done
    assert team.got("ada", "GET", "/models/hers")["aliases"] == {"champion": 1, "stable": 1}
    assert team.got("ada", "GET", "/models/hers/history")["moves"][0]["who"] == "ada"
    assert ("ada", "alias stable 1", "model hers") in deeds_of(team)
    assert not [deed for who, deed, _ in deeds_of(team) if who in ("vera", "bob") and "alias" in deed]
    team.got("ada", "DELETE", "/models/hers/aliases/stable")


def test_the_page_asks_the_same_place(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """`launch_job` refuses before there is a process, whoever calls it; a job knows for whom it acts."""
    monkeypatch.setenv("SHOAL_HOME", str(team.server.home))
    arguments = {"model": str(models_directory() / "hers" / "v1" / "model.json")}
    for name, role in (("vera", "viewer"), ("bob", "editor")):
        with as_person(Person(name, role)), pytest.raises(NotAllowed):
            jobs.check("promote", [], arguments)
    with as_person(Person("ada", "editor", by="token ci"), "10.0.0.7"):
        jobs.check("promote", [], arguments)
        asked = jobs.asker("promote")
        assert jobs.asker("predict") == {}
    assert jobs.asker("promote") == {}
    with jobs.for_asker(asked):
        assert (acting().person.said, acting().person.role, acting().origin) == (
            "ada by token ci", "editor", "10.0.0.7",
        )  # fmt: skip
    with jobs.for_asker({}):
        assert acting().person == MACHINE
    gone = {"asker": {**asked["asker"], "name": "nobody"}}
    with jobs.for_asker(gone), pytest.raises(NotAllowed):
        jobs.check("promote", [], arguments)


def test_the_log_has_what_was_done_and_not_what_was_refused(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    run = f"{API}/runs/{team.things['run']}"
    before = deeds_of(team)
    for name in ("stop", "pause", "resume"):
        assert team.ask("ada", "POST", f"{run}/commands", {"name": name}).status == 409  # it has ended
    bad = {"dataset": team.things["dataset"], "target": "y", "settings": {"register": "bobs"}}
    assert team.ask("vera", "POST", f"{API}/runs", bad).status == 403
    assert deeds_of(team) == before
    monkeypatch.setenv("SHOAL_HOME", str(team.server.home))
    monkeypatch.setenv("SHOAL_DATABASE", "postgresql://nobody@127.0.0.1:1/nothing")  # where nothing listens
    table = uploads_directory() / team.things["dataset"].replace("~", "/", 1)
    with as_person(Person("ada", "editor")), pytest.raises(TrainingError):
        launch(page_config(table, {"target": "y", "solver": "gradient"}))
    monkeypatch.delenv("SHOAL_DATABASE")
    assert deeds_of(team) == before


def test_a_run_whose_start_cannot_be_written_down_does_not_go_on(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(team.server.home))
    table = uploads_directory() / team.things["dataset"].replace("~", "/", 1)
    before = set(names_in(runs_directory()))

    def full(*said: object) -> None:
        raise DiskFull("There is no room for the log.")

    monkeypatch.setattr(accounts, "note", full)
    with as_person(Person("ada", "editor")), pytest.raises(DiskFull):
        launch(page_config(table, {"target": "y"}))
    assert set(names_in(runs_directory())) == before
