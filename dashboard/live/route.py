"""The route that streams a run to browsers as server-sent events; what is in them is decided by `live_feed`."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from shoal.dashboard.http.connections import server_is_closing
from shoal.dashboard.live.hub import Hubs
from shoal.runs.launch import find_run

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter for nginx, which would hold it back


def routes() -> list[BaseRoute]:
    hubs = Hubs(server_is_closing)

    async def stream(request: Request) -> Response:
        run = await run_in_threadpool(find_run, request.path_params["run"])
        if run is None:
            return PlainTextResponse("There is no such run on this machine.", 404, {"Cache-Control": "no-store"})
        return StreamingResponse(hubs.listen(run), media_type="text/event-stream", headers=HEADERS)

    return [Route("/api/runs/{run}/stream", stream, methods=["GET"])]
