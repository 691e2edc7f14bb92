"""Uploads that came together as one table: a folder of links beside them, found by a key like theirs."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from shoal.dashboard.tables import uploads
from shoal.errors import DataError
from shoal.files.parts import is_part, natural
from shoal.home import uploads_directory
from shoal.people.belongings import claim, thing_at

MOST = 1000  # files of one table that a browser sends one after the other


def together(keys: Sequence[str]) -> Path:
    """The folder of these uploads; the same ones in any order are the same table."""
    found = [path for key in dict.fromkeys(keys) if (path := uploads.find(key)) and path.is_file()]
    if len(found) != len(set(keys)) or not 2 <= len(found) <= MOST:
        raise DataError(f"Expected two to {MOST:,} files that have arrived. Upload them again.")
    names = _names(found)
    folder = uploads_directory() / _digest(names) / _title(list(names))
    new = not folder.is_dir()
    if new or thing_at(folder).owners:
        folder.parent.mkdir(exist_ok=True)
        claim(folder, found[0])
    if new:
        _make(folder, names)
    return folder


def _names(paths: Sequence[Path]) -> dict[str, Path]:
    """Names within the folder, all different, and such that each is taken for a table."""
    names: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: (natural(path.name), path.parent.name)):
        name = path.name if is_part(path) else f"{path.name}.csv"
        numbered = (f"{number}-{name}" for number in range(2, len(paths) + 2))
        names[next(free for free in (name, *numbered) if free not in names)] = path
    return names


def _digest(names: dict[str, Path]) -> str:
    told = "\n".join(f"{name}={path.parent.name}" for name, path in names.items())
    return hashlib.sha256(told.encode()).hexdigest()[:24]


def _title(names: Sequence[str]) -> str:
    """part-12-files, of part-0.csv to part-11.csv."""
    letters = zip(*(name.partition(".")[0] for name in names), strict=False)
    common = "".join(first for first, *rest in itertools.takewhile(lambda found: len(set(found)) == 1, letters))
    return f"{re.sub('[^A-Za-z]+$', '', common)}-{len(names)}-files".lstrip("-")


def _make(folder: Path, names: dict[str, Path]) -> None:
    """Whole or not at all; the files are those of the uploads under another name, and take no room twice."""
    unfinished = uploads_directory() / f"{uploads.UNFINISHED}{secrets.token_hex(8)}"
    unfinished.mkdir()
    try:
        for name, path in names.items():
            os.link(path, unfinished / name)
        folder.parent.mkdir(exist_ok=True)
        unfinished.rename(folder)
    except FileExistsError:  # another tab was faster
        pass
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
