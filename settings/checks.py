"""How a knob of a run is declared and what its values may be: ranges of numbers, and what does not go together; which
knobs there are stands in `config`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from shoal.errors import ConfigError, Remedy
from shoal.settings.layers import check_hidden
from shoal.settings.levels import check_level
from shoal.settings.pairs import check_pair
from shoal.settings.transforms import check_transform
from shoal.settings.when import MODULE, NETWORK, has_steps, may_reduce
from shoal.words import did_you_mean

SHRINKS = ("none", "ridge", "lasso", "elasticnet")
CODINGS = ("reference", "full", "drop_first")
IMPUTATIONS = ("median", "mean", "constant", "drop")
WEIGHTS = ("importance", "frequency")
ROBUST = ("none", "HC0", "HC1", "HC2", "HC3")
OFFSETS = ("added", "exposure")
CLASS_WEIGHTS = ("none", "balanced")
SOLVERS = ("exact", "gradient")
PARTITIONS = ("hash", "contiguous")
PRECISIONS = ("auto", "float32", "float64")
COMPILE_MODES = ("none", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")  # PyTorch's
DEVICES = ("auto", "cpu", "cuda")
AGGREGATIONS = ("server", "allreduce")
LOSS_CHOICES = ("retry", "fewer", "stop")
RANGES: dict[str, tuple[float, float]] = {
    "alpha": (0, math.inf), "huber_epsilon": (1, math.inf), "quantile": (1e-6, 1 - 1e-6),
    "l1_ratio": (0, 1), "test_fraction": (0, 0.9), "confidence": (0.5, 0.9999), "bands": (0, 0.99),
    "max_levels": (1, 2**31 - 2), "min_level_rows": (0, 2**31), "workers": (0, 512), "fill": (-math.inf, math.inf),
    "skip_lines": (0, 1_000_000),
    "epochs": (0, 1_000_000), "tolerance": (0, 1), "finish_passes": (0, 100_000_000), "max_seconds": (0, math.inf),
    "patience": (0, 1_000_000), "batch_size": (0, 2**31), "local_steps": (0, 1_000_000), "staleness": (0, 1_000_000),
    "learning_rate": (0, math.inf), "warmup": (0, 1_000_000), "decay": (1e-6, 1), "decay_every": (1e-6, 1_000_000),
    "momentum": (0, 0.9999), "weight_decay": (0, 1000),
    "clip": (0, math.inf), "top_k": (1e-6, 1), "prefetch": (-1, 1000), "max_memory": (0.05, 1),
    "io_queue_size": (0, 1_000_000), "gpu_memory_fraction": (0, 1),
    "shards": (0, 100_000), "checkpoint_seconds": (0, 1_000_000), "keep_checkpoints": (1, 1000), "restarts": (0, 1000),
    "retries": (0, 1000), "parameter_shards": (1, 64),
}  # fmt: skip


# What knobs are about, for forms and for help.
KNOB_GROUPS = {
    "model": "Model",
    "table": "Rows and columns",
    "split": "Rows kept for testing",
    "reading": "Reading the file",
    "place": "Files and places",
    "solver": "How to solve it",
    "steps": "Steps",
    "schedule": "Schedule",
    "workers": "Workers",
    "feed": "Data feed",
    "computing": "Computing",
    "stopping": "Stopping",
    "safety": "Safety",
}


def knob(default: Any, help: str, group: str, **more: Any) -> Any:
    """One knob. What else may be said of it, all of it for forms:

    open:    it is among the first that one asks for, not folded away;
    unit:    what its number counts;
    step:    by how much one would change it at a time;
    blank:   what an empty field means, for a knob whose `auto` value or 0 stands for that;
    when:    whether it means anything beside these other values;
    needs:   what to set so that it does: a person who names it without is told so;
    needs_there: the same beside a model of another loss than squares;
    spare:   named where it has no effect, it is left out and that is said, not refused: one file serves many models;
    plugins: the group of plug-ins whose names it takes, beside `known` ones;
    pages:   whether a page may set it; not what is a path of this machine (see `values.page_config`);
    unlisted: choices that no form and no flag offers;
    of:      what a knob of names takes, where that is not any column: numbers, pairs, levels, transforms, weights.
    """
    metadata = {"help": help, "group": group, **more}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def training(default: Any, help: str, group: str, **more: Any) -> Any:
    """A knob that only gradient runs look at."""
    return knob(default, help, group, training=True, **more)


def not_one_of(name: str, value: Any, choices: Iterable[Any]) -> ConfigError:
    """What to say of a choice that there is not; `name` is the knob's, or its flag."""
    known = [str(choice) for choice in choices]
    meant = did_you_mean(str(value), known) or " Choose one of them."
    knob_ = name.removeprefix("--").replace("-", "_")
    return ConfigError(f"Expected {name} to be one of {', '.join(known)}, got '{value}'.{meant}", knobs=[knob_])


