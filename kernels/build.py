"""Builds our C sources once for this machine, with the compiler that is there; what they do is in modules of theirs."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from shoal.errors import ResourceError
from shoal.home import kernels_directory, make_folder, usual_umask

HERE = Path(__file__).parent
FLAGS = ["-O3", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden"]
EXTRA_FLAGS: dict[str, list[str]] = {
    "checksum_kernel": [],
    "columns_kernel": [],
    "csv_kernel": [],
    "lines_kernel": [],
    "losses_kernel": ["-ffp-contract=fast"],  # as weighted_kernel
    "pairs_kernel": [],
    "rows_kernel": [],
    # Sums may be taken in any order: they are dot products of Gram matrices, and the answer is checked against its
    # optimality conditions by whoever asks.
    "path_kernel": ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"],
    "weighted_kernel": ["-ffp-contract=fast"],  # a product and a sum in one instruction, where there is one
}


def build(name: str) -> Path:
    """The compiled library, made now if it is not there; safe when several processes do it at once."""
    path = library_path(name)
    if path.exists() and _is_whole(path):
        return path
    build_into(path.parent, name)
    if path.parent == kernels_directory():
        _sum_file(path).write_text(_sum(path))  # one without is made again
    return path


def build_into(folder: Path, name: str) -> Path:
    """The library, compiled into a folder; one that is there already is replaced."""
    path, source = folder / _file_name(name), _source(name)
    make_folder(folder)
    unfinished = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")  # folds need one at once, in threads
    command = [*_compiler(), *FLAGS, *EXTRA_FLAGS[name], str(source), "-o", str(unfinished), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, umask=usual_umask())
    if done.returncode:
        raise ResourceError(
            f"Building {source.stem} failed. Expected '{command[0]}' to compile {source.name}, got: "
            f"{done.stderr.strip()[-500:]}. Install a working C compiler, or: pip install ziglang"
        )
    unfinished.replace(path)
    return path


def _is_whole(path: Path) -> bool:
    """Whether a library in SHOAL_HOME is what was compiled there: a changed byte would be loaded as any other, and
    compute something else. Those beside their sources are the installer's, or made by `make`."""
    if path.parent != kernels_directory():
        return True
    try:
        return _sum_file(path).read_text() == _sum(path)
    except (OSError, UnicodeDecodeError):
        return False


def _sum_file(path: Path) -> Path:
    return path.with_suffix(".sum")


def _sum(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def built_with(name: str) -> str:
    """The mark that its compiler left in the library; empty where there is none, or it was not built yet."""
    try:
        marks = re.findall(rb"(?:GCC: |clang version )[ -~]{3,80}", library_path(name).read_bytes())
    except OSError:
        return ""
    return marks[0].decode() if marks else ""


def library_path(name: str) -> Path:
    """Where the library is or will be: beside its source if it came with the wheel or this is a checkout.

    Elsewhere it is made in SHOAL_HOME, since what is in a folder of installed packages is their installer's.
    """
    beside = HERE / "build" / _file_name(name)
    if beside.exists() or (_is_checkout() and os.access(HERE, os.W_OK)):
        return beside
    return kernels_directory() / beside.name


def _is_checkout() -> bool:
    return (HERE.parent / "pyproject.toml").exists()


def _file_name(name: str) -> str:
    """Says what it was made from and for, so that one of another source or machine is never loaded."""
    flags = " ".join((*FLAGS, *EXTRA_FLAGS[name]))
    mark = hashlib.blake2b(_text(name) + flags.encode(), digest_size=6).hexdigest()
    return f"{name}-{platform.system()}-{platform.machine()}-{mark}.so".lower()


def _text(name: str) -> bytes:
    """The source and the parts that it includes."""
    text = _source(name).read_bytes()
    parts = re.findall(rb'^#include "([a-z_]+\.h)"', text, re.MULTILINE)
    return text + b"".join((HERE / part.decode()).read_bytes() for part in parts)


def _source(name: str) -> Path:
    return HERE / f"{name}.c"


def _compiler() -> list[str]:
    """The machine's C compiler, or the one in the PyPI package `ziglang`."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return [name]
    found = subprocess.run([sys.executable, "-m", "ziglang", "version"], capture_output=True)
    if found.returncode == 0:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise ResourceError(
        "Reading files and solving paths needs small C libraries that are built on first use. Expected a C compiler "
        "(cc) or the Python package 'ziglang', found neither. Install one: pip install ziglang"
    )


if __name__ == "__main__":
    for kernel in EXTRA_FLAGS:
        print(build(kernel))
