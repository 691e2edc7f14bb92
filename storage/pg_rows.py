"""Records as rows of PostgreSQL's tables and back; which of them are read and written is in `postgres`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from shoal.errors import StateError
from shoal.metrics import Event, HostSample, LinkSample, Round, WorkerSample
from shoal.storage.base import Command, writable

if TYPE_CHECKING:
    from psycopg import Connection

P = TypeVar("P", bound=Round | WorkerSample | HostSample | LinkSample)
PLAIN = re.compile(r"[\w .:-]*", re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def kept_text(text: str) -> str:
    """A text as PostgreSQL can keep it, which has no character 0 and nothing but UTF-8."""
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\\", "\\\\").replace("\0", "\\0")


def told_text(kept: str) -> str:
    return _ESCAPED.sub(lambda found: "\0" if found[1] == "0" else found[1], kept) if "\\" in kept else kept


class RecordTable(Generic[P]):
    """Records of one kind; `key` are the columns beside those of the record."""

    def __init__(self, name: str, kind: type[P], *key: str) -> None:
        types = {field.name: str(field.type) for field in fields(kind)}
        self.name, self.kind, self.names = name, kind, tuple(types)
        self._texts = [i for i, own in enumerate(self.names) if types[own] == "str"]
        self.columns = ", ".join(f'"{own}"' for own in self.names)
        self._copy = f"COPY {name} ({', '.join((*key, self.columns))}) FROM STDIN"
        self._values: Callable[[P], tuple[Any, ...]] = attrgetter(*self.names)

    def row(self, record: P) -> tuple[Any, ...]:
        values = self._values(record)
        for i in self._texts:
            if not PLAIN.fullmatch(values[i]):
                values = (*values[:i], kept_text(values[i]), *values[i + 1 :])
        return values

    def copy(self, connection: Connection[Any], rows: Iterable[tuple[Any, ...]]) -> None:
        """All of these in one go; each is its key and its record's row."""
        with connection.cursor() as cursor, cursor.copy(self._copy) as copy:
            for row in rows:
                copy.write_row(row)

    def read(self, connection: Connection[Any], which: str, values: Sequence[Any] | Mapping[str, Any]) -> list[P]:
        with connection.cursor(binary=True) as cursor:
            cursor.execute(f"SELECT {self.columns} FROM {self.name} {which}", values)
            return [self._record(row) for row in cursor]

    def _record(self, row: Sequence[Any]) -> P:
        for i in self._texts:
            if "\\" in row[i]:
                row = (*row[:i], told_text(row[i]), *row[i + 1 :])
        # The constructor of a frozen dataclass sets field by field: twice as slow, and there are 1,500 to a chart.
        record = self.kind.__new__(self.kind)
        record.__dict__.update(zip(self.names, row, strict=True))
        return record


ROUNDS = RecordTable("rounds", Round, "of", "place")
WORKERS = RecordTable("worker_samples", WorkerSample, "of", "place")
HOSTS = RecordTable("host_samples", HostSample, "of", "place")
LINKS = RecordTable("links", LinkSample, "of")
EVENT = "number, seconds, kind, round, text, rank, data"


def event_row(event: Event) -> tuple[Any, ...]:
    kept = writable(event)
    words = (kept_text(kept.kind), kept.round, kept_text(kept.text), kept.rank, json.dumps(kept.data))
    return float(kept.seconds), *words


def event_of(row: Sequence[Any]) -> tuple[int, Event]:
    number, seconds, kind, round, text, rank, data = row
    return number, Event(seconds, told_text(kind), round, told_text(text), rank, json.loads(data))


COMMAND = "id, name, arguments, posted_at, round, outcome"


def command_of(row: Sequence[Any]) -> Command:
    id, name, arguments, posted_at, round, outcome = row
    said = None if outcome is None else told_text(outcome)
    return Command(id, told_text(name), json.loads(arguments), posted_at, round, said)


def incomplete(run: str, what: str) -> StateError:
    return StateError(
        f"The records of {run} in the database are not whole: {what}. Somebody changed its tables by hand: restore "
        "them from a backup. Its result, model and checkpoints are other files."
    )
