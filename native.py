"""Builds our C sources once for this machine, with the compiler that is there; what they do is in modules of theirs."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from errors import ResourceError

HERE = Path(__file__).parent
FLAGS = ["-O3", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden"]


def build(source: Path, *flags: str) -> Path:
    """The compiled library, made now if it is not there; safe when several processes do it at once."""
    path = _library_path(source, flags)
    if path.exists():
        return path
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    command = [*_compiler(), *FLAGS, *flags, str(source), "-o", str(unfinished), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ResourceError(
            f"Building {source.stem} failed. Expected '{command[0]}' to compile {source.name}, got: "
            f"{done.stderr.strip()[-500:]}. Install a working C compiler, or: pip install ziglang"
        )
    unfinished.replace(path)
    return path


def _library_path(source: Path, flags: tuple[str, ...]) -> Path:
    mark = hashlib.blake2b(source.read_bytes() + " ".join((*FLAGS, *flags)).encode(), digest_size=6).hexdigest()
    name = f"{source.stem}-{platform.system()}-{platform.machine()}-{mark}.so".lower()
    beside = HERE / "build"
    if os.access(beside if beside.exists() else HERE, os.W_OK):
        return beside / name
    return Path(tempfile.gettempdir()) / f"shoal-{os.getuid()}" / name


def _compiler() -> list[str]:
    """The machine's C compiler, or the one in the PyPI package `ziglang`."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return [name]
    found = subprocess.run([sys.executable, "-m", "ziglang", "version"], capture_output=True)
    if found.returncode == 0:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise ResourceError(
        "Reading CSV files needs a small C library that is built on first use. Expected a C compiler (cc) or the "
        "Python package 'ziglang', found neither. Install one: pip install ziglang"
    )


if __name__ == "__main__":
    import csv_kernel
    import path_kernel

    for module in (csv_kernel, path_kernel):
        print(module.library()._name)
