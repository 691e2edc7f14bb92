"""Where saved models are kept, as those see it who use them: names, numbered versions, and small documents of both.

A document is a name such as `aliases.json`, or `v3/card.json` of a version; whoever writes one seals it and knows what
it says. The model files themselves are paths on this machine, whole and proven, wherever they are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

VERSION = re.compile(r"v([1-9][0-9]{0,8})")
ALIASES, CARD = "aliases.json", "card.json"  # documents that lists of models show: of a model, and of a version


class Saver(NamedTuple):
    """The process of a run that saves its model: a second one, or the same run taken up once more, may do so too."""

    run: str
    fence: int | None = None  # with which a run host holds it


class KeptModel(Protocol):
    """One name with its versions, as they were when somebody looked."""

    @property
    def name(self) -> str: ...

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of its versions, the highest first."""

    def read(self, document: str) -> bytes:
        """OSError if it cannot be read; FileNotFoundError where there is none."""

    def mark(self, number: int) -> str:
        """The checksum that the model file of a version names; empty where it names none or cannot be read."""

    def saved(self, number: int) -> float:
        """When a version came to be here, in seconds since 1970; 0 where that cannot be told."""


class ModelChange(KeptModel, Protocol):
    """A model while nobody else changes it."""

    def write(self, document: str, data: bytes) -> None: ...

    def remove(self, number: int) -> None:
        """A version with all its documents; its number is not given again. One that is gone is no error."""


def is_saved_by(run: str, card: bytes) -> bool:
    """Whether a version is what a run has saved, and no copy of that."""
    try:
        said = json.loads(card)
    except ValueError:
        return False
    return said.get("run") == run and not said.get("copied_from")


class ModelShelf(Protocol):
    """All saved models, whoever they belong to."""

    def look(self) -> list[KeptModel]:
        """Those that have a version."""

    def find(self, name: str) -> KeptModel | None:
        """The one of this name, if it has a version."""

    def highest(self, name: str) -> int:
        """The highest number that was ever given under a name, deleted versions included; 0 for none."""

    def is_taken(self, name: str) -> bool:
        """Whether a name is or was a model's."""

    def add(self, name: str, model: bytes, card: bytes, saver: Saver | None = None) -> int:
        """A version with its model file and card, all at once; its number, which no other has or had.

        What a run saves it saves once: where it did before, and nobody heard, the number of then. StateError where
        the `saver` does not hold its run any more.
        """

    def changing(self, name: str) -> AbstractContextManager[ModelChange]:
        """All that is written is there at the end, and nobody changes the model meanwhile; FileNotFoundError for a name
        that never was one's, ResourceError if another holds it for too long."""

    def rename(self, name: str, other: str) -> None:
        """All of a model under a name that is not taken, FileExistsError if it is; FileNotFoundError if there is no
        such model. Numbers that were given under the old name are not given there again."""

    def path(self, name: str, number: int) -> Path:
        """The model file on this machine, whole and proven; FileNotFoundError if there is no such version."""

    def place(self, name: str, number: int) -> Path:
        """Where that is, or will be."""

    def said(self, name: str, document: str) -> str:
        """Where a document is, for people."""

    def cards(self) -> list[bytes]:
        """What is said of all versions of all models, as far as it can be read."""

    # whose a model is, in a sealed document that `people.belongings` knows

    def owner(self, name: str) -> bytes | None: ...

    def owners(self) -> Mapping[str, bytes]:
        """Of all names that have such a document."""

    def put_owner(self, name: str, document: bytes) -> None:
        """Also of a name that has no version yet: it is said whose a model is before others can find it."""
