"""How many requests came, what became of them and how long they waited for an answer, by kinds of routes.

Kinds are few and fixed: no address that somebody makes up becomes a label.
"""

from __future__ import annotations

import re
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.dashboard.http.gate import OPEN, base_path
from shoal.dashboard.http.visit import METRICS, Visit
from shoal.dashboard.monitoring.exposition import Family, single
from shoal.dashboard.monitoring.tally import AnswerCounts

KINDS = (
    ("health", re.compile("|".join(map(re.escape, OPEN)))),
    ("metrics", re.compile(re.escape(METRICS))),
    ("login", re.compile("/(login(/provider(/back)?)?|logout)")),
    ("api-datasets", re.compile("/api/v1/datasets(/.*)?", re.DOTALL)),
    ("api-runs", re.compile("/api/v1/runs(/.*)?", re.DOTALL)),
    ("api-models", re.compile("/api/v1/models(/.*)?", re.DOTALL)),
    ("api-other", re.compile("/api/v1(/.*)?", re.DOTALL)),
    ("upload", re.compile("/api/upload(/.*)?", re.DOTALL)),
    ("stream", re.compile("/api/runs/[^/]*/stream")),
    ("tune", re.compile("/api/tune/.*", re.DOTALL)),
    ("download", re.compile("/api/(predictions|export|report)/.*", re.DOTALL)),
    ("asset", re.compile(r"/(api/plotly\.js|(static|media|component|vendor|_stcore)/.*)", re.DOTALL)),
)
OTHER = "page"  # Streamlit answers everything else with its page
UNANSWERED = "none"  # whoever asked was gone before an answer began


def kind_of(path: str) -> str:
    return next((kind for kind, pattern in KINDS if pattern.fullmatch(path)), OTHER)


class Traffic(AnswerCounts):
    """Counts of one dashboard since it began; used by its event loop only."""

    def __init__(self) -> None:
        super().__init__()
        self.websockets = 0

    def families(self) -> list[Family]:
        open_ones = single(
            "shoal_websockets", "gauge", "Open websockets: each is a page in a browser.", self.websockets
        )
        return [*super().families(), open_ones]


TRAFFIC = Traffic()  # of this process, which is one server


class CountTraffic:
    """Around everything, the gate too: who is turned away is counted as well."""

    def __init__(self, app: ASGIApp, traffic: Traffic = TRAFFIC) -> None:
        self.app, self.traffic, self.base = app, traffic, base_path()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind, came, begun = kind_of(Visit(scope, self.base).path), time.perf_counter(), False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and not begun:
                begun = True
                self.traffic.answered(kind, int(message["status"]), time.perf_counter() - came)
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            if not begun:
                self.traffic.answers[kind, UNANSWERED] += 1

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        opened = False

        async def sending(message: Message) -> None:
            nonlocal opened
            if message["type"] == "websocket.accept" and not opened:
                opened = True
                self.traffic.websockets += 1
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            self.traffic.websockets -= opened
