"""How much better one version of a model predicts than another, on the same rows; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.results.plain import plain, read
from shoal.words import plural, short


@dataclass(frozen=True, kw_only=True)
class VersionComparison:
    """Scores of two versions, lower is better; `difference` is the mean of what `second` loses more than `first` in a
    row, with an interval: below 0, the second is better."""

    first: str
    second: str
    file: str
    rows: int
    left_out: int  # rows without a target, or that one of them cannot predict
    score: str  # what it is called
    first_score: float
    second_score: float
    loss: str  # what a row loses
    difference: float
    low: float
    high: float
    confidence: float = 0.95
    trained_on: tuple[str, ...] = ()  # those that were fitted to this very file, whose scores flatter them

    @property
    def verdict(self) -> str:
        """better, worse, or not told apart."""
        return "better" if self.high < 0 else "worse" if self.low > 0 else "not told apart"

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of it."""
        said = []
        if self.trained_on:
            who = " and ".join(self.trained_on) + (" was" if len(self.trained_on) == 1 else " were")
            said.append(f"{who} trained on this very file, which flatters. Score on rows that no version has seen.")
        if self.left_out:
            said.append(f"{plural(self.left_out, 'row')} could not be compared: no target, or no prediction.")
        return tuple(said)

    @property
    def in_words(self) -> str:
        words = {
            "better": f"{self.second} is better than {self.first}",
            "worse": f"{self.second} is worse than {self.first}",
            "not told apart": f"these rows do not tell {self.second} from {self.first}",
        }[self.verdict]
        return (
            f"On {plural(self.rows, 'row')} of {self.file}, {words}: {self.score} {short(self.second_score)} against "
            f"{short(self.first_score)}; the {self.loss} of a row differs by {short(self.difference)} on average "
            f"({100 * self.confidence:g} % interval {short(self.low)} to {short(self.high)}, row by row)."
        )

    def as_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = plain(self)
        return {**said, "verdict": self.verdict, "in_words": self.in_words, "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> VersionComparison:
        return read(cls, values)


@dataclass(frozen=True, kw_only=True)
class PromotionAnswer:
    """Whether an alias was given to a version, and why or why not."""

    promoted: bool
    why: str
    version: str
    alias: str
    comparison: VersionComparison | None = None

    def as_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = plain(self)
        return {**said, "comparison": self.comparison.as_dict() if self.comparison else None}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PromotionAnswer:
        return read(cls, values)
