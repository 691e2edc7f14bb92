"""A team at a real server: what is private stays so, what is shared is seen, and whoever is disabled is out at once."""

from __future__ import annotations

import http.client
import json
import time

import pytest

from shoal.dashboard.api.document import operations
from shoal.home import tokens_file
from shoal.library import tokens
from shoal.people import deeds
from shoal.people.acting import as_person
from shoal.people.person import Person
from support.dashboard.http_client import ask, cookie_of
from support.dashboard.team import API, SECRET, Team, filled, shoal_command


@pytest.fixture
def at_home(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process the server's home is home."""
    monkeypatch.setenv("SHOAL_HOME", str(team.server.home))


def seen_by(team: Team, who: str) -> str:
    """All lists of the API, as text."""
    return "".join(
        team.ask(who, "GET", f"{API}/{name}?limit=200").body.decode() for name in ("datasets", "runs", "models")
    )


def test_lists_have_what_somebody_may_see(team: Team) -> None:
    hers = (team.things["dataset"], team.things["run"], '"hers"')
    for who, sees in {"ada": True, "root": True, "bob": False, "vera": False}.items():
        found = seen_by(team, who)
        assert [name in found for name in hers] == [sees] * 3, who


@pytest.mark.usefixtures("at_home")
def test_what_is_shared_is_seen_and_still_hers(team: Team) -> None:
    run = team.things["run"]
    folder = team.server.home / "runs" / run
    with as_person(Person("ada", "editor")):
        deeds.share(folder, private=False)
    try:
        assert team.got("bob", "GET", f"/runs/{run}")["summary"]["id"] == run
        refused = team.ask("bob", "POST", f"{API}/runs/{run}/commands", {"name": "stop"})
        assert refused.status == 403
        assert "it is ada's. Ask them, or an admin." in refused.json()["detail"]
    finally:
        with as_person(Person("ada", "editor")):
            deeds.share(folder, private=True)
    assert team.ask("bob", "GET", f"{API}/runs/{run}").status == 404


@pytest.mark.usefixtures("at_home")
def test_a_shared_model_is_promoted_by_whoever_has_it(team: Team) -> None:
    model = team.server.home / "models" / "hers"
    mine = team.got("bob", "POST", "/datasets?name=mine.csv", b"a,b,c,y\n1,2,3,4\n2,3,5,6\n", 201)["id"]
    with as_person(Person("ada", "editor")):
        deeds.share(model, private=False)
    try:
        asked = {"alias": "champion", "dataset": mine}
        refused = team.ask("bob", "POST", f"{API}/models/hers/versions/1/promotions?wait=0", asked)
        assert refused.status == 403
        assert "it is ada's" in refused.json()["detail"]
    finally:
        with as_person(Person("ada", "editor")):
            deeds.share(model, private=True)


def test_the_same_file_of_two_people_is_each_one_s_own(team: Team) -> None:
    """Ada's is private: nothing that Bob is told depends on whether she has sent it."""
    table = b"two,people\n1,2\n3,4\n5,6\n"
    first = team.got("ada", "POST", "/datasets?name=both.csv", table, 201)["id"]
    assert team.ask("bob", "GET", f"{API}/datasets/{first}").status == 404
    his = team.got("bob", "POST", "/datasets?name=both.csv", table, 201)["id"]
    assert his != first
    assert team.got("bob", "POST", "/datasets?name=both.csv", table, 201)["id"] == his
    assert team.got("ada", "POST", "/datasets?name=both.csv", table, 201)["id"] == first
    assert team.got("bob", "GET", f"/datasets/{his}")["name"] == "both.csv"
    assert "ada" not in team.ask("bob", "GET", f"{API}/datasets/{his}/sharing").body.decode()
    assert first not in seen_by(team, "vera")
    assert his in seen_by(team, "vera")  # Bob shares what he makes


def test_a_name_that_is_taken_is_not_added_to(team: Team) -> None:
    """Bob's run is shared, his model is his: neither Ada's versions nor her names come to him."""
    table = b"x,y\n" + b"".join(b"%d,%d\n" % (i, 3 * i + i % 2) for i in range(40))
    dataset = team.got("bob", "POST", "/datasets?name=bobs.csv", table, 201)["id"]
    run = team.got("bob", "POST", "/runs", {"dataset": dataset, "target": "y"}, 201)["summary"]["id"]
    assert b"event: end" in team.ask("bob", "GET", f"{API}/runs/{run}/events").body
    refused = team.ask("bob", "POST", f"{API}/runs/{run}/model", {"name": "hers"})
    assert refused.status == 403, refused.body
    assert "ada" not in refused.json()["detail"]
    assert "Choose another name" in refused.json()["detail"]
    asked = {"dataset": dataset, "target": "y", "settings": {"register": "hers"}}
    early = team.ask("bob", "POST", f"{API}/runs", asked)
    assert (early.status, early.json()["detail"]) == (403, refused.json()["detail"])
    saved = team.got("bob", "POST", f"/runs/{run}/model", {}, 201)
    assert team.got("vera", "GET", f"/models/{saved['name']}")["versions"] == [1]


# ------------------------------------------------------------------ who is in


def test_wrong_passwords_are_limited_and_tell_nothing(team: Team) -> None:
    before = len(json.loads(team.people("audit", "--json", "--limit", "1000"))["entries"])
    known = team.log_in("vera", "wrong horse")
    unknown = team.log_in("nobody@all", "wrong horse")
    assert (known.status, known.body) == (unknown.status, unknown.body)
    assert known.status == 401
    statuses = [team.log_in("vera", "wrong horse").status for _ in range(6)]
    assert 429 in statuses
    late = team.log_in("vera", SECRET)
    assert late.status == 429
    assert int(late.headers["retry-after"]) >= 1
    log = json.loads(team.people("audit", "--json", "--limit", "1000"))["entries"]
    new = log[: len(log) - before]
    assert {one["deed"] for one in new} == {"wrong password"}
    assert "nobody@all" not in {one["thing"] for one in new}


def test_whoever_is_disabled_is_out_at_once(team: Team) -> None:
    team.people("add", "dora", "--role", "editor", typed=SECRET)
    token = json.loads(
        shoal_command(team.server.home, "tokens", "create", "t", "--person", "dora", "--json").stdout
    )["token"]  # fmt: skip
    until = time.monotonic() + 300
    while (answer := team.log_in("dora")).status == 429 and time.monotonic() < until:
        time.sleep(int(answer.headers["retry-after"]))  # another test gave wrong passwords from here
    team.cookies["dora"] = cookie_of(answer)
    assert team.ask("dora", "GET", f"{API}/runs").status == 200
    bearer = {"Authorization": f"Bearer {token}"}
    assert ask(team.server, f"{API}/runs", **bearer).status == 200
    team.people("disable", "dora")
    assert team.ask("dora", "GET", f"{API}/runs").status == 401
    assert team.ask("dora", "GET", "/").status == 401
    assert ask(team.server, f"{API}/runs", **bearer).status == 401
    team.people("enable", "dora")
    assert team.ask("dora", "GET", f"{API}/runs").status == 200
    team.people("password", "dora", typed="another horse")
    assert team.ask("dora", "GET", f"{API}/runs").status == 401
    team.people("remove", "dora")


def test_logging_out_ends_the_session_for_whoever_copied_it(team: Team) -> None:
    """By the cookie of a session that nobody else here uses."""
    until = time.monotonic() + 300
    while (answer := team.log_in("bob")).status == 429 and time.monotonic() < until:
        time.sleep(int(answer.headers["retry-after"]))
    cookie = cookie_of(answer)
    assert ask(team.server, f"{API}/runs", Cookie=cookie).status == 200
    ask(team.server, "/logout", Cookie=cookie)
    assert ask(team.server, f"{API}/runs", Cookie=cookie).status == 401
    assert team.ask("bob", "GET", f"{API}/runs").status == 200


def test_a_session_of_another_name_is_not_one(team: Team) -> None:
    """The name in a cookie is signed with it."""
    name, _, value = team.cookies["vera"].partition("=")
    parts = value.split(".")
    forged = ".".join([*parts[:2], b"root".hex(), parts[3]])
    assert ask(team.server, f"{API}/runs", Cookie=f"{name}={forged}").status == 401


# ------------------------------------------------------------------ tokens


@pytest.mark.usefixtures("at_home")
def test_tokens_do_what_scope_and_person_may_and_end(team: Team) -> None:
    made = {scope: tokens.create(scope, scope, person="ada")[0] for scope in ("read", "write")}
    old = tokens.create("from before", "write")[0]
    asked = {scope: {"Authorization": f"Bearer {text}"} for scope, text in {**made, "old": old}.items()}
    run = f"{API}/runs/{team.things['run']}"
    assert ask(team.server, run, **asked["read"]).status == 200
    assert ask(team.server, f"{run}/commands", "POST", b"{}", **asked["read"]).status == 403
    body = b'{"name": "pause"}'
    json_ = {"Content_Type": "application/json"}
    assert ask(team.server, f"{run}/commands", "POST", body, **asked["write"], **json_).status == 409  # it has ended
    assert ask(team.server, run, **asked["old"]).status == 404  # which is nobody's
    assert ask(team.server, f"{API}/runs", **asked["old"]).status == 200
    assert ask(team.server, f"{API}/datasets?name=of-a-token.csv", "POST", b"a\n1\n", **asked["old"]).status == 201
    team.people("role", "ada", "viewer")
    try:
        assert ask(team.server, f"{run}/commands", "POST", body, **asked["write"], **json_).status == 403
    finally:
        team.people("role", "ada", "editor")
    assert next(one for one in tokens.tokens() if one.name == "read").used > 0
    over = json.loads(tokens_file().read_text())
    for one in over["tokens"]:
        one["expires"] = time.time() - 1
    tokens._write([tokens.AccessToken(**one) for one in over["tokens"]])
    assert ask(team.server, run, **asked["read"]).status == 401


# ------------------------------------------------------------------ the log, and a broken one


def test_deeds_are_in_the_log_with_who_and_from_where(team: Team) -> None:
    entries = json.loads(team.people("audit", "--json", "--limit", "1000"))
    said = {(one["who"], one["deed"], one["thing"], one["origin"]) for one in entries["entries"]}
    run = f"run {team.things['run']}"
    assert ("ada", "run started", run, "127.0.0.1") in said
    assert ("ada", "model saved", "model hers", "127.0.0.1") in said
    assert ("ada", "alias champion 1", "model hers", "127.0.0.1") in said
    assert ("ada", "logged in", "", "127.0.0.1") in said
    assert entries["broken_at"] is None


def test_accounts_that_cannot_be_read_let_nobody_in(team: Team) -> None:
    path = team.server.home / "people.sqlite"
    whole = path.read_bytes()
    try:
        path.write_bytes(b"damaged " * 1000)
        assert ask(team.server, f"{API}/runs", Cookie=team.cookies["root"]).status == 401
        answer = team.log_in("root", Accept="text/html")
        assert b"accounts cannot be read" in answer.body
    finally:
        path.write_bytes(whole)
    assert ask(team.server, f"{API}/runs", Cookie=team.cookies["root"]).status == 200


def test_the_login_page_asks_for_a_name(team: Team) -> None:
    page = ask(team.server, "/login", Accept="text/html").body.decode()
    assert 'name="name"' in page
    assert 'autocomplete="username"' in page
    connection = http.client.HTTPConnection("127.0.0.1", team.server.port)
    connection.request("GET", "/runs", headers={"Accept": "text/html"})
    found = connection.getresponse()
    assert (found.status, found.headers["location"]) == (303, "./login?next=runs")
    connection.close()


def test_no_answer_tells_where_files_lie_on_the_server(team: Team) -> None:
    """All that can be looked at by the API, and what was found by jobs."""
    paths = [filled(one.path, team) for one in operations() if one.method == "GET" and one.gives == "application/json"]
    paths += [f"/jobs/{task}/{team.jobs[task]}" for task in ("export",)]
    bodies = {path: team.ask("root", "GET", API + path).body.decode() for path in paths}
    assert {path for path, body in bodies.items() if str(team.server.home) in body} == set()
    card = team.got("ada", "GET", "/models/hers/versions/1")["card"]
    assert (card["data"]["path"], card["config"]["file"]) == ("hers.csv", "hers.csv")


@pytest.mark.usefixtures("at_home")
def test_a_token_of_a_viewer_is_not_told_to_be_made_anew(team: Team) -> None:
    token = tokens.create("look", "read", person="vera")[0]
    refused = ask(team.server, f"{API}/runs", "POST", b"{}", Authorization=f"Bearer {token}")
    assert refused.status == 403
    assert b"Your role lets you look" in refused.body
