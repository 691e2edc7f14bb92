"""Records that could not be sent to the database yet, in a file of the run's folder, in order; when to send: `outbox`.

A line is one batch: its name, and its records or the round after which all were dropped. It is written whole before
the next one; one that a kill cut off is left out.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shoal.metrics import Event, HostSample, LinkSample, Record, Round, WorkerSample
from shoal.storage.base import writable

NAME = "unsent.jsonl"  # in the folder of a run
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Round, WorkerSample, LinkSample, HostSample, Event)}


@dataclass(frozen=True)
class UnsentBatch:
    """What is kept together; its name tells whether it was kept already."""

    name: str
    records: Sequence[Record] = ()
    forget_after: int | None = None


class Unsent:
    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._lock = threading.Lock()

    def append(self, batches: Sequence[UnsentBatch]) -> None:
        """Where there is no room for them, nothing is written."""
        text = "".join(f"{json.dumps(_said(batch))}\n" for batch in batches).encode()
        with self._lock, self.path.open("ab") as file:
            whole = file.tell()
            try:
                file.write(text)
                file.flush()
            except OSError:
                file.truncate(whole)
                raise

    def after(self, name: str | None) -> Iterator[UnsentBatch]:
        """Those behind the batch of this name; all if it is not among them."""
        kept = name is not None and any(batch.name == name for batch in self._batches())
        for batch in self._batches():
            if not kept:
                yield batch
            elif batch.name == name:
                kept = False

    def _batches(self) -> Iterator[UnsentBatch]:
        try:
            with self.path.open("rb") as file:
                for line in file:
                    try:
                        yield _read(json.loads(line))
                    except (ValueError, KeyError, TypeError):
                        continue  # cut off by a kill
        except FileNotFoundError:
            return

    def __bool__(self) -> bool:
        return self.path.is_file()

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def remove(self, size: int) -> None:
        """Unless more has come since it had this size."""
        with self._lock:
            if self.size() == size:
                self.path.unlink(missing_ok=True)


def _said(batch: UnsentBatch) -> dict[str, Any]:
    records = [writable(one) if isinstance(one, Event) else one for one in batch.records]
    return {
        "name": batch.name,
        "records": [[type(one).__name__, asdict(one)] for one in records],
        "forget_after": batch.forget_after,
    }


def _read(said: dict[str, Any]) -> UnsentBatch:
    return UnsentBatch(said["name"], [_KINDS[kind](**values) for kind, values in said["records"]], said["forget_after"])
