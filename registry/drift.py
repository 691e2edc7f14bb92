"""How far what a saved version predicts is from what it was trained on: rows on their way into its sums, and the report
of these. Light: servers and pages live on it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from shoal.data.summaries.columns import MOST_COLUMNS, tallied
from shoal.errors import DamagedFile, StateError, TrainingError
from shoal.library import predicted_columns
from shoal.library.saved_models import Version
from shoal.results.answers.drift import SIZES, ColumnDrift, DriftReport, SeenColumn, drift_of, merged
from shoal.results.model import Design, ModelFile
from shoal.words import plural

PredictedColumns = Mapping[str, Sequence[float | str | None]]

REST = 10.0  # seconds that sums of rows may stay in memory
MOST_ROWS = 20_000  # that wait to be summed up
NOT_SAID = (
    "Its model file does not say what its training rows were like: an earlier program made it, or machines without a "
    "disk in common did. "
)


def record(model: Path, seen: Mapping[str, SeenColumn]) -> str:
    """Keep what rows of a file were like, if the model is a saved one; why that failed, to be said, or nothing."""
    version = predicted_columns.version_at_path(model.absolute())
    if version is None or not seen:
        return ""
    try:
        predicted_columns.add(version, seen)
    except (OSError, TrainingError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return f"What these rows were like could not be kept for 'shoal models drift': {why}."
    return ""


class SeenRows:
    """Rows that a server has predicted, until they are summed up: off the way of answers, on disk every few seconds."""

    def __init__(self, rest: float = REST) -> None:
        self.rest = rest
        self.problem = ""  # of the last time that sums were written
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._waiting: list[tuple[Version, Design, PredictedColumns]] = []
        self._rows = 0
        self._sums: dict[Version, dict[str, SeenColumn]] = {}
        self._timer: threading.Timer | None = None

    def add(self, version: Version, design: Design, columns: PredictedColumns) -> None:
        """Some rows by column, as they were read."""
        if not design.columns or not columns:
            return
        with self._lock:
            self._waiting.append((version, design, columns))
            self._rows += len(next(iter(columns.values())))
            full = self._rows >= MOST_ROWS
            if self._timer is None:
                self._timer = threading.Timer(self.rest, self.flush)
                self._timer.daemon = True
                self._timer.start()
        if full:
            self._sum_up()

    def _sum_up(self) -> None:
        with self._lock:
            waiting, self._waiting, self._rows = self._waiting, [], 0
        together: dict[Version, tuple[Design, dict[str, list[float | str | None]]]] = {}
        for version, design, columns in waiting:
            _, rows = together.setdefault(version, (design, {}))
            for name, values in columns.items():
                rows.setdefault(name, []).extend(values)
        for version, (design, rows) in together.items():
            found = tallied(design.columns, rows, design.known_levels)
            with self._lock:
                self._sums[version] = merged(self._sums.get(version, {}), found)

    def flush(self) -> None:
        """Sums to disk. What cannot be written waits for the next time: it does not grow."""
        with self._writing:
            with self._lock:
                timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            self._sum_up()
            with self._lock:
                sums, self._sums = self._sums, {}
            self.problem = ""
            for version, found in sums.items():
                try:
                    predicted_columns.add(version, found)
                except (OSError, TrainingError) as error:
                    self.problem = str(error)
                    with self._lock:
                        self._sums[version] = merged(found, self._sums.get(version, {}))


def report(version: Version, days: int | None = None) -> DriftReport:
    """All columns, the furthest first; of the last `days` days on which rows were predicted, or of all kept ones."""
    file = version.model
    training, notes = file.design.columns, []
    if not training:
        raise StateError(f"How far rows are from training is not known for {version.label}. {NOT_SAID}Train it again.")
    try:
        kept = predicted_columns.days_of(version)
    except DamagedFile as error:
        raise StateError(f"{error.message} The next prediction begins anew.") from None
    chosen = sorted(kept)[-days:] if days else sorted(kept)
    total: dict[str, SeenColumn] = {}
    for day in chosen:
        total = merged(total, kept[day])
    used = sum(1 for name in _inputs(file))
    if used > MOST_COLUMNS:
        notes.append(f"Training was summed up for the first {MOST_COLUMNS:,} of {plural(used, 'column')}.")
    columns = [drift_of(name, _kind(file, name), training[name], seen) for name, seen in total.items()
               if name in training and len(seen.bins) == len(training[name].shares)]  # fmt: skip
    return DriftReport(
        model=version.label, rows=max((column.rows for column in columns), default=0),
        since=chosen[0] if chosen else "", until=chosen[-1] if chosen else "",
        columns=tuple(sorted(columns, key=_furthest)), notes=tuple(notes),
    )  # fmt: skip


def _furthest(column: ColumnDrift) -> tuple[float, ...]:
    return (-SIZES.index(column.size), -(column.psi or 0.0), -abs(column.shift or 0.0))


def _inputs(file: ModelFile) -> set[str]:
    terms = file.design.terms
    return {str(term["column"]) for term in terms if "column" in term} | set(file.design.known_levels)


def _kind(file: ModelFile, name: str) -> str:
    return "text" if name in file.design.known_levels else "date" if name in file.report.dates else "number"
