"""What differs between runs: settings, results, coefficients; and a name for each that says it. No Streamlit."""

from __future__ import annotations

import dataclasses
import math
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.states import state_of
from shoal.lazy.classes import dataclass
from shoal.results.fit import FitReport, GradientTraining
from shoal.results.outcome import HEADLINES
from shoal.settings.config import RunConfig
from shoal.settings.meaning import has_effect
from shoal.words import duration, number, tiny

SAME = 1e-9  # a smaller difference, as a share of the largest coefficient, is none
# Where a label makes sense in its place on the form only.
MORE_LABELS = {
    "file": "File", "out": "Model written to", "test_every": "Every how many rows one is for testing",
    "test_fraction": "Share of rows for testing", "fill": "Number in place of a missing one",
    "header": "First row names the columns", "decay_every": "Epochs until the rate has fallen so far",
    "on_worker_loss": "A lost worker",
}  # fmt: skip
NAMING = 3  # settings in the name of a run
NONE = "–"
# The most telling first; others are in a name only where none of these differs.
TELLING = (
    "model", "alpha", "l1_ratio", "solver", "mode", "step_rule", "learning_rate", "schedule", "batch_size", "epochs",
    "compression", "target", "file",
)  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One of the runs that are compared."""

    letter: str
    id: str
    state: str
    config: Mapping[str, Any]
    report: FitReport | None = None
    name: str = ""  # what sets it apart

    @property
    def title(self) -> str:
        return f"{self.letter} · {self.name}" if self.name else self.letter

    @property
    def is_gradient(self) -> bool:
        return self.config.get("solver") == "gradient"

    @property
    def coefficients(self) -> Mapping[str, float]:
        """Per standard deviation of a column, so that columns can be compared."""
        return self.report.standardized if self.report else {}

    @property
    def raw_coefficients(self) -> Mapping[str, float]:
        return self.report.coefficients if self.report else {}

    @property
    def training(self) -> GradientTraining | None:
        return self.report.training if self.report else None


@dataclass(frozen=True)
class Difference:
    """One line of a table: what it is, and what each run has there."""

    what: str
    values: tuple[str, ...]


def sides(runs: Sequence[tuple[str, str, Mapping[str, Any], FitReport | None]]) -> list[Side]:
    """From (id, state, config, report); each gets a letter, and a name made of what sets it apart."""
    plain = [Side(string.ascii_uppercase[i], *run) for i, run in enumerate(runs)]
    return [dataclasses.replace(side, name=_name(side, plain)) for side in plain]


def _name(side: Side, others: Sequence[Side]) -> str:
    differing = differing_knobs(others)
    knobs = [knob for knob in TELLING if knob in differing] or differing
    words = [_short(knob, side) for knob in knobs if _applies(knob, side.config)]
    return ", ".join(words[:NAMING]) or clock(side.id)


def clock(run_id: str) -> str:
    """The time that a run's name begins with."""
    day, _, rest = run_id.partition("-")
    if len(day) == 8 and len(rest) > 5:
        return f"{day[:4]}-{day[4:6]}-{day[6:]} {rest[:2]}:{rest[2:4]}:{rest[4:6]}"
    return run_id


def _short(knob: str, side: Side) -> str:
    value = shown(knob, side.config.get(knob, wording.default_of(knob)))
    if knob in ("model", "solver", "mode", "file"):
        return value
    return f"{_word(knob)} {value}"


def _word(knob: str) -> str:
    return {"alpha": "alpha", "l1_ratio": "share of lasso", "target": "of"}.get(knob, label(knob).lower())


# ------------------------------------------------------------------ settings


def differing_knobs(runs: Sequence[Side]) -> list[str]:
    """Knobs that the runs to which they apply have set otherwise.

    A knob that applies to one of them only (the exact ones look at no batch size) counts if it is not as usual.
    """
    return [knob.name for knob in dataclasses.fields(RunConfig) if _differs(knob.name, runs)]


def _differs(knob: str, runs: Sequence[Side]) -> bool:
    usual = wording.default_of(knob)
    values = [_comparable(side.config.get(knob, usual)) for side in runs if _applies(knob, side.config)]
    if len(values) == 1 < len(runs):
        return bool(values[0] != _comparable(usual))
    return len(set(values)) > 1


def _comparable(value: Any) -> Any:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else value


BY_OTHERS = (  # knobs that mean something beside some values of others only
    "alpha", "l1_ratio", "confidence", "robust", "shrink", "positive", "weights", "weights_are", "offset", "offset_as",
    "class_weight",
)  # fmt: skip


def _applies(knob: str, config: Mapping[str, Any]) -> bool:
    """Whether a run looks at this knob at all."""
    if knob in BY_OTHERS:
        return has_effect(knob, {**RunConfig().as_dict(), **config})
    meta = {f.name: f.metadata for f in dataclasses.fields(RunConfig)}[knob]
    return not meta.get("training") or config.get("solver") == "gradient"


