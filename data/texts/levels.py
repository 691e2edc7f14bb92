"""The different texts of a column while its blocks are added, and whether there is memory for them; not where they are
kept."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from shoal.errors import OutOfMemory, Remedy
from shoal.lazy.classes import dataclass
from shoal.settings.limits import MANY_LEVELS, MOST_LEVELS, memory_for_exact
from shoal.utils import available_memory

HELD = 150, 3  # bytes of a text beside its letters: in the table, sorted and packed; and copies of its letters


@dataclass
class LevelTable:
    """The levels of one text column over all blocks, up to a limit, by the order in which they came."""

    limit: int = MOST_LEVELS
    seen: dict[str, int] = field(default_factory=dict)
    missing: int = 0
    refused: bool = False
    letters: int = 0

    def add(self, levels: Sequence[str], missing: int, refused: int) -> npt.NDArray[np.int32]:
        """The place of each in `seen`, -1 for one that is not remembered."""
        named = [level for level in levels if level]  # "" is missing, so it marks a text of unread rows only
        self.missing += missing
        self.refused = self.refused or refused > 0
        if (
            len(self.seen) + len(named) <= self.limit
            or len(set(named) - self.seen.keys()) + len(self.seen) <= self.limit
        ):
            before = len(self.seen)
            for level in named:
                self.seen.setdefault(level, len(self.seen))
            self.letters += sum(map(len, itertools.islice(self.seen, before, None)))
        else:
            self.refused = True
        return np.fromiter((self.seen.get(level, -1) for level in levels), np.int32, len(levels))

    def sorted(self) -> tuple[str, ...]:
        return tuple(sorted(self.seen))

    def ranks(self) -> npt.NDArray[np.int32]:
        """From places in `seen` to those in the sorted levels; -1 leads to -1."""
        found = np.full(len(self.seen) + 1, -1, np.int32)
        for rank, level in enumerate(self.sorted()):
            found[self.seen[level]] = rank
        return found

    @staticmethod
    def codes_of(levels: Sequence[str], places: Mapping[str, int]) -> npt.NDArray[np.int32]:
        """The map from a block's codes to the data set's; indices -2 and -1 lead to -1, missing."""
        return np.array([*(places.get(level, -1) for level in levels), -1, -1], np.int32)


def level_limit(name: str, many: Container[str]) -> int:
    """Levels of a column that are remembered."""
    return MANY_LEVELS if name in many else MOST_LEVELS


def check_texts(tables: Iterable[LevelTable]) -> None:
    """Refuse to go on where the texts of columns, told apart without a limit, would fill the memory."""
    many = [table for table in tables if len(table.seen) > MOST_LEVELS]
    each, copies = HELD
    need = sum(each * len(table.seen) + copies * table.letters for table in many)
    if many and need > memory_for_exact(available_memory()):
        most = max(len(table.seen) for table in many)
        raise OutOfMemory(
            f"A text column has more than {most:,} different values, and to tell all apart takes more than "
            f"{need / 1e6:,.0f} MB, too much for the free memory.",
            Remedy.set("Leave it out by a limit that it passes, or name it in exclude", "max_levels", MOST_LEVELS),
        )
