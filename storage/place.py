"""Where the records of a run are, by its folder: a file in it, or the team's database; how they are kept is in others.

A run that is launched while SHOAL_DATABASE is set has a document `records.json`, which says in which database they are
by the name that it gave itself: no address, no password. All others have `metrics.sqlite`, whatever is set later.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.database.address import VARIABLE, is_set
from shoal.errors import StateError, TrainingError
from shoal.files import sealed
from shoal.files.locks import is_held, one_at_a_time
from shoal.storage import open_storage
from shoal.storage.base import TIMEOUT, Storage

if TYPE_CHECKING:
    from shoal.database.connections import Database

FILE = "metrics.sqlite"
MARK = "records.json"


def begin(folder: Path, run: str) -> bool:
    """Of a new run: its records are to be in the database that is set. No, if that knows another run of its name."""
    from shoal.database.connections import database

    known = database()
    with known.transaction() as connection:
        query = "INSERT INTO runs (run) VALUES (%s) ON CONFLICT DO NOTHING RETURNING number"
        if connection.execute(query, (run,)).fetchone() is None:
            return False
    sealed.write(folder / MARK, {"database": known.identity()}, run)
    return True


def open_records(folder: Path, of: str, timeout: float = TIMEOUT) -> Storage:
    """To read them and to leave commands; `of` is the run whose they are: those of another are refused."""
    if not (folder / MARK).exists():
        return open_storage(f"sqlite://{folder / FILE}", timeout, of)
    from shoal.storage.outbox import deliver
    from shoal.storage.postgres import PostgresStorage
    from shoal.storage.unsent import NAME, Unsent

    known = _database(folder, of)
    store = PostgresStorage(known, of, timeout)
    if Unsent(folder) and not is_held(folder / "lock"):
        # Of a process that ended while the database was away.
        with suppress(TrainingError, OSError), one_at_a_time(folder / f"{NAME}.lock"):
            if unsent := Unsent(folder):
                deliver(store, unsent)
    return store


def open_for_run(folder: Path, of: str, timeout: float = TIMEOUT, fence: int | None = None) -> Storage:
    """For the process of the run, which never waits for a database; `fence` is what it was given with the run.

    Once somebody has a higher one, the database refuses what this one writes (`Fenced`).
    """
    if not (folder / MARK).exists():
        return open_storage(f"sqlite://{folder / FILE}", timeout, of)
    from shoal.storage.outbox import Outbox
    from shoal.storage.postgres import PostgresStorage

    return Outbox(PostgresStorage(_database(folder, of), of, timeout, fence), folder, folder / MARK, timeout)


def remove(folder: Path, run: str) -> None:
    """The rows of a run that goes; a folder that was copied under another name has none of its own."""
    if not (folder / MARK).exists() or folder.name != run:
        return
    from shoal.storage.postgres import remove_run

    remove_run(_database(folder, run), run)


def remove_archived(run: str) -> None:
    """The rows of a run whose folder was packed; it may have none."""
    if is_set():
        from shoal.database.connections import database
        from shoal.storage.postgres import remove_run

        remove_run(database(), run)


def _database(folder: Path, of: str) -> Database:
    """The one that holds the records of this folder's run; StateError if that is not the one which is set."""
    said = str(sealed.read(folder / MARK, of).get("database"))
    if not is_set():
        raise StateError(
            f"The records of {of} are in a team's database, but {VARIABLE} is not set here. Set it, and try again."
        )
    from shoal.database.connections import database

    known = database()
    if (found := known.identity()) != said:
        raise StateError(
            f"The records of {of} are in another database than the one that {VARIABLE} names: expected {said}, got "
            f"{found} ({known.shown}). Set it to the other one."
        )
    return known
