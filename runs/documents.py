"""The small documents in the folder of a run, a job or a search: how they are written, proven and read back.

Each is JSON with a checksum that covers what it says, which document it is and of which folder, so that a damaged byte,
or one document in the place of another, is told and never believed. A folder may be copied under another name as a
whole. What the documents mean together is in `folder`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, NamedTuple

from shoal.errors import DamagedFile, Reason, Standing
from shoal.files import sealed
from shoal.runs import reserve
from shoal.utils import identity_of, write_atomically

BROKEN_OFF = ("failed", "interrupted")  # ended by what nobody asked for
RESUMABLE = ("stopped", *BROKEN_OFF)
ENDED = ("finished", *RESUMABLE)
FITTED = Standing("finished", "The fit is complete.", Reason.COMPLETE)  # a result that says nothing else
LARGE = 1 << 20  # bytes of a result, one about very many columns, from which it is not parsed at every look
REMEMBERED = 10_000  # results whose ending a process knows
FOLDER = "folder"  # a field of every document: the name of the folder that it was written in
BEGINNING = ("job.json", "config.json")  # written with the folder: what they agree on is whose it is
LATER = ("state.json", "result.json", "error.json")

_endings: dict[str, tuple[tuple[int, ...], Standing]] = {}  # by path: what the file looked like, and what it says


def write_json(path: Path, values: dict[str, Any], last: bool = False) -> None:
    """A file of the folder; never makes the folder anew, which a person may have removed.

    For the `last` word there is room even on a full disk, see `reserve`.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "the run's folder is gone", str(path.parent))
    write = reserve.write if last else write_atomically
    write(path, sealed.sealed({**values, FOLDER: owner_of(path.parent)}, path.name))


class Mark(NamedTuple):
    """Another one for every other document that was ever at a place."""

    written: int
    file: int
    size: int


def mark_of(path: Path) -> Mark | None:
    try:
        seen = path.stat()
    except OSError:
        return None
    return Mark(seen.st_mtime_ns, seen.st_ino, seen.st_size)


def read_json(path: Path) -> dict[str, Any] | None:
    """What a document says; None if it is not there. DamagedFile if it is not what was written.

    Documents of older versions have no checksum and are taken as they are.
    """
    try:
        values = sealed.read(path, path.name, sealed.never_sealed)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFile(
            f"'{path}' cannot be read: expected a JSON document, got: {error.strerror}.", path=str(path)
        ) from None
    written_in, here = values.pop(FOLDER, None), path.parent.name
    if written_in not in (None, here) and written_in != owner_of(path.parent):
        raise DamagedFile(
            f"'{path}' is not what was written there: expected a document of {here}, got one of {written_in!s:.80}. "
            "Put it back; a folder that was renamed gets its name again.",
            path=str(path),
            identity=identity_of(path),
        )
    return values


def owner_of(directory: Path) -> str:
    """The name that a folder had when its first documents were written, on which they agree if it was copied.

    Of a copy all documents say that name, also those that are written later; where one says the folder's own name, the
    first ones are of another run.
    """
    here = directory.name
    names = _owners(directory, BEGINNING)
    if names == {here} or len(names) != 1 or here in _owners(directory, LATER):
        return here
    return names.pop()


def _owners(directory: Path, documents: tuple[str, ...]) -> set[str]:
    """What these documents say; older ones do not say so."""
    names = set()
    for path in (directory / name for name in documents):
        with contextlib.suppress(OSError, DamagedFile):
            names.add(str(sealed.read(path, path.name, sealed.never_sealed).get(FOLDER, directory.name)))
    return names


def last_word(directory: Path) -> Standing | None:
    """How a run says that it ended; None if it does not say so. DamagedFile if what it says cannot be read."""
    ending = _ending_in_result(directory / "result.json")
    if ending is not None:
        return ending
    if (found := read_json(directory / "error.json")) is not None:
        return _ended({**found, "cause": found.get("message", "")}, "failed", directory / "error.json")
    now = Standing.read(read_json(directory / "state.json") or {}, "")
    return now if now.state in ENDED else None


def has_ended(directory: Path) -> bool:
    """Whether it says that it ended; one that cannot be read does not."""
    with contextlib.suppress(DamagedFile):
        return last_word(directory) is not None
    return False


def _ending_in_result(path: Path) -> Standing | None:
    """A result may be megabytes, and many ask how a run stands: it is read once as long as it stays the same."""
    try:
        status = path.stat()
    except OSError:
        return None
    stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
    known = _endings.get(str(path))
    if known is None or known[0] != stamp:
        result = read_json(path)
        if result is None:  # gone since
            return None
        known = stamp, _ended(result, "finished", path) if "state" in result else FITTED
        if len(_endings) >= REMEMBERED:
            _endings.clear()
        _endings[str(path)] = known
    return known[1]


def _ended(values: dict[str, Any], usual: str, path: Path) -> Standing:
    found = Standing.read(values, usual)
    if found.state not in ENDED:
        raise DamagedFile(
            f"'{path}' is damaged: expected one of the states {', '.join(ENDED)}, got '{found.state[:40]}'.",
            path=str(path),
        )
    return found


# ------------------------------------------------------------------ what a job has found before it ends

SO_FAR = "so_far.json"


def write_so_far(directory: Path, values: dict[str, Any]) -> None:
    """For those who look on; a job does not fail for want of it."""
    with contextlib.suppress(OSError):
        write_json(directory / SO_FAR, values)


def read_so_far(directory: Path) -> dict[str, Any] | None:
    """None where there is nothing yet, or nothing that can be believed."""
    with contextlib.suppress(DamagedFile):
        return read_json(directory / SO_FAR)
    return None
