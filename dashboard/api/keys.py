"""Requests that may come twice are done once: a program that lost the answer asks again with the same key.

SHOAL_HOME/requests/DIGEST.json says what was asked and which run came of it. It is written before the run is started,
and the run says of which request it is, so that a server that was killed in between is no reason for a second run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from shoal.dashboard.api.operations import ApiRequest
from shoal.dashboard.api.problems import Refusal
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.files.locks import one_at_a_time
from shoal.home import names_in, request_file
from shoal.people.acting import person
from shoal.runs.launch import Run, find_run, list_runs

HEADER = "idempotency-key"
KEPT = 86_400.0  # seconds
LONGEST = 200  # characters of a key
SWEPT = 1000  # kept requests from which old ones are looked for


def run_once(asked: ApiRequest, launch: Callable[[str], Run]) -> tuple[Run, bool]:
    """The run of a request and whether it was started just now; `launch` is given what the run is to say of it."""
    key = asked.headers.get(HEADER)
    if key is None:
        return launch(""), True
    if not 0 < len(key) <= LONGEST or not key.isascii() or not key.isprintable():
        raise Refusal(422, f"Expected an Idempotency-Key of 1 to {LONGEST} printable ASCII characters.")
    caller = asked.headers.get("authorization", "") or person().name
    digest = hashlib.sha256(f"{caller}\n{key}".encode()).hexdigest()
    content = hashlib.sha256(json.dumps(asked.body, sort_keys=True).encode()).hexdigest()
    path = request_file(digest)
    with one_at_a_time(path.with_suffix(".lock")):
        if (known := _known(digest)) is not None:
            if known["content"] != content:
                raise Refusal(422, "This Idempotency-Key was used for another request. Choose a new one.")
            if found := find_run(str(known["run"])) or _started_by(digest, float(known["at"])):
                return found, False
        _sweep()
        entry: dict[str, Any] = {"content": content, "run": "", "at": time.time()}
        sealed.write(path, entry, digest)
        run = launch(digest)
        sealed.write(path, {**entry, "run": run.id}, digest)
        return run, True


def _known(digest: str) -> dict[str, Any] | None:
    try:
        found = sealed.read(request_file(digest), digest)
        return found if time.time() - float(found["at"]) < KEPT else None
    except FileNotFoundError:
        return None
    except (OSError, DamagedFile, KeyError, ValueError) as error:
        raise Refusal(409, f"What became of this key cannot be read ({error}). Use another one.") from None


def _started_by(digest: str, at: float) -> Run | None:
    """The run that says it is of this request, among those that began since."""
    since = time.strftime("%Y%m%d-%H%M%S", time.localtime(at - 1))
    return next((run for run in list_runs() if run.id >= since and run.job.get("request") == digest), None)


def _sweep() -> None:
    folder = request_file("").parent
    names = names_in(folder)
    if len(names) < SWEPT:
        return
    for name in names:
        with contextlib.suppress(OSError):
            if time.time() - (folder / name).stat().st_mtime > KEPT:
                (folder / name).unlink()
