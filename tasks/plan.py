"""The plan of a table: what every way to its model would take on more nodes; how that is found is in `planning`."""

from __future__ import annotations

import csv
import io
from typing import Any

from shoal.errors import ConfigError, Remedy
from shoal.planning.machines import NETWORK, NODES, nodes_of
from shoal.planning.plan import LIMITS, PlanRequest, make_plan
from shoal.settings.config import COMPRESSIONS, MODES, RunConfig
from shoal.settings.when import LOSSES
from shoal.settings.when import NETWORK as LAYERS
from shoal.utils import Progress, silent

__all__ = ["COLUMNS", "LIMITS", "NETWORK", "NODES", "PlanRequest", "as_csv", "nodes_of", "plan"]

COLUMNS = (
    "way", "compression", "nodes", "before", "seconds", "total", "rows_per_second", "nbytes", "node_hours", "waiting",
    "reached", "batch_size", "local_steps", "shards", "rounds", "lost",
)  # fmt: skip


def plan(config: RunConfig, asked: PlanRequest, progress: Progress = silent) -> dict[str, Any]:
    """`config.file` is a file or a shape such as 2000000x50."""
    if config.model in (*LOSSES, LAYERS):
        raise ConfigError(
            f"Expected a linear, ridge, lasso or elastic-net model to plan for, got {config.model}, whose "
            "steps are not planned.", Remedy.choose("Choose another", "model"), knobs=["model"],
        )  # fmt: skip
    for name in asked.modes:
        if name not in MODES:
            raise ConfigError(f"Expected modes out of {', '.join(MODES)}, got '{name}'. Choose some of these.")
    for name in asked.compressions:
        if name not in COMPRESSIONS:
            raise ConfigError(
                f"Expected compressions out of {', '.join(COMPRESSIONS)}, got '{name}'. Choose some of these."
            )
    return make_plan(config, asked, progress)


def as_csv(found: dict[str, Any]) -> bytes:
    """One line for each way and number of nodes."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(found["ways"])
    return text.getvalue().encode()
