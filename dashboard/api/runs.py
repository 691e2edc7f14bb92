"""Runs of the API: start, list, look at, follow and steer them; what they may be set to is what pages may set."""

from __future__ import annotations

import dataclasses
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from shoal.dashboard.api.datasets import settings_of, table_of
from shoal.dashboard.api.keys import run_once
from shoal.dashboard.api.models import described as version_said
from shoal.dashboard.api.models import file_of
from shoal.dashboard.api.operations import ApiRequest, Given, Operation, location
from shoal.dashboard.api.pages import PAGE, page
from shoal.dashboard.api.problems import Refusal, missing
from shoal.dashboard.http.connections import server_is_closing
from shoal.dashboard.live.hub import Hubs
from shoal.errors import TrainingError
from shoal.files.parts import title
from shoal.home import runs_directory
from shoal.library import accounts, notes
from shoal.library.saved_models import save_run
from shoal.results.model import ModelFile, read_model
from shoal.results.plain import Malformed
from shoal.runs.commands import BY_SIGNAL, metrics_of, post, records_told, wait_settled
from shoal.runs.folder import ACTIVE, ENDED, is_run
from shoal.runs.launch import Run, find_run, launch, resume
from shoal.runs.made_files import prove_model
from shoal.runs.scheduling import keep_going
from shoal.settings.values import page_config, set_by_pages

ANSWER = 5.0  # seconds to wait for what becomes of a command
POINTS = 1500
STREAM = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
STATES = {"type": "string", "enum": [*ACTIVE, *ENDED]}
TEXT = {"type": "string", "maxLength": 200, "description": "words in name, number, file, target, tags or note"}


def operations() -> list[Operation]:
    one = "/runs/{run}"
    return [
        Operation("GET", "/runs", "listRuns", "All runs, the newest first", listed, {200: "Runs"},
                  query={**PAGE, "state": STATES, "q": TEXT}, problems=(409,)),
        Operation("POST", "/runs", "createRun", "Start a run", create, {200: "Run", 201: "Run"}, "write", "NewRun",
                  problems=(404, 409, 507), once=True),
        Operation("GET", one, "getRun", "One run: settings, progress, events, result", show, {200: "Run"},
                  problems=(404,)),
        Operation("GET", f"{one}/rounds", "getRounds", "Its records, thinned", rounds, {200: "Rounds"},
                  query={"points": {"type": "integer", "minimum": 2, "maximum": POINTS, "default": POINTS}},
                  problems=(404, 409)),
        Operation("GET", f"{one}/events", "followRun", "Follow it: a snapshot, then what is new, and `end`",
                  _following(), {200: ""}, problems=(404,), streams=True, gives="text/event-stream"),
        Operation("POST", f"{one}/commands", "commandRun", "pause, resume, stop, set and so on", command,
                  {200: "Outcome", 202: "Outcome"}, "write", "Command", problems=(404, 409, 507)),
        Operation("GET", f"{one}/model", "getRunModel", "The file of its model", model_file, {200: "ModelFile"},
                  problems=(404, 409)),
        Operation("POST", f"{one}/model", "saveModel", "Keep its model as a version of a name", save,
                  {201: "ModelVersion"}, "write", "SaveModel", problems=(404, 409, 507)),
    ]  # fmt: skip


def _found(asked: ApiRequest) -> Run:
    return run_named(asked.path["run"])


def run_named(name: str) -> Run:
    run = find_run(name) if name.isascii() else None
    if run is None or run.id != name:
        raise missing("run")
    return run


def brief(run: accounts.Summary) -> dict[str, Any]:
    names = ("id", "name", "state", "cause", "reason", "solver", "model", "target", "epochs", "epochs_wanted",
             "distance", "started", "duration", "train_r2", "test_r2")  # fmt: skip
    said = {name: getattr(run, name) for name in names}
    return {**said, "reason": str(run.reason), "file": run.file_name, "tags": list(run.tags)}


def listed(asked: ApiRequest) -> Given:
    keep_going()
    state, words = asked.query["state"], (asked.query["q"] or "").split()
    if state is None and not words:  # accounts of one page are enough
        names = [name for name in accounts.run_names() if is_run(name)]
        return page(asked, names, str, lambda name: brief(accounts.summary_of(Run(runs_directory() / name))), "/runs")
    every = (one for one in accounts.summaries() if state is None or one.state == state)
    return page(asked, [one for one in every if one.has_words(words)], lambda one: one.id, brief, "/runs")


def create(asked: ApiRequest) -> Given:
    body = asked.body
    table = table_of(body["dataset"])
    config = page_config(table.path, settings_of(body, target=body["target"]))
    config.ready()
    name = notes.checked_name(body.get("name", ""))
    run, new = run_once(asked, lambda request: launch(config, request=request))
    if new and name:
        notes.give_name(run, name)
    return Given(described(run), 201 if new else 200, location("runs", run.id))


def show(asked: ApiRequest) -> Given:
    return Given(described(_found(asked)))


def described(run: Run) -> dict[str, Any]:
    stage, fraction = run.progress
    result = run.result
    found = {
        "summary": brief(accounts.summary_of(run)), "settings": set_by_pages(run.config), "stage": stage,
        "fraction": float(fraction), "last_round": None, "workers": [], "events": [],
        "result": {**result, "file": title(str(result["file"]))} if result and "file" in result else result,
        "problem": "",
    }  # fmt: skip
    if run.is_gradient:
        try:
            found |= {name: told for name, told in records_told(run).items() if name in found}
        except TrainingError as error:  # of their file; what came of the run is another one
            found["problem"] = error.message
    return found


def rounds(asked: ApiRequest) -> Given:
    with metrics_of(_found(asked)) as storage:
        found = storage.rounds(asked.query["points"]) if storage else []
    return Given({"rounds": [dataclasses.asdict(record) for record in found]})


def _following() -> Any:
    hubs = Hubs(server_is_closing)

    async def follow(request: Request, query: dict[str, Any]) -> Response:
        run = await run_in_threadpool(run_named, request.path_params["run"])
        return StreamingResponse(hubs.listen(run), media_type="text/event-stream", headers=STREAM)

    return follow


def command(asked: ApiRequest) -> Given:
    run, name = _found(asked), asked.body["name"]
    if name == "resume" and run.state != "paused":
        resume(run)
        return Given({"name": name, "outcome": "done", "round": None, "state": run.state})
    number = post(run, name, asked.body.get("arguments", {}))
    outcome, at = wait_settled(run, number, ANSWER)
    said = {"name": name, "outcome": outcome, "round": at if number != BY_SIGNAL else None, "state": run.state}
    return Given(said, 202 if outcome is None else 200)


def model_file(asked: ApiRequest) -> Given:
    run = _found(asked)
    try:
        return Given(file_of(ModelFile.from_dict(read_model(prove_model(run.model_path)))))
    except FileNotFoundError:
        raise Refusal(409, f"The run {run.id} has no model: it is {run.state}.") from None
    except (OSError, Malformed) as error:
        raise Refusal(409, f"The model of {run.id} cannot be read: {error}. Train it again.") from None


def save(asked: ApiRequest) -> Given:
    run = _found(asked)
    version = save_run(run, run.result or {}, asked.body.get("name"))
    return Given(version_said(version), 201, location("models", version.name, "versions", version.number))
