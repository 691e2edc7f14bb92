"""What PyTorch is told once in a process that computes: to compile a module, and how much of a GPU's memory to take."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from shoal.home import compiled_directory, make_folder
from shoal.networks.computing import NONE, Computing

CACHE = "TORCHINDUCTOR_CACHE_DIR"  # where PyTorch looks for what it compiled; usually a folder that all users share


def compiled(module: nn.Module, computing: Computing) -> Any:
    """The module to be compiled when it is first called; None for one that is not.

    For one shape only: code for any number of rows has other last bits, and some workers would have it sooner.
    """
    if computing.compile_mode == NONE:
        return None
    make_folder(compiled_directory())
    os.environ.setdefault(CACHE, str(compiled_directory()))
    from torch._inductor import config as inductor

    inductor.compile_threads = 1  # no processes of its own, which nobody would end with the worker
    return torch.compile(module, mode=computing.compile_mode, dynamic=False)


def bound_memory(computing: Computing) -> None:
    if computing.device == "cuda" and computing.gpu_share:
        torch.cuda.set_per_process_memory_fraction(computing.gpu_share)
