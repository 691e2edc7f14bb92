"""Which tables were looked at lately, so that people find yesterday's file: SHOAL_HOME/recent.json."""

from __future__ import annotations

import contextlib
import time

from shoal.dashboard.tables import uploads
from shoal.dashboard.tables.samples import SAMPLES
from shoal.dashboard.tables.sources import Table, find_table
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.home import recent_tables_file, uploads_directory
from shoal.lazy.classes import dataclass
from shoal.results.plain import Malformed, plain, read

KEPT = 50
OFFERED = 30  # tables to choose from on any page
FRESH = 60.0  # seconds for which there is no need to write the same again


@dataclass(frozen=True)
class Seen:
    """A table that was looked at or uploaded; rows and columns are known once it was read."""

    key: str
    at: float
    rows: int | None = None
    columns: int | None = None


def remembered() -> list[Seen]:
    """Tables that were looked at, the latest first; they may be gone by now."""
    try:
        return _read()
    except (OSError, DamagedFile, Malformed):
        return []  # a convenience only; pages say `damage`


def damage() -> str | None:
    """Why the list of tables cannot be read, for people; it is written anew with the next table that is looked at."""
    try:
        _read()
    except FileNotFoundError:
        return None
    except OSError as error:
        why = f"'{recent_tables_file()}' cannot be read: {error.strerror}."
    except DamagedFile as error:
        why = error.message
    except Malformed as error:
        why = f"'{recent_tables_file()}' is damaged ({error})."
    else:
        return None
    return f"Which tables were used lately cannot be read. {why} Open one again, and the list begins anew."


def _read() -> list[Seen]:
    path = recent_tables_file()
    return [read(Seen, entry) for entry in sealed.read(path, path.name).get("tables", ())]


def remember(key: str, rows: int, columns: int) -> None:
    """Put a table first. Two tabs at the same moment may lose one another's entry, which does no harm."""
    known, now = remembered(), time.time()
    if known and known[0] == Seen(key, known[0].at, rows, columns) and now - known[0].at < FRESH:
        return  # a page is drawn many times
    path = recent_tables_file()
    seen = [Seen(key, now, rows, columns), *(entry for entry in known if entry.key != key)]
    with contextlib.suppress(OSError):  # a convenience only
        sealed.write(path, {"tables": plain(seen[:KEPT])}, path.name)


def recent() -> list[Seen]:
    """Tables that were looked at, and uploads that never were; the latest first."""
    known = remembered()
    keys = {entry.key for entry in known}
    new = [Seen(key, at) for key, at in _uploads() if key not in keys]
    return sorted([*known, *new], key=lambda entry: -entry.at)


def _uploads() -> list[tuple[str, float]]:
    found = []
    for path in uploads_directory().glob("*/*"):
        key = uploads.key_of(path)
        with contextlib.suppress(OSError):
            seen = path.stat()
            alone = path.is_dir() or seen.st_nlink == 1  # others came together with more, and are there as one table
            if key and alone and uploads.find(key):
                found.append((key, seen.st_mtime))
    return found


def known_tables() -> list[Table]:
    """To choose from on any page: the latest first, then the samples; each once."""
    keys = dict.fromkeys([*(seen.key for seen in recent()), *SAMPLES])
    found = (find_table(key) for key in keys)
    return [table for table in found if table][:OFFERED]
