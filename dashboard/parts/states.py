"""The states of a run as every page shows them, one line each; what brings a run into them is in `runs`."""

from __future__ import annotations

from typing import Literal

from shoal.lazy.classes import dataclass
from shoal.runs.folder import ACTIVE


@dataclass(frozen=True)
class State:
    """A word, its badge, and its colour in lists: told apart by their words, dark enough for white letters on them."""

    word: str
    badge: Literal["gray", "blue", "primary", "orange", "green", "red"]
    icon: str
    colour: str

    @property
    def symbol(self) -> str:
        return f":material/{self.icon}:"


STATES = {
    "queued": State("Queued", "gray", "hourglass_empty", "#2f74ae"),
    "preparing": State("Preparing", "blue", "sync", "#2f74ae"),
    "running": State("Running", "primary", "play_arrow", "#2f74ae"),
    "paused": State("Paused", "orange", "pause", "#2f74ae"),
    "stopping": State("Stopping", "orange", "stop", "#2f74ae"),
    "finished": State("Finished", "green", "check", "#0b8378"),
    "stopped": State("Stopped", "gray", "stop", "#96690a"),
    "failed": State("Failed", "red", "error", "#c23b4e"),
    "interrupted": State("Interrupted", "red", "power_off", "#b84f00"),
}
ARCHIVED = State("Archived", "gray", "inventory_2", "#6b6b6b")
REMOVED = State("Removed", "gray", "delete", "#6b6b6b")  # while somebody looks at it
GROUPS = {"active": "Active"} | {name: STATES[name].word for name in STATES if name not in ACTIVE}


def state_of(name: str) -> State:
    return STATES.get(name) or (REMOVED if name == "gone" else State(name.capitalize(), "gray", "help", "#6b6b6b"))


def group_of(name: str) -> str:
    return "active" if name in ACTIVE else name
