"""What a pass over the rows said of each column, kept beside the data set for the next who asks, and of its ends, which
may stand for no value; how a profile is made is in `inspection`."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from shoal.data.dataset import Column, Dataset
from shoal.data.notation.words import CODES, is_code
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.lazy.classes import dataclass
from shoal.models import Array

NAME = "profile.json"
FORMAT = 4  # one of another format is made anew


def known_profile(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """By column; empty where no pass was made yet, or what it left is damaged."""
    with contextlib.suppress(OSError, DamagedFile):
        known = sealed.read(dataset.directory / NAME, dataset.directory.name)
        if known.get("format") == FORMAT:
            found: dict[str, dict[str, Any]] = known["columns"]
            return found
    return {}


def keep_profile(dataset: Dataset, found: dict[str, dict[str, Any]]) -> None:
    with contextlib.suppress(OSError):  # a read-only or full cache costs the next caller a pass, no more
        sealed.write(dataset.directory / NAME, {"format": FORMAT, "columns": found}, dataset.directory.name)


def may_have_codes(column: Column) -> bool:
    """Whether its smallest or largest number is one that often stands for none."""
    if column.type != "numeric":
        return False
    least = column.minimum
    below = least is not None and least <= -9 and least == round(least)  # -200: of sensors, each has its own
    return below or not {least, column.maximum}.isdisjoint(CODES)


@dataclass(frozen=True)
class Ends:
    """How often a column's smallest and largest numbers come, and the ends of what is between them."""

    lowest: int
    highest: int
    low: float
    high: float

    @classmethod
    def of(cls, values: Array, least: float, greatest: float) -> Ends:
        inner = values[(values != least) & (values != greatest)]
        low, high = (float(inner.min()), float(inner.max())) if len(inner) else (np.inf, -np.inf)
        return cls(int((values == least).sum()), int((values == greatest).sum()), low, high)

    def merge(self, other: Ends) -> Ends:
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Ends(self.lowest + other.lowest, self.highest + other.highest, low, high)

    def codes(self, least: float, greatest: float) -> list[tuple[float, int]]:
        """Numbers that may stand for none, and in how many rows they come."""
        if self.low > self.high:
            return []
        top = is_code(greatest, self.highest, self.high, self.low)
        bottom = is_code(least, self.lowest, self.low, self.high if top else greatest)
        top = is_code(greatest, self.highest, self.high, self.low if bottom else least)
        return [(least, self.lowest)] * bottom + [(greatest, self.highest)] * top
