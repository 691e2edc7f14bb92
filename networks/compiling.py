"""What PyTorch is told once in a process that computes: to compile a module, and how much of a GPU's memory to take.

PyTorch loads what it compiled before without a look at whether it is whole; so files are proven here before it may.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.files.locks import one_at_a_time
from shoal.home import compiled_directory
from shoal.networks.computing import NONE, Computing

CACHE = "TORCHINDUCTOR_CACHE_DIR"  # where PyTorch looks for what it compiled; usually a folder that all users share
SUMS, LOCK = "files.json", "files.lock"


def compiled(module: nn.Module, computing: Computing) -> Any:
    """The module to be compiled when it is first called; None for one that is not.

    For one shape only: code for any number of rows has other last bits, and some workers would have it sooner.
    """
    if computing.compile_mode == NONE:
        return None
    folder = str(compiled_directory())
    if os.environ.setdefault(CACHE, folder) == folder and not prove_compiled():
        warnings.warn("What PyTorch had compiled was damaged on the disk; it is compiled again.", stacklevel=2)
    from torch._inductor import config as inductor

    inductor.compile_threads = 1  # no processes of its own, which nobody would end with the worker
    return torch.compile(module, mode=computing.compile_mode, dynamic=False)


def prove_compiled() -> bool:
    """Whether all that is kept is as it was; where it is not, nothing of it is left for PyTorch to load."""
    folder = compiled_directory()
    with one_at_a_time(folder / LOCK):
        known = _kept(folder)
        if known is not None and all(_sum(folder / name) in ("", said) for name, said in known.items()):
            return True
        for path in _files(folder):
            if known is None or str(path.relative_to(folder)) in known:
                path.unlink(missing_ok=True)
        (folder / SUMS).unlink(missing_ok=True)
    return False


def keep_compiled() -> None:
    """Remember what is there, once a module was compiled."""
    folder = compiled_directory()
    with one_at_a_time(folder / LOCK):
        known = _kept(folder) or {}
        names = (str(path.relative_to(folder)) for path in _files(folder))
        found = {name: known.get(name) or _sum(folder / name) for name in names}
        sealed.write(folder / SUMS, {"files": {name: found[name] for name in sorted(found)}}, SUMS)


def _kept(folder: Path) -> dict[str, str] | None:
    """Sums by names, or None where they cannot be read; files that a process has yet to sum are not among them."""
    try:
        return dict(sealed.read(folder / SUMS, SUMS)["files"])
    except FileNotFoundError:
        return {}
    except DamagedFile:
        return None


def _files(folder: Path) -> Iterator[Path]:
    """All but locks, PyTorch's and ours."""
    every = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return (path for path in every if path != folder / SUMS)


def _sum(path: Path) -> str:
    """Empty for a file that is gone, which PyTorch makes anew."""
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    return f"{len(data)} {zlib.crc32(data):08x}"


def bound_memory(computing: Computing) -> None:
    if computing.device == "cuda" and computing.gpu_share:
        torch.cuda.set_per_process_memory_fraction(computing.gpu_share)
