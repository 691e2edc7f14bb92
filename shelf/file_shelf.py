"""Saved models as files of a home:

    SHOAL_HOME/models/NAME/
        vN/model.json     the model file, as `shoal predict` reads it
        vN/card.json      what is said about it, and other documents of the version
        last              the highest number that was ever given
        aliases.json, alias-history.json, owner.json: documents of the model
        lock              held for the moment in which a number is given or a version goes

A version is written under another name and gets its own by one rename, so that a folder vN is a whole version.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from shoal.errors import ResourceError
from shoal.files.locks import lock_file
from shoal.files.model_names import is_name
from shoal.home import models_directory, names_in
from shoal.shelf.base import CARD, VERSION, KeptModel, Saver, is_saved_by
from shoal.utils import write_atomically

MODEL, OWNER = "model.json", "owner.json"
UNFINISHED = ".unfinished-"
ABANDONED = 3600.0  # seconds after which an unfinished version has no writer any more
PATIENCE = 20.0  # seconds to wait for the lock, which is held for milliseconds


class ModelFolder:
    """One name, by its folder; documents are read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.name
        self.numbers = numbers_in(folder)

    def read(self, document: str) -> bytes:
        try:
            return (self.folder / document).read_bytes()
        except NotADirectoryError:
            raise FileNotFoundError(document) from None

    def mark(self, number: int) -> str:
        from shoal.results.model import END, checksum_at_end

        with contextlib.suppress(OSError), (self.folder / f"v{number}" / MODEL).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - END))
            return checksum_at_end(file.read()) or ""
        return ""

    def saved(self, number: int) -> float:
        with contextlib.suppress(OSError):
            return (self.folder / f"v{number}").stat().st_mtime
        return 0.0

    def write(self, document: str, data: bytes) -> None:
        write_atomically(self.folder / document, data)

    def remove(self, number: int) -> None:
        write_atomically(self.folder / "last", str(highest_in(self.folder)).encode())
        going = self.folder / f"{UNFINISHED}{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):
            (self.folder / f"v{number}").rename(going)  # all at once: nobody sees a half of it
        shutil.rmtree(going, ignore_errors=True)


def numbers_in(folder: Path) -> tuple[int, ...]:
    """Of the versions in a folder, the highest first; the name of a folder is enough to know that it is whole.

    One that cannot be read has a first version, as far as anybody can tell, whose card cannot be read: it is not empty.
    """
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError:
        return (1,)
    return tuple(sorted((int(match[1]) for name in names if (match := VERSION.fullmatch(name))), reverse=True))


def highest_in(folder: Path) -> int:
    try:
        last = int((folder / "last").read_text())
    except (OSError, ValueError):
        last = 0
    return max([last, *numbers_in(folder)])


class FileShelf:
    """All models of a home."""

    def look(self) -> list[KeptModel]:
        return [model for name in names_in(models_directory()) if is_name(name) and (model := self.find(name))]

    def find(self, name: str) -> KeptModel | None:
        found = ModelFolder(models_directory() / name)
        return found if found.numbers else None

    def highest(self, name: str) -> int:
        return highest_in(models_directory() / name)

    def is_taken(self, name: str) -> bool:
        return (models_directory() / name).exists()

    def add(self, name: str, model: bytes, card: bytes, saver: Saver | None = None) -> int:
        folder = models_directory() / name
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{UNFINISHED}{secrets.token_hex(8)}"
        unfinished.mkdir()
        try:
            write_atomically(unfinished / MODEL, model)
            write_atomically(unfinished / CARD, card)
            with self.changing(name) as change:
                if saver and (before := _saved_before(change, model, saver.run)):
                    shutil.rmtree(unfinished, ignore_errors=True)
                    return before
                number = highest_in(folder) + 1
                write_atomically(folder / "last", str(number).encode())
                unfinished.rename(folder / f"v{number}")
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        _sweep(folder)
        return number

    @contextlib.contextmanager
    def changing(self, name: str) -> Iterator[ModelFolder]:
        folder = models_directory() / name
        lock = lock_file(folder / "lock", PATIENCE)
        if lock is None:
            raise ResourceError(f"Another process has held the model '{name}' for {PATIENCE:g} s. Try again.")
        with lock:
            yield ModelFolder(folder)

    def rename(self, name: str, other: str) -> None:
        folder, target = models_directory() / name, models_directory() / other
        if target.exists():
            raise FileExistsError(other)
        with self.changing(name):
            highest = highest_in(folder)
            folder.rename(target)
            with contextlib.suppress(OSError):  # what an old address says must not come to mean another model
                folder.mkdir()
                write_atomically(folder / "last", str(highest).encode())

    def path(self, name: str, number: int) -> Path:
        return self.place(name, number)

    def place(self, name: str, number: int) -> Path:
        return models_directory() / name / f"v{number}" / MODEL

    def said(self, name: str, document: str) -> str:
        return str(models_directory() / name / document)

    def cards(self) -> list[bytes]:
        found = []
        for path in models_directory().glob(f"*/v*/{CARD}"):
            with contextlib.suppress(OSError):
                found.append(path.read_bytes())
        return found

    def owner(self, name: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return (models_directory() / name / OWNER).read_bytes()
        return None

    def owners(self) -> dict[str, bytes]:
        names = (folder.name for folder in models_directory().glob("*/"))
        return {name: said for name in names if (said := self.owner(name)) is not None}

    def put_owner(self, name: str, document: bytes) -> None:
        folder = models_directory() / name
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / OWNER, document)


def _saved_before(kept: ModelFolder, model: bytes, run: str) -> int | None:
    """The version of these bytes that a run has saved."""
    for number in kept.numbers:
        with contextlib.suppress(OSError):
            path = kept.folder / f"v{number}" / MODEL
            same = path.stat().st_size == len(model) and path.read_bytes() == model
            if same and is_saved_by(run, kept.read(f"v{number}/{CARD}")):
                return number
    return None


def _sweep(folder: Path) -> None:
    """Take away what a killed process left half done."""
    for left in folder.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > ABANDONED:
                shutil.rmtree(left)
