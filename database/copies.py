"""All tables of the team's database as files, and back; which tables there are is read from the database itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.database.migrations import SCHEMA
from shoal.errors import StateError
from shoal.lazy.classes import dataclass

if TYPE_CHECKING:
    from psycopg import Connection

OWN = {"versions"}  # which steps were taken: those of the database that is written to count
IDENTITY = "identity"  # by which name runs know the database that their records are in: it goes along
PIECE = 1 << 20  # bytes that are sent at once


@dataclass(frozen=True)
class TableCopy:
    """One table in a file, as PostgreSQL's COPY writes it."""

    name: str
    columns: tuple[str, ...]
    rows: int


def tables(connection: Connection[Any]) -> list[str]:
    """Each after those whose rows it refers to."""
    rows = connection.execute(
        "SELECT c.relname, array_remove(array_agg(DISTINCT f.relname), NULL) FROM pg_class c "
        "LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'f' AND k.confrelid <> c.oid "
        "LEFT JOIN pg_class f ON f.oid = k.confrelid "
        "WHERE c.relnamespace = to_regnamespace(%s) AND c.relkind = 'r' GROUP BY c.relname ORDER BY c.relname",
        (SCHEMA,),
    ).fetchall()
    needs = {name: set(others) for name, others in rows if name not in OWN}
    ordered: list[str] = []
    while needs:
        ready = [name for name, others in needs.items() if others <= {*ordered, *OWN}]
        if not ready:
            raise StateError(f"The tables {', '.join(sorted(needs))} of the database refer to each other in a circle.")
        ordered += ready
        needs = {name: others for name, others in needs.items() if name not in ready}
    return ordered


def write_copies(connection: Connection[Any], folder: Path) -> Iterator[tuple[TableCopy, Path]]:
    """Each table in a file of a folder, all as of one moment; in a transaction of the caller that began just now."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    for name in tables(connection):
        columns = _columns(connection, name)
        path = folder / name
        with path.open("wb") as file, connection.cursor() as cursor:
            with cursor.copy(f"COPY {_listed(name, columns)} TO STDOUT") as copy:
                for piece in copy:
                    file.write(piece)
            rows = cursor.rowcount
        yield TableCopy(name, columns, rows), path


def read_copy(connection: Connection[Any], copied: TableCopy, path: Path) -> None:
    """A table back from its file; inside a transaction of the caller."""
    if copied.name == IDENTITY:
        connection.execute(f"DELETE FROM {SCHEMA}.{IDENTITY}")
    with path.open("rb") as file, connection.cursor() as cursor:
        with cursor.copy(f"COPY {_listed(copied.name, copied.columns)} FROM STDIN") as copy:
            while piece := file.read(PIECE):
                copy.write(piece)
        if cursor.rowcount != copied.rows:
            raise StateError(f"Expected {copied.rows} rows of the table '{copied.name}', got {cursor.rowcount}.")
    _go_on_counting(connection, copied)


def _go_on_counting(connection: Connection[Any], copied: TableCopy) -> None:
    """Numbers that the table gives itself go on after the highest."""
    table = f"{SCHEMA}.{_quoted(copied.name)}"
    for column in copied.columns:
        row = connection.execute("SELECT pg_get_serial_sequence(%s, %s)", (table, column)).fetchone()
        if row and row[0]:
            highest = f"(SELECT coalesce(max({_quoted(column)}) + 1, 1) FROM {table})"
            connection.execute(f"SELECT setval(%s, {highest}, false)", (row[0],))


def filled_tables(connection: Connection[Any]) -> list[str]:
    """Those with a row in them that people made."""
    found = []
    for name in (name for name in tables(connection) if name != IDENTITY):
        row = connection.execute(f"SELECT EXISTS (SELECT FROM {SCHEMA}.{_quoted(name)})").fetchone()
        if row and row[0]:
            found.append(name)
    return found


def _columns(connection: Connection[Any], table: str) -> tuple[str, ...]:
    """Without those that the database works out itself."""
    query = (
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
        "AND is_generated = 'NEVER' ORDER BY ordinal_position"
    )
    return tuple(name for (name,) in connection.execute(query, (SCHEMA, table)))


def _listed(table: str, columns: tuple[str, ...]) -> str:
    return f"{SCHEMA}.{_quoted(table)} ({', '.join(map(_quoted, columns))})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
