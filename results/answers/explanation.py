"""What a model's numbers are worth: `shoal explain --json`, `FittedModel.explain`; not how that is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.results.answers.importance import ColumnWorth
from shoal.results.fit import PredictionInterval
from shoal.results.plain import plain, read

Figures = dict[str, float | None]  # of one coefficient: estimate, std_error, low, high, and what else a formula gives


@dataclass(frozen=True)
class CoefficientIntervals:
    """How sure each coefficient is, by one formula. `more` is what that one gives besides, such as `residual_sd`."""

    kind: str
    confidence: float
    meaning: str
    coefficients: dict[str, Figures] = field(default_factory=dict)
    intercept: Figures | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = plain(self)
        said.update(said.pop("more"))
        return said

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CoefficientIntervals:
        known = {one.name for one in fields(cls)}
        return read(cls, {**values, "more": {name: said for name, said in values.items() if name not in known}})


@dataclass(frozen=True)
class SelectionShares:
    """In which share of the resamples each column was selected, and in which its coefficient was above 0."""

    meaning: str
    columns: dict[str, Figures]


@dataclass(frozen=True, kw_only=True)
class ResampledIntervals:
    """How sure each coefficient is, by resamples of the rows, or of groups of them (`units`)."""

    kind: str
    confidence: float
    resamples: int
    units: int
    by_rows: bool
    meaning: str
    coefficients: dict[str, Figures]
    intercept: Figures | None = None
    selection: SelectionShares | None = None  # of models that leave columns out

    def as_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = plain(self)
        if self.selection is None:
            del said["selection"]
        return said


@dataclass(frozen=True, kw_only=True)
class ModelExplanation:
    """Of one model, from the file of it and from its data; what could not be had is None, and `notes` say why."""

    model: str
    target: str
    alpha: float | None = None
    l1_ratio: float | None = None
    file: str
    rows: int
    intercept: float | None = None
    intercepts: dict[str, float | None] = field(default_factory=dict)
    coefficients: dict[str, float | None] = field(default_factory=dict)
    references: dict[str, Any] = field(default_factory=dict)
    dates: tuple[str, ...] = ()  # columns whose coefficients are per day
    confidence: float
    intervals: tuple[CoefficientIntervals, ...] = ()
    bootstrap: ResampledIntervals | None = None
    importance: ColumnWorth | None = None
    prediction_interval: PredictionInterval | None = None
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """As of the dictionary that `explain` gave before there was a type."""
        return self.as_dict()[name]

    def as_dict(self) -> dict[str, Any]:
        """The object that `explain --json` prints."""
        said: dict[str, Any] = plain(self)
        said["intervals"] = [one.as_dict() for one in self.intervals]
        said["bootstrap"] = self.bootstrap and self.bootstrap.as_dict()
        said["importance"] = self.importance and self.importance.as_dict()
        return said

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelExplanation:
        """Raises `Malformed` where a value is not what it should be."""
        intervals = [plain(CoefficientIntervals.from_dict(one)) for one in values["intervals"]]
        return read(cls, {**values, "intervals": intervals})
