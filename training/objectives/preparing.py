"""Which objective the config of a gradient run asks for."""

from __future__ import annotations

from shoal.coordinator import Coordinator
from shoal.data.dataset import Dataset
from shoal.metrics import Timings
from shoal.settings.config import RunConfig
from shoal.settings.when import CLASSES, LOSSES, NETWORK
from shoal.training.objectives.base import Objective
from shoal.training.objectives.squares import squared_objective


def prepare_objective(coordinator: Coordinator, dataset: Dataset, config: RunConfig, timings: Timings) -> Objective:
    if config.model == NETWORK:
        from shoal.networks.extra import need_torch

        need_torch()
        from shoal.training.objectives.table_network import table_network

        return table_network(coordinator, dataset, config, timings)
    if config.model not in LOSSES:
        return squared_objective(coordinator, dataset, config, timings)
    if config.model == CLASSES:
        from shoal.training.objectives.classes import class_objective

        return class_objective(coordinator, dataset, config, timings)
    from shoal.training.objectives.row_loss import row_loss_objective  # here: squares need none of it

    return row_loss_objective(coordinator, dataset, config, timings)


def prepare_module(config: RunConfig) -> Objective:
    """Of a module, which brings its own rows."""
    from shoal.networks.extra import need_torch

    need_torch()
    from shoal.training.objectives.module_rows import ModuleObjective  # here: whoever trains no module has no PyTorch

    return ModuleObjective(config)
