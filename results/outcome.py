"""What is said of a model whose target is no plain number: yes or no, counts, positive numbers; types without NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.results.plain import Malformed, read


@dataclass(frozen=True)
class OutcomeScores:
    """On some rows, by name; and the same of a model that knows the training rows' mean and nothing else."""

    rows: int = 0
    scores: dict[str, float | None] = field(default_factory=dict)
    baseline: dict[str, float | None] = field(default_factory=dict)


TENTH = 0.1  # the share of rows whose lift is said


@dataclass(frozen=True)
class ThresholdCurve:
    """Rows that a yes/no model calls yes from each probability on: of those that are yes, and of those that are not."""

    yes: int
    no: int
    thresholds: tuple[float, ...]
    hits: tuple[int, ...]  # yes rows at or above the threshold
    alarms: tuple[int, ...]  # no rows at or above it


@dataclass(frozen=True)
class CalibrationBin:
    """Rows of similar probability: what was said of them on average, and how many were yes, with a 95 % interval."""

    rows: int
    predicted: float
    actual: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Beside the coefficients: which loss, what its values are called, how well it does. Older files have none."""

    loss: str
    link: str
    parameters: dict[str, float] = field(default_factory=dict)  # of the loss itself, such as the level of a quantile
    shrink: str = "none"
    classes: tuple[str, ...] = ()  # of a yes/no target: no, then yes; of several in their order
    class_rows: tuple[int, ...] = ()  # training rows of each
    numbers: bool = False  # whether the classes are numbers
    train: OutcomeScores = OutcomeScores()
    test: OutcomeScores = OutcomeScores()
    log_likelihood: float | None = None
    null_log_likelihood: float | None = None
    aic: float | None = None
    deviance: float | None = None
    null_deviance: float | None = None
    dispersion: float | None = None
    separated: bool = False  # coefficients have no finite optimum
    sweeps: int = 0  # passes over rows that the fit took: on a sample, for an offset and for scores as well
    curve: ThresholdCurve | None = None
    calibration: tuple[CalibrationBin, ...] = ()
    intercepts: tuple[float, ...] = ()  # of each class, where there are more than two
    confusion: tuple[tuple[int, ...], ...] = ()  # of honest rows: one line for each class that they are, called what

    @property
    def several(self) -> bool:
        """Whether there are more than two classes, each with coefficients of its own."""
        return len(self.classes) > 2

    @property
    def honest(self) -> OutcomeScores:
        """On test rows where there are any."""
        return self.test if self.test.rows else self.train

    @property
    def labels(self) -> tuple[str, ...] | tuple[float, ...]:
        """The classes as the file has them: numbers, where they are."""
        return tuple(map(float, self.classes)) if self.numbers else self.classes

    @property
    def errors_by(self) -> str:
        """Which argument standard errors rest on; words for it are in `solve.intervals`."""
        return "large_samples" if self.link == "identity" else "likelihood"

    @property
    def constant(self) -> str:
        """What a model that knows nothing always says."""
        quantile = self.parameters.get("quantile", 0.5)
        if self.several:
            return "the most frequent class, and shares as probabilities,"
        if self.loss not in ("huber", "quantile"):
            return "the mean"
        return "the median" if quantile == 0.5 else f"the {quantile:g} quantile"

    @property
    def shown_parameters(self) -> dict[str, float]:
        """The numbers of the loss as a person would have them: a shift of logarithms is a factor."""
        if "shift" in self.parameters:
            return {"smearing factor": math.exp(self.parameters["shift"])}
        return self.parameters

    @property
    def yes(self) -> str:
        return self.classes[1] if len(self.classes) == 2 else ""


SCORE_NAMES = {
    "log_loss": "log loss",
    "auc": "AUC",
    "pr_auc": "PR-AUC",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "brier": "Brier score",
    "f1": "F1",
    "deviance_explained": "deviance explained",
    "mean_deviance": "mean deviance",
    "loss_explained": "loss explained",
    "log_r2": "R² of logarithms",
    "log_rmse": "RMSE of logarithms",
    "huber_loss": "mean Huber loss",
    "pinball": "pinball loss",
    "below": "share at or below",
    "rmse": "RMSE",
    "mae": "MAE",
}

HEADLINES = {"auc": "AUC", "deviance_explained": "Deviance explained", "log_r2": "R² of logarithms",
             "loss_explained": "Loss explained"}  # fmt: skip  # scores that are shown where one has room


@dataclass(frozen=True)
class Headline:
    """The one score that such a model is known by in lists, where linear models have R2."""

    name: str
    train: float | None = None
    test: float | None = None

    @property
    def honest(self) -> float | None:
        return self.train if self.test is None else self.test


def headline_of(values: Any) -> Headline | None:
    """Of an outcome as a result has it; None of a linear model, or where that cannot be read."""
    try:
        found = read(Outcome, values)
    except Malformed:
        return None
    known = {**found.train.scores, **found.test.scores}
    name = next((name for name in HEADLINES if name in known), "deviance_explained")
    return Headline(HEADLINES[name], found.train.scores.get(name), found.test.scores.get(name))


def class_terms(classes: Sequence[str], terms: Sequence[str]) -> list[str]:
    """The names of the coefficients of several classes, class by class, in reports and model files."""
    mark = ": "
    while len({f"{one}{mark}{term}" for one in classes for term in terms}) < len(classes) * len(terms):
        mark = f":{mark}"  # 'a: b' with 'c' and 'a' with 'b: c' would be the same
    return [f"{one}{mark}{term}" for one in classes for term in terms]


def by_column(classes: Sequence[str], coefficients: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    """The coefficients of each term for all classes, from those that are named by `class_terms`."""
    names, values = list(coefficients), list(coefficients.values())
    count = len(values) // max(1, len(classes))
    terms = [name[len(classes[0]) :].partition(" ")[2] for name in names[:count]]
    return {term: tuple(values[at::count]) for at, term in enumerate(terms)}


def said_of_prediction(outcome: Outcome) -> str:
    """What a prediction of a model of numbers as they are is."""
    if outcome.loss == "quantile":
        share = outcome.parameters.get("quantile", 0.5)
        return f"Of rows alike, a share of {share:g} is to lie at or below it: it is {outcome.constant}, not the mean."
    return "Rows far off have little pull on it."


FACTORS = {"logit": "odds ratio", "log": "factor"}  # what e^coefficient is called, by link


def factor(coefficient: float | None) -> float | None:
    """What one unit more of a column multiplies the odds, or the mean, by; None where that is no double."""
    try:
        return None if coefficient is None else math.exp(coefficient)
    except OverflowError:
        return None
