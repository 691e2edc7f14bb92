"""Every kind of file that Shoal reads back, harmed at random: what is answered then is what would have been, or an error.

`KINDS` is the table: a kind says where its files are and what is asked of them. `make fuzz` does this often, a test a
few times. How files are harmed is in `support.harm.damage`.
"""

from __future__ import annotations

import os
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from shoal.data import files as data_files
from shoal.data.cache import Cache
from shoal.errors import TrainingError
from shoal.fitting.inspection import inspect
from shoal.fitting.model_file import load_model, save_model
from shoal.fitting.summing import make_study
from shoal.runs.documents import read_json, write_json
from shoal.tasks.train import train_gradient_with, train_with
from shoal.training.checkpoints import Checkpoints
from shoal.training.objectives.shards import opened
from shoal.training.snapshots import Snapshot
from shoal.whatif.curve import cross_validate
from shoal.whatif.folds import FoldChoice
from shoal.whatif.study import open_study, save_study
from support.harm.damage import cut, flip, noise, swap, zero_page
from support.harm.databases import DATABASES
from support.harm.home_files import HOME_KINDS
from support.harm.kept_files import KEPT_KINDS
from support.harm.made_files import MADE_KINDS
from support.harm.place import FileKind, Place, Told
from support.harm.programs import PROGRAM_KINDS
from support.harm.team_files import TEAM_KINDS

BLOCK = 16_000  # bytes of text a block, so that a small table has several
HARMS: dict[str, Callable[[Path, random.Random], None]] = {
    "a flipped bit": flip, "a page of zeros": zero_page, "cut short": cut, "noise": noise,
}  # fmt: skip
SWAPPED = "in the place of another"
GRADIENT: dict[str, Any] = {"epochs": 1, "shards": 3, "batch_size": 128, "precision": "float64", "tolerance": 0}


# ------------------------------------------------------------------ what is asked


def _fit(place: Place, **knobs: Any) -> str:
    with place.coordinator() as coordinator:
        report = train_with(coordinator, place.config(**knobs)).report
    return repr((report.coefficients, report.intercept, report.train, report.test))


def _gradient(place: Place) -> str:
    config = place.config(solver="gradient", **GRADIENT)
    with place.coordinator() as coordinator, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = train_gradient_with(coordinator, config).report
    return repr((report.coefficients, report.intercept, report.train))


def _test_rows(place: Place) -> str:
    """As whoever follows their score reads them."""

    def held() -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            train_gradient_with(coordinator, place.config(solver="gradient", test_every=5, **GRADIENT))
        (folder,) = coordinator.cache.directory.glob("shards-*")
        return repr([values.tobytes() for values in opened(folder).held() or ()])

    with place.coordinator() as coordinator:
        return coordinator.cache.mending(held)


def _look(place: Place) -> str:
    config = place.config()
    with place.coordinator() as coordinator:
        found = coordinator.cache.mending(lambda: inspect(coordinator, coordinator.open(config), config))
    return repr(replace(found, notes=()))


def _study(place: Place) -> str:
    folder = place.home / "study"
    if not folder.exists():
        config = place.config()
        with place.coordinator() as coordinator:
            save_study(folder, make_study(coordinator, coordinator.open(config), config, FoldChoice(5)))
    study = open_study(folder)
    errors = cross_validate(study.cells, "ridge", [3.0, 1.0], 0.0).errors
    sample = study.drawn_from
    drawn = [getattr(sample, name).tobytes() for name in ("Z", "cell")]
    return repr((errors.tobytes(), study.notes, study.content, study.cells.base, study.cells.config, drawn))


def _model(place: Place) -> str:
    path = place.home / "model.json"
    if not path.exists():
        with place.coordinator() as coordinator:
            save_model(path, train_with(coordinator, place.config(test_every=5)).model)
    found = load_model(path)
    return repr((found.coef.tobytes(), found.intercept, found.encoding, found.file))


def _documents(place: Place) -> str:
    folder = place.home / "runs" / "one"
    if not folder.exists():
        folder.mkdir(parents=True)
        with place.coordinator() as coordinator:
            report = train_with(coordinator, place.config(test_every=5)).report
        write_json(folder / "config.json", place.config().as_dict())
        write_json(folder / "job.json", {"task": "train"})
        write_json(folder / "result.json", {**report.as_dict(), "timings": {}, "run_id": "one"})
    return repr([read_json(folder / name) for name in ("config.json", "job.json", "result.json")])


def _checkpoint(place: Place) -> str:
    kept = Checkpoints(place.home / "checkpoints", warn=lambda text: None)
    if not any(place.home.glob("checkpoints/*.ckpt")):
        for step in (3, 5):
            kept.save(Snapshot(step, {"seconds": 1.5}, {"weights": np.linspace(0, step, 700)}))
        kept = Checkpoints(place.home / "checkpoints")
    found = kept.load(5)
    return repr((found.step, found.meta, {name: array.tobytes() for name, array in found.arrays.items()}))


