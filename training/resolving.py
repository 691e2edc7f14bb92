"""What `auto` stands for in a gradient run: rows of a batch, local steps, learning rate, precision; from what rows and
messages cost, which is measured by whoever asks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from shoal.data_pipeline import Shards
from shoal.results.fit import Resolved
from shoal.settings.config import RunConfig
from shoal.settings.limits import SMALL_DATA
from shoal.steps.compression import make_compression
from shoal.steps.optimizers import SGD, batch_curvature
from shoal.training.objectives.base import Bounds, Objective
from shoal.training.phases import step_rule

ILL = 1e2  # condition number (of the columns) from which float32 gradients stop short of the optimum
COORDINATION = 0.1  # share of the time that it may take on one machine ...
ON_CLUSTER = 0.05  # ... and where messages cost so much more that waiting for them is most of what there is to save
FEWEST_STEPS = 2  # steps of an epoch, however small the data: of all shards together, or of one after the other
FEWEST_ROWS = 16  # of a batch
USUAL_RATES = {"sgd": 0.05, "momentum": 0.01, "adagrad": 0.01}  # where nothing is known of the curvature ...
SMALL_RATE = 1e-3  # ... and of all other rules
MOST_LOCAL_ROWS = 1024  # of a batch in mode local, whose point is many small steps ...
OWN_STEP = 10e-6  # ... unless these take no longer than what surrounds them: seconds of a step besides its rows


class WorkCosts(NamedTuple):
    """What decides how much is done between two messages: seconds of a row's gradient and of a message there and back
    with the server's step, how many may work at a time, rows for which there is memory, and the share of the time that
    messages may take."""

    row: float
    message: float
    cores: int
    room: int
    share: float = COORDINATION


def batch_and_steps(config: RunConfig, shards: Shards, costs: WorkCosts, size: int) -> tuple[int, int]:
    """Rows of a batch and steps of a local round: enough work between two messages of `size` parameters."""
    longest, count = max(shards.rows), len(shards.rows)
    work = costs.message * (1 - costs.share) / costs.share  # seconds of one worker between two messages
    if config.mode == "local":
        batch = config.batch_size or _local_batch(longest, costs)
        needed = work / (batch * costs.row * max(1, count / costs.cores))
        # A message with a tenth of the values may come ten times as often; a round moves by as much less.
        needed *= make_compression(config.compression, size, config.top_k).kept
        steps = -(-longest // batch)
        return batch, config.local_steps or int(min(max(4, needed), max(1, steps)))
    together = config.mode == "sync"
    steps = FEWEST_STEPS if together else -(-FEWEST_STEPS // count)  # of one shard
    most = max(FEWEST_ROWS, -(-longest // steps))  # rounded up: no round for the last two rows
    tasks = max(1, count / costs.cores) if together else 1
    wanted = _power_of_two(work / (costs.row * tasks))
    rows = max(1, min(max(FEWEST_ROWS, wanted), most, max(FEWEST_ROWS, costs.room), longest))
    return config.batch_size or rows, 1


def chosen_mode(config: RunConfig, shards: Shards, costs: WorkCosts, size: int) -> str:
    """What mode auto stands for: steps of all together, or, where messages would take more than their share of the
    time however large a batch is, of each shard by itself."""
    if not takes_plain_steps(config):
        return "sync"
    rows, _ = batch_and_steps(replace(config, mode="sync"), shards, costs, size)
    busy = rows * costs.row * max(1, len(shards.rows) / costs.cores)
    return "sync" if costs.message * (1 - costs.share) <= busy * costs.share else "local"


def takes_plain_steps(config: RunConfig) -> bool:
    """Whether its steps may be taken within shards, where there is no other rule."""
    return config.step_rule == "sgd" and not config.clip


def _local_batch(longest: int, costs: WorkCosts) -> int:
    """Small, but where rows are cheap and many large enough that a step is mostly its rows."""
    batch = min(MOST_LOCAL_ROWS, max(FEWEST_ROWS, longest // 64))
    if batch < MOST_LOCAL_ROWS:
        return batch
    wanted = _power_of_two(OWN_STEP * (1 - COORDINATION) / COORDINATION / costs.row)
    return max(batch, min(wanted, longest // 32))


def resolve(
    config: RunConfig, shards: Shards, precision: str, batch: int, local: int, bounds: Bounds | None, scale: float,
    size: int,
) -> Resolved:  # fmt: skip
    """All of it, for so many parameters; `scale` is that of the gradient at the start."""
    together = batch * len(shards.rows) if config.mode == "sync" else batch
    # Within a shard, mode local takes plain steps.
    rule = SGD(size) if config.mode == "local" else step_rule(config, size)
    prefetch = config.prefetch if config.prefetch >= 0 else 2
    if bounds is None:
        rate, top = config.learning_rate or USUAL_RATES.get(rule.name, SMALL_RATE), 0.0
    else:
        curvature = batch_curvature(shards.total, together, *bounds)
        rate, top = config.learning_rate or rule.safe_rate(curvature, scale), bounds.top
    return Resolved(len(shards.rows), precision, batch, local, prefetch, rate, top)


def chosen_precision(config: RunConfig, objective: Objective, values: float | None = None) -> str:
    """`values` are those of the table, where it is not the one that the objective is about."""
    if config.precision != "auto":
        return config.precision
    if objective.precision is not None:
        return objective.precision
    small = (objective.n * objective.width if values is None else values) <= SMALL_DATA
    ill = objective.condition is not None and objective.condition > ILL
    return "float64" if small or ill else "float32"


def _power_of_two(value: float) -> int:
    """Rounded up: measurements that differ a little give the same answer."""
    return 1 << max(0, math.ceil(math.log2(max(value, 1.0))))
