"""Jobs: whoever asks for one sees what it reads, and may change what it changes.

A job belongs with what it has read. Its process acts as the machine; where only its end tells whether something is
changed, it acts `for_asker`. How it is done is known in `runs` and `processes`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.errors import NotAllowed, StateError
from shoal.home import archive_directory, runs_directory
from shoal.people import accounts, deeds
from shoal.people.acting import acting, as_person
from shoal.people.belongings import sees
from shoal.people.deeds import allow
from shoal.people.person import MACHINE, STRANGER, Person, lesser
from shoal.people.rights import SERVICE, Verb

CHANGING = {"archive": "run archived", "restore": "run restored"}  # jobs that do more than answer
MAKING = {"generate": "table made up"}
PERHAPS = {
    "promote": "version promoted"
}  # change the model `model` or not; what they do is written down when it is done


def check(task: str, files: Sequence[str], arguments: Mapping[str, Any]) -> None:
    """NotAllowed where whoever acts may not have this job."""
    if not sees_read(files, arguments):
        raise NotAllowed("Expected a table and a model that you may see, but they are private. Ask whoever has them.")
    if task in CHANGING:
        folder = runs_directory() if task == "archive" else archive_directory()
        for name in arguments["runs"]:
            allow(Verb.CHANGE, folder / Path(str(name)).name, CHANGING[task])
    elif task in MAKING:
        allow(Verb.START, SERVICE, MAKING[task])
    elif task in PERHAPS:
        deeds.check(Verb.CHANGE, str(arguments["model"]), PERHAPS[task])


def asker(task: str) -> dict[str, Any]:
    """What a job has to know of whoever asks for it, to act for them; nothing where the machine does."""
    now = acting()
    if task not in PERHAPS or now.person == MACHINE:
        return {}
    known = now.person
    return {"asker": {"name": known.name, "role": known.role, "by": known.by, "origin": now.origin}}


@contextlib.contextmanager
def for_asker(job: Mapping[str, Any]) -> Iterator[None]:
    """In the process of a job: what is done here is done by whoever asked for it, with the rights they have now."""
    said = job.get("asker")
    if not said:
        yield
        return
    who = Person(said["name"], said["role"], by=said["by"])
    if who.name:
        try:
            account = accounts.named(who.name)
            known = account.person if account.is_active else STRANGER
        except StateError:
            known = STRANGER
        role = lesser(who.role, known.role) if known.role else ""
        who = dataclasses.replace(known, role=role, by=who.by)
    with as_person(who, said["origin"]):
        yield


def sees_read(files: Sequence[str], arguments: Mapping[str, Any]) -> bool:
    """Whether whoever acts sees the files of a job, and all else that its arguments name by a path."""
    return sees(*files, *(value for value in arguments.values() if isinstance(value, str) and os.path.isabs(value)))
