"""What a run lends its training: where records and checkpoints go, who is told, who decides; not what is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from shoal.errors import Standing
from shoal.lazy.classes import dataclass
from shoal.storage.base import Storage
from shoal.training.advisers import Advisers
from shoal.training.callbacks import Callbacks
from shoal.training.checkpoints import Checkpoints


@dataclass
class Session:
    """Of one run, for as long as its process lives."""

    storage: Storage
    checkpoints: Checkpoints
    callbacks: Callbacks
    log: Callable[[str, str], None]  # (level, text)
    state: Callable[[Standing], None]
    again: str = ""  # why it goes on, where nobody asked for that
    advisers: Advisers = field(default_factory=Advisers)
