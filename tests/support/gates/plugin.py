"""The plug-ins `gates`, a callback and a reader of files *.gated, which runs load by name: they do at a place what a test has ordered for it.

An order is a file of that place's name in the folder SHOAL_GATES. How tests write orders is in `orders`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.training.callbacks import Callback, RunView

if TYPE_CHECKING:
    from shoal.metrics import Event, Round

FOLDER = "SHOAL_GATES"


class Gates(Callback):
    def __init__(self) -> None:
        self._folder = Path(os.environ[FOLDER])
        self._passes = 0  # rounds of the finish that this process has put on record

    def run_started(self, run: RunView) -> None:
        self._come_to("start", run)

    def round_ended(self, run: RunView, round: Round) -> None:
        """The first 300 rounds of a process are all put on record, so a place among them is never missed."""
        self._passes += round.phase == "finish"
        self._come_to(f"pass-{self._passes}" if self._passes else f"round-{round.round}", run)

    def worker_lost(self, run: RunView, event: Event) -> None:
        self._come_to(f"lost-{event.rank}", run)

    def checkpoint_saved(self, run: RunView, step: int) -> None:
        self._come_to(f"checkpoint-{step}", run)

    def run_ended(self, run: RunView, state: str) -> None:
        self._come_to("end", run)

    def _come_to(self, place: str, run: RunView) -> None:
        order = self._folder / place
        if not order.exists():
            return
        action = order.read_text()
        if action != "hold":
            order.unlink()
            run.send(action)
            return
        _wait_at(order)


class GatedReader:
    """Text as it is, once the gate `read` is open."""

    suffixes = (".gated",)

    def text(self, path: Path) -> Iterator[bytes]:
        order = Path(os.environ[FOLDER]) / "read"
        if order.exists():
            _wait_at(order)
        yield path.read_bytes()


def _wait_at(order: Path) -> None:
    order.with_name(f"{order.name}.here").touch()
    while order.exists():
        time.sleep(0.005)


reader = GatedReader()
