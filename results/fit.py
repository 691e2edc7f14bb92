"""The report of a fit: what `train --json` prints, what a run leaves as result.json and what a model file says."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from shoal.errors import Standing
from shoal.lazy.classes import dataclass
from shoal.results.collinearity import Collinearity
from shoal.results.findings import Finding
from shoal.results.network import NetworkReport
from shoal.results.outcome import Outcome, class_terms
from shoal.results.plain import plain, read
from shoal.results.tuned import CrossValidated, FormulaIntervals
from shoal.words import term_shown

GRADIENT = "gradient"
FINISHED = Standing("finished")


@dataclass(frozen=True)
class FitScores:
    """On some rows; None where there are too few of them or the target is constant."""

    rows: int = 0
    r2: float | None = None
    adjusted_r2: float | None = None
    rmse: float | None = None
    mae: float | None = None


@dataclass(frozen=True)
class OwnMetric:
    """What a plug-in's metric says of training and test rows; None where there are none, or no finite number."""

    train: float | None = None
    test: float | None = None
    better: str = "lower"


@dataclass(frozen=True)
class Estimate:
    """One coefficient with what its formula says of its error."""

    estimate: float | None
    std_error: float | None
    t: float | None
    p_value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class FitInference:
    """Errors of a linear model's coefficients, and of the fit as a whole."""

    confidence: float
    coefficients: dict[str, Estimate]
    intercept: Estimate | None
    residual_sd: float | None
    residual_df: float | None
    f: float | None
    f_p_value: float | None
    r2: float | None
    adjusted_r2: float | None

    def named(self) -> dict[str, Estimate]:
        """All estimates by the names that tables give them, the intercept's first."""
        first = {"(intercept)": self.intercept} if self.intercept else {}
        return first | self.coefficients


@dataclass(frozen=True)
class PredictionInterval:
    """Half-widths by level, such as "0.9"; None where `rows` are too few for one."""

    method: str
    rows: int
    half_widths: dict[str, float | None]
    meaning: str
    note: str | None
    # What widths are: numbers (even), times of the prediction's root or of itself (share), logarithms of factors, or
    # roots of a deviance.
    spread: str = "even"
    centre: float = 1.0  # times of the prediction that those factors are about: its median


@dataclass(frozen=True)
class BandLine:
    """One of two quantile lines, in the terms of the model that they stand beside."""

    intercept: float
    coefficients: dict[str, float]


@dataclass(frozen=True)
class Bands:
    """Two quantile lines about a model's predictions, and how far both are moved apart (less than 0: together) so that
    a new row lies between them with a chance of the level: intervals that are as wide as rows spread there."""

    level: float
    rows: int  # held-out ones, which say how far
    correction: float
    low: BandLine
    high: BandLine
    # Of the intervals of these rows: the mean width, and those that a tenth of them is narrower and wider than.
    mean_width: float
    narrow: float
    wide: float
    crossed: float = 0.0  # the share of these rows in which the lines had changed places

    @property
    def lines(self) -> tuple[BandLine, BandLine]:
        return self.low, self.high

    def are_of(self, level: float | None) -> bool:
        return level is not None and abs(level - self.level) < 1e-9


@dataclass(frozen=True)
class FitCertificate:
    """How far the answer can be from the optimum, and whether the data or their moments say so."""

    kind: str
    value: float | None
    relative: float | None
    rests_on: str

    @property
    def is_exact(self) -> bool:
        """Whether it is as small as double precision lets one hope for."""
        return self.relative is not None and self.relative < 1e-8


@dataclass(frozen=True)
class Filled:
    """In how many rows a column had no number, and what stands in for them."""

    rows: int
    value: float | None


@dataclass(frozen=True)
class Resolved:
    """What was `auto` in a gradient run, decided once and kept with it."""

    shards: int
    precision: str
    batch_size: int
    local_steps: int
    prefetch: int
    learning_rate: float
    top: float  # largest eigenvalue of Xs'Xs / n


