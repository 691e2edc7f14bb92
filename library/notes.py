"""Tags and a note that a person gives a run, in about.json of its folder; the run process never looks at them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from shoal.errors import ConfigError, DamagedFile, StateError
from shoal.lazy.classes import dataclass
from shoal.people.deeds import allow
from shoal.people.rights import Verb
from shoal.runs.documents import read_json
from shoal.runs.folder import Run, write_json

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


def read(run: Run) -> About:
    """Empty where nothing was said; where it cannot be read, that is what the note says."""
    try:
        return of(read_json(run.directory / FILE))
    except DamagedFile as damage:
        return About(note=f"What was noted here cannot be read: {damage.message} Write it again.")


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
    about = About(checked_tags(tags), checked_note(note), read(run).name if name is None else checked_name(name))
    try:
        write_json(run.directory / FILE, {"tags": list(about.tags), "note": about.note, "name": about.name})
    except FileNotFoundError:
        raise StateError(f"Expected the folder of the run {run.id}, but it is gone. Look at the list again.") from None
    return about


def give_name(run: Run, name: str) -> About:
    """Tags and note stay as they are."""
    about = read(run)
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
