"""GET /metrics: figures for Prometheus. Who may read them is decided in the gate: a token, or whoever is in."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from shoal.dashboard.http.visit import METRICS
from shoal.dashboard.monitoring.exposition import CONTENT_TYPE
from shoal.dashboard.monitoring.traffic import TRAFFIC

if TYPE_CHECKING:
    from shoal.dashboard.monitoring.collector import Collector


def routes() -> list[BaseRoute]:
    return [Route(METRICS, metrics, methods=["GET"])]


async def metrics(request: Request) -> Response:
    text = await run_in_threadpool(lambda more: _collector().text(more), TRAFFIC.families())
    return Response(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


@functools.cache
def _collector() -> Collector:
    """Loaded with the first scrape: who only opens pages does not wait for it."""
    from shoal.dashboard.monitoring.collector import Collector

    return Collector()
