"""Files of the one folder on the server that people may open: SHOAL_DATA. What an address names never leaves it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal.files.parts import is_part, there
from shoal.lazy.classes import dataclass

PREFIX = "file:"
PLAIN = (".csv", ".tsv", ".txt", ".svm", ".libsvm", ".svmlight")
PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst")
ENDINGS = (*PLAIN, *(plain + packed for plain in PLAIN for packed in PACKED), ".parquet", ".xlsx", ".xlsm")
MOST = 5_000  # entries that are looked at: a folder may be a whole disk
DEEPEST = 6


@dataclass(frozen=True)
class ServerFile:
    """A file, or a folder of several, that may be opened; `name` is its path within the folder."""

    name: str
    size: int
    changed: float
    parts: int = 0  # of a folder whose files are one table

    @property
    def key(self) -> str:
        return PREFIX + self.name


def folder() -> Path | None:
    """The allowed folder, resolved; None where none is set or it is not there."""
    given = os.environ.get("SHOAL_DATA")
    path = Path(given).expanduser() if given else None
    return path.resolve() if path and path.is_dir() else None


def find(key: str) -> Path | None:
    """The file of a key. Keys come from addresses: wherever links lead, the file itself must lie in the folder."""
    root = folder()
    if root is None or not key.startswith(PREFIX):
        return None
    try:
        path = (root / key.removeprefix(PREFIX)).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):  # gone, a zero byte in the name, a circle of links
        return None
    return path if _is_ours(path, root) else None


def key_of(path: Path) -> str | None:
    """What an address calls this file; None for one that lies elsewhere."""
    root = folder()
    try:
        found = path.resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    return f"{PREFIX}{found.relative_to(root)}" if root and _is_ours(found, root) else None


def _is_ours(path: Path, root: Path) -> bool:
    if path == root or not path.is_relative_to(root):
        return False
    inside = path.relative_to(root)
    if any(part.startswith(".") for part in inside.parts):
        return False
    return (path.is_file() and inside.name.lower().endswith(ENDINGS)) or (path.is_dir() and _is_table(path, root))


def _is_table(folder: Path, root: Path) -> bool:
    """Whether a folder has files that are one table, and none of them leads elsewhere."""
    files = there(str(folder))
    return bool(files) and all(file.resolve().is_relative_to(root) for file in files)


def listing() -> tuple[list[ServerFile], bool]:
    """What may be opened, the newest first, and whether that is all: of a very large folder only a part is seen."""
    root = folder()
    if root is None:
        return [], True
    found, whole = [], True
    for seen, entry in enumerate(_entries(root, 0)):
        if seen >= MOST:
            whole = False
            break
        if file := _described(entry, root):
            found.append(file)
    return sorted([*found, *_folders(found)], key=lambda file: (-file.changed, file.name)), whole


def _folders(files: Sequence[ServerFile]) -> list[ServerFile]:
    """Folders with several tables in them, which may be parts of one."""
    inside: dict[str, list[ServerFile]] = {}
    for file in files:
        place = Path(file.name)
        if len(place.parts) > 1 and is_part(place):
            inside.setdefault(str(place.parent), []).append(file)
    return [
        ServerFile(name, sum(part.size for part in parts), max(part.changed for part in parts), len(parts))
        for name, parts in inside.items() if len(parts) > 1
    ]  # fmt: skip


def _entries(directory: Path, depth: int) -> Iterator[os.DirEntry[str]]:
    """All entries, those of one folder before the folders in it; links to folders are not followed."""
    try:
        with os.scandir(directory) as scan:
            entries = [entry for entry in scan if not entry.name.startswith(".")]
    except OSError:
        return
    yield from entries
    for entry in entries:
        if depth < DEEPEST and entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path), depth + 1)


def _described(entry: os.DirEntry[str], root: Path) -> ServerFile | None:
    if not entry.name.lower().endswith(ENDINGS):
        return None
    name = str(Path(entry.path).relative_to(root))
    try:
        name.encode()  # an address can only hold valid text
        if not entry.is_file() or (entry.is_symlink() and find(PREFIX + name) is None):
            return None
        seen = entry.stat()
    except (OSError, UnicodeEncodeError):
        return None
    return ServerFile(name, seen.st_size, seen.st_mtime)
