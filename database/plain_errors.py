"""What PostgreSQL and its driver say, in plain words; whether to try again is decided by who asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shoal.errors import Remedy, ResourceError, StateError, TrainingError


class DatabaseAway(ResourceError):
    """The database cannot be reached or takes nothing for now: what was asked for may be tried again later."""


def driver_missing() -> ResourceError:
    return ResourceError(
        "SHOAL_DATABASE is set, but the driver for PostgreSQL is not installed. Install it: pip install "
        "'shoal[postgres]'; or unset SHOAL_DATABASE to keep everything in files."
    )


@contextmanager
def plain_errors(where: str) -> Iterator[None]:
    """Errors of the driver as ours; `where` is the database as people may see it."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise in_words(error, where) from error


def in_words(error: Exception, where: str) -> TrainingError:
    """Of an error of the driver; mistakes of our own SQL come out as they are, wrapped as what a person cannot mend."""
    import psycopg
    from psycopg import errors

    said = _first_line(error)
    if isinstance(error, errors.DiskFull):
        return DatabaseAway(f"The disk of the database {where} is full ({said}). Free some space there.")
    if isinstance(error, (errors.LockNotAvailable, errors.QueryCanceled)):
        return DatabaseAway(f"The database {where} was busy with the same rows for too long ({said}). Try again.")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return DatabaseAway(f"The database {where} takes no writes at the moment: it is read-only ({said}).")
    if isinstance(
        error, (errors.InsufficientPrivilege, errors.InvalidPassword, errors.InvalidAuthorizationSpecification)
    ):
        return DatabaseAway(f"The database {where} does not let this user do that ({said}). Correct the user's rights.")
    if isinstance(
        error, (errors.UndefinedTable, errors.UndefinedColumn, errors.DatatypeMismatch, errors.InvalidSchemaName)
    ):
        return StateError(
            f"Expected the tables of Shoal in {where}, but they are damaged or another program's ({said}).",
            Remedy.run("See which there are", "db", "status"),
        )
    if isinstance(error, (errors.DataCorrupted, errors.IndexCorrupted)):
        return StateError(f"The database {where} found its own files damaged ({said}). Restore it from a backup.")
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return DatabaseAway(
            f"The database {where} cannot be reached ({said}). Check that it runs and that SHOAL_DATABASE is right."
        )
    return StateError(f"The database {where} refused what Shoal asked for ({type(error).__name__}: {said}).")


def _first_line(error: Exception) -> str:
    """The driver's own words without their details, which can be long and quote what was written."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].strip().rstrip(".")[:300]
