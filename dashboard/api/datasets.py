"""Datasets of the API: the tables that pages offer too, by ids that name no path; files come in as on the Data page."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shoal.dashboard.api.jobs import job_of, waited
from shoal.dashboard.api.operations import ApiRequest, Given, Operation, answered, location
from shoal.dashboard.api.pages import PAGE, page
from shoal.dashboard.api.problems import Refusal, missing
from shoal.dashboard.http import upload_route
from shoal.dashboard.tables import uploads
from shoal.dashboard.tables.samples import SAMPLES
from shoal.dashboard.tables.sources import Table, find_table
from shoal.home import names_in, uploads_directory
from shoal.runs.launch import launch_job
from shoal.settings.values import page_config, set_by_pages

BETWEEN = "~"  # in an id, where the key of an upload has a slash: no name of an upload has one
WAIT = {"type": "number", "minimum": 0, "maximum": 30, "default": 10.0, "description": "seconds to wait for the end"}


def operations() -> list[Operation]:
    one = "/datasets/{dataset}"
    name = {"type": "string", "minLength": 1, "maxLength": 200, "default": "table.csv", "description": "of the file"}
    return [
        Operation("GET", "/datasets", "listDatasets", "Tables that can be used", listed, {200: "Datasets"}, query=PAGE,
                  problems=(409,)),
        Operation("POST", "/datasets", "uploadDataset", "Send a file as the body", upload, {201: "Dataset"}, "write",
                  query={"name": name}, problems=(400, 408, 413, 503, 507), streams=True,
                  takes="application/octet-stream"),
        Operation("GET", one, "getDataset", "One table", one_dataset, {200: "Dataset"}, problems=(404,)),
        Operation("POST", f"{one}/inspect", "inspectDataset", "What is in it: columns, rows that cannot be read",
                  inspect, {200: "Job", 202: "Job"}, "write", "Inspection", {"wait": WAIT}, (404, 409, 507)),
    ]  # fmt: skip


def table_of(id: str) -> Table:
    """The table with this id; a Refusal if there is none."""
    with contextlib.suppress(OSError, ValueError):
        if found := find_table(id.replace(BETWEEN, "/", 1) if not id.startswith("file:") else id):
            return found
    raise missing("dataset")


def settings_of(body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The knobs that a program sets; no paths of this machine are among them."""
    given = dict(body.get("settings", {}))
    if paths := sorted(set(given) - set(set_by_pages(given))):
        raise Refusal(
            422,
            f"Expected no '{paths[0]}' among the settings: a program names no paths of the server. Name a dataset by "
            "its id, and keep models with POST /api/v1/runs/ID/model. Leave it out.",
            reason="bad_settings",
        )
    return {**given, **more}


def id_of(key: str) -> str:
    return key if key.startswith("file:") else key.replace("/", BETWEEN, 1)


def described(table: Table) -> dict[str, Any]:
    try:
        found = table.path.stat()
        files = [file for file in table.path.iterdir() if file.is_file()] if table.path.is_dir() else [table.path]
        size = sum(file.stat().st_size for file in files)
    except OSError:
        raise missing("dataset") from None
    kind = "sample" if table.sample else "file" if table.key.startswith("file:") else "upload"
    return {"id": id_of(table.key), "name": table.title, "bytes": size, "added": found.st_mtime, "kind": kind}


def listed(asked: ApiRequest) -> Given:
    """Uploads in the order of their ids, then samples."""
    keys = [
        f"{folder}/{name}"
        for folder in sorted(names_in(uploads_directory()))
        if not folder.startswith(".")
        for name in sorted(names_in(uploads_directory() / folder))
        if uploads.find(f"{folder}/{name}")
    ]
    return page(asked, [*keys, *SAMPLES], id_of, lambda key: described(table_of(id_of(key))), "/datasets")


def one_dataset(asked: ApiRequest) -> Given:
    return Given(described(table_of(asked.path["dataset"])))


async def upload(request: Request, query: dict[str, Any]) -> Response:
    """As on the page, whose route this is."""
    answer = await upload_route.take(request)
    said = upload_route.said_by(answer)
    if "key" not in said:
        raise Refusal(answer.status_code, str(said["problem"]), {"Connection": "close"})
    made = described(table_of(id_of(str(said["key"]))))
    return answered(request, Given(made, 201, location("datasets", made["id"])))


def inspect(asked: ApiRequest) -> Given:
    table = table_of(asked.path["dataset"])
    more = {"target": asked.body["target"]} if "target" in asked.body else {}
    config = page_config(table.path, settings_of(asked.body, **more))
    run = launch_job("inspect", config)
    return waited(job_of(run, lambda: launch_job("inspect", config, anew=True)), asked)
