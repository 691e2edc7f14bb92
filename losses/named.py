"""Losses by the names of the models that they make, and the penalties that `alpha` means beside each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from shoal.errors import ConfigError
from shoal.losses.base import RowLoss
from shoal.losses.gamma import Gamma
from shoal.losses.huber import Huber
from shoal.losses.logistic import Logistic
from shoal.losses.lognormal import Lognormal
from shoal.losses.poisson import Poisson
from shoal.losses.quantile import Quantile
from shoal.models import L1L2, penalty_for
from shoal.settings.config import RunConfig
from shoal.settings.when import LOSSES

_BY_NAME: dict[str, Callable[..., RowLoss]] = {"logistic": Logistic, "poisson": Poisson, "gamma": Gamma,
                                             "lognormal": Lognormal, "huber": Huber, "quantile": Quantile}  # fmt: skip


def loss_for(config: RunConfig) -> RowLoss:
    """The loss of the model that is asked for, with its own numbers."""
    own = {"huber": {"epsilon": config.huber_epsilon}, "quantile": {"quantile": config.quantile}}
    return loss_named(config.model, own.get(config.model, {}))


def loss_named(name: str, parameters: Mapping[str, float] = MappingProxyType({})) -> RowLoss:
    """The loss of that name with its own numbers, as a model file has both."""
    if name not in _BY_NAME:
        raise ConfigError(f"Expected a model out of {', '.join(LOSSES)}, got '{name}'. Choose one of these.")
    return _BY_NAME[name](**parameters)


def penalty_beside(loss: RowLoss, shrink: str, alpha: float, l1_ratio: float, n: float) -> L1L2:
    """The penalty beside a *mean* of losses of n rows.

    `alpha` is what scikit-learn means: of a logistic model 1 / C, which stands beside a *sum* of losses; of the others
    the factor beside half a mean deviance.
    """
    if shrink == "none":
        return L1L2()
    ratio = {"ridge": 0.0, "lasso": 1.0}.get(shrink, l1_ratio)
    penalty = penalty_for("elasticnet", alpha, ratio, n)
    return L1L2(penalty.l1 / n, penalty.l2 / n) if loss.beside_sum else penalty


def penalty_beside_sum(shrink: str, alpha: float, l1_ratio: float, n: float) -> L1L2:
    """The same of a model of several classes, whose `alpha` is 1 / C, as that of a logistic one is."""
    return penalty_beside(Logistic(), shrink, alpha, l1_ratio, n)
