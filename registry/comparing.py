"""Two models on the rows of one file: which loses less, and how sure that is; one pass over the blocks, through the
coordinator. What becomes of the answer is decided in `promotion`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.errors import ConfigError, DataError
from shoal.files.parts import title
from shoal.fitting.model_file import SavedModel, load_model
from shoal.registry.pairs import ComparePair, ModelRows, PairedSums, RowLossName
from shoal.results.answers.comparison import VersionComparison
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.solve.distributions import student_quantile
from shoal.tasks.outcomes.explain import rows_for
from shoal.tasks.predict import open_for, suited
from shoal.tasks.train import coordinated
from shoal.utils import Progress, silent

CONFIDENCE = 0.95
SCORES: dict[RowLossName, tuple[str, str]] = {  # what the score is called, and what a row loses
    "squared": ("RMSE", "squared error"), "log": ("log loss", "log loss"), "pinball": ("pinball loss", "pinball loss"),
}  # fmt: skip


def compare(
    first: Path, second: Path, config: RunConfig, progress: Progress = silent, labels: tuple[str, str] = ("", "")
) -> VersionComparison:
    """The second against the first, on the rows of the config's file that have the target and that both predict."""
    one, two = load_model(first), load_model(second)
    by, quantile = _loss_of(one, two)
    with coordinated(config, progress) as coordinator:

        def compared() -> tuple[PairedSums, int, tuple[bool, ...]]:
            sides = [_opened(model, coordinator, config) for model in (one, two)]
            requests = _requests(sides, by, quantile)
            total = PairedSums()
            for part in coordinator.swept("comparing", requests):
                total = total.merge(part)
            own = tuple(dataset.manifest.content == model.file.data.content for model, dataset in sides)
            return total, sides[0][1].rows, own

        sums, rows, trained = coordinator.cache.mending(compared)
    if sums.rows < 2:
        raise DataError(
            f"Expected rows of '{title(config.file)}' with a value of '{one.target}' that both versions predict, got "
            f"{sums.rows}. Choose another file."
        )
    reach = student_quantile(sums.rows - 1, (1 + CONFIDENCE) / 2) * math.sqrt(
        sums.squares / (sums.rows - 1) / sums.rows
    )
    scores = [total / sums.rows for total in (sums.first, sums.second)]
    scores = [math.sqrt(score) for score in scores] if by == "squared" else scores
    names = (labels[0] or first.stem, labels[1] or second.stem)
    return VersionComparison(
        first=names[0], second=names[1], file=title(config.file), rows=sums.rows, left_out=rows - sums.rows,
        score=SCORES[by][0], first_score=scores[0], second_score=scores[1], loss=SCORES[by][1], difference=sums.mean,
        low=sums.mean - reach, high=sums.mean + reach, confidence=CONFIDENCE,
        trained_on=tuple(name for name, own in zip(names, trained, strict=True) if own),
    )  # fmt: skip


def _loss_of(one: SavedModel, two: SavedModel) -> tuple[RowLossName, float]:
    """What both are judged by: classes by probabilities, the same quantile by its own loss, numbers by squares."""
    if one.target != two.target:
        raise ConfigError(
            f"Expected two models of the same column, got '{one.target}' and '{two.target}'. Choose others."
        )
    classes = [model.outcome.classes if model.outcome else () for model in (one, two)]
    if set(classes[0]) != set(classes[1]):
        raise ConfigError(
            f"Expected two models that predict the same of '{one.target}', got one of {_said(classes[0])} and one of "
            f"{_said(classes[1])}. Choose others."
        )
    if classes[0]:
        return "log", 0.5
    levels = {model.outcome.parameters.get("quantile") if model.outcome else None for model in (one, two)}
    level = levels.pop() if len(levels) == 1 else None
    return ("squared", 0.5) if level is None else ("pinball", level)


def _said(classes: Sequence[str]) -> str:
    return f"the classes {', '.join(classes[:5])}" if classes else "numbers"


def _opened(model: SavedModel, coordinator: Coordinator, config: RunConfig) -> tuple[SavedModel, Dataset]:
    dataset = open_for(model, coordinator, config, target=True)
    column = dataset.columns.get(model.target)
    if column is None:
        raise DataError(
            f"Expected the column '{model.target}' to compare predictions with, but the file does not have it. "
            "Choose a file with it."
        )
    if not (model.outcome and model.outcome.classes) and not column.is_number:
        raise DataError(f"Expected numbers in the column '{model.target}', got text. Correct the file.")
    return suited(model, dataset), dataset


def _requests(sides: Sequence[tuple[SavedModel, Dataset]], by: RowLossName, quantile: float) -> list[ComparePair]:
    blocks = [[(block.first, block.rows) for block in dataset.blocks] for _, dataset in sides]
    if blocks[0] != blocks[1]:
        raise DataError(
            "Expected both versions to read the same rows of the file, but they read it differently: their missing "
            "values or dialects are others. Compare their predictions instead."
        )
    made = [
        [ModelRows(str(dataset.directory), block, rows_for(model, config_from(model.file.config), own_data=False),
                   *model.fitted[1:]) for block in dataset.blocks]
        for model, dataset in sides
    ]  # fmt: skip
    return [ComparePair(one, two, by, quantile) for one, two in zip(*made, strict=True)]
