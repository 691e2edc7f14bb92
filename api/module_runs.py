"""`shoal.train_module`: a PyTorch module trained by a run of its own, which the command line and the dashboard see."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shoal.errors import ConfigError, StateError
from shoal.networks.extra import need_torch
from shoal.results.network import NetworkReport
from shoal.runs import commands, made_files
from shoal.runs import launch as launching
from shoal.runs.folder import Run, find_run
from shoal.settings.checks import check_aggregation
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.settings.when import MODULE
from shoal.steps.optimizers import STEP_RULES, AdamW, StepRule
from shoal.utils import Progress, silent

if TYPE_CHECKING:
    from torch import nn

    from shoal.metrics import Round

WEIGHTS = "module.safetensors"
LOOK = 0.1  # seconds between two looks at the run
SHARDS, BATCH = 8, 32  # of a module's rows, where nobody says how many
FEWEST_STEPS, SMOOTH, LOST = 10, 0.9, 3  # of a walk by growing rates; share of what came before; times the first loss
USUAL: dict[str, Any] = {"step_rule": "adamw", "tolerance": 0.0}
NOT_HERE = ("file", "model", "solver", "target", "out", "register")  # knobs that a module has no use for


class ModuleRun:
    """A run that trains a module: what it is doing, what came of it, and what can be asked of it."""

    def __init__(self, run: Run, module: nn.Module | None = None) -> None:
        self._run, self._module = run, module

    @property
    def id(self) -> str:
        """The name that `shoal show`, `shoal send` and the dashboard know it by."""
        return self._run.id

    @property
    def state(self) -> str:
        return self._run.state

    @property
    def report(self) -> NetworkReport:
        """What came of it; StateError while there is nothing yet."""
        found = self._run.report
        if found is None or found.network is None:
            raise StateError(f"The run {self.id} is {self.state} and has no result. {self._run.cause}".strip())
        return found.network

    @property
    def history(self) -> list[Round]:
        """Rounds as they were recorded: loss, score of test rows, rows a second, ..."""
        with commands.metrics_of(self._run) as storage:
            return storage.rounds(10**6) if storage else []

    @property
    def module(self) -> nn.Module:
        """The module that was trained, with what it has learnt so far where the run has ended."""
        if self._module is None:
            self._module = _made_anew(self._run)
        path = self._run.directory / WEIGHTS
        if path.exists():
            from safetensors.torch import load_file

            made_files.prove(path)
            self._module.load_state_dict(load_file(path))
        return self._module

    def wait(self, progress: Progress = silent) -> ModuleRun:
        """Until it has ended; an error if it failed. Ctrl-C leaves the run to itself."""
        while self._run.is_active:
            progress(*self._run.progress)
            time.sleep(LOOK)
        if self.state not in ("finished", "stopped"):
            raise StateError(f"The run {self.id} {_came_to(self.state)}. {self._run.cause}".strip())
        return self

    def send(self, command: str, **arguments: Any) -> str:
        """A command such as `pause`, `stop` or `set` (learning_rate=...); what became of it."""
        number = commands.post(self._run, command, arguments)
        return commands.wait_settled(self._run, number).outcome or "not settled yet"

    def resume(self) -> ModuleRun:
        launching.resume(self._run)
        return self

    def fork(self, step: int | None = None, **changes: Any) -> ModuleRun:
        return ModuleRun(launching.fork(self._run, step, changes))

    def __repr__(self) -> str:
        lines = [f"<ModuleRun {self.id}: {self.state}>"]
        if self.state in ("finished", "stopped") and (found := self._run.report) and found.network:
            lines += [f"  {sentence}" for sentence in found.network.sentences()]
        return "\n".join(lines)


def _came_to(state: str) -> str:
    return state if state == "failed" else f"is {state}"


def _made_anew(run: Run) -> nn.Module:
    need_torch()
    from shoal.networks.live import loaded
    from shoal.networks.stored import read_module

    file = str(run.config["file"])
    return loaded(file, read_module(file).precision).module


def train_module(
    module: nn.Module, data: Any, loss: Any, test: Any, wait: bool, progress: Progress, knobs: dict[str, Any]
) -> ModuleRun:
    """See `shoal.train_module`."""
    need_torch()
    config = config_for(knobs)
    from shoal.networks.storing import stored_module

    file = stored_module(module, data, loss, test)
    run = launching.launch(dataclasses.replace(config, file=file, target=type(module).__name__))
    found = ModuleRun(run, module)
    if not wait:
        return found
    found.wait(progress)
    _ = found.module  # the one that was given has learnt
    return found


class LearningRates(NamedTuple):
    """A walk through the rows by steps that grow: the rate of each, and the loss of the batches up to it, smoothed."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    suggested: float | None  # a tenth of the rate at the lowest loss; None where the loss never fell

    def __repr__(self) -> str:
        said = "none: the loss never fell" if self.suggested is None else f"{self.suggested:.2g}"
        return f"<LearningRates suggested {said}; {len(self.rates)} steps up to {self.rates[-1]:.2g}>"


