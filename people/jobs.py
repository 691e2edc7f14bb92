"""Jobs: whoever asks for one sees what it reads, and may change what it changes; its process does not know them.

A job belongs with what it has read. How it is done is known in `runs` and `processes`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.errors import NotAllowed
from shoal.home import archive_directory, runs_directory
from shoal.people.belongings import sees
from shoal.people.deeds import allow
from shoal.people.rights import SERVICE, Verb

CHANGING = {"archive": "run archived", "restore": "run restored"}  # jobs that do more than answer
MAKING = {"generate": "table made up"}


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


def sees_read(files: Sequence[str], arguments: Mapping[str, Any]) -> bool:
    """Whether whoever acts sees the files of a job, and all else that its arguments name by a path."""
    return sees(*files, *(value for value in arguments.values() if isinstance(value, str) and os.path.isabs(value)))
