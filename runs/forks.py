"""Forks: what a new run from another's checkpoint may change, and what a change does to the checkpoint.

Finding checkpoints and starting runs belongs to `launch`; what is in a checkpoint is decided by `training.conductor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from shoal.errors import ConfigError, Remedy
from shoal.files.parts import uploads_again
from shoal.settings.config import AUTO, RunConfig
from shoal.settings.values import config_from
from shoal.training.checkpoints import Snapshot
from shoal.training.phases import step_rule
from shoal.words import listed

# Knobs beside those of training that leave the columns, the rows and the meaning of the weights as they are.
FREE = {"file", "model", "alpha", "l1_ratio", "workers", "engine", "cluster", "open_cluster", "confidence", "out"}
FIXED = {"shards", "partition", "precision"}  # the rows of the shards, which are made once
PLAN = {"mode", "batch_size", "local_steps"}  # which batches an epoch has: the epoch that has begun begins again
STEPS = {*PLAN, "step_rule", "epochs", "learning_rate", "compression", "staleness", "schedule"}  # not of the finish


def forked(snapshot: Snapshot, changes: Mapping[str, Any]) -> tuple[RunConfig, Snapshot]:
    """The config of the fork and the checkpoint it begins from; ConfigError if the checkpoint is of no use to it."""
    before = config_from({**uploads_again(snapshot.meta["config"]), "alpha": snapshot.meta["alpha"]})  # maybe steered
    config = config_from({**before.as_dict(), "out": None, **changes})
    if config.mode == AUTO:  # was chosen for the run that it goes on from
        config = replace(config, mode=before.mode)
    changed = {knob.name for knob in fields(RunConfig) if getattr(before, knob.name) != getattr(config, knob.name)}
    _check(config, changed, snapshot)
    meta, arrays = dict(snapshot.meta), dict(snapshot.arrays)
    meta["config"] = config.as_dict()
    meta |= {name: getattr(config, name) for name in changed & {"alpha", "compression"}}
    meta |= {"compression_of_steps": config.compression} if "compression" in changed else {}
    if config.aggregation == "allreduce":  # a command may have set another on the way here
        meta |= {"compression": "none", "compression_of_steps": "none"}
    if "workers" in changed:
        meta |= {"workers": config.workers, "workers_by_person": bool(config.workers)}
    if "parameter_shards" in changed:
        meta["parameter_shards"] = config.parameter_shards
    if changed & {"mode", "staleness"}:
        meta["staleness"] = float(config.staleness) if config.mode == "ssp" else None
    if "learning_rate" in changed:
        meta["base_rate"] = config.learning_rate or meta["resolved"]["learning_rate"]
        meta["tamed"] = not config.learning_rate and config.mode in ("ssp", "async")
    resolved = {
        name: getattr(config, name) for name in changed & {"batch_size", "local_steps"} if getattr(config, name)
    }
    meta["resolved"] = {**meta["resolved"], **resolved}
    if changed & PLAN:
        meta["policy"] = _whole_epochs(meta["policy"])
    if "step_rule" in changed:
        arrays = {name: array for name, array in arrays.items() if not name.startswith("rule.")}
        fresh = step_rule(config, len(arrays["weights"])).state()
        arrays |= {f"rule.{name}": array for name, array in fresh.items()}
    return config, replace(snapshot, meta=meta, arrays=arrays)


def _check(config: RunConfig, changed: set[str], snapshot: Snapshot) -> None:
    training = {knob.name for knob in fields(RunConfig) if knob.metadata.get("training")}
    kept = sorted(changed - FREE - (training - FIXED))
    if kept:
        raise ConfigError(
            f"Expected a fork to keep the rows and columns that its checkpoint is of, got another {listed(kept)}.",
            Remedy.run("Start a new run for that", "train"),
        )
    if snapshot.meta["phase"] == "finish" and (late := sorted(changed & STEPS)):
        raise ConfigError(
            f"The checkpoint of step {snapshot.step} is of the full passes at the end, which have no use for "
            f"{listed(late)}. Fork from an earlier one, or start a new run."
        )
    if "step_rule" in changed and not config.learning_rate:
        raise ConfigError(
            "Expected a learning rate with another step rule: the automatic one was for the rule before.",
            Remedy.run("Give both", "fork", "--set", f"step_rule={config.step_rule}", "--set", "learning_rate=..."),
        )


def _whole_epochs(counts: Mapping[str, Any]) -> dict[str, Any]:
    """The ledger without the epoch that has begun."""
    begun = sum(len(tasks) for tasks in counts["open"].values())
    return {**counts, "batches": counts["batches"] - begun, "open": {}}
