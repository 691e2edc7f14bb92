"""What files under SHOAL_HOME say of other files there: of uploads by their hashes, of modules and their rows by their
keys, of data sets by the files that they were made from. Who needs what is decided in `cleaning`."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shoal.home import (
    DATA_FORMAT,
    MANIFEST,
    archive_directory,
    cache_directory,
    cache_index,
    models_directory,
    modules_directory,
)
from shoal.shelf.place import shelf

UPLOAD = re.compile(r"uploads/([0-9a-f]{24})/")
MODULE = re.compile(r"modules/([0-9a-f]{24})/")


def data_sets_of(files: set[str]) -> set[str]:
    """The data sets that were made from any of these files, however they were read; no run can use older ones."""
    cache = cache_directory()
    keys = set()
    for path in _inside(cache_index(cache)):
        known = json_of(path)
        question = known.get("question") or {}
        if os.path.realpath(str(question.get("path", ""))) in files and question.get("format") == DATA_FORMAT:
            keys.add(str(known.get("key", "")))
    for folder in _inside(cache):  # the index forgets a file's former data set when the file has changed
        if folder.is_dir() and not folder.is_symlink() and folder.name not in keys:
            manifest = json_of(folder / MANIFEST)
            source = manifest.get("source")
            if isinstance(source, str) and os.path.realpath(source) in files and manifest.get("format") == DATA_FORMAT:
                keys.add(folder.name)
    return keys


def json_of(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def uploads_of_models() -> set[str]:
    """The hashes of uploads that saved models and archived runs came from, wherever their files say so."""
    found = {own for card in shelf().cards() for own in UPLOAD.findall(card.decode("utf-8", "replace"))}
    for text in _texts([*models_directory().glob("**/*.json"), *archive_directory().glob("*.json")]):
        found.update(UPLOAD.findall(text))
    return found


def modules_of_archives() -> set[str]:
    """The keys of modules that archived runs are of."""
    return {key for text in _texts(archive_directory().glob("*.json")) for key in MODULE.findall(text)}


def folders_of_modules(files: Iterable[str]) -> set[str]:
    """The folders that these documents of modules lie in and that have their rows, by name."""
    top = Path(os.path.realpath(modules_directory()))
    keys = {Path(file).parent.name for file in files if Path(file).parent.parent == top}
    return keys | rows_of_modules(keys)


def rows_of_modules(keys: Iterable[str]) -> set[str]:
    """The folders with the rows of modules; one whose document cannot be read names none, and cannot be used."""
    found = set[str]()
    for key in keys:
        for text in _texts((modules_directory() / key).glob("*.module")):
            with contextlib.suppress(ValueError, LookupError, TypeError):
                found.add(f"data-{json.loads(text)['data']['key']}")
    return found


def _inside(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


def _texts(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        with contextlib.suppress(OSError):
            yield path.read_text("utf-8", "replace")
