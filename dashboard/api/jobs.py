"""Jobs of the API: work that reads rows, in a process of its own; found again by the same request."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.responses import FileResponse, Response

from shoal.dashboard.api.operations import ROOT, ApiRequest, Given, Operation
from shoal.dashboard.api.problems import missing
from shoal.exports.names import FORMATS, ending
from shoal.home import jobs_directory
from shoal.runs import awaiting, made_files
from shoal.runs.launch import LOOK, Run, sees_job

FILES = {"predict": ("predictions.csv",), "export": tuple(f"export{ending(to)}" for to in FORMATS)}
TASKS = ("inspect", "predict", "tune", "export", "compare", "promote")
WAIT = {"type": "number", "minimum": 0, "maximum": 30, "default": 0.0, "description": "seconds to wait for the end"}
_ID = re.compile(r"[0-9a-f]{24}")


def operations() -> list[Operation]:
    one = "/jobs/{task}/{job}"
    return [
        Operation("GET", one, "getJob", "How a job stands, and its result", one_job, {200: "Job"}, query={"wait": WAIT},
                  problems=(404,)),
        Operation("GET", f"{one}/files/{{file}}", "getJobFile", "A file that a job has made", file, {200: ""},
                  problems=(404, 409), gives="application/octet-stream"),
    ]  # fmt: skip


def job_of(run: Run, anew: Callable[[], Run]) -> Run:
    """The job; one that was broken off is started again."""
    return anew() if run.state == "interrupted" else run


def waited(run: Run, asked: ApiRequest) -> Given:
    """Its description, once it has ended or the time is up."""
    deadline = time.monotonic() + float(asked.query["wait"])
    while run.is_active and time.monotonic() < deadline:
        awaiting.renew(run.directory)
        time.sleep(LOOK)
    awaiting.renew(run.directory)
    said = described(run)
    headers = {"Location": f"{ROOT}/jobs/{run.task}/{run.id}"}
    return Given(said, 202 if run.is_active else 200, headers)


def described(run: Run) -> dict[str, Any]:
    standing = run.standing
    stage, fraction = run.progress
    result = run.result
    ended_well = standing.state == "finished"
    return {
        "id": run.id, "task": run.task, "state": standing.state, "stage": stage, "fraction": float(fraction),
        "detail": "" if ended_well else standing.cause, "result": without_paths(result) if result else None,
        "files": [name for name in FILES.get(run.task, ()) if (run.directory / name).is_file()] if ended_well else [],
    }  # fmt: skip


def without_paths(result: dict[str, Any]) -> dict[str, Any]:
    """What a program is told: names of files, not where they lie on the server."""
    said = {name: value for name, value in result.items() if name != "out"}
    return {**said, "file": Path(str(said["file"])).name} if "file" in said else said


def _found(asked: ApiRequest) -> Run:
    task, job = asked.path["task"], asked.path["job"]
    if task not in TASKS or not _ID.fullmatch(job) or not (jobs_directory() / task / job / "config.json").is_file():
        raise missing("job")
    found = Run(jobs_directory() / task / job)
    if not sees_job(found):
        raise missing("job")
    return found


def one_job(asked: ApiRequest) -> Given:
    given = waited(_found(asked), asked)
    return Given(given.values)


def file(asked: ApiRequest) -> Response:
    run = _found(asked)
    name = asked.path["file"]
    if name not in FILES.get(run.task, ()) or not (run.directory / name).is_file() or run.state != "finished":
        raise missing("file")
    headers = {"Cache-Control": "no-store"}
    path = made_files.handed_out(run.directory / name)
    return FileResponse(path, media_type="application/octet-stream", filename=name, headers=headers)
