"""Requests are counted by kinds of routes, of which there are few whatever addresses come."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shoal.dashboard import server
from shoal.dashboard.http.gate import Gate
from shoal.dashboard.monitoring.tally import BOUNDS
from shoal.dashboard.monitoring.traffic import KINDS, OTHER, UNANSWERED, CountTraffic, Traffic, kind_of
from support.dashboard.gate import call, call_websocket, inner, scope_of


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "page"), ("/train", "page"), ("/metrics", "metrics"), ("/metrics/x", "page"), ("/login", "login"),
        ("/_stcore/health", "health"), ("/_stcore/host-config", "asset"), ("/static/js/x.js", "asset"),
        ("/api/plotly.js", "asset"), ("/api/v1/runs", "api-runs"), ("/api/v1/runs/x/events", "api-runs"),
        ("/api/v1/runsx", "api-other"), ("/api/v1/models/a/versions/1/predict", "api-models"),
        ("/api/v1/datasets/x", "api-datasets"), ("/api/v1/health", "api-other"), ("/api/upload", "upload"),
        ("/api/upload/set", "upload"), ("/api/runs/a/stream", "stream"), ("/api/tune/a/path", "tune"),
        ("/api/export/a/b", "download"), ("/api/v1/runs/\n", "api-runs"), ("/" + "x" * 9999, "page"),
    ],
)  # fmt: skip
def test_kinds_of_addresses(path: str, kind: str) -> None:
    assert kind_of(path) == kind


def test_all_our_routes_but_the_one_for_nothing_have_a_kind() -> None:
    paths = {str(getattr(route, "path", "")) for route in server.routes()} - {"/api/{rest:path}"}
    assert {path for path in paths if kind_of(path) == OTHER} == set()


def lines(traffic: Traffic) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name: {(one.ending, *one.labels.values()): one.value for one in family.figures}
        for family in traffic.families()
    }


def test_those_who_are_turned_away_are_counted_too(home: Any, closed: None) -> None:
    traffic = Traffic()
    app = CountTraffic(Gate(inner()), traffic)
    for path in ("/", "/nowhere", "/api/v1/runs", *(f"/api/v1/runs/{n}" for n in range(50))):
        assert call(app, path).status == 401
    found = lines(traffic)
    assert found["shoal_http_requests_total"] == {("", "page", "4xx"): 2, ("", "api-runs", "4xx"): 51}
    times = found["shoal_http_request_duration_seconds"]
    assert times["_count", "api-runs"] == times["_bucket", "api-runs", "+Inf"] == 51
    assert times["_sum", "api-runs"] > 0
    assert len(times) == 2 * (len(BOUNDS) + 3)


def test_histograms_count_what_is_at_most_a_bound() -> None:
    traffic = Traffic()
    for seconds in (0.001, 0.005, 0.006, 3.0, 1e6):
        traffic.answered("page", 200, seconds)
    times = lines(traffic)["shoal_http_request_duration_seconds"]
    counted = [times["_bucket", "page", le] for le in ("0.005", "0.01", "2.5", "5", "10", "+Inf")]
    assert counted == [2, 3, 3, 4, 4, 5]
    assert times["_sum", "page"] == pytest.approx(1000003.012)


def test_failures_and_those_who_left_are_told_apart(home: Any) -> None:
    traffic = Traffic()

    async def leaves(scope: Any, receive: Any, send: Any) -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(CountTraffic(leaves, traffic)(scope_of("/"), None, None))  # type: ignore[arg-type]
    assert call(CountTraffic(Gate(leaves), traffic), "/").status == 500  # the gate says so in the app's place
    assert lines(traffic)["shoal_http_requests_total"] == {("", "page", UNANSWERED): 1, ("", "page", "5xx"): 1}


def test_open_websockets_are_counted_until_they_close(home: Any) -> None:
    traffic, seen = Traffic(), []

    async def talks(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        seen.append(traffic.websockets)

    assert call_websocket(CountTraffic(talks, traffic)) == "websocket.accept"  # type: ignore[arg-type]
    assert (seen, traffic.websockets) == ([1], 0)


def test_kinds_are_few() -> None:
    assert len({kind for kind, _ in KINDS}) == len(KINDS) < 20
