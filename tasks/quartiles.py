"""The smallest, the quartiles and the largest residual of a model on the rows that it was trained on."""

from __future__ import annotations

import numpy as np

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.splits import Split, target_values, training_rows
from shoal.fitting.model_file import SavedModel
from shoal.settings.values import config_from

QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
ORDERED = 10_000_000  # rows whose residuals are held in memory together


def residual_quartiles(model: SavedModel, dataset: Dataset, coordinator: Coordinator) -> tuple[float, ...]:
    """Of the training rows, exactly; none where they are too many to be put in order at once.

    The data set is the one that the model was trained on.
    """
    if dataset.rows > ORDERED:
        return ()
    trained = config_from(model.file.config)
    split = Split(trained.test_every, trained.test_fraction, trained.seed)
    parts = []
    for block, (predicted, _) in zip(dataset.blocks, coordinator.predict(dataset, *model.fitted), strict=True):
        kept = training_rows(dataset, block, model.target, split)
        parts.append((target_values(dataset, block, model.target) - predicted)[kept])
    residuals = np.concatenate(parts) if parts else np.zeros(0)
    residuals = residuals[np.isfinite(residuals)]
    return tuple(np.quantile(residuals, QUARTILES).tolist()) if len(residuals) else ()
