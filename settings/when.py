"""Beside which values of others a knob means anything, and for which models; what each knob is stands in `config`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.errors import ConfigError

MODELS = ("linear", "ridge", "lasso", "elasticnet")  # least squares, from sums
MODULE = "module"  # a PyTorch module, trained from Python; no table has one
NETWORK = "mlp"  # a network of layers on the columns of a table
BY_TARGET = "auto"  # the model that suits the values of the target
CLASSES = "multinomial"  # the model of several classes
TEXT_TARGETS = ("logistic", CLASSES, NETWORK)  # models whose target may be text
ROBUST_LOSSES = ("huber", "quantile")  # of numbers as they are, with no mean that a link would be about
LOGARITHMS = "lognormal"  # squares of logarithms, with predictions of the mean
LOSSES = ("logistic", CLASSES, "poisson", "gamma", LOGARITHMS, *ROBUST_LOSSES)  # other models, by passes over rows
RESAMPLED_LOSSES = ("logistic", CLASSES, "poisson", "gamma", LOGARITHMS)  # those whose penalised fits are resampled
STEPPED = (
    "logistic",
    CLASSES,
    "poisson",
    "gamma",
    LOGARITHMS,
    "huber",
)  # those of them that gradient steps can minimise
_Values = Mapping[str, Any]  # all knobs of a run by their names


def has_own_penalty(values: _Values) -> bool:
    return values["solver"] == "gradient" and bool(values["penalty"])


def is_penalised(values: _Values) -> bool:
    if values["model"] in LOSSES:
        return bool(values["shrink"] != "none")
    if values["model"] in (BY_TARGET, MODULE, NETWORK):
        return False
    return values["model"] != "linear" or has_own_penalty(values)


def penalty_knob(values: _Values) -> str:
    """The knob that puts a penalty on a model; none where it has one."""
    if is_penalised(values):
        return ""
    return "shrink" if values["model"] in LOSSES else "model"


def mixes_penalties(values: _Values) -> bool:
    if values["model"] in LOSSES:
        return bool(values["shrink"] == "elasticnet")
    return values["model"] == "elasticnet" or has_own_penalty(values)


def has_other_loss(values: _Values) -> bool:
    return values["model"] in LOSSES


def tells_classes_apart(values: _Values) -> bool:
    return values["model"] in ("logistic", CLASSES)


def has_layers(values: _Values) -> bool:
    return bool(values["model"] == NETWORK)


def has_module(values: _Values) -> bool:
    """Whether PyTorch computes the gradients."""
    return values["model"] in (NETWORK, MODULE)


def has_steps(model: str) -> bool:
    """Whether gradient steps are a way to a model."""
    return model in (*MODELS, *STEPPED, MODULE, NETWORK)


def adds_offset(values: _Values) -> bool:
    return values["model"] in LOSSES and values["model"] not in (CLASSES, *ROBUST_LOSSES)


def is_least_squares(values: _Values) -> bool:
    return values["model"] in MODELS and values["solver"] == "exact"


def has_formulas(values: _Values) -> bool:
    """Whether standard errors of its coefficients are known: nothing is shrunk or held, and the optimum is exact."""
    return values["solver"] == "exact" and not is_penalised(values) and not values.get("nonnegative")


def has_bands(values: _Values) -> bool:
    """Whether two quantile lines can stand beside a model: of numbers as they are, with test rows that calibrate."""
    of_numbers = values["model"] in (*MODELS, *ROBUST_LOSSES) and values["solver"] == "exact"
    return of_numbers and bool(values["test_every"] or values["test_fraction"])


def is_watched(values: _Values) -> bool:
    """Whether rows that no step sees are scored on the way: test rows, or those that a network keeps apart."""
    return bool(values["test_every"] or values["test_fraction"] or values["model"] == NETWORK)


def draws(values: _Values) -> bool:
    return bool(values["test_fraction"]) or values["solver"] == "gradient"


def may_step_alone(values: _Values) -> bool:
    """Whether a shard may take steps of its own: `auto` finds that out when rows and messages have been timed."""
    return values["mode"] in ("local", "auto")


def has_momentum(values: _Values) -> bool:
    return values["mode"] != "local" and values["step_rule"] not in ("sgd", "adagrad")  # a plug-in takes it as well


def shrinks_weights(values: _Values) -> bool:
    return bool(values["mode"] != "local" and values["step_rule"] == "adamw")


def decays(values: _Values) -> bool:
    return str(values["schedule"]) in ("step", "exponential", "inverse")


def has_processes(values: _Values) -> bool:
    return str(values["engine"]) != "inline"


def steps_elsewhere(values: _Values) -> bool:
    """Whether parameters may lie in processes beside the run's own, here or on a cluster."""
    return str(values["engine"]) != "inline"


def may_reduce(values: _Values) -> bool:
    """Whether workers can add gradients up among themselves: whole ones of a network, all of a step at a time."""
    return bool(
        has_module(values)
        and values["mode"] == "sync"
        and values["compression"] == "none"
        and values["engine"] != "ray"
    )


def on_cluster(values: _Values) -> bool:
    return str(values["engine"]) == "ray"


def penalised_as(model: str, shrink: str) -> str:
    """The linear model with the penalty of a model; linear itself for none."""
    if model not in LOSSES:
        return model
    return "linear" if shrink == "none" else shrink


def check_linear(model: str, what: str) -> None:
    """Refuse what there is for linear models only, so far."""
    if model in LOSSES:
        raise ConfigError(
            f"Expected one of the models {', '.join(MODELS)} for {what}, got {model}: there are exact {model} fits "
            "only, so far. Choose another model, or train it at a penalty of your own.",
            knobs=["model"],
        )
    if model not in MODELS:
        raise ConfigError(f"Expected a model out of {', '.join(MODELS)}, got {model!r}. Choose one of these.")
