"""Slots of gradient runs: as many as there are cores, each a kernel lock; who gets them is decided in `scheduling`.

A slot is a lock on QUEUE/slot-N. It is taken for a run before its process is started, handed over with the open file,
and free again when that process has ended, however it ended.

Exact fits and inspections take none: they take seconds, and a person waits for them. A paused run keeps its slots.
"""

from __future__ import annotations

import contextlib
import os
from typing import IO

from shoal.errors import ConfigError
from shoal.files.locks import is_held, lock_file
from shoal.home import slot_file
from shoal.settings.config import RunConfig

CLUSTER = "SHOAL_CLUSTER"  # the address of the cluster for runs of engine ray that name none


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def slots() -> int:
    """SHOAL_SLOTS, or one a core."""
    text = os.environ.get("SHOAL_SLOTS", "")
    if text and not (text.isdecimal() and int(text)):
        raise ConfigError(
            f"Expected SHOAL_SLOTS to be a whole number of at least 1, got '{text}'. Correct or unset it."
        )
    return int(text or cores())


def works_elsewhere(config: RunConfig) -> bool:
    """Whether its workers have cores of a cluster, and not of this machine."""
    return config.engine == "ray" and bool(config.cluster or os.environ.get(CLUSTER))


def slots_for(config: RunConfig) -> int:
    """What a run needs; one that wants more workers than there are slots takes them all."""
    alone = config.engine == "inline" or works_elsewhere(config)
    return 1 if alone else min(config.workers or cores(), slots())


def slots_on_a_host(config: RunConfig) -> int:
    """What a run needs wherever it will be: all that a host has, unless its workers are counted."""
    from shoal.queueing.team import WHOLE

    alone = config.engine == "inline" or works_elsewhere(config)
    return 1 if config.solver != "gradient" or alone else config.workers or WHOLE


def free_slots(total: int | None = None) -> int:
    """Slots that nobody holds at this moment."""
    return sum(not is_held(slot_file(number)) for number in range(total or slots()))


def take(need: int, total: int, held: contextlib.ExitStack) -> list[IO[str]]:
    """As many slots as are needed, or none of them. Only whoever has the queue's lock takes any."""
    with contextlib.ExitStack() as stack:
        taken: list[IO[str]] = []
        for number in range(total):
            if len(taken) < need and (lock := lock_file(slot_file(number))):
                taken.append(stack.enter_context(lock))
        if len(taken) < min(need, total):
            return []
        held.push(stack.pop_all())
        return taken
