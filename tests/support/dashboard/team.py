"""A real server with a team: two editors, a viewer, an admin; and things of the first that nobody else may see."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from shoal.home import models_directory, uploads_directory
from shoal.runs.launch import launch_job
from shoal.settings.config import RunConfig
from shoal.settings.values import page_config
from shoal.utils import identity_of
from support.browser import ROOT, Server, free_port
from support.dashboard.http_client import Answer, ask, cookie_of
from support.runs import ended, small_table

SECRET = "correct horse"
ROLES = {"root": "admin", "ada": "editor", "bob": "editor", "vera": "viewer"}
STRANGER = ""
API = "/api/v1"


@dataclass
class Team:
    """`things` are those of Ada, who keeps what she makes to herself: names of path parameters, and their values."""

    server: Server
    cookies: dict[str, str] = field(default_factory=dict)
    things: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)  # finished ones by their tasks

    def log_in(self, name: str, password: str = SECRET, **headers: str) -> Answer:
        body = urlencode({"name": name, "password": password, "next": ""}).encode()
        return ask(self.server, "/login", "POST", body, Content_Type="application/x-www-form-urlencoded", **headers)

    def ask(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = {"Content_Type": "application/json"} if not isinstance(body, bytes) and body is not None else {}
        cookie = {"Cookie": self.cookies[who]} if who else {}
        return ask(self.server, path, method, data, **{"X_Shoal": "1", **cookie, **kind, **headers})

    def got(self, who: str, method: str, path: str, body: Any = None, status: int = 200) -> dict[str, Any]:
        answer = self.ask(who, method, API + path, body)
        assert answer.status == status, answer.body
        return answer.json()

    def people(self, *words: str, typed: str = "") -> str:
        """The command, as whoever has the machine types it."""
        done = shoal_command(self.server.home, "people", *words, typed=typed)
        assert done.returncode == 0, done.stderr
        return done.stdout


def shoal_command(home: Path, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal.cli.app", *words]
    environment = {**os.environ, "SHOAL_HOME": str(home)}
    return subprocess.run(command, input=f"{typed}\n", cwd=ROOT, env=environment, capture_output=True, text=True)


def filled(template: str, team: Team) -> str:
    """An address with Ada's things in it."""
    return re.sub(r"\{(\w+)\}", lambda found: team.things[found[1]], template)


@contextlib.contextmanager
def working_team(folder: Path) -> Iterator[Team]:
    team = Team(Server(folder, free_port()))
    for name, role in ROLES.items():
        team.people("add", name, "--role", role, *(["--private"] if name == "ada" else []), typed=SECRET)
    team.server.start()
    try:
        for name in ROLES:
            team.cookies[name] = cookie_of(team.log_in(name))
        _make_things(team)
        yield team
    finally:
        team.server.stop()


def _make_things(team: Team) -> None:
    """A table, a run of it, a saved model with an alias, and jobs of each kind, all Ada's."""
    table = small_table(team.server.home).read_bytes()
    dataset = team.got("ada", "POST", "/datasets?name=hers.csv", table, 201)["id"]
    asked = {"dataset": dataset, "target": "y", "settings": {"model": "ridge", "alpha": 1.0}}
    run = team.got("ada", "POST", "/runs", asked, 201)["summary"]["id"]
    assert b"event: end" in team.ask("ada", "GET", f"{API}/runs/{run}/events").body
    team.got("ada", "POST", f"/runs/{run}/model", {"name": "hers"}, 201)
    team.got("ada", "PUT", "/models/hers/aliases/champion", {"version": 1})
    job = team.got("ada", "POST", "/models/hers/versions/1/predictions?wait=30", {"dataset": dataset})["id"]
    team.things = {
        "dataset": dataset, "run": run, "model": "hers", "version": "1", "alias": "champion", "task": "predict",
        "job": job, "file": "predictions.csv",
    }  # fmt: skip
    team.jobs = {"predict": job, **_jobs(team)}


def _jobs(team: Team) -> dict[str, str]:
    """What the pages ask for about Ada's table and model, started as the server would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(team.server.home))
        table = uploads_directory() / team.things["dataset"].replace("~", "/", 1)
        file = models_directory() / "hers" / "v1" / "model.json"
        model = {"model": str(file), "seen": list(identity_of(file))}  # as the API asks for it
        config = page_config(table, {"target": "y"})
        runs = [launch_job("export", RunConfig(), model), launch_job("report", RunConfig(), model),
                launch_job("study", config, {"folds": 5, "fold_by": "row"})]  # fmt: skip
        for run in runs:
            assert ended(run) == "finished", run.error
        return {run.task: run.id for run in runs}
