"""The card of a saved model: what is said about a version without opening its model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from shoal.lazy.classes import dataclass
from shoal.results.fit import FitCertificate, FitScores
from shoal.results.outcome import Headline
from shoal.results.plain import plain, read
from shoal.results.tuned import CrossValidated


@dataclass(frozen=True)
class TrainedOn:
    """The data of a saved model: the file's name, a fingerprint of its content, its rows, and where it was."""

    file: str = ""
    content: str = ""
    rows: int = 0
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What was true when the version was saved, and a person's note. None where there is nothing to say."""

    target: str = ""
    model: str = ""
    alpha: float | None = None
    l1_ratio: float | None = None
    train: FitScores = field(default_factory=FitScores)
    test: FitScores = field(default_factory=FitScores)
    certificate: FitCertificate | None = None
    rows_read: int | None = None
    rows_dropped: dict[str, int] = field(default_factory=dict)
    mode: str | None = None
    epochs: float | None = None
    rounds: int | None = None
    distance_to_optimum: float | None = None
    converged: bool | None = None
    cause: str | None = None
    penalty: str | None = None
    headline: Headline | None = None  # where there is no R2
    cross_validation: CrossValidated | None = None
    file_checksum: str | None = None  # of the model file that it is about
    run: str = ""
    created: float = 0.0  # seconds since 1970
    state: str = "finished"
    solver: str = "exact"
    coefficients: int = 0
    seconds: float | None = None  # that training took
    data: TrainedOn = TrainedOn()
    config: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    copied_from: str | None = None

    @property
    def honest(self) -> tuple[FitScores, str]:
        """The scores on test rows where there are any, and which rows they are of."""
        return (self.test, "test") if self.test.rows else (self.train, "train")

    def as_dict(self) -> dict[str, Any]:
        """What only some models have is left out of the others."""
        return {name: value for name, value in plain(self).items() if value is not None or name not in SOME}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelCard:
        """Raises `Malformed` with the name of what is wrong."""
        return read(cls, {name: value for name, value in values.items() if value is not None})


SOME = (
    "mode", "epochs", "rounds", "distance_to_optimum", "converged", "cause", "penalty", "copied_from",
    "file_checksum", "cross_validation", "headline",
)  # fmt: skip
