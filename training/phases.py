"""The phases of a gradient run, steps in one of the modes, then full passes: new ones, or as a checkpoint has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from shoal.data_pipeline import Shards
from shoal.plugins import STEP_RULES as STEP_RULE_PLUGINS
from shoal.plugins import find_class
from shoal.results.fit import Resolved
from shoal.settings.config import RunConfig
from shoal.steps.compression import fed_back, make_compression
from shoal.steps.grouped import GroupBarrier
from shoal.steps.optimizers import STEP_RULES, Accelerated, AdamW, Careful, StepRule
from shoal.steps.policy import Barrier, Plan, Policy
from shoal.steps.stale import Stale
from shoal.steps.steering import Kind, Phase, Steering
from shoal.training.checkpoints import Snapshot
from shoal.training.objectives.base import Objective


def first_phase(
    config: RunConfig, resolved: Resolved, shards: Shards, objective: Objective, saved: Snapshot | None
) -> Phase:
    """The steps; or the phase that a checkpoint was taken in, where it was."""
    if saved is None:
        return _steps(config, resolved, shards, objective.size, None, staleness_bound(config))
    phase = (
        full_passes(config, shards, objective, saved.meta["policy"])
        if saved.meta["phase"] == "finish"
        else _steps(config, resolved, shards, objective.size, saved.meta["policy"], saved.meta["staleness"])
    )
    rule = {name.removeprefix("rule."): array for name, array in saved.arrays.items() if name.startswith("rule.")}
    phase.rule.restore(rule)
    return phase


def _steps(
    config: RunConfig, resolved: Resolved, shards: Shards, size: int, counted: Mapping[str, Any] | None,
    bound: float | None,
) -> Phase:  # fmt: skip
    steps = [-(-n // resolved.batch_size) for n in shards.rows]
    if config.mode == "local":
        steps = [-(-n // resolved.local_steps) for n in steps]
    plan = Plan(tuple(steps))
    policy: Policy
    if config.mode in ("ssp", "async"):
        policy = Stale(plan, config.epochs, math.inf if bound is None else bound, counted)
    elif config.aggregation == "allreduce":
        policy = GroupBarrier(plan, config.epochs, counted)
    else:
        policy = Barrier(plan, config.epochs, counted)
    rule = step_rule(config, size)
    return Phase("steps", policy, rule, "local" if config.mode == "local" else "gradient")


def full_passes(
    config: RunConfig, shards: Shards, objective: Objective, counted: Mapping[str, Any] | None = None
) -> Phase:
    """Full passes of all workers by accelerated proximal steps: to the optimum, not to a noise floor."""
    plan = Plan(tuple(int(n > 0) for n in shards.rows))
    rule = (Accelerated if objective.evenly_curved else Careful)(objective.size)
    return Phase("finish", Barrier(plan, config.finish_passes, counted), rule, "full")


def finishes(config: RunConfig, objective: Objective) -> bool:
    """Whether full passes follow the steps."""
    return objective.convex and config.tolerance > 0 and bool(config.finish_passes)


def so_far(policy: Policy, phase: str) -> tuple[str, float]:
    """What a page or bar says of the run: the stage, and how much of it is done."""
    done = policy.progress
    share = min(1.0, done / max(policy.epochs, 1))
    if policy.paused:
        return "paused", share
    if phase == "finish":
        return f"full pass {done:,.0f} of at most {policy.epochs:,}", share
    return f"epoch {done:,.1f} of {policy.epochs:,}", share


def ledger(now: dict[str, int], phase: str, steps: dict[str, int] | None) -> dict[str, Any]:
    """The counts of both phases, from those of the one that it is in and of the steps before it.

    `redone`: those that a lost worker had in hand; they were computed again and counted once.
    """
    if phase == "steps":
        return {**now, "passes": 0}
    steps = steps or dict.fromkeys(now, 0)
    passes = {"passes": now["epochs"], "shards": now["batches"], "shards_of_a_pass": now["batches_of_an_epoch"]}
    return {**steps, **passes, "redone": steps["redone"] + now["redone"]}


def staleness_bound(config: RunConfig, policy: Policy | None = None) -> float | None:
    """The bound as it is now, since a command may have changed it, or as the config has it; None for none."""
    if isinstance(policy, Stale):
        return policy.bound if math.isfinite(policy.bound) else None
    return float(config.staleness) if config.mode == "ssp" else None


def share_of_rate(resolved: Resolved, steering: Steering, rule: StepRule, kind: Kind) -> float:
    """Of the rate that was found for these rows, what error feedback allows. Local updates are shortened instead."""
    if kind != "gradient":
        return 1.0
    kept = make_compression(steering.compression, rule.width, steering.share).kept
    return fed_back(kept, rule.reach(resolved.learning_rate, resolved.top))


def step_rule(config: RunConfig, width: int) -> StepRule:
    kind: type[StepRule]
    if config.step_rule in STEP_RULES:
        kind = STEP_RULES[config.step_rule]
    else:
        kind = find_class(STEP_RULE_PLUGINS, config.step_rule, StepRule, list(STEP_RULES))
    if kind is AdamW:
        return AdamW(width, config.momentum, config.weight_decay)
    return kind(width, config.momentum)