def settings(runs: Sequence[Side]) -> list[Difference]:
    """Only what differs, in plain words."""
    return [Difference(label(knob), _row(knob, runs)) for knob in differing_knobs(runs)]


def _row(knob: str, runs: Sequence[Side]) -> tuple[str, ...]:
    usual = wording.default_of(knob)
    values = [side.config.get(knob, usual) for side in runs]
    words = [shown(knob, v) if _applies(knob, side.config) else NONE for side, v in zip(runs, values, strict=True)]
    if knob == "file" and len(set(words)) < len(set(map(str, values))):
        return tuple(map(str, values))  # files of one name in several folders
    return tuple(words)


def label(knob: str) -> str:
    return MORE_LABELS.get(knob) or wording.LABELS.get(knob) or knob.replace("_", " ").capitalize()


def shown(knob: str, value: Any) -> str:
    """A knob's value for the eye."""
    meta = {f.name: f.metadata for f in dataclasses.fields(RunConfig)}[knob]
    if knob == "file" and isinstance(value, str):
        return Path(value).name or NONE
    if value is None:
        return "automatic"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if "auto" in meta and value == meta["auto"]:
        return "automatic"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return wording.choice_for(knob, str(value)) or NONE


# ------------------------------------------------------------------ results


def results(runs: Sequence[Side]) -> list[Difference]:
    """Only what differs: compared as it is shown."""
    found = [Difference(what, tuple(of(side) for side in runs)) for what, of in _lines()]
    return [line for line in found if len(set(line.values)) > 1]


def _lines() -> list[tuple[str, Callable[[Side], str]]]:
    def score(part: str, name: str) -> Callable[[Side], str]:
        return lambda side: _number(getattr(getattr(side.report, part), name)) if side.report else NONE

    def of_outcome(part: str, name: str) -> Callable[[Side], str]:
        def shown(side: Side) -> str:
            found = side.report.outcome if side.report else None
            return _number(getattr(found, part).scores.get(name)) if found else NONE

        return shown

    def of_training(name: str, shown: Callable[[Any], str] = _number) -> Callable[[Side], str]:
        return lambda side: shown(getattr(side.training, name)) if side.training else NONE

    return [
        ("State", lambda side: state_of(side.state).word),
        ("How it ended", lambda side: (side.training and side.training.ending.cause) or NONE),
        ("R² on test rows", score("test", "r2")),
        ("R² on training rows", score("train", "r2")),
        *(
            (f"{title} on {rows} rows", of_outcome(part, name))
            for name, title in HEADLINES.items()
            for part, rows in (("test", "test"), ("train", "training"))
        ),
        ("Typical error on test rows (RMSE)", score("test", "rmse")),
        ("Typical error on training rows (RMSE)", score("train", "rmse")),
        ("Mean size of errors on test rows (MAE)", score("test", "mae")),
        ("Mean size of errors on training rows (MAE)", score("train", "mae")),
        ("Training rows", score("train", "rows")),
        ("Test rows", score("test", "rows")),
        ("Coefficients that are not zero", _nonzeros),
        ("Intercept", lambda side: _number(side.report.intercept) if side.report else NONE),
        ("Distance to the optimum", of_training("distance_to_optimum", _tiny)),
        ("Epochs", of_training("epochs")),
        ("Rounds", of_training("rounds")),
        ("Time at work", _time),
    ]


def _nonzeros(side: Side) -> str:
    return f"{sum(value != 0 for value in side.coefficients.values()):,}" if side.coefficients else NONE


def _time(side: Side) -> str:
    total = side.report.timings.get("total") if side.report else None
    return duration(total) if total is not None else NONE


def _number(value: Any) -> str:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return NONE
    return f"{value:,}" if isinstance(value, int) else number(value, 6)


def _tiny(value: Any) -> str:
    return NONE if not isinstance(value, (int, float)) else tiny(value)


# ------------------------------------------------------------------ coefficients


@dataclass(frozen=True)
class Spread:
    """One column's coefficient in every run (None: not in that model), and how far they are apart."""

    name: str
    values: tuple[float | None, ...]
    raw: tuple[float | None, ...]
    apart: float


def coefficients(runs: Sequence[Side]) -> tuple[list[Spread], int]:
    """Those that differ, the most different first, and how many there are in all. A column left out counts as zero."""
    having = [side for side in runs if side.coefficients]
    names = dict.fromkeys(name for side in having for name in side.coefficients)
    largest = max((abs(value) for side in having for value in side.coefficients.values()), default=0.0)
    found = []
    for name in names:
        values = tuple(side.coefficients.get(name) for side in runs)
        numbers = [side.coefficients.get(name, 0.0) for side in having]
        apart = max(numbers) - min(numbers)
        if len(having) > 1 and (apart > SAME * largest or any(name not in side.coefficients for side in having)):
            found.append(Spread(name, values, tuple(side.raw_coefficients.get(name) for side in runs), apart))
    return sorted(found, key=lambda spread: -spread.apart), len(names)
