"""One plug-in of each kind: a penalty, a step rule, a callback and a reader; pyproject.toml gives them their names."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from shoal.errors import DataError
from shoal.metrics import Round
from shoal.models import Array, Prox
from shoal.steps.optimizers import Memory, StepRule
from shoal.training.callbacks import Callback, RunView


class NonNegativeLasso:
    """alpha * sum(w) where no weight is negative, infinite elsewhere."""

    def __init__(self, alpha: float, l1_ratio: float, n: float) -> None:
        self.alpha = alpha

    def value(self, w: Array) -> float:
        return float(self.alpha * w.sum()) if (w >= 0).all() else np.inf

    def prox(self, w: Array, step: float | Array) -> Array:
        moved: Array = np.maximum(w - step * self.alpha, 0)
        return moved

    def optimality_gap(self, w: Array, gradient: Array) -> float:
        slope = gradient + self.alpha  # of the objective, to the right
        distance = np.where(w > 0, np.abs(slope), np.maximum(-slope, 0))
        return float(distance.max(initial=0.0)) if (w >= 0).all() else np.inf


class SignSGD(StepRule):
    """Steps of one length for all coordinates: along the sign of the mean gradient of the last few (Signum).

    That is a step of size rate / |mean_j| for each coordinate, and the penalty's prox has to be told so: only then
    does the rule come to rest at the optimum. Very small means are not blown up to a full step.
    """

    name = "sign"

    def blank(self) -> Memory:
        return {"mean": np.zeros(self.width)}

    def step(self, w: Array, gradient: Array, rate: float, prox: Prox) -> Array:
        mean = self.memory["mean"] = self.momentum * self.memory["mean"] + (1 - self.momentum) * gradient
        size = np.abs(mean)
        if not size.any():
            return w
        steps = rate / np.maximum(size, 1e-3 * size.max())
        return prox(w - steps * mean, steps)

    def safe_rate(self, curvature: float, scale: float) -> float:
        return scale / 100  # it has to cross the size that weights can have, and to stop near the optimum


class BestRound(Callback):
    """Keeps the round with the least loss, or the best R2 of test rows if there are any; writes $SHOAL_BEST_ROUND."""

    def __init__(self) -> None:
        self.path = Path(os.environ["SHOAL_BEST_ROUND"])
        self.best: dict[str, Any] | None = None

    def round_ended(self, run: RunView, round: Round) -> None:
        loss = round.loss if round.validation is None else 1 - round.validation
        if self.best is None or loss < self.best["loss"]:
            self.best = {"round": round.round, "loss": loss, "weights": run.weights().tolist()}

    def run_ended(self, run: RunView, state: str) -> None:
        self.path.write_text(json.dumps(self.best))


class JsonLines:
    """One JSON object a line; the columns are all names that occur, in the order in which they first do."""

    suffixes = (".jsonl", ".ndjson")

    def text(self, path: Path) -> Iterator[bytes]:
        names = list(dict.fromkeys(name for row in self._rows(path) for name in row))
        buffer = io.StringIO()
        table = csv.writer(buffer, lineterminator="\n")
        table.writerow(names)
        for row in self._rows(path):
            table.writerow([self._field(row.get(name)) for name in names])
            if buffer.tell() > 1 << 16:
                yield buffer.getvalue().encode()
                buffer.seek(0)
                buffer.truncate()
        yield buffer.getvalue().encode()

    def _rows(self, path: Path) -> Iterator[dict[str, Any]]:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line, parse_float=str, parse_int=str)  # digits as they are written
                except ValueError as error:
                    raise DataError(f"Line {number} of '{path.name}' is not JSON: {error}. Correct it.") from None
                if not isinstance(row, dict):
                    raise DataError(
                        f"Expected a JSON object in line {number} of '{path.name}', got {line.strip()[:40]}."
                    )
                yield row

    def _field(self, value: Any) -> str:
        if value is None:
            return ""
        return value if isinstance(value, str) else json.dumps(value)


json_lines = JsonLines()