KINDS: tuple[FileKind, ...] = (
    FileKind("blocks of a data set", "cache/*/block-*.bin", lambda place: _fit(place, test_every=5)),
    FileKind(
        "blocks that are proven while they are used", "cache/*/block-*.bin", lambda place: _fit(place, exclude=["town"])
    ),
    FileKind("levels of a data set", "cache/*/levels.npz", lambda place: _fit(place, test_every=5)),
    FileKind("sums of a data set", "cache/*/moments.npz", lambda place: _fit(place, exclude=["town"])),
    FileKind("manifest of a data set", "cache/[0-9a-f]*/manifest.json", lambda place: _fit(place, test_every=5)),
    FileKind("index of the cache", "cache/index/*.json", lambda place: _fit(place, test_every=5)),
    FileKind("profile of a table", "cache/*/profile.json", _look, spare=True),
    FileKind("shards of a gradient run", "cache/shards-*/shard-*.bin", _gradient),
    FileKind("test rows of a gradient run", "cache/shards-*/held.bin", _test_rows),
    FileKind("manifest of shards", "cache/shards-*/manifest.json", _gradient),
    FileKind("arrays of a study", "study/*.npy", _study, made_again=False),
    FileKind("summary of a study", "study/study.json", _study, made_again=False),
    FileKind("model files", "model.json", _model, made_again=False),
    FileKind("documents of a run", "runs/one/*.json", _documents, made_again=False),
    FileKind("checkpoints", "checkpoints/*05.ckpt", _checkpoint, made_again=False),
    *HOME_KINDS,
    *DATABASES,
    *PROGRAM_KINDS,
    *MADE_KINDS,
    *TEAM_KINDS,
    *KEPT_KINDS,
)


# ------------------------------------------------------------------ harm and count


@dataclass
class Outcome:
    """Of one kind: how often what came of it; `faults` says in words what should not have been."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


SAME, MENDED, TOLD, SILENT, CRASH = "same answer", "made again", "plain error", "another answer", "crash"


def fuzz(kind: FileKind, folder: Path, times: int, seed: int = 0) -> Outcome:
    """Harm files of a kind so many times, each time from their whole state."""
    with _small_blocks(), _home(folder / "home"):
        place, found = Place(folder), Outcome()
        if kind.make:
            kind.make(place)
            place.keep()
        expected = _parts(kind.ask(place))
        if not kind.make:
            place.keep()
        for number in range(times):
            chance = random.Random(f"{kind.name} {seed} {number}")
            place.put_back()
            what = _harm(place.home, kind, chance)
            outcome, said = _asked(kind, place, expected)
            found.counts[outcome] += 1
            if outcome in (SILENT, CRASH) or (outcome == TOLD and kind.made_again):
                found.faults.append(f"{kind.name}, number {number}, {what}: {outcome} {said}")
    return found


def _parts(answer: str | dict[str, str]) -> dict[str, str]:
    return {"": answer} if isinstance(answer, str) else answer


def _asked(kind: FileKind, place: Place, expected: dict[str, str]) -> tuple[str, str]:
    repairs: list[str] = []
    try:
        with _noted(repairs):
            answer = _parts(kind.ask(place))
    except TrainingError as error:
        return TOLD, str(error)
    except Exception as error:  # noqa: BLE001 - whatever a person would see as a trace
        return CRASH, f"{type(error).__name__}: {error}"
    if answer.keys() != expected.keys():
        return SILENT, f"{sorted(answer.keys() ^ expected.keys())}"
    other = [name for name, part in answer.items() if part != expected[name]]
    if silent := [answer[name] for name in other if not isinstance(answer[name], Told)]:
        return SILENT, silent[0][:300]
    if other:
        return TOLD, answer[other[0]]
    return (MENDED if repairs else SAME), ""


def _harm(home: Path, kind: FileKind, chance: random.Random) -> str:
    paths = [path for path in sorted(home.glob(kind.files)) if path.is_file() and path.stat().st_size]
    path = chance.choice(paths)
    name = chance.choice([*HARMS, SWAPPED])
    if name != SWAPPED:
        HARMS[name](path, chance)
    else:
        around = [p for p in sorted(home.rglob("*.*")) if p.is_file() and p.stat().st_size and p != path]
        other = chance.choice([other for other in paths if other != path] or around)
        swap(path, other)
    return f"{path.relative_to(home)} {name}"


@contextmanager
def _noted(repairs: list[str]) -> Iterator[None]:
    """What caches say that they have made again."""
    real = Cache.__init__

    def init(cache: Cache, home: Path) -> None:
        real(cache, home)
        cache.repairs = repairs

    Cache.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        Cache.__init__ = real  # type: ignore[method-assign]


@contextmanager
def _small_blocks() -> Iterator[None]:
    real = data_files.block_bytes
    data_files.block_bytes = lambda numbers: BLOCK
    try:
        yield
    finally:
        data_files.block_bytes = real


@contextmanager
def _home(path: Path) -> Iterator[None]:
    before = os.environ.get("SHOAL_HOME")
    os.environ["SHOAL_HOME"] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SHOAL_HOME"]
        else:
            os.environ["SHOAL_HOME"] = before
