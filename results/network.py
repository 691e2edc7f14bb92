"""What is said of a network: what it is made of, and how well it does on its rows."""

from __future__ import annotations

from dataclasses import dataclass

SCORES = {
    "accuracy": "Accuracy", "yes": "Accuracy", "probability": "Accuracy", "r2": "R²", "loss": "Loss",
}  # fmt: skip


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

    def sentences(self) -> tuple[str, ...]:
        """What it is, how well it does, and on which rows."""
        which = "test" if self.test.rows else "training"
        found = self.honest
        first = f"{self.name} has {self.parameters:,} parameters in {len(self.parts)} parts; its loss is {self.loss}."
        if found.loss is None:
            return (first,)
        told = f" and {self.score_name} {found.score:.4f}" if found.score is not None else ""
        second = f"On {found.rows:,} {which} rows it comes to a loss of {found.loss:.5g}{told}."
        if self.test.rows:
            rest = self.train
            share = f", {self.score_name} {rest.score:.4f}" if rest.score is not None else ""
            return first, second, f"On the {rest.rows:,} rows that it was trained on: {rest.loss:.5g}{share}."
        return first, second, "No rows were kept for testing, so on new rows it may do worse."
