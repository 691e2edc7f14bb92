"""What belongs to whom: a small sealed document beside each run, search, model and upload says so.

    runs/ID/owner.json, searches/ID/owner.json, models/NAME/owner.json      the folder's
    archive/ID.owner.json, uploads/HASH/.NAME.owner.json                    beside what is a file, or may be one

Of models in a team's database it is a document there, see `shelf`.

It holds names and how each wants it: {"people": {"ada": "private"}}, under a checksum that names the thing too, so that
it says nothing of another one. What several have, such as a file that two people
sent to an earlier version, is private only as long as all want that. Without a document a thing belongs to nobody; with
a damaged one, to admins only. What is decided with this is in `rights`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.home import (
    archive_directory,
    fetched_directory,
    models_directory,
    runs_directory,
    searches_directory,
    uploads_directory,
)
from shoal.people.acting import person
from shoal.people.person import MACHINE, Person
from shoal.people.rights import SERVICE, Thing, Verb, may
from shoal.shelf.place import is_shared, shelf
from shoal.utils import identity_of, write_atomically

OWNER = "owner.json"
PRIVATE, SHARED = "private", "shared"
MOST = 20_000  # documents that a process remembers

_seen: dict[str, tuple[tuple[int, ...], Thing]] = {}


def thing_at(path: str | Path) -> Thing:
    """What a file or folder is a part of: run, search, model, archive or upload; else the service, which all see."""
    whole = Path(os.path.abspath(path))
    for kind, root in _roots():
        if whole.is_relative_to(root) and whole != root:
            parts = whole.relative_to(root).parts
            if kind == "upload":
                return _upload(root, parts)
            if kind == "archive":
                name = parts[0].partition(".")[0]
                return _read(root / f"{name}.{OWNER}", "run", name)
            return _read(root / parts[0] / OWNER, kind, parts[0])
    return SERVICE


def _roots() -> list[tuple[str, Path]]:
    return [("run", runs_directory()), ("upload", uploads_directory()), ("model", fetched_directory()),
            ("model", models_directory()), ("search", searches_directory()),
            ("archive", archive_directory())]  # fmt: skip


def _upload(root: Path, parts: tuple[str, ...]) -> Thing:
    if len(parts) < 2:
        return SERVICE
    return _read(root / parts[0] / f".{parts[1]}.{OWNER}", "upload", "/".join(parts[:2]))


def document_of(path: Path) -> Path | None:
    """Where it is said whose this is; None for what belongs to the service."""
    whole = Path(os.path.abspath(path))
    thing = thing_at(whole)
    roots = dict(_roots())
    if thing == SERVICE:
        return None
    if thing.kind == "upload":
        folder, name = thing.name.split("/")
        return roots["upload"] / folder / f".{name}.{OWNER}"
    if whole.is_relative_to(roots["archive"]):
        return roots["archive"] / f"{thing.name}.{OWNER}"
    return roots[thing.kind] / thing.name / OWNER


def _read(place: Path | str, kind: str, name: str) -> Thing:
    if kind == "model" and is_shared():
        return _said(kind, name, shelf().owner(name))
    mark = identity_of(place)
    known = _seen.get(str(place))
    if known is not None and known[0] == mark:
        return known[1]
    try:
        found = _said(kind, name, Path(place).read_bytes() if mark else None, os.path.basename(place))
    except FileNotFoundError:
        return Thing(kind, name)
    except OSError:
        found = Thing(kind, name, frozenset(), private=True)
    if len(_seen) >= MOST:
        _seen.clear()
    _seen[str(place)] = mark, found
    return found


def _said(kind: str, name: str, document: bytes | None, called: str = OWNER) -> Thing:
    """What a document says, if there is one; one that cannot be believed leaves the thing to admins."""
    found = Thing(kind, name)
    if document is None:
        return found
    try:
        wanted = _people(document, found, called)
        return Thing(kind, name, frozenset(wanted), all(how == PRIVATE for how in wanted.values()))
    except (DamagedFile, KeyError, TypeError, AttributeError, ValueError):
        return Thing(kind, name, frozenset(), private=True)


def _people(document: bytes, of: Thing, called: str) -> dict[str, str]:
    """Names and how each wants it; `called` is the name of the document."""
    where = f"{called} of {of.said}"
    try:
        found = sealed.proven(document, where, _seal(of))
    except DamagedFile:
        found = sealed.proven(document, where, called)  # of a version whose documents did not name their thing
    return dict(found["people"])


def _seal(thing: Thing) -> str:
    return f"{thing.kind} {thing.name}"


# ------------------------------------------------------------------ asked by everybody


def sees_everything() -> bool:
    """Whether whoever acts need not be asked about each thing: admins, and everybody where there are no accounts."""
    return may(person(), Verb.ADMINISTER, SERVICE)


def sees(*paths: str | Path | None) -> bool:
    """Whether whoever acts sees all of these; what is not there, or not in our folders, hides nothing."""
    now = person()
    if may(now, Verb.ADMINISTER, SERVICE):
        return True
    return all(may(now, Verb.SEE, thing_at(path)) for path in paths if path)


def visible(folder: Path, names: Iterable[str]) -> list[str]:
    """Of the names of things in one of our folders, those that whoever acts sees."""
    now = person()
    if may(now, Verb.ADMINISTER, SERVICE):
        return list(names)
    kind = next((kind for kind, root in _roots() if root == folder), None)
    if kind in (None, "archive", "upload"):
        return [name for name in names if may(now, Verb.SEE, thing_at(folder / name))]
    if kind == "model" and is_shared():
        known = shelf().owners()
        return [name for name in names if may(now, Verb.SEE, _said(kind, name, known.get(name)))]
    at = str(folder)  # there may be thousands, and paths take longer to put together than to look at
    return [name for name in names if may(now, Verb.SEE, _read(f"{at}/{name}/{OWNER}", str(kind), name))]


# ------------------------------------------------------------------ said


def claim(path: Path, source: str | Path | None = None) -> None:
    """Let what was just made belong to whoever acts, before others can find it.

    It begins as they want it, and private where it comes from what is private. What the machine makes belongs to
    whomever its source belongs to.
    """
    now = person()
    origin = thing_at(source) if source else SERVICE
    private = now.private or origin.private
    if now.name:
        belong(path, {now.name: PRIVATE if private else SHARED})
    elif origin.owners:
        belong(path, dict.fromkeys(sorted(origin.owners), PRIVATE if origin.private else SHARED))


def share(path: Path, private: bool, who: Person = MACHINE) -> None:
    """Let others see it, or not; `who` of several owners says so, or else for all of them."""
    owners = thing_at(path).owners
    said = [who.name] if who.name in owners else sorted(owners)
    belong(path, dict.fromkeys(said, PRIVATE if private else SHARED))


def wishes(path: Path) -> dict[str, str]:
    """Whose it is, and how each wants it, for `belong` elsewhere; DamagedFile where that cannot be read."""
    document, thing = document_of(path), thing_at(path)
    data = _bytes_of(document, thing) if document else None
    return _people(data, thing, document.name) if document and data is not None else {}


def _bytes_of(document: Path, thing: Thing) -> bytes | None:
    """What says whose this is; None where nothing does."""
    if thing.kind == "model" and is_shared():
        return shelf().owner(thing.name)
    with contextlib.suppress(FileNotFoundError):
        return document.read_bytes()
    return None


def belong(path: Path, wanted: dict[str, str]) -> None:
    """Let it belong to these as well, each as they want it."""
    document = document_of(path)
    if document is None or not wanted:
        return
    thing = thing_at(path)
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, DamagedFile, KeyError, TypeError, ValueError):
        if data := _bytes_of(document, thing):
            known = _people(data, thing, document.name)
    said = sealed.sealed({"people": {**known, **wanted}}, _seal(thing))
    if thing.kind == "model":
        shelf().put_owner(thing.name, said)
    else:
        write_atomically(document, said)
