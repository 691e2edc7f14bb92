"""Copies of the team's model files on this machine: made when one is first needed, and proven before it is used.

SHOAL_HOME/fetched/NAME/vN/model.json      may be removed at any time, and is fetched again
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Generator
from pathlib import Path

from shoal.errors import StateError
from shoal.home import fetched_directory, make_folder
from shoal.utils import disk_errors, identity_of

_proven: dict[Path, tuple[tuple[int, ...], str]] = {}  # what this process has found whole, by the file's identity then


def place(name: str, number: int) -> Path:
    return fetched_directory() / name / f"v{number}" / "model.json"


def proven(path: Path, label: str, size: int, sha256: str, pieces: Callable[[], Generator[bytes, None, None]]) -> Path:
    """The path with these bytes at it; a copy that is not what was saved is fetched again."""
    if _is_whole(path, size, sha256):
        return path
    with disk_errors(f"the model file of {label}"):
        make_folder(path.parent)
        aside = path.with_name(f".unfinished-{secrets.token_hex(8)}")
        found, length = hashlib.sha256(), 0
        try:
            with aside.open("xb") as file, contextlib.closing(pieces()) as coming:
                for piece in coming:
                    file.write(piece)
                    found.update(piece)
                    length += len(piece)
                file.flush()
                os.fsync(file.fileno())
            if (length, found.hexdigest()) != (size, sha256):
                raise StateError(
                    f"The model file of {label} in the team's database is damaged: expected {size:,} bytes with the "
                    f"checksum {sha256[:16]}, got {length:,} with {found.hexdigest()[:16]}. Train it again and save "
                    "it, or restore the database from a backup."
                )
            aside.replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                aside.unlink()
    _proven[path] = identity_of(path), sha256
    return path


def _is_whole(path: Path, size: int, sha256: str) -> bool:
    """Read through once in a process, and again when the file is another."""
    identity = identity_of(path)
    if _proven.get(path) == (identity, sha256) and identity:
        return True
    try:
        if path.stat().st_size != size:
            return False
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return False
    if found == sha256:
        _proven[path] = identity, sha256
    return found == sha256
