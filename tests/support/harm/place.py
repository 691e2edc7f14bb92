"""A home that is harmed and put back, and what a kind of file is; which kinds there are is in `fuzzing` and `home_files`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shoal import data_pipeline
from shoal.coordinator import Coordinator
from shoal.engines.inline import InlineEngine
from shoal.files import checksums
from shoal.library import accounts
from shoal.passes.blocks import opened
from shoal.runs import documents
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from


class Place:
    """A home with a table, and what was made of it; harmed and put back as it was."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.table = folder, folder / "home", folder / "table.csv"
        rng = np.random.default_rng(5)
        a, b, c = rng.normal(size=(3, 1500))
        town = rng.choice(["Bonn", "Rom", "Wien"], len(a))
        y = a - 2 * b + 0.5 * c + (town == "Rom") + rng.normal(size=len(a))
        rows = zip(a, b, c, town, y, strict=True)
        lines = (f"{p:.5f},{q:.5f},{r:.5f},{t},{v:.5f}\n" for p, q, r, t, v in rows)
        self.table.write_text("a,b,c,town,y\n" + "".join(lines))

    def config(self, **knobs: Any) -> RunConfig:
        return config_from({"file": str(self.table), "target": "y", "engine": "inline", **knobs})

    def keep(self) -> None:
        shutil.copytree(self.home, self.folder / "kept")

    def put_back(self) -> None:
        """As a new process would find it: nothing of it is remembered."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.folder / "kept", self.home)
        opened.cache_clear()
        data_pipeline._map.cache_clear()
        checksums._whole.clear()
        accounts._known.clear()
        documents._endings.clear()

    @contextmanager
    def coordinator(self) -> Iterator[Coordinator]:
        with InlineEngine() as engine:
            yield Coordinator(engine, self.home)


class Told(str):
    """What is said in words in the place of an answer that cannot be given."""

    __slots__ = ()


@dataclass(frozen=True)
class FileKind:
    """Files below the home, what is asked of them, and whether damage is made good or only said.

    An answer has a part for each entry of a list; a part that is bad is `Told`, and leaves the others as they are.
    """

    name: str
    files: str
    ask: Callable[[Place], str | dict[str, str]]
    made_again: bool = True
    make: Callable[[Place], object] | None = None  # makes the files, where asking does not
    spare: bool = False  # only saves time: what is harmed is worked out again, and nothing has to be said
