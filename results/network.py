"""What is said of a network: what it is made of, and how well it does on its rows."""

from __future__ import annotations

from enum import StrEnum

from shoal.lazy.classes import dataclass
from shoal.words import number, plural

SCORES = {
    "accuracy": "Accuracy", "yes": "Accuracy", "probability": "Accuracy", "r2": "R²", "loss": "Loss",
}  # fmt: skip
LITTLE = 0.02  # share of the linear model's error below which a gain is not worth a model that nobody can read


@dataclass(frozen=True)
class NetworkPart:
    """So many numbers of the flat vector of parameters, and what the module calls them."""

    name: str
    size: int


@dataclass(frozen=True)
class NetworkScores:
    """On some rows; None where there are none, or nothing beside the loss is known of such targets."""

    rows: int = 0
    loss: float | None = None
    score: float | None = None


class Worth(StrEnum):
    """Whether a network on a table is worth it, beside the exact linear model on the same test rows."""

    BETTER = "better"
    LITTLE = "little"  # better without doubt, but by next to nothing
    SAME = "same"  # these rows show no difference
    WORSE = "worse"


@dataclass(frozen=True, kw_only=True)
class BesideLinear:
    """A network and the exact linear model on the same test rows.

    The difference is the mean over these rows of (loss of the network - loss of the other), with a 95 % interval of
    Student's t: rows are paired, so what is hard for both counts for neither. Both models are taken as they are.
    """

    model: str  # linear, or logistic for yes and no
    measure: str  # what is averaged: squared error, log loss
    rows: int
    network: float | None  # mean loss of the test rows
    linear: float | None
    difference: float | None
    low: float | None
    high: float | None
    network_error: float | None = None  # as a person would say it: RMSE, or the share predicted wrongly
    linear_error: float | None = None

    @property
    def worth(self) -> Worth | None:
        """None where rows are too few to tell."""
        if self.low is None or self.high is None or not self.linear or self.difference is None:
            return None
        if self.low <= 0 <= self.high:
            return Worth.SAME
        if self.high < 0:
            return Worth.BETTER if -self.difference >= LITTLE * self.linear else Worth.LITTLE
        return Worth.WORSE

    def sentences(self, target: str = "") -> tuple[str, ...]:
        """The two side by side, the difference and its uncertainty, and whether it is worth it."""
        if self.network is None or self.linear is None:
            return (f"No rows were kept for testing, so nobody knows whether it beats the {self.model} model.",)
        first = (
            f"Beside it, on the same {plural(self.rows, 'test row')}, the exact {self.model} model: {self.measure} "
            f"{number(self.linear)}, the network {number(self.network)}"
        )
        if self.network_error is not None and self.linear_error is not None:
            first += f" ({self._errors(target)})"
        if self.difference is None or self.low is None or self.high is None:
            return (f"{first}.", "These are too few rows to tell the two apart.")
        second = (
            f"The difference is {number(self.difference)}, with a 95 % interval from {number(self.low)} to "
            f"{number(self.high)}; below 0 the network is better."
        )
        return (f"{first}.", second, self._advice())

    def _errors(self, target: str) -> str:
        if self.model == "logistic":
            wrong = (f"{100 * (share or 0):.1f} %" for share in (self.linear_error, self.network_error))
            return "{} and {} of rows predicted wrongly".format(*wrong)
        unit = f" of '{target}'" if target else ""
        return f"typical errors{unit}: {number(self.linear_error)} and {number(self.network_error)}"

    def _advice(self) -> str:
        share = abs(self.difference or 0.0) / (self.linear or 1.0)
        return {
            Worth.BETTER: f"It is worth it: it removes {100 * share:.0f} % of the {self.model} model's {self.measure}, "
            "more than chance among these rows explains.",
            Worth.LITTLE: f"It is hardly worth it: it is better, but by {100 * share:.1f} % of the {self.model} "
            f"model's {self.measure}. The {self.model} model can be read, and is nearly as good.",
            Worth.SAME: f"It is not worth it, as far as these rows show: the interval has 0 in it. Take the "
            f"{self.model} model, which can be read, or keep more rows for testing.",
            Worth.WORSE: f"It is not worth it: the {self.model} model is better on these rows. Take that one.",
            None: "These rows do not tell the two apart.",
        }[self.worth]


@dataclass(frozen=True, kw_only=True)
class StoredLayers:
    """A network on a table as its model file has it: how columns are standardised, then layer by layer the weights,
    a line for each unit, and what is added."""

    activation: str = "relu"  # between two layers
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[tuple[tuple[float, ...], ...], ...]
    biases: tuple[tuple[float, ...], ...]
    target_centre: float = 0.0
    target_scale: float = 1.0


@dataclass(frozen=True)
class NetworkReport:
    """A module that was trained: its parts in the order of the flat vector, its loss and its scores."""

    name: str
    precision: str
    loss: str
    score: str  # accuracy, yes, probability, r2, loss
    parts: tuple[NetworkPart, ...]
    train: NetworkScores = NetworkScores()
    test: NetworkScores = NetworkScores()
    hidden: tuple[int, ...] = ()  # sizes of the hidden layers, of a network on a table
    validation_rows: int = 0  # training rows that said when to stop
    beside: BesideLinear | None = None

    @property
    def parameters(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def honest(self) -> NetworkScores:
        """On test rows where there are any."""
        return self.test if self.test.rows else self.train

    @property
    def score_name(self) -> str:
        return SCORES.get(self.score, self.score)

    def sentences(self, target: str = "") -> tuple[str, ...]:
        """What it is, how well it does, and on which rows; on a table also whether it is worth it."""
        return (*self._own(), *(self.beside.sentences(target) if self.beside else ()))

    def _own(self) -> tuple[str, ...]:
        which = "test" if self.test.rows else "training"
        found = self.honest
        first = f"{self.name} has {self.parameters:,} parameters in {len(self.parts)} parts; its loss is {self.loss}."
        if self.hidden:
            sizes = " and ".join(map(str, self.hidden))
            first = (
                f"A network with hidden layers of {sizes} units, {self.parameters:,} parameters in all; "
                f"{plural(self.validation_rows, 'training row')} said when to stop."
            )
        if found.loss is None:
            return (first,)
        told = f" and {self.score_name} {found.score:.4f}" if found.score is not None else ""
        second = f"On {found.rows:,} {which} rows it comes to a loss of {found.loss:.5g}{told}."
        if self.test.rows:
            rest = self.train
            share = f", {self.score_name} {rest.score:.4f}" if rest.score is not None else ""
            which = "rows that it was trained on"
            which = f"training rows, the {self.validation_rows:,} included" if self.hidden else which
            return first, second, f"On the {rest.rows:,} {which}: {rest.loss:.5g}{share}."
        return first, second, "No rows were kept for testing, so on new rows it may do worse."
