"""What a model keeps of the tuning that chose it: its error in cross-validation and how sure its coefficients are."""

from __future__ import annotations

from dataclasses import field

from shoal.lazy.classes import dataclass

BEST, ONE_SE, BY_HAND = "best", "one_se", "by hand"
WAYS = {
    BEST: "the lowest error of all alphas",
    ONE_SE: "the strongest penalty within one standard error of the best",
    BY_HAND: "chosen by hand",
}


@dataclass(frozen=True)
class CrossValidated:
    """The error of a model on rows that it was not fitted to, mean over folds; how many alphas were tried, and which
    of them was taken. None where there is nothing to say."""

    folds: int
    fold_by: str
    chosen: str  # a key of WAYS
    mse: float | None = None
    se: float | None = None  # of mse
    rmse: float | None = None
    r2: float | None = None
    alphas: int = 1
    best: float | None = None  # alpha
    one_se: float | None = None
    measure: str = ""  # of another loss: what its error is, and the error itself, in place of mse, rmse and r2
    deviance: float | None = None
    explained: float | None = None  # share of the error of the best constant

    @property
    def error(self) -> float | None:
        return self.deviance if self.measure else self.mse

    @property
    def error_name(self) -> str:
        return self.measure or "mean squared error"


@dataclass(frozen=True)
class FormulaInterval:
    """One coefficient and the ends of its interval."""

    estimate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class FormulaIntervals:
    """Of all coefficients; `kind` says of what: of the model itself, or of what it would be without its penalty."""

    kind: str
    confidence: float
    meaning: str
    coefficients: dict[str, FormulaInterval] = field(default_factory=dict)
