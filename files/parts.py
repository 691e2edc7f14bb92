"""Which files are one table: a path, an address, a pattern, a folder or a list of these, as one text.

A table is named by one text everywhere, so that whoever passes a file on passes a table on: several names stand one a
line. Needs no NumPy, as the command line and the pages ask for names and sizes only.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError, DataError, Remedy
from shoal.files.remote import address_title, is_address, is_listed, listed_at, place
from shoal.home import uploads_directory
from shoal.words import listed

BETWEEN = "\n"  # names of a table of several; a file that has one in its own name is that file
TABLES = ("csv", "tsv", "tab", "psv", "parquet", "pq")  # endings of the files of a folder that are its parts
PACKINGS = ("gz", "zip", "bz2", "xz", "zst")
MOST_PARTS = 100_000  # a pattern that finds more was not meant


def joined(files: Iterable[str | Path]) -> str:
    """The text of a table of several files, in their order."""
    return BETWEEN.join(str(file) for file in files)


def named(file: str) -> list[str]:
    """What was named: one entry for each path, pattern or folder."""
    if BETWEEN not in file or os.path.lexists(Path(file).expanduser()):
        return [file] if file else []
    return [name for name in file.split(BETWEEN) if name]


def natural(name: str | Path) -> tuple[tuple[tuple[int, str], ...], str]:
    """A key that puts part-2 before part-10, the same on every machine."""
    pieces = re.split(r"([0-9]+)", str(name))
    return tuple((int(piece), "") if i % 2 else (0, piece) for i, piece in enumerate(pieces)), str(name)


def absolute(file: str) -> str:
    """The same from any folder."""
    return joined(name if is_address(name) else Path(name).expanduser().absolute() for name in named(file))


def uploads_again(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with uploads where they lie now: their home may be one that was restored or moved."""
    return {**config, "file": joined(map(_upload_again, named(str(config.get("file") or ""))))}


def _upload_again(name: str) -> str:
    path, uploads = Path(name), uploads_directory()
    if len(path.parts) < 3 or path.parts[-3] != uploads.name or path.exists():
        return name
    there = uploads.joinpath(*path.parts[-2:])
    return str(there) if there.is_file() else name


def is_several(file: str) -> bool:
    """Whether it is more than the path of one file: a list, a folder or a pattern."""
    names = named(file)
    return len(names) != 1 or _is_pattern(names[0]) or Path(names[0]).expanduser().is_dir()


def _is_pattern(name: str) -> bool:
    return is_listed(name) or (
        not is_address(name) and glob.has_magic(name) and not os.path.lexists(Path(name).expanduser())
    )


def title(file: str | Path) -> str:
    """The table's name for the eye."""
    names = named(str(file))
    if not names:
        return ""
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"{address_title(names[0]) if is_address(names[0]) else Path(names[0]).name}{more}"


# ------------------------------------------------------------------ the files themselves


def parts_of(file: str) -> list[Path]:
    """The files of a table, in their order: names as they were given, those of a pattern or folder in natural order."""
    found: list[Path] = []
    for name in named(file):
        path = place(name)
        if is_listed(name):
            found += _in_store(name)
        elif _is_pattern(name):
            found += _matching(name, path)
        elif path.is_dir():
            found += _inside(path)
        else:
            found.append(path)
    if len(found) > MOST_PARTS:
        raise DataError(f"Expected at most {MOST_PARTS:,} files, got {len(found):,}. Name fewer of them.")
    _check_once(found)
    return found


def _matching(name: str, pattern: Path) -> list[Path]:
    found = [Path(text) for text in glob.glob(str(pattern), recursive=True)]
    files = [path for path in found if path.is_file()]
    if not files:
        what = f"only folders ({listed([path.name for path in found], 3)})" if found else "none"
        raise DataError(f"Expected files that '{name}' stands for, found {what}. Check the pattern and the folder.")
    return sorted(files, key=natural)


def _in_store(name: str) -> list[Path]:
    files = [place(one) for one in listed_at(name)]
    found = [path for path in files if not name.endswith("/") or is_part(path)]
    if not found:
        there = f"got {listed(sorted(path.name for path in files), 5)}" if files else "found none"
        raise DataError(f"Expected files with a table at '{name}', {there}. Check the address.")
    return sorted(found, key=natural)


