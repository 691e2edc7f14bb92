"""What is said of the predictions for a file: `shoal predict --json`, `predict_to`, pages; not their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from shoal.files.table_style import USUAL, TableStyle
from shoal.lazy.classes import dataclass
from shoal.results.answers.drift import SeenColumn
from shoal.results.plain import plain, read
from shoal.words import plural, shortened, within_words

MOSTLY, SEVERAL = 0.5, 10  # share and number of rows without a value from which a column is as good as not there
OFTENER = 2.0  # times its share of gaps in training: rows with as many are what a model was scored on
NAMED = 8  # levels of a column that a warning names
LONGEST_LEVEL = 80  # letters of one of them


@dataclass(frozen=True)
class UnpredictedRow:
    """A row without a prediction: its line where it could not be read, of which file if several, or its number."""

    problem: str
    line: int | None = None
    row: int | None = None
    file: str = ""

    def as_dict(self) -> dict[str, Any]:
        place = {"row": self.row} if self.line is None else {"line": self.line}
        return {**place, "problem": self.problem, **({"file": self.file} if self.file else {})}


@dataclass(frozen=True)
class RowsShown:
    """The first rows of the file, as its texts."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class FilePredictions:
    """All predictions of one file. `preview` is there where a page asked."""

    rows: int
    unseen_levels: int = 0  # rows with a level that the model was not trained with
    unknown_levels: dict[str, dict[str, int]] = field(default_factory=dict)  # by column, with how many rows have each
    bad_rows: int = 0  # rows without a prediction
    target: str
    out: str
    interval: float | None = None
    half_width: float | None = None
    half_width_of: str = "even"  # what rows spread by, and about which times of the prediction: `PredictionInterval`
    centre: float = 1.0
    bands: float | None = None  # the level at which intervals follow the rows; with no half-width these do
    several: bool = False  # classes
    yes: str = ""  # of a yes/no model the value that probabilities are of
    threshold: float | None = None
    kept: tuple[str, ...] = ()  # columns of the file beside the predictions
    made: int = 1  # columns of predictions
    table: TableStyle = USUAL  # how the file is written
    not_predicted: tuple[UnpredictedRow, ...] = ()  # the first of them
    doubts: tuple[str, ...] = ()  # why predictions and their intervals do not hold; to be said first
    warnings: tuple[str, ...] = ()
    preview: RowsShown | None = None
    seen: dict[str, SeenColumn] = field(default_factory=dict)  # what its columns were like, where somebody keeps that

    @property
    def predicted(self) -> int:
        return self.rows - self.bad_rows

    @property
    def level(self) -> str:
        """Of the intervals or sets, in percent."""
        return f"{100 * (self.interval or 0.0):g} %"

    @property
    def interval_told(self) -> str:
        """Of numbers: how far the ends of intervals are from predictions, or that they follow the rows."""
        if self.half_width is None:
            return f"with intervals of {self.level} that follow the rows, between two quantile lines"
        within = within_words("the prediction", self.half_width, self.half_width_of, self.centre)
        other = f" (those of {100 * self.bands:g} % follow the rows)" if self.bands else ""
        return f"with intervals of {self.level}: {within}, for every row alike{other}"

    def __getitem__(self, name: str) -> Any:
        """As of the dictionary that `predict_to` gave before there was a type."""
        return self.as_dict()[name]

    def as_dict(self) -> dict[str, Any]:
        """The object that `predict --json` prints."""
        said: dict[str, Any] = plain(self)
        said["not_predicted"] = [row.as_dict() for row in self.not_predicted]
        del said["seen"]
        if self.preview is None:  # nobody asked
            del said["preview"]
        return said

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FilePredictions:
        """Raises `Malformed` where a value is not what it should be."""
        return read(cls, values)


def is_as_if_gone(missing: int, rows: int, before: float) -> bool:
    """Whether a column lacks its value in so many of the rows that what its model was scored on says nothing of them;
    `before` is the share of training rows that lacked it."""
    return (missing == rows or missing >= max(SEVERAL, MOSTLY * rows)) and missing > OFTENER * before * rows


def gone_told(name: str, missing: int, rows: int, before: float, stands_in: str) -> str:
    """That a column which a model rests on is (nearly) empty in the rows to predict."""
    seldom = f", which was so in {100 * before:.2g} % of the training rows" if before else ""
    return (
        f"Column '{name}' has no value in {missing:,} of {plural(rows, 'row')}{seldom}; {stands_in} stands in. What it "
        "would tell is not in these predictions: they, and intervals around them, do not hold there, and errors may be "
        "far larger. Fill it in, or train a model without it."
    )


def unknown_told(
    references: Mapping[str, str],
    unknown: Mapping[str, Mapping[str, int]],
    known: Mapping[str, Collection[str]],
) -> list[str]:
    """Of each column: which levels the model was not trained with, in how many rows, and which stands in for them.

    `references`: of each column the level that others are compared with, where there is one. `known`: all of training.
    """
    said = []
    for name, levels in unknown.items():
        rows, alike = sum(levels.values()), references.get(name)
        shown = [f"{_as_said(level)} ({count:,})" for level, count in Counter(levels).most_common(NAMED)]
        more = f" and {len(levels) - NAMED:,} more" if len(levels) > NAMED else ""
        like = f", as if it was {_as_said(alike)}" if alike else ""
        said.append(
            f"Column '{name}': {plural(rows, 'row')} {'has' if rows == 1 else 'have'} a level that the model was not "
            f"trained with: {', '.join(shown)}{more}. Its 0/1 columns are all 0 there{like}."
            f"{_zeros_lost(levels, known.get(name, ()))}"
        )
    return said


def _zeros_lost(levels: Collection[str], known: Collection[str]) -> str:
    """Where a level is one of training but for zeros before it, which spreadsheets drop: 1067 and 01067."""
    bare = {level.lstrip("0"): level for level in known if level.isdecimal()}
    found = next((level for level in levels if level.isdecimal() and level.lstrip("0") in bare), None)
    if found is None:
        return ""
    return (
        f" {_as_said(found)} is not {_as_said(bare[found.lstrip('0')])}: leading zeros are a part of names, and "
        "spreadsheets drop them. Write codes as in training."
    )


def _as_said(level: str) -> str:
    return "no value" if level == "__missing__" else f"'{shortened(level, LONGEST_LEVEL)}'"
