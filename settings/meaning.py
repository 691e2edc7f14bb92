"""Which knobs have an effect beside others, and what a person means who names some; they are defined in `config`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError, Remedy
from shoal.settings.config import DIALECT, RunConfig
from shoal.settings.values import config_from, flattened, read_yaml
from shoal.settings.when import MODELS, NETWORK, ROBUST_LOSSES, has_other_loss, has_steps

GRADIENT = ("solver", "gradient")  # what every knob of training needs
PLANNED = (  # knobs that make a difference to the plan for more machines
    "target", "model", "alpha", "l1_ratio", "features", "exclude", "categorical", "numeric", "coding", "epochs",
    "tolerance", "batch_size", "local_steps", "staleness", "step_rule", "learning_rate", "top_k", "shards", "precision",
    "seed", *DIALECT,
)  # fmt: skip


# What is usual for a network, where nobody says otherwise: there is no optimum to finish at, and validation rows say
# when to stop.
FOR_NETWORK: dict[str, Any] = {
    "solver": "gradient", "step_rule": "adamw", "learning_rate": 0.005, "epochs": 100, "patience": 12, "tolerance": 0.0,
    "test_fraction": 0.2,
}  # fmt: skip


def has_effect(knob: str, values: Mapping[str, Any]) -> bool:
    """Whether a knob means anything beside these values of all knobs."""
    metadata = RunConfig.knobs()[knob].metadata
    if metadata.get("training") and values["solver"] != "gradient":
        return False
    when = metadata.get("when")
    return when is None or bool(when(values))


def effective(config: RunConfig) -> RunConfig:
    """The same run without what has no effect: a form keeps the values of fields that it does not show."""
    values, usual = config.as_dict(), RunConfig()
    idle = [knob for knob in values if not has_effect(knob, values)]
    return dataclasses.replace(config, **{knob: getattr(usual, knob) for knob in idle}) if idle else config


def differing(values: Mapping[str, Any], config: RunConfig) -> set[str]:
    """The knobs of a file that are not as usual: it may list all there are, and means only these by it."""
    usual = RunConfig()
    own = {"solver"}
    if config.model == NETWORK:  # whose usual values are others
        beside = {**config.as_dict(), "solver": "gradient"}
        own |= {knob for knob in FOR_NETWORK if has_effect(knob, beside)}
    return {knob for knob in values if knob in own or getattr(config, knob) != getattr(usual, knob)}


def with_file(config: Mapping[str, Any] | str | Path, knobs: Mapping[str, Any]) -> dict[str, Any]:
    """Knobs of a file of settings, or of such groups, and over them those that are named beside it."""
    flat = flattened(config) if isinstance(config, Mapping) else read_yaml(Path(config))
    kept = differing(flat, config_from({**flat, **knobs}))
    return {**{name: value for name, value in flat.items() if name in kept}, **knobs}


def training_knobs(said: Collection[str]) -> list[str]:
    """Those that only gradient runs look at."""
    return [name for name, knob in RunConfig.knobs().items() if name in said and knob.metadata.get("training")]


def understood(config: RunConfig, said: Collection[str]) -> RunConfig:
    """What a person means who named these knobs of the config.

    A knob of training without a solver means gradient steps; whoever calls says so. Any other that has no effect is
    refused, since it would be ignored silently; but a spare one is left out, which `left_out` says.
    """
    if config.model == NETWORK:
        config = for_network(config, said)
    elif "solver" not in said and _with_steps(said, config):
        config = dataclasses.replace(config, solver="gradient")
    values = config.as_dict()
    idle = [knob for knob in RunConfig.knobs() if knob in said and _is_idle(knob, values)]
    for knob in idle:
        if not _is_spare(knob):
            _refuse(knob, values)
    usual = RunConfig()
    return dataclasses.replace(config, **{knob: getattr(usual, knob) for knob in idle}) if idle else config


def _with_steps(said: Collection[str], config: RunConfig) -> list[str]:
    """The named knobs of training that ask for gradient steps; spare ones do where they would have an effect."""
    beside = {**config.as_dict(), "solver": "gradient"}
    able = has_steps(config.model)
    return [knob for knob in training_knobs(said) if not _is_spare(knob) or (able and has_effect(knob, beside))]


def left_out(said: Collection[str], config: RunConfig) -> str:
    """A sentence on spare knobs that were named and have no effect beside what `understood` gave; empty for none."""
    values = config.as_dict()
    idle = [knob for knob in RunConfig.knobs() if knob in said and _is_spare(knob) and _is_idle(knob, values)]
    beside = f"a {config.model} model" + (" that is fitted exactly" if config.solver == "exact" else "")
    return f"Left out, since it has no effect on {beside}: {', '.join(idle)}." if idle else ""


def for_network(config: RunConfig, said: Collection[str]) -> RunConfig:
    """With what is usual there: gradient steps, and test rows that tell what it is worth."""
    if config.solver != "gradient" and "solver" in said:
        raise ConfigError(
            f"Expected solver gradient beside model {NETWORK}, got {config.solver}: a network has no exact answer.",
            Remedy.set("Train it by steps", "solver", "gradient"), knobs=["model", "solver"],
        )  # fmt: skip
    usual = {name: value for name, value in FOR_NETWORK.items() if name not in said}
    if config.test_every or "test_every" in said:
        usual.pop("test_fraction", None)
    if config.mode == "local":
        usual.pop("step_rule", None)  # which takes plain steps
    if usual.get("step_rule", config.step_rule) not in ("adam", "adamw"):
        usual.pop("learning_rate", None)
    return dataclasses.replace(config, **usual)


def usual_values(config: RunConfig) -> dict[str, Any]:
    """The knobs as they are where nobody says anything of them; of a network beside what is said of the others."""
    usual = RunConfig()
    if config.model != NETWORK:
        return usual.as_dict()
    beside = dataclasses.replace(
        usual, model=NETWORK, mode=config.mode, step_rule=config.step_rule, test_every=config.test_every
    )
    plain = config.mode == "local" or config.step_rule != FOR_NETWORK["step_rule"]
    found = for_network(beside, {"step_rule"} if plain else set()).as_dict()
    rule = usual.step_rule if config.mode == "local" else FOR_NETWORK["step_rule"]
    return {**found, "model": usual.model, "mode": usual.mode, "test_every": usual.test_every, "step_rule": rule}


def implied(said: Collection[str], config: RunConfig) -> str:
    """A sentence on gradient steps that nobody asked for by name; empty where somebody did, or there are none."""
    if config.solver != "gradient" or "solver" in said or config.model == NETWORK:
        return ""
    knobs = [knob for knob in training_knobs(said) if has_effect(knob, config.as_dict())]
    return f"Trained by gradient steps (solver gradient), since only they have {' and '.join(knobs[:3])}."


INSTEAD_OF_OFFSET = (
    " Models of numbers as they are need none: subtract the column from the target, fit the difference, and add the "
    "column to what is predicted."
)


def _needs(knob: str, values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    metadata = RunConfig.knobs()[knob].metadata
    if "needs_there" in metadata and has_other_loss(values):
        there: tuple[tuple[str, Any], ...] = metadata["needs_there"]
        return there
    own: tuple[tuple[str, Any], ...] = metadata.get("needs", ())
    return (GRADIENT, *own) if metadata.get("training") else own


def _is_idle(knob: str, values: Mapping[str, Any]) -> bool:
    """Of those that need something; a seed where nothing is drawn harms nobody."""
    return bool(_needs(knob, values)) and not has_effect(knob, values)


def _is_spare(knob: str) -> bool:
    return bool(RunConfig.knobs()[knob].metadata.get("spare"))


def _refuse(knob: str, values: Mapping[str, Any]) -> None:
    needs = [(other, value) for other, value in _needs(knob, values) if values[other] != value]
    enough = [(other, value) for other, value in needs if has_effect(knob, {**values, other: value})]
    needed = enough[:1] or needs
    beside = " and ".join(f"{other} '{values[other]}'" for other, _ in needed) or f"model '{values['model']}'"
    raise ConfigError(
        f"Expected {knob} only where it has an effect, got it with {beside}, where it has none."
        f"{INSTEAD_OF_OFFSET if knob == 'offset' and values['model'] in (*MODELS, *ROBUST_LOSSES) else ''}",
        *(Remedy.set("Leave it out, or give it one", other, value) for other, value in needed[:1]),
        *(Remedy.set("Change that as well", other, value) for other, value in needed[1:]),
        knobs=[knob, *(other for other, _ in needed)],
    )
