"""What `explain` says of a model of another loss: intervals from its file at any confidence, importance from rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.data.encoding import Encoding
from shoal.data.splits import Split, Yes
from shoal.fitting.model_file import SavedModel
from shoal.losses.layers import NetworkMean
from shoal.results.answers.importance import PERMUTATION, ColumnWorth
from shoal.results.fit import Estimate
from shoal.results.outcome import FACTORS, factor
from shoal.settings.config import RunConfig
from shoal.solve.distributions import student_quantile
from shoal.solve.intervals import meaning
from shoal.tasks.outcomes.importance import importance
from shoal.tasks.outcomes.network_importance import network_importance

NORMAL = float("inf")  # degrees of freedom where the dispersion is known
LAYERS = "There are no coefficients and no intervals of them: in a network no column has a weight of its own."
PENALISED = (
    "There are no intervals by formula: coefficients beside a penalty are pulled toward 0, and no formula says how far."
)


def rows_for(model: SavedModel, config: RunConfig, own_data: bool = True) -> Encoding:
    """The rows that the model was fitted to, or those of another file, with the target as the loss takes it."""
    outcome = model.outcome
    yes: Yes = outcome.labels[1] if outcome and outcome.classes else None
    if outcome and outcome.several:
        yes = outcome.labels
    return replace(
        model.encoding, target=model.target, drop_missing=own_data and config.impute == "drop",
        weights=config.weights if own_data else "", yes=yes,
    )  # fmt: skip


def intervals_of(model: SavedModel, confidence: float) -> list[dict[str, Any]]:
    """By formula, from the standard errors in the file (Wald): estimate ± quantile * error, and its factor."""
    found, outcome = model.report.inference, model.outcome
    if found is None or outcome is None:
        return []
    df = found.residual_df if outcome.dispersion is not None and found.residual_df else NORMAL
    reach = student_quantile(df, (1 + confidence) / 2)

    def told(one: Estimate | None) -> dict[str, float | None]:
        at, error = (one.estimate, one.std_error) if one else (None, None)
        ends = (None, None) if at is None or error is None else (at - reach * error, at + reach * error)
        said = {"estimate": at, "std_error": error, "low": ends[0], "high": ends[1]}
        if outcome.link in FACTORS:
            said |= {"factor": factor(at), "factor_low": factor(ends[0]), "factor_high": factor(ends[1])}
        return said

    return [{
        "kind": outcome.errors_by, "confidence": confidence, "meaning": meaning(outcome.errors_by, confidence),
        "coefficients": {name: told(one) for name, one in found.coefficients.items()},
        "intercept": told(found.intercept) if found.intercept else None,
    }]  # fmt: skip


def of_rows(coordinator: Coordinator, dataset: Dataset, model: SavedModel, config: RunConfig) -> ColumnWorth:
    """What each column is worth, from the rows that the model was fitted to, or kept for testing."""
    _, coef, intercept, loss = model.fitted
    assert loss is not None
    split = Split(config.test_every, config.test_fraction, config.seed)
    rows, of_test = rows_for(model, config), bool(model.report.test.rows)
    if isinstance(loss, NetworkMean):
        found = network_importance(coordinator, dataset, rows, split, loss, of_test)
        return replace(found, meaning=meaning("borrowed column"))
    found = importance(coordinator, dataset, rows, split, coef, intercept, loss, of_test)
    return replace(found, meaning=meaning(PERMUTATION))
