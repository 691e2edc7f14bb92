"""Every route of a real server, asked by everybody: the lists are the server's own, so that a new route needs a rule here.

Ada's things are private. A rule says what becomes of each: `out` (log in), `refused` (not with this role), `hidden` (as
if it were not there), or allowed, whatever comes of it.
"""

from __future__ import annotations

import re

import pytest
from starlette.routing import Route

from shoal.dashboard import server as dashboard_server
from shoal.dashboard.api.document import document, operations
from shoal.dashboard.api.operations import Operation
from shoal.dashboard.http.visit import Visit
from shoal.people.rights import Verb
from support.dashboard.team import API, ROLES, STRANGER, Team, filled

OUT, REFUSED, HIDDEN, ALLOWED = "out", "refused", "hidden", "allowed"
EVERYBODY = {STRANGER: OUT, "vera": ALLOWED, "bob": ALLOWED, "ada": ALLOWED, "root": ALLOWED}
EDITORS = {**EVERYBODY, "vera": REFUSED}
HERS = {STRANGER: OUT, "vera": HIDDEN, "bob": HIDDEN, "ada": ALLOWED, "root": ALLOWED}
CHANGES_HERS = {**HERS, "vera": REFUSED}

OPERATIONS = {
    **dict.fromkeys(("getHealth", "getVersionOfService", "getQueue", "listDatasets", "listRuns", "listModels"), EVERYBODY),
    **dict.fromkeys(("uploadDataset",), EDITORS),
    **dict.fromkeys(("getDataset", "getRun", "getRounds", "followRun", "getRunModel", "getModel", "getVersion",
                     "getModelFile", "predictRows", "getJob", "getJobFile", "getDatasetSharing", "getRunSharing",
                     "getModelSharing", "getHistory", "getDrift"), HERS),
    **dict.fromkeys(("inspectDataset", "createRun", "commandRun", "saveModel", "giveAlias", "takeAlias", "predictDataset",
                     "exportVersion", "tune", "shareDataset", "shareRun", "shareModel", "rollBack",
                     "compareVersions", "promoteVersion"), CHANGES_HERS),
}  # fmt: skip
BODIES = {
    "uploadDataset": b"a,b\n1,2\n", "inspectDataset": {}, "createRun": {"dataset": "{dataset}", "target": "y"},
    **{name: {"private": True} for name in ("shareDataset", "shareRun", "shareModel")},
    "commandRun": {"name": "pause"}, "saveModel": {"name": "hers"}, "giveAlias": {"version": 1},
    "predictRows": {"rows": [{}]}, "predictDataset": {"dataset": "{dataset}"},
    "tune": {"dataset": "{dataset}", "target": "y"}, "compareVersions": {"dataset": "{dataset}", "with": 1},
    "promoteVersion": {"dataset": "{dataset}", "alias": "champion"},
}  # fmt: skip
ROUTES = {
    ("GET", "/api/upload"): EVERYBODY, ("POST", "/api/upload"): EDITORS, ("POST", "/api/upload/set"): EDITORS,
    ("GET", "/api/runs/{run}/stream"): HERS, ("GET", "/api/plotly.js"): EVERYBODY,
    ("GET", "/api/predictions/{job}"): HERS, ("GET", "/api/export/{job}/{file}"): HERS,
    ("GET", "/api/report/{job}/{file}"): HERS, ("GET", "/metrics"): EVERYBODY,
    **{("GET", path): {**EVERYBODY, STRANGER: ALLOWED} for path in ("/health", "/health/ready")},
    **{("GET", f"/api/tune/{{job}}{part}"): HERS for part in ("", "/progress", "/worth", "/doubt", "/command")},
}  # fmt: skip
CATCH_ALL = {"/api/v1/{rest:path}", "/api/{rest:path}"}  # the API's own operations, and what is not there


def outcome(status: int) -> str:
    assert status < 500, status
    return {401: OUT, 403: REFUSED, 404: HIDDEN, 410: HIDDEN}.get(status, ALLOWED)


# ------------------------------------------------------------------ no route without a rule


def test_every_operation_of_the_document_has_a_rule() -> None:
    known = {one["operationId"] for path in document()["paths"].values() for one in path.values()}
    assert known == set(OPERATIONS), "say here who may"


def test_every_route_of_the_server_has_a_rule() -> None:
    found = {
        (method, route.path)
        for route in dashboard_server.routes() if isinstance(route, Route) and route.path not in CATCH_ALL
        for method in (route.methods or {"GET"}) - {"HEAD"}
    }  # fmt: skip
    assert found == set(ROUTES), "say here who may"


def test_the_gate_takes_an_operation_for_what_its_scope_says() -> None:
    """The gate knows paths and methods only; what a role may not do is refused before a body is read."""
    for one in operations():
        path = re.sub(r"\{\w+\}", "x", API + one.path)
        scope = {"type": "http", "method": one.method, "path": path, "headers": [], "query_string": b""}
        assert Visit(scope).verb == (Verb.SEE if one.scope == "read" else Verb.START), one.id


# ------------------------------------------------------------------ everybody at every route


@pytest.mark.parametrize("one", sorted(operations(), key=lambda one: one.method == "DELETE"), ids=lambda one: one.id)
def test_operations(one: Operation, team: Team) -> None:
    body = BODIES.get(one.id)
    if isinstance(body, dict):
        body = {name: filled(value, team) if isinstance(value, str) else value for name, value in body.items()}
    path = filled(API + one.path, team) + ("?wait=0" if "wait" in one.query else "")
    found = {
        who: outcome(team.ask(who, one.method, path, body).status) for who in (STRANGER, "vera", "bob", "ada", "root")
    }
    if one.id == "rollBack":  # there is nothing before it, and so nothing that is done
        assert team.ask("ada", one.method, path, body).status == 409
    if one.id == "takeAlias":  # Ada took it away, so that it is not there for the admin
        found["root"] = ALLOWED if found["root"] == HIDDEN else "it was still there"
    assert found == OPERATIONS[one.id]


@pytest.mark.parametrize(("method", "template"), list(ROUTES), ids=lambda part: str(part))
def test_routes(method: str, template: str, team: Team) -> None:
    made = {
        "/api/export": ("export", "export.py"),
        "/api/report": ("report", "report.html"),
        "/api/tune": ("study", ""),
    }
    task, name = made.get(template.partition("/{")[0], ("predict", "predictions.csv"))
    path = filled(template.replace("{job}", team.jobs[task]).replace("{file}", name), team)
    query = "?size=10" if (method, template) == ("GET", "/api/upload") else ""
    body = b"a,b\n1,2\n" if method == "POST" else None
    found = {who: outcome(team.ask(who, method, path + query, body).status) for who in (STRANGER, *ROLES)}
    assert found == ROUTES[method, template]
