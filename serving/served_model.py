"""The model that a server predicts with: found by its name, and found again when the name comes to mean another one.

What cannot be read never takes the place of what can: the version before stays, and why is said. HTTP is in `app`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from shoal.data.notation.dates import has_times
from shoal.errors import StateError, TrainingError
from shoal.fitting.model_file import load_model
from shoal.lazy.classes import dataclass
from shoal.library import aliases
from shoal.library.saved_models import Version
from shoal.tasks.explain_row import typical_row
from shoal.tasks.predict_rows import RowPredictor
from shoal.utils import identity_of
from shoal.words import date_text

LEVELS = 50  # of a text column that the card lists


@dataclass(frozen=True)
class ServedModel:
    """One version, ready to predict: whoever has hold of it answers with it, whatever is served next."""

    name: str
    number: int | None  # of the version; a file that is no saved model has none
    path: Path
    identity: tuple[int, ...]
    predictor: RowPredictor
    since: float

    @property
    def label(self) -> str:
        return self.name if self.number is None else f"{self.name}:{self.number}"

    def card(self) -> dict[str, Any]:
        """What a program has to know to ask for predictions, with a row to try."""
        report = self.predictor.model.report
        outcome, said = report.outcome, report.prediction_interval
        widths = said.half_widths if said else {}
        levels = {float(level) for level, width in widths.items() if width is not None}
        levels |= {report.bands.level} if report.bands else set()
        return {
            "name": self.name, "version": self.number, "model": report.model, "target": report.target,
            "classes": list(outcome.labels) if outcome and outcome.classes else [],
            "intervals": sorted(levels),
            "inputs": [self._input(name, kind) for name, kind in self.predictor.inputs.items()],
            "example": self.example(),
            "trained_on": {"file": self.predictor.model.file.data.file, "rows": report.rows_read},
            "served_since": self.since,
        }  # fmt: skip

    def _input(self, name: str, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name, "kind": kind}
        model = self.predictor.model
        if kind == "text":
            levels = [level for level in model.encoding.known[name] if not level.startswith("__")]
            found |= {"levels": levels[:LEVELS], "more_levels": max(0, len(levels) - LEVELS)}
        elif seen := model.file.design.seen.get(name):
            dated = model.report.dates.get(name)
            low, high = seen if dated is None else [date_text(day, has_times(dated)) for day in seen]
            found |= {"least": low, "most": high}
        return found

    def example(self) -> dict[str, Any]:
        """The usual value of every column."""
        model = self.predictor.model
        row: dict[str, Any] = dict(typical_row(model.encoding))
        for name, written in model.report.dates.items():
            if isinstance(row.get(name), float):
                row[name] = date_text(row[name] if has_times(written) else round(row[name]), has_times(written))
        return {name: row.get(name) for name in self.predictor.inputs}


def found(named: str) -> tuple[str, int | None, Path]:
    """The name, version and file that a person means, as of now."""
    path = aliases.model_path(named)
    if path == Path(named):
        return path.stem, None, path
    version = aliases.resolve(named)
    return version.name, version.number, version.own_model


def load(name: str, number: int | None, path: Path) -> ServedModel:
    """Read, proven by its checksum, and tried on a row: what fails fails here and not in an answer."""
    identity = identity_of(path)
    if number is not None and not Version(name, number).exists:
        raise StateError(f"Expected the version {name}:{number}, but it is gone. Choose another.")
    model = load_model(path)
    served = ServedModel(name, number, path, identity, RowPredictor(model), time.time())
    served.predictor.predict([served.example()])
    return served


class WatchedModel:
    """What is served now, and what the name should mean by now."""

    def __init__(self, named: str) -> None:
        self.named = named
        self.current = load(*found(named))
        self.problem = ""  # why what the name means now is not served
        self.changes = self.failures = 0
        self._failed: tuple[object, ...] = ()

    def look(self) -> str:
        """Take the version that the name means now, if it is another and can be read. What is new, as a sentence."""
        try:
            name, number, path = found(self.named)
            meant = (name, number, path, identity_of(path))
        except (TrainingError, OSError) as error:
            return self._keep((str(error),), error)
        now = self.current
        if meant == (now.name, now.number, now.path, now.identity):
            self.problem, self._failed = "", ()
            return ""
        if meant == self._failed:
            return ""
        try:
            self.current = load(name, number, path)
        except (TrainingError, OSError) as error:
            return self._keep(meant, error)
        self.problem, self._failed, self.changes = "", (), self.changes + 1
        return f"{self.named} is {self.current.label} now; it was {now.label}."

    def _keep(self, meant: tuple[object, ...], error: Exception) -> str:
        """The one before stays; said once for each thing that is wrong."""
        if meant == self._failed:
            return ""
        why = error.message if isinstance(error, TrainingError) else str(error)
        self._failed, self.failures = meant, self.failures + 1
        self.problem = f"What {self.named} means now cannot be served, so {self.current.label} stays. {why}"
        return self.problem
