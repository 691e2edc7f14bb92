"""A backup: all that people made under SHOAL_HOME, and the tables of the team's database, in one file; and back.

    home/...            files below SHOAL_HOME; of SQLite files a copy as of one moment, although others write to them
    database/TABLE      tables, if there is a database, all as of one moment
    manifest.json       last: the version, what there is, and a checksum of each; a file that was cut short has none

Left out is what can be made again or belongs to one machine and moment: read tables, jobs, locks, logs, open sessions.
A backup is proven as a whole before anything of it is written, and is written only to where nothing is yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.home import (
    archive_directory,
    guests_directory,
    home_mark_file,
    models_directory,
    modules_directory,
    password_file,
    people_file,
    recent_tables_file,
    run_columns_path,
    runs_directory,
    searches_directory,
    table_choices_file,
    tokens_file,
    uploads_directory,
)
from shoal.lazy.classes import dataclass

FORMAT = 1
MANIFEST, HOME, DATABASE = "manifest.json", "home", "database"
SQLITE, BESIDE = ".sqlite", ("-wal", "-shm", "-journal")
FLEETING = (".lock", ".tmp", *(SQLITE + end for end in BESIDE))  # ends of names of what belongs to a moment


@dataclass(frozen=True)
class Contents:
    """What a backup holds: its members with size and checksum, and how its tables are to be read."""

    shoal: str
    made: float  # seconds since 1970
    members: dict[str, tuple[int, str]]
    steps: int = 0  # of the database; 0 without one
    tables: tuple[dict[str, Any], ...] = ()

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.members.values())


def kept() -> list[Path]:
    """Folders and files of people."""
    return [
        runs_directory(), searches_directory(), models_directory(), modules_directory(), archive_directory(),
        uploads_directory(), table_choices_file("x").parent, password_file(), tokens_file(), people_file(),
        recent_tables_file(), run_columns_path(), home_mark_file(), guests_directory(),
    ]  # fmt: skip


def files_at(path: Path) -> Iterator[Path]:
    """Plain files at a path or below it; links lead elsewhere and stay out."""
    if path.is_symlink() or not path.exists():
        return
    if path.is_file():
        yield path
        return
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            found = Path(folder) / name
            if found.is_file() and not found.is_symlink() and name != "lock" and not name.endswith(FLEETING):
                yield found
