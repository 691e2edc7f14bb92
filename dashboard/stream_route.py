"""The route that streams a run to browsers as server-sent events; what is in them is decided by `live_feed`."""

from __future__ import annotations

import signal

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from dashboard.live_hub import Hubs
from run_store import find_run

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter for nginx, which would hold it back


def routes() -> list[BaseRoute]:
    hubs = Hubs(server_is_closing)

    async def stream(request: Request) -> Response:
        run = await run_in_threadpool(find_run, request.path_params["run"])
        if run is None:
            return PlainTextResponse("There is no such run on this machine.", 404, {"Cache-Control": "no-store"})
        return StreamingResponse(hubs.listen(run), media_type="text/event-stream", headers=HEADERS)

    return [Route("/api/runs/{run}/stream", stream, methods=["GET"])]


def server_is_closing() -> bool:
    """Whether uvicorn was told to end. It then waits for open responses, and tells nobody; but its flag can be seen."""
    server = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return bool(getattr(server, "should_exit", False))