def check_knobs(config: Any) -> None:
    """Refuse values of a `RunConfig` that a knob cannot have, and those that contradict one another."""
    _check_choices(config)
    for name, (low, high) in RANGES.items():
        if (value := getattr(config, name)) is not None:
            _check_range(name, value, low, high)
    if config.test_every < 0 or config.test_every == 1:
        raise ConfigError(
            f"Expected test_every to be 0 (no test rows) or at least 2, got {config.test_every}. "
            "5 keeps every fifth row for testing.",
            knobs=["test_every"],
        )
    if config.test_every and config.test_fraction:
        raise ConfigError(
            "Both test_every and test_fraction are given; expected one of them. Drop one.",
            knobs=["test_every", "test_fraction"],
        )
    if config.patience and not (config.test_every or config.test_fraction or config.model in (MODULE, NETWORK)):
        raise ConfigError(
            "Expected test rows, whose score patience is about, got none. Set test_every or test_fraction too.",
            knobs=["patience"],
        )
    if config.target and config.target in config.features:
        raise ConfigError(
            f"The target '{config.target}' is also among the features. Take it out of one of them.",
            knobs=["target", "features"],
        )
    for knob_, what in (("weights", "the weights of rows"), ("offset", "the offset")):
        name = getattr(config, knob_)
        if name and name == config.target:
            raise ConfigError(
                f"The target '{name}' cannot be {what} as well. Choose another column.", knobs=[knob_, "target"]
            )
        if name and name in config.features:
            raise ConfigError(
                f"The column '{name}' cannot be {what} and among the features as well. Take it out of one of them.",
                knobs=[knob_, "features"],
            )
    if not has_steps(config.model) and config.solver != "exact":
        raise ConfigError(
            f"Expected solver exact beside model {config.model}, got {config.solver}: {_only_exact(config.model)}.",
            Remedy.set("Fit it exactly", "solver", "exact"), knobs=["model", "solver"],
        )  # fmt: skip
    check_hidden(config.hidden)
    for pair in config.interactions:
        check_pair(pair)
    for level in config.reference:
        check_level(level)
    for how in config.transform:
        check_transform(how)


def check_aggregation(config: Any) -> None:
    """Refuse sums among workers where there are none; not for a form, which keeps values of fields that it hides."""
    if config.aggregation != "server" and not may_reduce(config.as_dict()):
        raise ConfigError(
            f"Expected a network in mode sync without compression on one machine for aggregation {config.aggregation}, "
            f"got a {config.model} model in mode {config.mode} with compression {config.compression} and engine "
            f"{config.engine}.",
            Remedy.set("Let the server add gradients up", "aggregation", "server"), knobs=["aggregation", "mode"],
        )  # fmt: skip


def _only_exact(model: str) -> str:
    if model == "quantile":
        return "the loss of a quantile has corners and no curvature, which gradient steps need"
    return f"{model} models are fitted exactly only, so far"


def _check_choices(config: Any) -> None:
    for knob_ in dataclasses.fields(config):
        choices = knob_.metadata.get("choices")
        value = getattr(config, knob_.name)
        if choices and value not in choices:
            raise not_one_of(knob_.name, value, choices)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not (low <= value <= high) or math.isinf(value):
        ends = f"from {low:g} to {high:g}" if not math.isinf(high) else f"of at least {low:g}"
        ends = "that is finite" if math.isinf(low) else ends
        raise ConfigError(
            f"Expected {name} to be a number {ends}, got {value:g}. Correct it and try again.", knobs=[name]
        )
