"""Ray without what Shoal never sends: it teaches each process to pickle objects of Pydantic, Starlette and Arrow, and
imports all three for that: a fifth of the start of a worker, and a quarter of its memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def send_plain_arrays() -> Callable[[], None]:
    """To be called before this process has sent or received anything; returns how to undo it."""
    from ray.util import serialization_addons

    before = serialization_addons.apply
    serialization_addons.apply = _nothing
    return lambda: setattr(serialization_addons, "apply", before)


def is_worker_of_ray() -> bool:
    """Whether Ray has started this process for an actor or a task."""
    from ray._private.worker import WORKER_MODE, global_worker

    return bool(global_worker.mode == WORKER_MODE)


def _nothing(context: Any) -> None:
    pass
