"""The commands that people and callbacks give a run while it goes on: followed at once, or refused with a reason."""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Mapping
from typing import Any, Protocol

from shoal.coordinator import ParameterServer
from shoal.errors import ResourceError, StateError, TrainingError
from shoal.settings.checks import RANGES
from shoal.settings.config import COMPRESSIONS, RunConfig
from shoal.steps.steering import Steering
from shoal.storage.base import Storage
from shoal.training.objectives.base import Objective
from shoal.training.staffing import Staffing

ON_REQUEST = f"killed by signal {signal.SIGKILL.value} ({signal.SIGKILL.name}), on request"


class Refused(TrainingError):
    """A command that cannot be followed, and why."""


class Steered(Protocol):
    """The part of a run's conductor that commands reach."""

    server: ParameterServer
    config: RunConfig
    objective: Objective
    steering: Steering
    phase: str
    base_rate: float
    staffing: Staffing

    def pause(self, cause: str) -> None: ...

    def resume(self) -> None: ...

    def halt(self) -> None: ...

    def checkpoint(self) -> bool: ...

    def set_rate(self, rate: float | None) -> None: ...

    def set_alpha(self, alpha: float) -> None: ...

    def set_compression(self, name: str) -> None: ...

    def in_force(self) -> dict[str, Any]: ...

    def happened(self, kind: str, text: str, rank: int | None = None, **data: Any) -> None: ...


