"""How the gradients of a module are computed: on which device, in bfloat16, with less kept, compiled. What of that
there is not here is told in a sentence, and the run goes on without it; what is computed is in `live`.

    mixed           layers in bfloat16 by autocast; parameters, loss and gradients stay in the module's precision
    checkpointing   stretches of an `nn.Sequential` are computed again on the way back, not kept
    compile_mode    of `torch.compile`, for full batches: a short one would be compiled anew, by some workers only
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Protocol

from shoal.errors import ConfigError, Remedy
from shoal.lazy.classes import dataclass
from shoal.settings.config import RunConfig

NONE = "none"  # the compile mode of what is not compiled


@dataclass(frozen=True)
class Computing:
    """What was decided, small enough to be sent with every message. The default is what there is everywhere."""

    mixed: bool = False
    checkpointing: bool = False
    compile_mode: str = NONE
    full: int = 0  # rows of a batch that is compiled for
    device: str = "cpu"
    gpu_share: float = 0.0  # of a GPU's memory, for one process; 0 for no bound

    @property
    def without_compiling(self) -> Computing:
        return replace(self, compile_mode=NONE)


PLAIN = Computing()


class Gpus(Protocol):
    """What is asked of `torch.cuda`."""

    def is_available(self) -> bool: ...

    def is_bf16_supported(self) -> bool: ...


def computing_for(config: RunConfig, precision: str, full: int, gpus: Gpus) -> tuple[Computing, tuple[str, ...]]:
    """What the knobs come to on this machine, and what is to be said of it."""
    device, notes = _device(config, gpus), []
    mixed = config.mixed_precision
    if mixed and precision != "float32":
        notes.append(f"mixed_precision is not used: it is about float32, and this network computes in {precision}.")
        mixed = False
    elif mixed and device == "cuda" and not gpus.is_bf16_supported():
        notes.append("mixed_precision is not used: this GPU does not compute in bfloat16.")
        mixed = False
    share = config.gpu_memory_fraction
    if share and device != "cuda":
        notes.append("gpu_memory_fraction is not used: the network is computed by processors, not by a GPU.")
        share = 0.0
    processes = (config.workers or os.cpu_count() or 1) + 1  # the run's own looks at test rows
    made = Computing(mixed, config.gradient_checkpointing, config.compile_mode, full, device, share / processes)
    return (made if made.compile_mode != NONE else replace(made, full=0)), tuple(notes)


def _device(config: RunConfig, gpus: Gpus) -> str:
    if config.device == "cuda" and config.engine == "ray":
        raise ConfigError(
            "Expected device cpu or auto with engine ray, got cuda: workers of a cluster compute on its cores, so far.",
            Remedy.set("Use these", "device", "auto"), knobs=["device", "engine"],
        )  # fmt: skip
    if config.device == "cpu" or config.engine == "ray":
        return "cpu"
    if gpus.is_available():
        return "cuda"
    if config.device == "cuda":
        raise ConfigError(
            "Expected a GPU that PyTorch can use (CUDA), found none.",
            Remedy.set("Use what there is", "device", "auto"), knobs=["device"],
        )  # fmt: skip
    return "cpu"
