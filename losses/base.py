"""What a loss is: a function of the target y and the linear score eta = b + x'w, row by row; no data, no solver.

A penalty is in `models`, a solver in `solve`; a loss knows neither. Least squares is the case `Squared`: it is fitted
from moments, and stands here so that one suite of tests holds for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

import numpy as np

from shoal.models import TINY, Array
from shoal.words import times_prediction

# What rows spread by: the same everywhere, the root of the mean, a share of it (in older files), a factor about the
# median, or the deviance of a gamma distribution.
SpreadIs = Literal["even", "root", "share", "factor", "deviance"]
Target = Literal["two", "counts", "positive", "number"]  # what the values of a target have to be
FAR_OFF = 100.0  # how far a constant goes where offsets are such that sums of exponentials leave the doubles


class Pieces(NamedTuple):
    """A loss at some rows, each (n,): its value, and its first and second derivative by eta."""

    value: Array
    slope: Array
    curvature: Array


class LossOfRows:
    """A loss of given rows at scores eta (n,), times what each row counts, for steps on all of them at once."""

    def __init__(self, loss: RowLoss, y: Array, weights: Array | None = None) -> None:
        self.loss, self.y, self.weights = loss, y, weights

    def __call__(self, eta: Array) -> Pieces:
        found = self.loss.steps(self.y, eta)
        return found if self.weights is None else Pieces(*(part * self.weights for part in found))


class AlongScale(NamedTuple):
    """A loss at some rows by its own scale, each (n,): first and second derivative, and that by the scale and eta."""

    slope: Array
    square: Array
    cross: Array


class Totals(NamedTuple):
    """Sums over rows that a log likelihood is made of: what rows count for, their losses, deviances, likelihoods."""

    n: float
    value: float
    deviance: float
    likelihood: float


class RowLoss(Protocol):
    """-log likelihood of y (n,) at eta (n,), but for a constant that depends on y alone.

    All that is different from loss to loss is said by the object: nothing asks for its name.
    """

    name: str
    link: str  # the function of the mean that eta is
    dispersed: bool  # whether the spread about the mean is estimated; else the mean says it
    target: Target
    beside_sum: bool = False  # whether `alpha` is beside a sum of losses, as scikit-learn's estimator has it, or a mean
    mean_within: tuple[float, float] = (0.0, float("inf"))  # where the mean of a target that can be learned lies
    scores: tuple[str, ...] = ("deviance_explained", "mean_deviance", "rmse", "mae")  # in `results.outcome`

    spread_is: SpreadIs = "even"
    has_scale: bool = False  # whether a scale of residuals is found together with the coefficients
    constant_at: float | None = None  # the quantile of y that is said where nothing is known; None for the mean
    mean_is_constant: bool = True  # whether the best constant is the link of the mean
    in_c: bool = False  # whether losses_kernel.c has it too, by its name, so that a pass reads rows once
    smears: bool = False  # whether what is fitted is no mean of y, so that a shift of the scores makes it one

    @property
    def origin(self) -> float:
        """The score of a row where neither columns nor an intercept say anything."""
        return 0.0

    @property
    def of_constant(self) -> RowLoss:
        """The same for the model that knows nothing but one number."""
        return self

    def shifted(self, shift: float, constant_shift: float, /) -> RowLoss:
        """The same with scores that far up, of a loss that `smears`; and that far for the constant."""
        return self

    @property
    def parameters(self) -> Mapping[str, float]:
        """Its own numbers, such as the level of a quantile; with its name they make it again, see `named`."""
        return MappingProxyType({})

    def at(self, y: Array, eta: Array, /) -> Pieces:
        """Value, slope and curvature of each row; convex, so the curvature is 0 or more."""
        ...

    def steps(self, y: Array, eta: Array, /) -> Pieces:
        """The same with a curvature that Newton steps can rest on, where the own one vanishes."""
        return self.at(y, eta)

    def along_scale(self, y: Array, eta: Array, /) -> AlongScale | None:
        """Of a loss whose scale is found with the coefficients."""
        return None

    def scaled(self, scale: float, /) -> RowLoss:
        """The same at another scale, of a loss that has one."""
        return self

    def mean(self, eta: Array, /) -> Array:
        """The expected y: the inverse of the link."""
        ...

    def eta(self, mean: float, /) -> float:
        """The link itself; of the mean of y it is the best constant, that of knowing nothing else."""
        ...

    def expected(self, eta: Array, /) -> Array:
        """The curvature that is expected at eta, which standard errors rest on (Fisher's information of eta)."""
        ...

    def deviance(self, y: Array, eta: Array, value: Array, /) -> Array:
        """Twice the loss less that of a model that knows every y; 0 where the mean is y. `value` is that of `at`."""
        ...

    def likelihood(self, y: Array, value: Array, /) -> Array:
        """The whole log likelihood of each row, constants included, as R and statsmodels have it; a `dispersed` loss
        has one only beside its dispersion, and gives that of dispersion 1."""
        ...

    def log_likelihood(self, sums: Totals, dispersion: float | None, /) -> float:
        """The log likelihood of all rows, at the dispersion where there is one."""
        return sums.likelihood

    def pearson(self, y: Array, mean: Array, /) -> Array:
        """Squares whose mean is the dispersion, of a `dispersed` loss."""
        return np.asarray(((y - mean) / mean) ** 2)

    def sizes(self, y: Array, mean: Array, /) -> Array:
        """How far rows are from their means, measured so that those of all rows are alike."""
        return np.abs(y - mean)

    def interval(self, mean: Array, width: float, by: str = "", /) -> tuple[Array, Array]:
        """Both ends, as far from the mean as rows of this size are, and no lower than a mean can lie; `by`: how sizes
        were measured, where another version of the program did."""
        by = by or self.spread_is
        if by == "deviance":
            low, high = times_prediction(width)
            return mean * low, mean * high
        size = width * (np.sqrt(mean) if by == "root" else mean if by == "share" else np.ones_like(mean))
        return np.maximum(mean - size, self.mean_within[0]), mean + size

    def dispersion(self, pearson: float, curvature: float, n: float, free: float, /) -> float:
        """From the sums of `pearson` and of the own curvature of n rows, of which coefficients leave some free."""
        return pearson / free

    def noise(self, mean: float, variance: float, deviance: float, /) -> float:
        """The variance of slopes at the best constant, from mean and variance of y and the mean deviance there: those
        of most losses are linear in y."""
        none, one = self.at(np.array([0.0, 1.0]), np.full(2, self.eta(mean))).slope.tolist()
        return float(variance * (none - one) ** 2)

    def constant_step(self, slope: float, curvature: float, n: float, most: float = 1.0, /) -> float:
        """From the sums of n rows of one and the same constant beside their offsets towards the best one; Newton's, and
        at most so far: where offsets lead away from it, there is hardly a curvature."""
        return min(max(-slope / max(curvature, TINY), -most), most)


class IdentityLink(RowLoss, Protocol):
    """A loss whose prediction is the score itself."""

    link: str = "identity"
    dispersed: bool = True
    target: Target = "number"
    mean_within: tuple[float, float] = (-math.inf, math.inf)

    def mean(self, eta: Array) -> Array:
        return eta

    def eta(self, mean: float) -> float:
        return mean

    def expected(self, eta: Array) -> Array:
        return np.ones_like(eta)

    def deviance(self, y: Array, eta: Array, value: Array) -> Array:
        return np.asarray(2 * value)