class Commands:
    """Takes commands from the store and follows them; a method `do_NAME` takes the arguments by name."""

    def __init__(self, run: Steered, storage: Storage) -> None:
        self._run, self._storage = run, storage
        self._unsettled: list[tuple[int, int, str]] = []  # commands that were followed: number, round, outcome
        self._renewed = storage.renewed

    def take(self) -> bool:
        """Follow what people have left in the store; whether there was anything."""
        self.settle()
        try:
            commands = self._storage.take()
        except (StateError, ResourceError):
            return False  # somebody holds the store; the commands are still there the next time
        if self._renewed != self._storage.renewed:  # commands before these are gone with the store that had them
            self._renewed, self._unsettled = self._storage.renewed, []
        for command in commands:
            outcome = self.follow(command.name, command.arguments)
            self._unsettled.append((command.id, self._run.server.version, outcome))
        self.settle()
        return bool(commands)

    def refuse_the_rest(self) -> None:
        """The run is over: who gave a command a moment too late is told so."""
        with contextlib.suppress(StateError, ResourceError):
            version, late = self._run.server.version, self._storage.take()
            self._unsettled += [(command.id, version, "The run had already ended.") for command in late]
        self.settle()

    def settle(self) -> None:
        """Say what became of commands; where the store cannot be written to, the next look tries again."""
        with contextlib.suppress(StateError, ResourceError):
            while self._unsettled:
                self._storage.settle(*self._unsettled[0])
                del self._unsettled[0]

    def follow(self, name: str, arguments: Mapping[str, Any]) -> str:
        """`done`, or why not; both are put on record."""
        before = self._values() if name == "set" else {}
        try:
            self._do(name, arguments)
            outcome = "done"
        except Refused as refusal:
            outcome = str(refusal)
        text = " ".join([name, *(f"{key}={value}" for key, value in arguments.items())])
        self._run.happened(
            "command", f"Command {text}: {outcome}", command=name, outcome=outcome, arguments=_plain(arguments),
            before={knob: before[knob] for knob in arguments if knob in before},
        )  # fmt: skip
        return outcome

    def _do(self, name: str, arguments: Mapping[str, Any]) -> None:
        method = getattr(self, f"do_{name}", None)
        if method is None:
            known = ", ".join(sorted(n.removeprefix("do_") for n in dir(self) if n.startswith("do_")))
            raise Refused(f"Expected one of the commands {known}, got '{name}'.")
        try:
            method(**arguments)
        except TypeError as error:
            raise Refused(f"The command '{name}' was given arguments that do not fit: {error}.") from None

    def _values(self) -> dict[str, Any]:
        """What `set` may change, as it is now."""
        return self._run.in_force()

    # ---------------------------------------------------------------- the run as a whole

    def do_pause(self) -> None:
        if self._run.server.policy.paused:
            raise Refused("The run is paused already.")
        self._run.pause("paused by a command")

    def do_resume(self) -> None:
        if not self._run.server.policy.paused:
            raise Refused("The run is not paused.")
        self._run.resume()

    def do_stop(self) -> None:
        self._run.halt()

    def do_checkpoint(self) -> None:
        if not self._run.checkpoint():
            raise Refused("The checkpoint could not be written; the log says why.")

    # ---------------------------------------------------------------- knobs

    def do_set(self, **values: Any) -> None:
        for name, value in values.items():
            setter = getattr(self, f"_set_{name}", None)
            if setter is None:
                raise Refused(f"Expected one of learning_rate, alpha, staleness, compression to set, got '{name}'.")
            setter(value)

    def _set_learning_rate(self, value: Any) -> None:
        if self._run.phase == "finish":
            raise Refused("The full passes at the end take their step from the curvature, not from a learning rate.")
        self._run.set_rate(None if value == "auto" else _number("learning_rate", value, above=0))

    def _set_alpha(self, value: Any) -> None:
        run = self._run
        if not run.objective.penalised:
            raise Refused(f"The {run.objective.config.model} model has no penalty, so it has no alpha to set.")
        run.set_alpha(_number("alpha", value, least=0))

    def _set_staleness(self, value: Any) -> None:
        if not self._run.server.bound(_number("staleness", value, least=0)):
            raise Refused("Only the steps of the modes ssp and async have a bound of staleness.")

    def _set_compression(self, value: Any) -> None:
        if self._run.phase == "finish":
            raise Refused("The full passes at the end are not compressed.")
        if value not in COMPRESSIONS:
            raise Refused(f"Expected compression to be one of {', '.join(COMPRESSIONS)}, got '{value}'.")
        if value != "none" and self._run.objective.config.aggregation == "allreduce":
            raise Refused("Gradients that workers add up among themselves (aggregation allreduce) are not compressed.")
        self._run.set_compression(value)

    # ---------------------------------------------------------------- workers

    def do_add_worker(self) -> None:
        self._check_elastic()
        self._run.staffing.by_person = True
        self._run.server.hire(self._run.server.free_rank())

    def do_remove_worker(self, rank: Any = None) -> None:
        self._check_elastic()
        server = self._run.server
        if len(server.workers) < 2:
            raise Refused("The last worker cannot be removed. Stop or pause the run instead.")
        self._run.staffing.by_person = True
        if not server.dismiss(max(server.workers) if rank is None else self._rank(rank)):
            raise Refused("All other workers are about to leave, so this one stays. Stop or pause the run instead.")

    def do_kill_worker(self, rank: Any = 0) -> None:
        self._check_elastic()
        here = self._run.server.here  # the server finds out as of any other death
        self._run.server.evict(self._rank(rank), ON_REQUEST, kill=not here)
        if here:
            self._signal(rank, signal.SIGKILL)

    def do_hang_worker(self, rank: Any = 0) -> None:
        self._signal(rank, signal.SIGSTOP)

    def do_slow_worker(self, rank: Any = 0, factor: Any = 4) -> None:
        self._run.server.slow(self._rank(rank), _number("factor", factor, least=1))

    # ---------------------------------------------------------------- parameter shards

    def do_shards(self, count: Any = 1) -> None:
        number, most = _number("count", count, least=1), RANGES["parameter_shards"][1]
        if not (number.is_integer() and number <= most):
            raise Refused(f"Expected a whole number of parameter shards from 1 to {most}, got {count!r}.")
        if number > 1 and not self._run.server.parameters.possible:
            raise Refused("More parameter shards than 1 are for runs with worker processes.")
        self._run.server.parameters.scale(int(number))

    def do_kill_shard(self, shard: Any = 0) -> None:
        found = {str(line["shard"]): line["pid"] for line in self._run.server.parameters.table()}
        if not found.get(str(shard)) or found[str(shard)] == os.getpid():
            raise Refused(f"Expected the number of a parameter shard that is a process of its own, got {shard!r}.")
        self._run.server.parameters.kill(int(shard))

    def _signal(self, rank: Any, number: signal.Signals) -> None:
        self._check_elastic()
        if not self._run.server.here:
            raise Refused("Workers of this run are on a cluster, where no signal reaches them. Kill one instead.")
        os.kill(self._run.server.workers[self._rank(rank)].pid, number)

    def _check_elastic(self) -> None:
        if not self._run.server.elastic:
            raise Refused("This run is one process. Start one with worker processes for workers that come and go.")

    def _rank(self, rank: Any) -> int:
        present = sorted(self._run.server.workers)
        if str(rank) not in map(str, present):
            listed = ", ".join(map(str, present))
            raise Refused(f"Expected the number of a worker of this run ({listed}), got {rank!r}.")
        return int(rank)


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """As every reader of JSON can take them: callbacks may give anything, and people numbers that are not finite."""
    return {name: value if _is_plain(value) else str(value) for name, value in arguments.items()}


def _is_plain(value: Any) -> bool:
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, str | int | None)


def _number(name: str, value: Any, least: float = -math.inf, above: float = -math.inf) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= least and number > above):
        wanted = f"above {above:g}" if math.isfinite(above) else f"of at least {least:g}"
        raise Refused(f"Expected {name} to be a number {wanted}, got {value!r}.")
    return number
