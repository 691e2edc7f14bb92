"""Uploaded files on disk: under SHOAL_HOME/uploads, by their content and a harmless name; nothing is parsed here."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import BinaryIO

from utils import disk_errors, home

CHUNK = 1 << 20
KEY = re.compile(r"([0-9a-f]{24})/([A-Za-z0-9_][A-Za-z0-9._-]*)")


def uploads_directory() -> Path:
    return home() / "uploads"


def safe_name(name: str) -> str:
    """The last part of a name, with letters, digits, dots, dashes and underscores only; never hidden, never long."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", last).lstrip(".-")
    stem, dot, ending = plain.partition(".")
    return f"{stem[:60]}{dot}{ending[-20:]}" if stem else "table.csv"


def keep(file: BinaryIO, name: str) -> Path:
    """Save a file under its content's hash; the same content and name again is the same path."""
    folder = uploads_directory()
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    descriptor, unfinished = tempfile.mkstemp(dir=folder, prefix=".unfinished-")
    try:
        with disk_errors(), os.fdopen(descriptor, "wb") as out:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                out.write(chunk)
        return _settle(Path(unfinished), folder / digest.hexdigest()[:24] / safe_name(name))
    finally:
        Path(unfinished).unlink(missing_ok=True)


def _settle(unfinished: Path, path: Path) -> Path:
    """Give the file its name; one that is there already stays, so that its data set is found again."""
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        unfinished.replace(path)
    return path


def key_of(path: Path) -> str | None:
    """What an address calls this upload; None for a file that is none."""
    return f"{path.parent.name}/{path.name}" if path.parent.parent == uploads_directory() else None


def find(key: str) -> Path | None:
    """The upload with this key. Keys come from addresses, so nothing but hash and name gets through."""
    if not KEY.fullmatch(key):
        return None
    path = uploads_directory() / key
    return path if path.is_file() else None
