"""Records that could not be sent to the database yet, in a file of the run's folder, in order; when to send: `outbox`.

A line is one batch: its name, its records or the round after which all were dropped, and a checksum. It is written
whole before the next one; in the place of one that was damaged, or that a kill cut off, stands a warning.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.lazy.classes import dataclass
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
        self.path, self._of = folder / NAME, folder.name
        self._lock = threading.Lock()

    def append(self, batches: Sequence[UnsentBatch]) -> None:
        """Where there is no room for them, nothing is written."""
        text = b"".join(self._line(batch) for batch in batches)
        with self._lock, self.path.open("a+b") as file:
            size = file.seek(0, os.SEEK_END)
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                text = b"\n" + text  # behind a line that a kill cut off
            try:
                file.write(text)
                file.flush()
            except OSError:
                file.truncate(size)
                raise

    def after(self, name: str | None) -> Iterator[UnsentBatch]:
        """Those behind the batch of this name; all if it is not among them."""
        kept = name is not None and any(batch.name == name for batch in self._batches())
        for batch in self._batches():
            if not kept:
                yield batch
            elif batch.name == name:
                kept = False

    def _line(self, batch: UnsentBatch) -> bytes:
        return sealed.sealed(_said(batch), self._of) + b"\n"

    def _batches(self) -> Iterator[UnsentBatch]:
        latest: Record | None = None
        try:
            with self.path.open("rb") as file:
                for line in file:
                    found = self._batch(line.rstrip(b"\n"), latest)
                    latest = found.records[-1] if found.records else latest
                    yield found
        except FileNotFoundError:
            return

    def _batch(self, line: bytes, near: Record | None) -> UnsentBatch:
        """What a line says, or that it cannot be read; `near` is a record of about that time."""
        try:
            return _read(sealed.proven(line, str(self.path), self._of, sealed.never_sealed))
        except (DamagedFile, ValueError, KeyError, TypeError):
            return _missing(line, near)

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


def _missing(line: bytes, near: Record | None) -> UnsentBatch:
    """What is said in the place of a line that is not as it was written."""
    said = "Some records that waited for the database were damaged on the disk: they are missing here."
    at = (near.seconds, getattr(near, "round", 0)) if near else (0.0, 0)
    return UnsentBatch(hashlib.sha256(line).hexdigest()[:32], [Event(at[0], "warning", at[1], said)])


def _said(batch: UnsentBatch) -> dict[str, Any]:
    records = [writable(one) if isinstance(one, Event) else one for one in batch.records]
    return {
        "name": batch.name,
        "records": [[type(one).__name__, asdict(one)] for one in records],
        "forget_after": batch.forget_after,
    }


def _read(said: dict[str, Any]) -> UnsentBatch:
    return UnsentBatch(said["name"], [_KINDS[kind](**values) for kind, values in said["records"]], said["forget_after"])
