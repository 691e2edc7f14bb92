"""Saved models as rows of the team's database; what the tables are is in `database/steps/0006_models.sql`.

A number is given and a model changed in one transaction that holds the row of its name, so that two machines wait for
each other. Model files are sent before that in pieces, and copied to this machine when one is first needed (`fetched`).
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.database.connections import Database
from shoal.errors import ResourceError, StateError
from shoal.queueing.jobs import RUNNING
from shoal.shelf import fetched
from shoal.shelf.base import ALIASES, CARD, VERSION, KeptModel, ModelChange, Saver, is_saved_by
from shoal.words import file_size

if TYPE_CHECKING:
    from psycopg import Connection

PIECE = 4 << 20  # bytes of a model file in a row
LARGEST = 512_000_000  # bytes of a model file: it passes through the memory of whoever saves it
NOW = "extract(epoch FROM clock_timestamp())"
LISTED = f"""
SELECT v.model, v.numbers, v.marks, v.saved, a.contents, c.numbers, c.cards
FROM (
    SELECT model, array_agg(number ORDER BY number DESC) AS numbers, array_agg(mark ORDER BY number DESC) AS marks,
        array_agg(saved_at ORDER BY number DESC) AS saved
    FROM model_versions WHERE %(name)s::text IS NULL OR model = %(name)s GROUP BY model
) v
LEFT JOIN model_documents a ON a.model = v.model AND a.number = 0 AND a.file = '{ALIASES}'
CROSS JOIN LATERAL (
    SELECT array_agg(number) AS numbers, array_agg(contents) AS cards FROM model_documents d
    WHERE d.model = v.model AND d.file = '{CARD}' AND (d.number = v.numbers[1] OR d.number IN (
        SELECT found[1]::integer FROM regexp_matches(a.contents, '": ([0-9]{{1,9}})[,}}]', 'g') AS found))
) c
"""  # with what lists show, cards of the latest and of those that aliases name: one trip for a thousand models
DOCUMENT = "SELECT contents FROM model_documents WHERE model = %s AND number = %s AND file = %s"
SAVED = (
    "SELECT v.number, d.contents FROM model_versions v JOIN model_documents d USING (model, number) "
    "WHERE v.model = %s AND v.sha256 = %s AND d.file = %s ORDER BY v.number DESC"
)
CARDS = "SELECT number, contents FROM model_documents WHERE model = %s AND file = %s"


class KeptRows:
    """One name as it was when somebody looked; documents that were not looked at then are read when asked for."""

    def __init__(self, database: Database, row: tuple[Any, ...], held: Connection[Any] | None = None) -> None:
        self.name: str = row[0]
        self.numbers: tuple[int, ...] = tuple(row[1])
        self._marks, self._saved = dict(zip(row[1], row[2], strict=True)), dict(zip(row[1], row[3], strict=True))
        self._database, self._held = database, held
        self._seen: dict[str, str | None] = {}
        self._all_cards = False
        if self.numbers:
            self._seen = {ALIASES: row[4]}
            self._seen |= {f"v{own}/{CARD}": card for own, card in zip(row[5] or (), row[6] or (), strict=True)}

    def read(self, document: str) -> bytes:
        if document not in self._seen:
            self._look_at(document)
        found = self._seen.get(document)
        if found is None:
            raise FileNotFoundError(2, "No such document", document)
        return found.encode()

    def _look_at(self, document: str) -> None:
        number, file = _of_version(document)
        with self._connection() as connection:
            if number and file == CARD and not self._all_cards:  # whoever wants one mostly wants the others too
                rows = connection.execute(CARDS, (self.name, CARD)).fetchall()
                self._seen |= {f"v{own}/{CARD}": contents for own, contents in rows}
                self._all_cards = True
            elif not (number and file == CARD):
                row = connection.execute(DOCUMENT, (self.name, number, file)).fetchone()
                self._seen[document] = row[0] if row else None

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        if self._held is not None:
            yield self._held
        else:
            with self._database.single() as connection:
                yield connection

    def mark(self, number: int) -> str:
        return str(self._marks.get(number, ""))

    def saved(self, number: int) -> float:
        return float(self._saved.get(number, 0.0))


def _of_version(document: str) -> tuple[int, str]:
    """The number of the version that a document is of, 0 for one of the model; and its name there."""
    folder, _, file = document.rpartition("/")
    match = VERSION.fullmatch(folder)
    return (int(match[1]), file) if match else (0, document)


class ChangedRows(KeptRows):
    """The same inside a transaction that holds the model's row."""

    def __init__(self, database: Database, row: tuple[Any, ...], held: Connection[Any]) -> None:
        super().__init__(database, row, held)
        self._change = held

    def write(self, document: str, data: bytes) -> None:
        number, file = _of_version(document)
        text = data.decode()
        self._change.execute(
            "INSERT INTO model_documents VALUES (%s, %s, %s, %s) ON CONFLICT (model, number, file) "
            "DO UPDATE SET contents = excluded.contents, changed_at = now()",
            (self.name, number, file, text),
        )
        self._seen[document] = text

    def remove(self, number: int) -> None:
        self._change.execute("DELETE FROM model_documents WHERE model = %s AND number = %s", (self.name, number))
        self._change.execute("DELETE FROM model_versions WHERE model = %s AND number = %s", (self.name, number))


