"""Which version each alias of a model has meant: every move with who made it, when and why; what an alias means now is
in `aliases`, which writes here in the same change."""

from __future__ import annotations

import contextlib
import getpass
import time
from collections.abc import Sequence
from typing import Any

from shoal.errors import DamagedFile, StateError
from shoal.files import sealed
from shoal.lazy.classes import dataclass
from shoal.library.saved_models import Version
from shoal.people import acting
from shoal.results.plain import Malformed, plain, read
from shoal.shelf.base import KeptModel, ModelChange
from shoal.shelf.place import shelf

FILE, DAMAGED = "alias-history.json", ".damaged"
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


def mark_of(model: KeptModel, number: int | None) -> str:
    """The checksum of a version's model; empty where it cannot be told."""
    card = Version(model.name, number, model).known if number is not None else None
    return (card.file_checksum or "") if card else ""


def user() -> str:
    """Who works at this machine, for moves that are made here."""
    try:
        return getpass.getuser()[:LONGEST_WHO]
    except (OSError, KeyError):
        return "unknown"


def moves(name: str) -> list[AliasMove]:
    """Of a model, the oldest first; StateError if they cannot be read."""
    found = shelf().find(name)
    return _moves_of(found) if found else []


def _moves_of(model: KeptModel) -> list[AliasMove]:
    try:
        said = sealed.proven(model.read(FILE), shelf().said(model.name, FILE), FILE)
        found = [read(AliasMove, entry, "moves") for entry in said.get("moves", [])]
        marks = {number: mark_of(model, number) for number in {one.version for one in found if one.mark}}
        if other := next((one for one in found if one.mark and marks[one.version] not in ("", one.mark)), None):
            raise Malformed(f"version {other.version} is another model than the one that it is about")
        return found
    except FileNotFoundError:
        return []
    except (OSError, DamagedFile, Malformed, TypeError) as error:
        why = error.message if isinstance(error, DamagedFile) else str(error)
        raise StateError(
            f"What the aliases of {model.name} have meant cannot be read. {why} The next move begins a new history; "
            f"what can still be read of this one stays in '{FILE}{DAMAGED}'."
        ) from None


def add(change: ModelChange, made: Sequence[AliasMove]) -> None:
    try:
        known = _moves_of(change)
    except StateError:
        known = []
        with contextlib.suppress(OSError):
            change.write(f"{FILE}{DAMAGED}", change.read(FILE))
    entries: list[Any] = [plain(move) for move in (*known, *made)[-KEPT:]]
    change.write(FILE, sealed.sealed({"moves": entries}, FILE))


def move(
    model: KeptModel, alias: str, version: int | None, before: int | None, who: str, why: str, back: bool
) -> AliasMove:
    said = (who or acting.said(user()))[:LONGEST_WHO], why[:LONGEST_WHY]
    return AliasMove(alias, version, before, time.time(), *said, back, mark_of(model, version))


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