def find_learning_rate(
    module: nn.Module, data: Any, loss: Any, lowest: float, highest: float, steps: int, knobs: dict[str, Any]
) -> LearningRates:
    """See `shoal.find_learning_rate`."""
    need_torch()
    if not (0 < lowest < highest < math.inf and steps >= FEWEST_STEPS):
        raise ConfigError(
            f"Expected rates with 0 < lowest < highest and at least {FEWEST_STEPS} steps, "
            f"got {lowest:g} to {highest:g} in {steps}."
        )
    config = config_for(knobs)
    import torch

    from shoal.networks.live import loaded
    from shoal.networks.stored import read_module
    from shoal.networks.storing import stored_module

    file = stored_module(module, data, loss)
    stored = read_module(file)
    X, y = (rows.reshape(len(rows), -1) for rows in (stored.data.open("X"), stored.data.open("y")))
    batch = (config.batch_size or BATCH) * ((config.shards or SHARDS) if config.mode == "sync" else 1)
    with torch.random.fork_rng(devices=[]):
        live = loaded(file, stored.precision if config.precision == "auto" else config.precision)
        rule = _step_rule(config, live.size)
        w, random = live.start.copy(), np.random.default_rng(config.seed)
        places, rates, losses, mean = random.permutation(len(y)), list[float](), list[float](), 0.0
        for step, rate in enumerate(np.geomspace(lowest, highest, steps).tolist()):
            if len(places) < min(batch, len(y)):  # the next time through the rows
                places = random.permutation(len(y))
            some, places = np.sort(places[:batch]), places[batch:]
            live.seed(config.seed, step)
            gradient, value = live.gradient(X[some], y[some], w)
            mean = SMOOTH * mean + (1 - SMOOTH) * value / len(some)
            smoothed = mean / (1 - SMOOTH ** (step + 1))
            if not math.isfinite(smoothed + gradient.sum()) or (
                losses and smoothed > min(losses) + LOST * abs(losses[0])
            ):
                break
            rates.append(rate)
            losses.append(smoothed)
            w = rule.step(w, gradient / len(some), rate, lambda moved, step: moved)
    best = int(np.argmin(losses)) if losses else 0
    return LearningRates(tuple(rates), tuple(losses), rates[best] / 10 if best else None)


def _step_rule(config: RunConfig, width: int) -> StepRule:
    if config.step_rule not in STEP_RULES:
        raise ConfigError(f"Expected one of {', '.join(STEP_RULES)} to try rates with, got {config.step_rule}.")
    kind = STEP_RULES[config.step_rule]
    return AdamW(width, config.momentum, config.weight_decay) if kind is AdamW else kind(width, config.momentum)


def config_for(knobs: dict[str, Any]) -> RunConfig:
    """The knobs of a run, checked before anything is stored."""
    if alien := [name for name in knobs if name in NOT_HERE]:
        raise ConfigError(f"A module has no knob '{alien[0]}'. Leave it out.", knobs=[alien[0]])
    usual = {**USUAL, "workers": 0, "target": "y", "model": MODULE, "solver": "gradient"}
    if knobs.get("mode") == "local":
        usual["step_rule"] = "sgd"
    config = config_from({**usual, **knobs})
    check_aggregation(config)
    return config


def module_run(name: str) -> ModuleRun:
    """A run that was started earlier, by its name."""
    run = find_run(name) or launching.resolve(name)
    if run.config.get("model") != MODULE:
        raise StateError(f"Expected a run that trains a module, but {run.id} is of a {run.config.get('model')} model.")
    return ModuleRun(run)