class PostgresShelf:
    """All models of the team."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def look(self) -> list[KeptModel]:
        with self._database.single() as connection:
            return [KeptRows(self._database, row) for row in connection.execute(LISTED, {"name": None})]

    def find(self, name: str) -> KeptModel | None:
        with self._database.single() as connection:
            row = connection.execute(LISTED, {"name": name}).fetchone()
        return KeptRows(self._database, row) if row else None

    def highest(self, name: str) -> int:
        row = self._one("SELECT last FROM models WHERE name = %s", name)
        return int(row[0]) if row else 0

    def is_taken(self, name: str) -> bool:
        return self._one("SELECT 1 FROM models WHERE name = %s", name) is not None

    def add(self, name: str, model: bytes, card: bytes, saver: Saver | None = None) -> int:
        from shoal.results.model import checksum_at_end

        proof = hashlib.sha256(model).hexdigest()
        if saver and (before := self._saved_before(name, proof, saver.run)):
            return before
        with self._database.transaction() as connection:
            contents = send_pieces(connection, model)
            connection.execute("INSERT INTO models (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,))
            given = connection.execute("UPDATE models SET last = last + 1 WHERE name = %s RETURNING last", (name,))
            number = int(given.fetchone()[0])  # type: ignore[index]  # it is there, and held until the end
            connection.execute(
                f"INSERT INTO model_versions VALUES (%s, %s, {NOW}, %s, %s, %s, %s)",
                (name, number, checksum_at_end(model) or "", len(model), proof, contents),
            )
            connection.execute(
                "INSERT INTO model_documents VALUES (%s, %s, %s, %s)", (name, number, CARD, card.decode())
            )
            if saver:
                _check_held(connection, saver)
        return number

    def _saved_before(self, name: str, proof: str, run: str) -> int | None:
        """Another process of the run can have saved it, not one beside this: only one holds the run."""
        with self._database.single() as connection:
            rows = connection.execute(SAVED, (name, proof, CARD)).fetchall()
        return next((number for number, card in rows if is_saved_by(run, card.encode())), None)

    @contextlib.contextmanager
    def changing(self, name: str) -> Iterator[ModelChange]:
        with self._database.transaction() as connection:
            _hold(connection, name)
            row = connection.execute(LISTED, {"name": name}).fetchone()
            yield ChangedRows(
                self._database, row or (name, [], [], [], self._aliases(connection, name), None), connection
            )

    def _aliases(self, connection: Connection[Any], name: str) -> str | None:
        """Of a model whose last version is gone."""
        row = connection.execute(DOCUMENT, (name, 0, ALIASES)).fetchone()
        return row[0] if row else None

    def rename(self, name: str, other: str) -> None:
        with self._database.transaction() as connection:
            _hold(connection, name)
            made = connection.execute(
                "INSERT INTO models SELECT %s, last, owner FROM models WHERE name = %s ON CONFLICT DO NOTHING",
                (other, name),
            )
            if not made.rowcount:
                raise FileExistsError(other)
            connection.execute("UPDATE model_versions SET model = %s WHERE model = %s", (other, name))
            connection.execute("UPDATE model_documents SET model = %s WHERE model = %s", (other, name))
            connection.execute("UPDATE models SET owner = NULL WHERE name = %s", (name,))

    def path(self, name: str, number: int) -> Path:
        place = self.place(name, number)
        query = "SELECT size, sha256, contents FROM model_versions WHERE model = %s AND number = %s"
        row = self._one(query, name, number)
        if row is None:
            place.unlink(missing_ok=True)
            raise FileNotFoundError(2, "No such version", f"{name}:{number}")
        return fetched.proven(place, f"{name}:{number}", row[0], row[1], lambda: self._pieces(row[2]))

    def _pieces(self, contents: uuid.UUID) -> Generator[bytes, None, None]:
        with self._database.transaction(one_state=True) as connection:
            query, place = "SELECT bytes FROM model_pieces WHERE contents = %s AND place = %s", 0
            while row := connection.execute(query, (contents, place)).fetchone():
                yield row[0]
                place += 1

    def place(self, name: str, number: int) -> Path:
        return fetched.place(name, number)

    def said(self, name: str, document: str) -> str:
        return f"{document} of {name} in {self._database.shown}"

    def cards(self) -> list[bytes]:
        with self._database.single() as connection:
            rows = connection.execute("SELECT contents FROM model_documents WHERE file = %s", (CARD,))
            return [contents.encode() for (contents,) in rows]

    def owner(self, name: str) -> bytes | None:
        row = self._one("SELECT owner FROM models WHERE name = %s AND owner IS NOT NULL", name)
        return row[0].encode() if row else None

    def owners(self) -> dict[str, bytes]:
        with self._database.single() as connection:
            rows = connection.execute("SELECT name, owner FROM models WHERE owner IS NOT NULL").fetchall()
        return {name: owner.encode() for name, owner in rows}

    def put_owner(self, name: str, document: bytes) -> None:
        with self._database.single() as connection:
            connection.execute(
                "INSERT INTO models (name, owner) VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET owner = excluded.owner",
                (name, document.decode()),
            )

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        with self._database.single() as connection:
            found: tuple[Any, ...] | None = connection.execute(query.encode(), values).fetchone()
        return found


def _hold(connection: Connection[Any], name: str) -> None:
    """Until the end of the transaction nobody else changes this model."""
    if connection.execute("SELECT 1 FROM models WHERE name = %s FOR UPDATE", (name,)).fetchone() is None:
        raise FileNotFoundError(2, "No such model", name)


def _check_held(connection: Connection[Any], saver: Saver) -> None:
    """StateError if another host has taken the run over; until the end of the transaction none can."""
    query = "SELECT 1 FROM queue_jobs WHERE id = %s AND fence = %s AND state = %s FOR SHARE"
    held = saver.fence is None or connection.execute(query, (saver.run, saver.fence, RUNNING)).fetchone()
    if not held:
        raise StateError(
            f"Another host has taken over the run {saver.run}, or it was ended: its model is saved there, not here."
        )


def send_pieces(connection: Connection[Any], model: bytes) -> uuid.UUID:
    """A model file, by a name of its own; ResourceError if it is too large for one."""
    if len(model) > LARGEST:
        raise ResourceError(
            f"Expected a model file of at most {file_size(LARGEST)} for the team's database, got "
            f"{file_size(len(model))}. Use it from the folder of its run, or make the model smaller."
        )
    contents = uuid.uuid4()
    whole = memoryview(model)
    for place, start in enumerate(range(0, len(model), PIECE)):
        piece = whole[start : start + PIECE]
        connection.execute("INSERT INTO model_pieces VALUES (%s, %s, %s)", (contents, place, piece), binary=True)
    return contents
