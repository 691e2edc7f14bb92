"""Which tables the database has, in numbered steps; a released step is never edited, only followed by another.

A step is a file `steps/NNNN_name.sql`. All tables lie in a schema of their own, `shoal`, so that those of other
programs in the same database are never in the way.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import Remedy, StateError
from shoal.lazy.classes import dataclass

if TYPE_CHECKING:
    from psycopg import Connection

STEPS = Path(__file__).parent / "steps"
SCHEMA = "shoal"
LOCK = 0x53484F41  # "SHOA": of the advisory lock that one upgrade at a time holds


@dataclass(frozen=True)
class SchemaStep:
    number: int
    name: str
    path: Path


@functools.cache
def steps() -> tuple[SchemaStep, ...]:
    """In order; their numbers are 1, 2, 3, ..."""
    found = [SchemaStep(int(path.stem[:4]), path.stem[5:], path) for path in sorted(STEPS.glob("[0-9]*.sql"))]
    numbers = [step.number for step in found]
    if numbers != list(range(1, len(found) + 1)):
        raise RuntimeError(f"steps of the database are numbered {numbers}")
    return tuple(found)


def version_of(connection: Connection[Any]) -> int:
    """How many steps a database has taken: 0 if it is new; StateError if the schema is another program's."""
    query = "SELECT to_regnamespace(%s) IS NOT NULL, to_regclass(%s) IS NOT NULL"
    row = connection.execute(query, (SCHEMA, f"{SCHEMA}.versions")).fetchone()
    there, ours = row or (False, False)
    if not ours:
        tables = "SELECT count(*) FROM pg_catalog.pg_class c WHERE c.relnamespace = to_regnamespace(%s)"
        if there and (count := connection.execute(tables, (SCHEMA,)).fetchone()) and count[0]:
            raise StateError(
                f"Expected the tables of Shoal in the schema '{SCHEMA}' of the database, found those of another "
                "program. Give Shoal a database of its own."
            )
        return 0
    found = connection.execute(f"SELECT coalesce(max(version), 0) FROM {SCHEMA}.versions").fetchone()
    return int(found[0]) if found else 0


def check(connection: Connection[Any]) -> None:
    """Whether this version of Shoal can work with the database as it is, or a plain word on what to do."""
    found, wanted = version_of(connection), len(steps())
    if found > wanted:
        raise newer(found)
    if found < wanted:
        state = f"it has {found} of {wanted} steps" if found else "it has no tables yet"
        raise StateError(
            f"The database is not ready for this version of Shoal: {state}.",
            Remedy.run("Make it ready", "db", "upgrade"),
        )


def newer(found: int) -> StateError:
    return StateError(
        f"The database was made ready by a later version of Shoal: expected step {len(steps())} or an earlier one, "
        f"found {found}. Update Shoal on this machine."
    )


def upgrade(connection: Connection[Any]) -> list[SchemaStep]:
    """Take the steps that are missing, all of them or none; two at once do not both take them. Which were taken."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        done = version_of(connection)
        if done > len(steps()):
            raise newer(done)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(f"SET LOCAL search_path TO {SCHEMA}")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS versions (version integer PRIMARY KEY, name text NOT NULL, "
            "applied_at timestamptz NOT NULL DEFAULT now())"
        )
        missing = [step for step in steps() if step.number > done]
        for step in missing:
            connection.execute(step.path.read_bytes())
            connection.execute("INSERT INTO versions VALUES (%s, %s)", (step.number, step.name))
    return missing
