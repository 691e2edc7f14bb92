"""Which version each alias of a model has meant: every move with who made it, when and why; what an alias means now is
in `aliases`, which writes here under the model's lock."""

from __future__ import annotations

import contextlib
import getpass
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile, StateError
from shoal.files import sealed
from shoal.home import models_directory
from shoal.lazy.classes import dataclass
from shoal.library.saved_models import Version
from shoal.people import acting
from shoal.results.plain import Malformed, plain, read

FILE = "alias-history.json"
KEPT = 1000  # moves of a model; the oldest go first
BACK = "rolled back"  # how a move is marked that took the one before it away
LONGEST_WHO, LONGEST_WHY = 80, 500  # characters


@dataclass(frozen=True)
class AliasMove:
    """A word that was given to a version, or taken away; `before` is what it meant until then."""

    alias: str
    version: int | None
    before: int | None
    at: float
    who: str
    why: str = ""
    back: bool = False
    mark: str = ""  # the checksum of that version's model


def mark_of(name: str, number: int | None) -> str:
    """The checksum of a version's model; empty where it cannot be told."""
    card = Version(name, number).known if number is not None else None
    return (card.file_checksum or "") if card else ""


def user() -> str:
    """Who works at this machine, for moves that are made here."""
    try:
        return getpass.getuser()[:LONGEST_WHO]
    except (OSError, KeyError):
        return "unknown"


def moves(name: str) -> list[AliasMove]:
    """Of a model, the oldest first; StateError if they cannot be read."""
    path = models_directory() / name / FILE
    try:
        said = sealed.read(path, FILE)
        found = [read(AliasMove, entry, "moves") for entry in said.get("moves", [])]
        if other := next((one for one in found if one.mark and mark_of(name, one.version) not in ("", one.mark)), None):
            raise Malformed(f"version {other.version} is another model than the one that it is about")
        return found
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, DamagedFile, Malformed, TypeError) as error:
        why = error.message if isinstance(error, DamagedFile) else str(error)
        raise StateError(
            f"What the aliases of {name} have meant cannot be read. {why} The next move begins a new history; what can "
            f"still be read of this one stays in '{path.name}.damaged'."
        ) from None


def add(name: str, made: Sequence[AliasMove]) -> None:
    """Under the model's lock."""
    path = models_directory() / name / FILE
    try:
        known = moves(name)
    except StateError:
        known = []
        with contextlib.suppress(OSError):
            path.replace(Path(f"{path}.damaged"))
    entries: list[Any] = [plain(move) for move in (*known, *made)[-KEPT:]]
    sealed.write(path, {"moves": entries}, FILE)


def move(name: str, alias: str, version: int | None, before: int | None, who: str, why: str, back: bool) -> AliasMove:
    said = (who or acting.said(user()))[:LONGEST_WHO], why[:LONGEST_WHY]
    return AliasMove(alias, version, before, time.time(), *said, back, mark_of(name, version))


def earlier(name: str, alias: str) -> list[int]:
    """The versions that an alias meant before the one that it means, the latest first: what was rolled back is gone."""
    meant: list[int | None] = []
    for one in moves(name):
        if one.alias == alias:
            if not meant and one.before is not None:
                meant.append(one.before)  # from before there was a history
            if one.back:
                while meant and meant[-1] != one.version:
                    meant.pop()
            if not one.back or not meant:
                meant.append(one.version)
    return [number for number in reversed(meant[:-1]) if number is not None]
