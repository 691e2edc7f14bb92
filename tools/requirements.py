"""Prints requirements.txt: what Shoal needs to run, directly or not, in the versions of constraints.txt."""

from __future__ import annotations

import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
HEAD = "# Made by `make requirements` from pyproject.toml and constraints.txt.\n"


def requirements() -> str:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]): line for line in lines}
    wanted, found = list(settings["project"]["dependencies"]), set()
    while wanted:
        needed = Requirement(wanted.pop())
        name = canonicalize_name(needed.name)
        if name in found or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        wanted += requires(name) or ()
    return HEAD + "".join(f"{line}\n" for name, line in pinned.items() if name in found)


if __name__ == "__main__":
    print(requirements(), end="")
