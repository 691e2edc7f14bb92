"""Every knob of a run once: name, default, meaning and check. Flags, YAML and the page's form all come from here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from errors import ConfigError

MODELS = ("linear", "ridge", "lasso", "elasticnet")
CODINGS = ("drop_first", "full")
IMPUTATIONS = ("median", "mean", "constant", "drop")
BAD_ROW_CHOICES = ("limit", "stop", "skip")
DIALECT = ("delimiter", "decimal", "thousands", "encoding", "quote", "comment", "skip_lines", "header", "missing")
ENGINES = ("auto", "inline", "processes")


def knob(default: Any, help: str, **more: Any) -> Any:
    metadata = {"help": help, **more}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class RunConfig:
    """What to fit, to which file, and how."""

    file: str = knob("", "the CSV, CSV.gz or Parquet file")
    target: str = knob("", "the column to predict")
    model: str = knob("linear", "linear, ridge, lasso or elasticnet", choices=MODELS)
    alpha: float = knob(1.0, "strength of the penalty, as in scikit-learn's estimator of that name")
    l1_ratio: float = knob(0.5, "elastic net only: share of the L1 part, 0 to 1")
    features: tuple[str, ...] = knob((), "columns to use; all others are left out", metavar="a,b")
    exclude: tuple[str, ...] = knob((), "columns to leave out", metavar="a,b")
    categorical: tuple[str, ...] = knob((), "columns whose values are names, whatever they look like", metavar="a,b")
    numeric: tuple[str, ...] = knob((), "columns whose values are numbers, whatever they look like", metavar="a,b")
    coding: str = knob("drop_first", "one column a level: without the first level, or for all", choices=CODINGS)
    max_levels: int = knob(100, "a text column with more levels is left out")
    impute: str = knob("median", "what stands in for a missing number", choices=IMPUTATIONS)
    fill: float = knob(0.0, "the number used by --impute constant")
    indicators: bool = knob(False, "add a 0/1 column for each column with missing numbers")
    test_every: int = knob(0, "rows whose index (from 0) this number divides are kept for testing; 0 for none")
    test_fraction: float = knob(0.0, "share of rows, chosen by a hash of the row index, kept for testing")
    seed: int = knob(0, "the seed of that choice")
    intercept: bool = knob(True, "fit an intercept (never penalised)")
    standardize: bool = knob(True, "give all columns mean 0 and spread 1 before the penalty is applied")
    confidence: float = knob(0.95, "of the intervals of a linear model")
    engine: str = knob("auto", "who does the work: this process, or worker processes", choices=ENGINES)
    workers: int = knob(0, "worker processes; 0 or 'auto' for one a core", metavar="N|auto")
    delimiter: str | None = knob(None, "between fields; found out if not given")
    decimal: str | None = knob(None, "the decimal mark; found out if not given")
    thousands: str | None = knob(None, "the mark between groups of three digits; found out if not given")
    encoding: str | None = knob(None, "of the text; found out if not given")
    quote: str | None = knob(None, "around fields that hold delimiters or newlines; found out if not given")
    comment: str | None = knob(None, "lines that begin with this are passed over; found out if not given")
    skip_lines: int | None = knob(None, "lines above the table; found out if not given", metavar="N")
    header: bool | None = knob(None, "whether the first row names the columns; found out if not given")
    missing: tuple[str, ...] | None = knob(None, "texts that stand for a missing value", metavar="TOKENS")
    on_bad_rows: str = knob(
        "limit",
        "rows that cannot be read: stop at once, skip them all, or skip up to 1 % and at most 100",
        choices=BAD_ROW_CHOICES,
    )
    out: str | None = knob(None, "where to write the model", metavar="model.json")

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_range("alpha", self.alpha, 0, math.inf)
        self._check_range("l1_ratio", self.l1_ratio, 0, 1)
        self._check_range("test_fraction", self.test_fraction, 0, 0.9)
        self._check_range("confidence", self.confidence, 0.5, 0.9999)
        self._check_range("max_levels", self.max_levels, 1, 20_000)
        self._check_range("workers", self.workers, 0, 512)
        self._check_range("skip_lines", self.skip_lines or 0, 0, 1_000_000)
        self._check_range("fill", self.fill, -math.inf, math.inf)
        if self.test_every < 0 or self.test_every == 1:
            raise ConfigError(
                f"Expected test_every to be 0 (no test rows) or at least 2, got {self.test_every}. "
                "5 keeps every fifth row for testing."
            )
        if self.test_every and self.test_fraction:
            raise ConfigError("Both test_every and test_fraction are given; expected one of them. Drop one.")
        if self.target and self.target in self.features:
            raise ConfigError(f"The target '{self.target}' is also among the features. Take it out of one of them.")

    def _check_choices(self) -> None:
        for knob_ in dataclasses.fields(self):
            choices = knob_.metadata.get("choices")
            value = getattr(self, knob_.name)
            if choices and value not in choices:
                raise ConfigError(
                    f"Expected {knob_.name} to be one of {', '.join(choices)}, got '{value}'. Choose one of them."
                )

    def _check_range(self, name: str, value: float, low: float, high: float) -> None:
        if not (low <= value <= high) or math.isinf(value):
            ends = f"from {low:g} to {high:g}" if not math.isinf(high) else f"of at least {low:g}"
            ends = "that is finite" if math.isinf(low) else ends
            raise ConfigError(f"Expected {name} to be a number {ends}, got {value:g}. Correct it and try again.")

    @property
    def dialect(self) -> dict[str, Any]:
        """What is known of the dialect; the rest is found out."""
        return {name: getattr(self, name) for name in DIALECT if getattr(self, name) is not None}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and YAML."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }


def config_from(values: Mapping[str, Any]) -> RunConfig:
    """A config from plain values, with the types that flags and YAML give them put right."""
    knobs = {f.name: f for f in dataclasses.fields(RunConfig)}
    unknown = [name for name in values if name not in knobs]
    if unknown:
        raise ConfigError(
            f"Expected the names of knobs, got '{unknown[0]}'. The knobs are: {', '.join(sorted(knobs))}."
        )
    return RunConfig(**{name: _typed(knobs[name], value) for name, value in values.items()})


def _typed(knob_: dataclasses.Field[Any], value: Any) -> Any:
    kind = str(knob_.type)
    if value is None:
        return knob_.default
    if kind.startswith("tuple"):
        items = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
        return tuple(str(item).strip() for item in items if str(item).strip() or knob_.name == "missing")
    if knob_.name == "workers" and value == "auto":
        return 0
    if kind.removesuffix(" | None") in ("int", "float") and not isinstance(value, bool):
        try:
            if kind == "float" or float(value) == int(value):
                return int(value) if kind != "float" else float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    elif (kind.startswith("bool") and isinstance(value, bool)) or (kind.startswith("str") and isinstance(value, str)):
        return value
    elif kind.startswith("str"):
        return str(value)  # a column or mark that YAML read as a number
    wanted = {"int": "a whole number", "float": "a number"}.get(kind.removesuffix(" | None"), "true or false")
    raise ConfigError(f"Expected {knob_.name} to be {wanted}, got {value!r}. Correct it and try again.")


def read_yaml(path: Path) -> dict[str, Any]:
    """The knobs in a YAML file."""
    import yaml

    try:
        values = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"Expected a YAML file at '{path}', got: {error.strerror}. Check the path.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is not valid YAML: {str(error).splitlines()[0]}. Correct the file.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"Expected lines such as 'target: price' in '{path}', got something else.")
    return values