def is_part(path: Path) -> bool:
    """Whether a file of a folder is one of its parts, by its name: notes, hidden and unfinished files are not."""
    words = path.name.lower().split(".")
    if path.name.startswith((".", "_", "~")) or len(words) < 2:
        return False
    return words[-1] in TABLES or (words[-1] in PACKINGS and len(words) > 2 and words[-2] in (*TABLES, "txt"))


def _inside(folder: Path) -> list[Path]:
    try:
        inside = list(folder.iterdir())
    except OSError as error:
        raise DataError(f"The folder '{folder}' could not be read: {error.strerror}. Check its permissions.") from None
    found = sorted((path for path in inside if path.is_file() and is_part(path)), key=natural)
    if not found:
        there = listed(sorted(map(_shown, inside)), 5) or "none"
        raise DataError(
            f"Expected files with a table in the folder '{folder}' (ending in {', '.join(TABLES)}, or packed), "
            f"got {there}. Name the files themselves, or a pattern such as '{folder.name}/*.txt'."
        )
    return found


def left_out(file: str) -> list[str]:
    """Files of folders that are no parts, and folders in them, for a word about them."""
    stored = [place(one) for name in named(file) if is_listed(name) and name.endswith("/") for one in listed_at(name)]
    folders = [Path(name).expanduser() for name in named(file) if Path(name).expanduser().is_dir()]
    inside = (path for folder in folders for path in folder.iterdir() if path.name[0] != ".")
    return sorted(
        _shown(path) for path in (*stored, *inside) if path.is_dir() or (path.is_file() and not is_part(path))
    )


def _shown(path: Path) -> str:
    return f"{path.name}/" if path.is_dir() else path.name


def _check_once(paths: Sequence[Path]) -> None:
    seen: set[str] = set()
    for path in paths:
        if str(path) in seen:
            raise ConfigError(
                f"'{path.name}' is named twice, so its rows would count twice. Name it once.", knobs=["file"]
            )
        seen.add(str(path))


# ------------------------------------------------------------------ what the operating system says of them


def there(file: str) -> list[Path]:
    """The files of a table, or none where what was named cannot be found."""
    try:
        return parts_of(file)
    except (OSError, DataError, ConfigError):
        return []


def size_of(file: str) -> int:
    """Bytes of all parts that are there."""
    return sum(found.st_size for _, found in _stats(file))


def seen_as(file: str) -> list[list[object]]:
    """What tells this state of a table's files from others; empty if they are not there."""
    return [[str(path), found.st_size, found.st_mtime_ns, found.st_ino] for path, found in _stats(file)]


def local(file: str) -> list[Path]:
    """Those files of a table that are on this machine: nobody is asked about others."""
    return there(joined(name for name in named(file) if not is_address(name)))


def _stats(file: str) -> list[tuple[Path, os.stat_result]]:
    try:
        return [(path, path.stat()) for path in local(file)]
    except OSError:
        return []


def is_there(file: str) -> bool:
    """Whether all that was named can be found, and is files."""
    paths = there(file)
    return bool(paths) and all(path.is_file() for path in paths)


def check_there(file: str) -> None:
    """Refuse names of files that are not there, in words."""
    for path in parts_of(file):
        try:
            path.stat()
        except OSError as error:
            raise DataError(f"Expected a file at '{path}', got: {error.strerror}. Check the path.") from None


def check_apart(file: str, out: str | None) -> None:
    """Refuse to write a new file that would be a part of the table the next time that it is read."""
    if not out or out == "-" or not is_several(file):
        return
    path = Path(out).expanduser().absolute()
    for name in named(file):
        where = Path(name).expanduser().absolute()
        inside = path.parent == where and is_part(path)
        if inside or (_is_pattern(name) and path.match(str(where).replace("**", "*"))):
            raise ConfigError(
                f"'{out}' would be one of the files of '{title(file)}' the next time that it is read.",
                Remedy.choose("Give another name or folder", "out"), knobs=["out"],
            )  # fmt: skip
