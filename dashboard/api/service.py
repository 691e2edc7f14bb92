"""What the API says of the service itself: health, version, queue; and tuning, which has no other home."""

from __future__ import annotations

import platform

from shoal import __version__
from shoal.dashboard.api.datasets import WAIT, settings_of, table_of
from shoal.dashboard.api.jobs import job_of, waited
from shoal.dashboard.api.operations import ApiRequest, Given, Operation
from shoal.dashboard.monitoring.health import parts, said
from shoal.home import runs_directory
from shoal.people.belongings import sees
from shoal.runs.folder import Run, list_runs
from shoal.runs.launch import launch_job
from shoal.runs.scheduling import keep_going
from shoal.runs.tickets import in_line, room
from shoal.settings.values import page_config


def operations() -> list[Operation]:
    return [
        Operation("GET", "/health", "getHealth", "Whether all parts of it work", health, {200: "Health"}),
        Operation("GET", "/version", "getVersionOfService", "Which version answers", version, {200: "Version"}),
        Operation("GET", "/queue", "getQueue", "Runs that wait, in their order", queue, {200: "Queue"}),
        Operation("POST", "/tune", "tune", "The penalty by cross-validation, as a job", tune, {200: "Job", 202: "Job"},
                  "write", "Tune", {"wait": WAIT}, (404, 409, 507)),
    ]  # fmt: skip


def health(asked: ApiRequest) -> Given:
    """As /health says it to everybody, with how much there is to do."""
    return Given({**said(parts()), "runs_active": sum(run.is_alive for run in list_runs()), "queue": len(in_line())})


def version(asked: ApiRequest) -> Given:
    return Given({"version": __version__, "api": "v1", "python": platform.python_version()})


def queue(asked: ApiRequest) -> Given:
    keep_going()
    waiting = []
    for place, one in enumerate(in_line()):
        run = Run(runs_directory() / one.run_id)
        if not (run.directory.is_dir() and sees(run.directory)):
            continue  # its place is taken all the same: somebody's own, or one of another home
        waiting.append({
            "run": run.id, "place": place, "cause": one.words, "slots": one.need, "seconds": one.seconds,
        })  # fmt: skip
    total, free = room()
    return Given({"slots": total, "free": free, "waiting": waiting})


def tune(asked: ApiRequest) -> Given:
    body = asked.body
    values = {"model": "lasso", **settings_of(body, target=body["target"])}
    config = page_config(table_of(body["dataset"]).path, values)
    config.ready()
    arguments = {"folds": body.get("folds", 10), "fold_by": body.get("fold_by", "")}
    run = launch_job("tune", config, arguments)
    return waited(job_of(run, lambda: launch_job("tune", config, arguments, anew=True)), asked)
