"""Files about programs and tables of people, to be harmed: tokens, requests that may come twice, what was chosen."""

from __future__ import annotations

import json
from pathlib import Path

from shoal.dashboard.api import keys
from shoal.dashboard.api.operations import ApiRequest
from shoal.dashboard.api.problems import Refusal
from shoal.dashboard.tables import choices, recent
from shoal.dashboard.tables.sources import Asked, Table
from shoal.home import kernels_directory, runs_directory
from shoal.kernels import build
from shoal.library import tokens
from shoal.runs.documents import write_json
from shoal.runs.folder import Run
from support.harm.place import FileKind, Place, Told

Parts = dict[str, str]


# ------------------------------------------------------------------ tokens


def _with_tokens(place: Place) -> None:
    """One of each scope, and one that was revoked; programs have them."""
    made = {name: tokens.create(name, scope) for name, scope in (("r", "read"), ("w", "write"), ("gone", "write"))}
    tokens.revoke("gone")
    recent.remember("table.csv", 10, 3)  # another document of the home
    (place.folder / "tokens").write_text(json.dumps({name: text for name, (text, _) in made.items()}))


def _admitted(place: Place) -> Parts:
    """To be turned away is a word; to come in with more than one was given, or after the end, is not."""
    known = json.loads((place.folder / "tokens").read_text())
    server = tokens.KnownTokens()
    found = {name: server.admits(text) for name, text in known.items()}
    return {
        name: token.scope if token else (Told("401") if name != "gone" else "not admitted")
        for name, token in found.items()
    }


# ------------------------------------------------------------------ requests

BODIES = {"one": {"alpha": 1.0}, "two": {"alpha": 2.0}}


def _run_of(name: str) -> Run:
    return Run(runs_directory() / f"20260101-000000-{name}")


def _begun(name: str, request: str) -> Run:
    run = _run_of(name)
    run.directory.mkdir(parents=True)
    write_json(run.directory / "job.json", {"task": "train", "request": request})
    write_json(run.directory / "config.json", {})
    return run


def _asked_once(place: Place) -> None:
    for name in BODIES:
        keys.run_once(_request(name), lambda digest, name=name: _begun(name, digest))  # type: ignore[misc]


def _request(name: str) -> ApiRequest:
    return ApiRequest({}, {}, BODIES[name], {keys.HEADER: name, "authorization": "Bearer t"})


def _asked_again(place: Place) -> Parts:
    """The run that came of it the first time, never another one."""
    return {name: _again(name) for name in BODIES}


def _again(name: str) -> str:
    try:
        run, started = keys.run_once(_request(name), lambda digest: _begun(f"{name}-again", digest))
    except Refusal as refusal:
        return Told(refusal.detail)
    return f"{run.id} {started}"


# ------------------------------------------------------------------ what was chosen for tables


def _table(name: str) -> Asked:
    return Asked(Table(f"file:{name}.csv", Path("/nowhere") / f"{name}.csv"), {"exclude": [name]}, "y")


def _chosen(place: Place) -> None:
    for name in ("first", "second"):
        choices.keep(_table(name))


def _addresses(place: Place) -> Parts:
    """What cannot be read is as if nothing had been chosen, and said; never another choice."""
    found = {name: choices.address_of(_table(name).table.key) for name in ("first", "second")}
    return {
        name: Told(choices.damage(address["data"])) if len(address) == 1 else repr(address)
        for name, address in found.items()
    }


# ------------------------------------------------------------------ kernels


def _built(place: Place) -> None:
    """As one that was compiled into the home: what is in it does not matter, it is never loaded here."""
    kernels_directory().mkdir(parents=True)
    for name in ("one", "two"):
        path = kernels_directory() / f"{name}.so"
        path.write_bytes(name.encode() * 2000)
        build._sum_file(path).write_text(build._sum(path))


def _kernels(place: Place) -> Parts:
    paths = [kernels_directory() / f"{name}.so" for name in ("one", "two")]
    return {path.name: repr(path.read_bytes()) if build._is_whole(path) else Told("Built again.") for path in paths}


PROGRAM_KINDS = (
    FileKind("tokens of programs", "tokens.json", _admitted, made_again=False, make=_with_tokens),
    FileKind("requests of programs", "requests/*.json", _asked_again, made_again=False, make=_asked_once),
    FileKind("what was chosen for tables", "tables/*.json", _addresses, made_again=False, make=_chosen),
    FileKind("compiled kernels", "kernels/*.s*", _kernels, made_again=False, make=_built),
)
