"""The strength of a penalty, which a person gives or cross-validation chooses; how that chooses is in `fitting`."""

from __future__ import annotations

from shoal.errors import ConfigError
from shoal.settings.config import RunConfig
from shoal.settings.when import LOSSES

CHOSEN = ("ridge", "lasso", "elasticnet")  # models whose alpha cross-validation can choose
USUAL = 1.0  # where nothing chooses it: a penalty that cross-validation does not know


def chooses_alpha(config: RunConfig) -> bool:
    """Whether alpha is to be chosen by cross-validation before anything is fitted."""
    if config.alpha is not None or config.penalty:
        return False
    return config.model in CHOSEN or (config.model in LOSSES and config.shrink != "none")


def strength(config: RunConfig) -> float:
    """Alpha, where it was given or chosen before."""
    if chooses_alpha(config):
        raise ConfigError("Expected alpha to be chosen by now, got none. Give a number such as 0.1.", knobs=["alpha"])
    return USUAL if config.alpha is None else config.alpha
