"""Studies for tests of the Tune page, and questions to them through the route behind its sliders."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd
from starlette.applications import Starlette

from shoal.dashboard.tune import route as tune_route
from shoal.runs.launch import Run, launch_job
from shoal.settings.values import config_from
from support.runs import ended

HOSTILE = '<img src=x onerror="alert(1)">'


def made_study(home: Path) -> Run:
    table().to_csv(home / "table.csv", index=False)
    config = config_from({"file": str(home / "table.csv"), "target": "y", "test_every": 6})
    run = launch_job("study", config, {"folds": 5, "fold_by": "row"})
    assert ended(run) == "finished", run.error
    return run


def table(rows: int = 180) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal([0, 5, 100], [1, 2, 9], size=(rows, 3)), columns=["a", HOSTILE, "c"])
    frame["y"] = 3 * frame.a - 2 * frame[HOSTILE] + rng.normal(size=rows)
    return frame


def get(path: str, **asked: Any) -> tuple[int, dict[str, Any]]:
    """An answer of the route, through the server's own interface."""
    app = Starlette(routes=tune_route.routes())
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": urlencode(asked).encode(),
        "headers": [], "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert dict(sent[0]["headers"])[b"cache-control"] == b"no-store"
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


def tune(study: Run, part: str = "", **asked: Any) -> dict[str, Any]:
    status, found = get(f"/api/tune/{study.directory.name}{part}", **asked)
    assert (status, found.get("problem")) == (200, None)
    return found
