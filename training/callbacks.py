"""Callbacks: what else happens as a run goes on, and how the run is kept safe from them.

What does not belong here: what every run does anyway (records, checkpoints, commands), and how plug-ins are found.

All hooks are called by the run process (the one that holds the weights; never by a worker or by the dashboard), in its
main thread, one callback after the other in the order of the knob `callbacks`. The run waits for each of them: a hook
should be done in a millisecond or hand its work to a thread of its own.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from shoal import plugins

if TYPE_CHECKING:
    from shoal.metrics import Event, Round
    from shoal.models import Array
    from shoal.settings.config import RunConfig


class RunView(Protocol):
    """What a callback sees of a run, and what it may ask of it."""

    @property
    def config(self) -> RunConfig:
        """All knobs, as the run was given them."""
        ...

    @property
    def round(self) -> int:
        """Server steps done so far."""
        ...

    def weights(self) -> Array:
        """A copy of the weights (p,), of standardised columns."""
        ...

    def stop(self, reason: str) -> None:
        """End the run when the round that workers are at is done, as a person's `stop` does; the reason is recorded."""
        ...

    def send(self, name: str, **arguments: Any) -> None:
        """A command such as `set` or `checkpoint`; it takes effect before the next round, as those of a person do."""
        ...


class Callback:
    """Does nothing at every hook: a callback overrides those it wants. Its constructor takes no arguments."""

    def run_started(self, run: RunView) -> None:
        """Once, when the data are ready and workers have started, before the first round; after a resume as well."""

    def round_ended(self, run: RunView, round: Round) -> None:
        """After a round that is put on record, with that record; where rounds are quick, not after every one."""

    def worker_lost(self, run: RunView, event: Event) -> None:
        """When a worker process is gone that was not told to go, before it is replaced; event.rank says which."""

    def checkpoint_saved(self, run: RunView, step: int) -> None:
        """When a checkpoint is safe on disk."""

    def run_ended(self, run: RunView, state: str) -> None:
        """Once, at the end: state is `finished`, `stopped` or `failed`. Not when the run process itself is killed."""


class Callbacks(Callback):
    """Several callbacks as one. One that fails is reported once and left out from then on; the run goes on."""

    def __init__(self, callbacks: Iterable[Callback], warn: Callable[[str], None]) -> None:
        self._active, self._warn = list(callbacks), warn

    def __len__(self) -> int:
        return len(self._active)

    def run_started(self, run: RunView) -> None:
        self._call("run_started", run)

    def round_ended(self, run: RunView, round: Round) -> None:
        self._call("round_ended", run, round)

    def worker_lost(self, run: RunView, event: Event) -> None:
        self._call("worker_lost", run, event)

    def checkpoint_saved(self, run: RunView, step: int) -> None:
        self._call("checkpoint_saved", run, step)

    def run_ended(self, run: RunView, state: str) -> None:
        self._call("run_ended", run, state)

    def _call(self, hook: str, *arguments: object) -> None:
        for callback in tuple(self._active):
            try:
                getattr(callback, hook)(*arguments)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - Ctrl-C is a person's and passes; this is a plug-in's
                self._active = [other for other in self._active if other is not callback]
                self._warn(_report(callback, hook, error))


def _report(callback: Callback, hook: str, error: BaseException) -> str:
    name = f"{type(callback).__module__}.{type(callback).__qualname__}"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return (
        f"The callback {name} failed in {hook}{place} ({type(error).__name__}: {error}). "
        "The run goes on without it; correct the callback before the next run."
    )


def callbacks_named(names: Sequence[str], warn: Callable[[str], None]) -> Callbacks:
    """The plug-ins of these names as one callback; a name twice is one callback."""
    return Callbacks([plugins.make(plugins.CALLBACKS, name, Callback) for name in dict.fromkeys(names)], warn)
