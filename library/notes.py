"""Tags, a note and a name that a person gives a run; the run process never looks at them.

They are in about.json of the run's folder, or in the team's database where there is one (`shelf.run_notes`). What was
written to a folder before is read there until it is written anew.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.errors import ConfigError, DamagedFile, StateError, TrainingError
from shoal.files import sealed
from shoal.lazy.classes import dataclass
from shoal.people.deeds import allow
from shoal.people.rights import Verb
from shoal.runs.documents import read_json
from shoal.runs.folder import Run, write_json
from shoal.shelf.place import is_shared
from shoal.shelf.run_notes import team_notes

FILE = "about.json"
MOST_TAGS, LONGEST_TAG, LONGEST_NOTE = 12, 24, 4000  # tags of a run, characters of a tag and of a note
LONGEST_NAME = 120
_WORD = re.compile(r"[^\W_][\w.-]*")
_BETWEEN = re.compile(r"[\s,;#]+")


@dataclass(frozen=True)
class About:
    """What a person says of a run."""

    tags: tuple[str, ...] = ()
    note: str = ""
    name: str = ""


_seen: Mapping[str, bytes] = {}  # what the team's database had at the last look


def read(run: Run) -> About:
    """Empty where nothing was said; where it cannot be read, that is what the note says."""
    try:
        return _now(run)
    except TrainingError as error:
        return About(note=f"What was noted here cannot be read: {error.message} Try again.")


def _now(run: Run) -> About:
    """As `read`, but a database that is away is an error: nothing is written from what it did not say."""
    return _in(run, team_notes().read(run.id) if is_shared() else None)


def look() -> None:
    """See what is noted by now of all runs, for a list; while the database is away, what it had before counts."""
    global _seen
    if is_shared():
        with contextlib.suppress(TrainingError):
            _seen = team_notes().everything()
    elif _seen:
        _seen = {}


def seen(run: Run) -> About:
    """As `read`, by the last look."""
    return _in(run, _seen.get(run.id))


def mark(run_id: str) -> list[int] | None:
    """Another one when what the database notes of a run is another; None where it has nothing."""
    found = _seen.get(run_id)
    return None if found is None else [zlib.crc32(found), len(found)]


def _in(run: Run, row: bytes | None) -> About:
    """What the team's database has; where that is nothing, what the folder has."""
    try:
        if row is not None:
            return of(sealed.proven(row, f"the note on {run.id}", _seal(run.id)))
        return of(read_json(run.directory / FILE))
    except DamagedFile as damage:
        return About(note=f"What was noted here cannot be read: {damage.message} Write it again.")


def _seal(run_id: str) -> str:
    return f"{FILE} of {run_id}"


def of(values: Any) -> About:
    """The same from plain values; what does not fit is left out."""
    if not isinstance(values, dict):
        return About()
    tags, note, name = values.get("tags"), values.get("note"), values.get("name")
    words = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return About(tuple(words), note if isinstance(note, str) else "", name if isinstance(name, str) else "")


def write(run: Run, tags: Iterable[str], note: str, name: str | None = None) -> About:
    """Say it anew; the whole of it or nothing is written. Without a name the run keeps the one it has."""
    allow(Verb.CHANGE, run.directory, "run noted")
    about = About(checked_tags(tags), checked_note(note), _now(run).name if name is None else checked_name(name))
    said = {"tags": list(about.tags), "note": about.note, "name": about.name}
    try:
        if is_shared():
            run.directory.stat()
            team_notes().write(run.id, sealed.sealed(said, _seal(run.id)))
        else:
            write_json(run.directory / FILE, said)
    except FileNotFoundError:
        raise StateError(f"Expected the folder of the run {run.id}, but it is gone. Look at the list again.") from None
    return about


def forget(run_id: str) -> None:
    """Of a run that is removed for good; its folder takes along what is there. A row that nobody can reach now stays:
    no other run gets that name."""
    if is_shared():
        with contextlib.suppress(TrainingError):
            team_notes().remove(run_id)


def give_name(run: Run, name: str) -> About:
    """Tags and note stay as they are."""
    about = _now(run)
    return write(run, about.tags, about.note, name)


def checked_name(name: str) -> str:
    """One line; empty for none."""
    found = " ".join(name.split())
    if len(found) > LONGEST_NAME:
        raise ConfigError(
            f"Expected a name of at most {LONGEST_NAME} characters, got {len(found):,}. Write the rest as a note."
        )
    return found


def tags_in(text: str) -> tuple[str, ...]:
    """The tags that somebody typed, with spaces or commas between them."""
    return checked_tags(word for word in _BETWEEN.split(text.lower()) if word)


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Short words in lower case, each once, in the order given."""
    found = tuple(dict.fromkeys(tag.strip().lower() for tag in tags))
    for tag in found:
        if len(tag) > LONGEST_TAG or not _WORD.fullmatch(tag):
            raise ConfigError(
                f"Expected tags to be words of letters and digits, at most {LONGEST_TAG} characters long, "
                f"got '{tag[:60]}'. Try something like baseline or try-2."
            )
    if len(found) > MOST_TAGS:
        raise ConfigError(f"Expected at most {MOST_TAGS} tags, got {len(found)}. Leave some out.")
    return found


def checked_note(note: str) -> str:
    found = note.strip()
    if len(found) > LONGEST_NOTE:
        raise ConfigError(
            f"Expected a note of at most {LONGEST_NOTE:,} characters, got {len(found):,}. Make it shorter."
        )
    return found
