"""The routes that hand out what is too large for a page: predictions, and plotly.js for our own charts."""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from shoal.errors import DamagedFile
from shoal.exports.names import FORMATS, ending
from shoal.files.table_style import Rewriting
from shoal.home import jobs_directory
from shoal.results.answers.predictions import FilePredictions
from shoal.runs import made_files
from shoal.runs.launch import Run, sees_job

FOREVER = "private, max-age=31536000, immutable"
EXPORTED = {**{f"export{ending(to)}": "export" for to in FORMATS}, "report.html": "report"}  # file: task of the job
JOB = re.compile(r"[0-9a-f]{24}")


def routes() -> list[BaseRoute]:
    return [
        Route("/api/plotly.js", plotly, methods=["GET"]),
        Route("/api/predictions/{job}", predictions, methods=["GET"]),
        Route("/api/export/{job}/{file}", exported, methods=["GET"]),
        Route("/api/report/{job}/{file}", exported, methods=["GET"]),
    ]


class Script(NamedTuple):
    """A script as it is sent: compressed once, since that takes longer than sending it."""

    plain: bytes
    compressed: bytes
    tag: str


@functools.cache
def _script() -> Script:
    plain = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return Script(plain, gzip.compress(plain, 6, mtime=0), f'"{hashlib.sha256(plain).hexdigest()[:24]}"')


async def plotly(request: Request) -> Response:
    """The charts' library; a browser that names its version need never ask again."""
    script = await run_in_threadpool(_script)
    current = request.query_params.get("v") == version("plotly")
    headers = {"ETag": script.tag, "Cache-Control": FOREVER if current else "no-cache", "Vary": "Accept-Encoding"}
    if script.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(script.plain, media_type="text/javascript", headers=headers)
    headers["Content-Encoding"] = "gzip"
    return Response(script.compressed, media_type="text/javascript", headers=headers)


async def predictions(request: Request) -> Response:
    """The predictions that a job wrote, from the disk in pieces."""
    path = predictions_of(request.path_params["job"])
    if path is None:
        return PlainTextResponse("There are no such predictions; they may have been cleaned up. Predict again.", 404)
    if refused := await run_in_threadpool(_refused, path):
        return refused
    headers = {"Cache-Control": "no-store"}
    if request.query_params.get("like") == "table":
        pieces = await run_in_threadpool(_like_table, path)
        headers |= {"Content-Disposition": f'attachment; filename="{path.name}"'}
        return StreamingResponse(pieces, media_type="text/csv", headers=headers)
    return FileResponse(path, media_type="text/csv", filename=path.name, headers=headers)


def _like_table(path: Path) -> Iterator[bytes]:
    """Predictions with the marks of the table that they are for."""
    said = FilePredictions.from_dict(Run(path.parent).result or {"rows": 0, "target": "", "out": ""})
    return Rewriting(said.table, said.made).pieces(path)


async def exported(request: Request) -> Response:
    """What a job made of a model; always to be saved, never shown as a page of this address."""
    path = export_of(request.path_params["job"], request.path_params["file"])
    if path is None:
        return PlainTextResponse("There is no such file; it may have been cleaned up. Export the model again.", 404)
    if refused := await run_in_threadpool(_refused, path):
        return refused
    headers = {"Cache-Control": "no-store"}
    return FileResponse(path, media_type="application/octet-stream", filename=path.name, headers=headers)


def _refused(path: Path) -> Response | None:
    """What is said in the place of a file that is not what was made."""
    try:
        made_files.handed_out(path)
    except (DamagedFile, OSError) as error:
        why = error.message if isinstance(error, DamagedFile) else f"'{path.name}' cannot be read: {error.strerror}."
        return PlainTextResponse(f"{why} Open its page again, which makes it anew.", 409)
    return None


def export_of(job: str, file: str) -> Path | None:
    """The file of a finished job, by a name that such jobs give."""
    if file not in EXPORTED or not JOB.fullmatch(job):
        return None
    path = jobs_directory() / EXPORTED[file] / job / file
    return path if path.is_file() and sees_job(Run(path.parent)) else None


def predictions_of(job: str) -> Path | None:
    """The file of a finished job. Names come from addresses, so nothing but a fingerprint gets through."""
    if not JOB.fullmatch(job):
        return None
    path = jobs_directory() / "predict" / job / "predictions.csv"
    return path if path.is_file() and sees_job(Run(path.parent)) else None
