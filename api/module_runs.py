"""`shoal.train_module`: a PyTorch module trained by a run of its own, which the command line and the dashboard see."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

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
from shoal.utils import Progress, silent

if TYPE_CHECKING:
    from torch import nn

    from shoal.metrics import Round

WEIGHTS = "module.safetensors"
LOOK = 0.1  # seconds between two looks at the run
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
