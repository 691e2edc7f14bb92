"""Which files go with a run, and where they lie in a home; how they are kept on the way is in `parcels`.

    NAME                       a document of its folder, its log, its model
    checkpoints/step-N.ckpt    the newest checkpoint, with its parts
    uploads/FOLDER/NAME        a table that people sent, and beside it whose it is

A run that needs anything else of its machine, such as a table by its path, does not travel.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shoal.errors import StateError
from shoal.files.parts import named
from shoal.files.remote import is_address
from shoal.home import make_folder, restored_path, uploads_directory
from shoal.travel.parcels import SMALL, Content, FileMark
from shoal.utils import disk_errors, identity_of, put_in_place

TABLES = 512_000_000  # bytes of all tables of a run that travels
CHECKPOINT = 512_000_000  # bytes of a checkpoint that does
CHECKPOINTS = ("checkpoints", "checkpoints/archive")
STAYS = re.compile(r"\..*|lock|process|reserve|awaited|unsent\.jsonl.*|metrics\.sqlite.*|.*\.lock")
UNSENT = "unsent.jsonl"
SAID_AT_HOME = frozenset({"owner.json"})  # by people, where they launched it: what comes back does not undo it
STEP = re.compile(r"step-\d{12,}\.ckpt")
LOGS = ("log.jsonl", "log.txt")
LAST_WORDS = ("model.json", "state.json", "result.json", "error.json")  # in this order, after all else
_REMEMBERED = 10_000
_known: dict[str, tuple[tuple[int, ...], FileMark]] = {}  # what files were found to be, by their identity then


# ------------------------------------------------------------------ what there is


def documents(folder: Path) -> dict[str, Path]:
    """Files of a run's folder itself."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as found:
        return {one.name: Path(one.path) for one in found if one.is_file() and not STAYS.fullmatch(one.name)}
    return {}


def newest_checkpoint(folder: Path) -> dict[str, Path]:
    checkpoints = folder / "checkpoints"
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        names = os.listdir(checkpoints)
    newest = max((name for name in names if STEP.fullmatch(name)), key=_order, default="")
    own = [name for name in names if name == newest or (newest and name.startswith(f"{newest}-shard"))]
    return {f"checkpoints/{name}": checkpoints / name for name in own if not name.startswith(".")}


def _order(name: str) -> tuple[int, str]:
    step = name.partition(".")[0]
    return len(step), step


def tables(config: Mapping[str, Any]) -> dict[str, Path] | None:
    """Those of a run that lie on this machine, by their names on the way; None if one of them does not travel."""
    found: dict[str, Path] = {}
    for name in named(str(config.get("file") or "")):
        if is_address(name):
            continue
        path = Path(name)
        if path.parent.parent != uploads_directory():
            return None
        files = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
        if not files or not all(file.is_file() for file in files):
            return None
        owner = owner_of(path)
        for file in (*files, *([owner] if owner.is_file() else [])):
            found["uploads/" + file.relative_to(uploads_directory()).as_posix()] = file
    return found if sum(path.stat().st_size for path in found.values()) <= TABLES else None


def contents(files: Mapping[str, Path]) -> dict[str, Content]:
    """Small files, and those that grow, are read here: what they say is of before now."""
    return {name: path.read_bytes() if _is_read(path) else path for name, path in files.items()}


def _is_read(path: Path) -> bool:
    return path.name in LOGS or path.stat().st_size <= SMALL


def owner_of(table: Path) -> Path:
    """Where it is said whose an upload is."""
    return table.with_name(f".{table.name}.owner.json")


def size_of(files: Mapping[str, Path]) -> int:
    return sum(path.stat().st_size for path in files.values())


# ------------------------------------------------------------------ where it goes


def place_of(folder: Path, name: str) -> Path:
    """Where a file of a parcel lies here; StateError for a name that would lead anywhere else."""
    parts = name.split("/")
    if "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise StateError(f"Expected the name of a file of the run {folder.name}, got '{name[:80]}' in its parcel.")
    if parts[0] == "uploads" and len(parts) > 2:
        return restored_path(name)
    if len(parts) == 1 or (len(parts) == 2 and parts[0] == "checkpoints"):
        return folder / name
    raise StateError(f"Expected the name of a file of the run {folder.name}, got '{name[:80]}' in its parcel.")


def is_here(path: Path, mark: FileMark) -> bool:
    """Whether a file is what it has to be; read through once, and again when it is another."""
    identity = identity_of(path)
    known = _known.get(str(path))
    if not identity:
        return False
    if known is None or known[0] != identity:
        try:
            with path.open("rb") as file:
                found = FileMark(hashlib.file_digest(file, "sha256").hexdigest(), file.tell())
        except OSError:
            return False
        if len(_known) >= _REMEMBERED:
            _known.clear()
        known = _known[str(path)] = identity, found
    return known[1] == mark


def put(path: Path, mark: FileMark, pieces: Iterator[bytes]) -> None:
    """A file with these bytes under its name, or nothing of it: StateError if they are not those that were sent."""
    with disk_errors("what came with a run"):
        make_folder(path.parent)
        aside = path.with_name(f".arriving-{secrets.token_hex(8)}")
        found, size = hashlib.sha256(), 0
        try:
            with aside.open("xb") as file:
                for piece in pieces:
                    file.write(piece)
                    found.update(piece)
                    size += len(piece)
                    if size > mark.size:  # whatever else comes: it is not what was sent
                        break
                if STEP.match(path.name):  # as checkpoints are written where they are made
                    file.flush()
                    os.fsync(file.fileno())
            if (found.hexdigest(), size) != mark:
                got = "more" if size > mark.size else f"{size:,} with {found.hexdigest()[:16]}"
                raise StateError(
                    f"'{path.name}' of a run is damaged in the team's database: expected {mark.size:,} bytes with the "
                    f"checksum {mark.sha256[:16]}, got {got}. Launch the run again, or restore the database from a "
                    "backup."
                )
            put_in_place(aside, path)
        finally:
            aside.unlink(missing_ok=True)


def in_order(names: Mapping[str, FileMark]) -> list[str]:
    """Such that whoever looks meanwhile sees a run which has not ended, until all of it is there."""
    return sorted(names, key=lambda name: (LAST_WORDS.index(name) + 1 if name in LAST_WORDS else 0, name))


def remove_others(folder: Path, names: Mapping[str, FileMark]) -> None:
    """What a folder has of an earlier life that went another way: documents, records, checkpoints after the newest."""
    (folder / UNSENT).unlink(missing_ok=True)
    for name, path in documents(folder).items():
        if name not in names and name not in SAID_AT_HOME:
            path.unlink(missing_ok=True)
    steps = (name.removeprefix("checkpoints/") for name in names)
    newest = max((_order(name) for name in steps if STEP.fullmatch(name)), default=(0, ""))
    for inside in CHECKPOINTS:
        for path in (folder / inside).glob("step-*.ckpt*"):
            if _order(path.name) > newest:
                path.unlink(missing_ok=True)