@dataclass(frozen=True, kw_only=True)
class GradientTraining:
    """How a gradient run went and how it ended. Distances are None where the optimum is not known."""

    mode: str
    epochs: float
    rounds: int
    distance_to_optimum: float | None = None
    coefficient_distance: float | None = None
    slope: float | None = None
    converged: bool = False
    not_converged: str = ""  # what is left to the optimum, in words
    ending: Standing = FINISHED
    resolved: Resolved | None = None
    in_force: dict[str, Any] = field(default_factory=dict)  # at the end: knobs that may be changed on the way
    ledger: dict[str, int] = field(default_factory=dict)
    overhead: dict[str, float] = field(default_factory=dict)
    events: tuple[dict[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The names stand beside those of the report, not in an object of their own."""
        said: dict[str, Any] = {"solver": GRADIENT}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            said |= value.as_dict() if each.name == "ending" else {each.name: plain(value)}
        return said

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GradientTraining:
        return replace(read(cls, without(values, "ending")), ending=Standing.read(values, "finished"))


@dataclass(frozen=True, kw_only=True)
class FitReport:
    """All that is said of a fit. What older programs did not say yet has a default."""

    model: str
    target: str
    alpha: float | None = None
    l1_ratio: float | None = None
    intercept: float
    coefficients: dict[str, float]
    coefficients_standardized: dict[str, float] = field(default_factory=dict)
    train: FitScores = FitScores()
    test: FitScores = FitScores()
    inference: FitInference | None = None
    prediction_interval: PredictionInterval | None = None
    bands: Bands | None = None  # intervals that follow the rows, where they were asked for
    certificate: FitCertificate | None = None
    condition: float | None = None
    unique: bool = True
    rows_read: int = 0
    rows_dropped: dict[str, int] = field(default_factory=dict)
    filled: dict[str, Filled] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)  # of text columns: compared with
    columns_used: int = 0  # of the table: those of which some weight is not 0
    columns_left_out: tuple[str, ...] = ()  # of the table: by choice, or since they cannot be used
    findings: tuple[Finding, ...] = ()  # worth knowing before it was fitted
    dates: dict[str, str] = field(default_factory=dict)  # columns that hold dates, with how they are written
    warnings: tuple[str, ...] = ()
    routine: tuple[str, ...] = ()  # those of the warnings that only say how things were done
    training: GradientTraining | None = None  # of a gradient run
    penalty: str | None = None  # of a plug-in
    cross_validation: CrossValidated | None = None  # of a penalty that was chosen by it
    intervals: tuple[FormulaIntervals, ...] = ()  # of its coefficients
    outcome: Outcome | None = None  # of a model of another loss than squares
    collinearity: Collinearity | None = None  # of a model that was fitted from sums
    network: NetworkReport | None = None  # of a module
    own_metrics: dict[str, OwnMetric] = field(default_factory=dict)  # of plug-ins, by their names
    timings: dict[str, float] = field(default_factory=dict)
    run_id: str = ""

    @property
    def standardized(self) -> dict[str, float]:
        """For columns of mean 0 and spread 1; as they are where nothing was standardised."""
        return self.coefficients_standardized or self.coefficients

    @property
    def intercepts(self) -> dict[str, float]:
        """By name: one, or that of each of several classes."""
        if self.outcome is None or not self.outcome.several:
            return {"(intercept)": self.intercept}
        names = class_terms(self.outcome.classes, ["(intercept)"])
        return dict(zip(names, self.outcome.intercepts, strict=True))

    def shown(self, term: str) -> str:
        """The name of a coefficient for the eye, with its unit where that is not the file's own: days, for dates."""
        return f"{term} (per day)" if term in self.dates else term_shown(term)

    @property
    def honest(self) -> FitScores:
        """On test rows where there are any."""
        return self.test if self.test.rows else self.train

    @property
    def to_mind(self) -> tuple[str, ...]:
        """The warnings that are more than routine; a gradient run's distance to its end is said by itself."""
        said = {*self.routine, *([self.training.not_converged] if self.training else [])}
        return tuple(text for text in self.warnings if text not in said)

    @property
    def ending(self) -> Standing:
        """An exact fit that has a report has finished."""
        return self.training.ending if self.training else FINISHED

    def as_dict(self) -> dict[str, Any]:
        said: dict[str, Any] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if each.name == "training":
                said |= value.as_dict() if value else {}
            elif value or each.name not in LAST:
                said[each.name] = plain(value)
        return said

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FitReport:
        training = GradientTraining.from_dict(values) if values.get("solver") == GRADIENT else None
        return replace(read(cls, without(values, "training")), training=training)


# Written where there is something to say.
LAST = ("references", "columns_used", "columns_left_out", "findings", "routine", "penalty", "cross_validation",
        "intervals", "bands", "outcome", "network", "own_metrics", "timings", "run_id")  # fmt: skip


def without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}
