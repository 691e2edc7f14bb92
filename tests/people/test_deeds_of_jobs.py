"""What a job may change is what whoever asks for it may: a promotion, by the API of a real server and in its history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.errors import NotAllowed
from shoal.home import models_directory
from shoal.people import jobs
from shoal.people.acting import acting, as_person
from shoal.people.person import MACHINE, Person
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
