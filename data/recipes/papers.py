"""What a machine has to know of a data set to answer for its rows, sent to those that do not see the folder."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from shoal.data.dataset import LEVELS, Dataset
from shoal.data.recipes.remaking import TOLD, refilled
from shoal.data.recipes.sources import SOURCES, add_sources, read_sources
from shoal.files.elsewhere import sees, staged_blocks
from shoal.home import MANIFEST, cache_directory, make_folder
from shoal.lazy.classes import dataclass
from shoal.utils import disk_errors

PAPERS = (LEVELS, SOURCES, MANIFEST)  # the manifest last: a folder that has one is complete but for its blocks

UNCLAIMED = 24 * 3600  # seconds after which nobody will ask for a block of a reading that was not finished


@dataclass(frozen=True)
class TakePapers:
    """Put the small files of a data set into this machine's own cache, unless their folder is seen here."""

    directory: str
    files: tuple[tuple[str, bytes], ...]
    sources: Mapping[str, Mapping[str, Any]]

    def answer(self, worker: object) -> None:
        own = cache_directory() / Path(self.directory).name
        if sees(self.directory):
            return
        if (own / MANIFEST).exists():
            add_sources(own, self.sources)
            return
        forget_unclaimed()
        with disk_errors():
            make_folder(own)
            (own / TOLD).touch()
            for name, data in self.files:
                aside = own / f"{name}.{os.urandom(6).hex()}"
                aside.write_bytes(data)
                aside.replace(own / name)


def forget_unclaimed() -> None:
    """Remove blocks of readings that came to nothing: those of others are asked for soon after they were made."""
    with contextlib.suppress(OSError):
        for file in staged_blocks().iterdir():
            if time.time() - file.stat().st_mtime > UNCLAIMED:
                shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)


class Briefing(Protocol):
    """Who tells workers that may be on other machines."""

    def brief(self, name: str, request: Callable[[], TakePapers]) -> None: ...


def lent(dataset: Dataset, workers: Briefing) -> Dataset:
    """A data set that all workers know of, wherever they are."""
    workers.brief(str(dataset.directory), functools.partial(papers, dataset))
    return refilled(dataset) if dataset.manifest.scattered else dataset


def papers(dataset: Dataset) -> TakePapers:
    found = []
    for name in PAPERS:
        with contextlib.suppress(FileNotFoundError):
            found.append((name, (dataset.directory / name).read_bytes()))
    return TakePapers(str(dataset.directory), tuple(found), read_sources(dataset.directory))
