"""Moments that tests make: where a run waits, pauses or saves is ordered before it comes there, at any speed.

What a run does with an order is in `plugin`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from shoal.runs.launch import Run
from support.gates.plugin import FOLDER
from support.runs import SLOW, until

TESTS = Path(__file__).parents[2]
ENTRY_POINTS = """[shoal.callbacks]
gates = support.gates.plugin:Gates
[shoal.readers]
gates = support.gates.plugin:reader
"""


class Orders:
    """Orders to the runs that this test starts from now on with the knobs `waiting`.

    Places are `start` (before the first round), `round-7`, `pass-1` (the first full pass of this process),
    `lost-0` (the loss of that worker), `checkpoint-0` and `end` (before the report). Rounds and passes are met for
    certain up to the 300th of a process. Without these knobs, and in jobs too, `read` is where a file *.gated is opened.
    """

    knobs: ClassVar[dict[str, Any]] = {"callbacks": ["gates"]}

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, site = folder, folder / "site"
        info = site / "gates-1.0.dist-info"  # what pip would write for a distribution with that plug-in
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gates\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(TESTS), os.environ.get("PYTHONPATH", "")]))
        monkeypatch.setenv(FOLDER, str(folder))

    def hold(self, *places: str) -> None:
        """The run process waits there until it is let go: workers idle, nothing is written, no command is heard."""
        self._write("hold", places)

    def pause(self, *places: str) -> None:
        """As the command does: workers come and go and commands are heard, and `resume` lets it go on."""
        self._write("pause", places)

    def checkpoint(self, *places: str) -> None:
        self._write("checkpoint", places)

    def _write(self, action: str, places: tuple[str, ...]) -> None:
        for place in places:
            aside = self._folder / f".{place}"
            aside.write_text(action)
            aside.rename(self._folder / place)  # a run must not read half an order

    def reached(self, run: Run, place: str) -> Run:
        """Wait until the run is held there."""
        here = self._folder / f"{place}.here"
        until(lambda: here.exists() or not run.is_active, 2 * SLOW)
        assert here.exists(), f"{run.state}: {run.cause} {run.error}"
        return run

    def let_go(self, place: str) -> None:
        (self._folder / f"{place}.here").unlink(missing_ok=True)
        (self._folder / place).unlink()

    def let_go_of_all(self) -> None:
        for order in self._folder.iterdir():
            if order.is_file() and order.suffix != ".here":
                self.let_go(order.name)

    @contextmanager
    def held(self, run: Run, place: str) -> Iterator[Run]:
        """What is done inside is done at that very moment of the run."""
        yield self.reached(run, place)
        self.let_go(place)
