"""Texts of very many levels, parts of checkpoints, accounts, what belongs to whom, backups, to be harmed."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from shoal.backup.reading import check_backup
from shoal.backup.writing import write_backup
from shoal.errors import TrainingError
from shoal.files.output import Output
from shoal.home import home, people_file, runs_directory
from shoal.parameters.stepping import StepMemory
from shoal.people import accounts, belongings
from shoal.people import place as people_place
from shoal.people.acting import as_person
from shoal.people.person import Person
from shoal.runs.documents import read_so_far, write_json, write_so_far
from shoal.settings.limits import MOST_LEVELS
from shoal.tasks.train import train_with
from shoal.training.checkpoint_files import part_name
from shoal.training.checkpoints import Checkpoints
from shoal.training.part_files import PARTS, WIDTH, SavePart
from shoal.training.snapshots import Snapshot
from shoal.worker import SharedArray, Worker
from support.harm.place import FileKind, Place, Told

Parts = dict[str, str]
RUNS = ("20260101-000000-0000001", "20260101-000000-0000002")


# ------------------------------------------------------------------ texts


def _many_levels(place: Place) -> str:
    file = place.folder / "users.csv"
    if not file.exists():
        rng = np.random.default_rng(4)
        users = rng.permutation(np.repeat(np.arange(MOST_LEVELS + 50), 2))
        values = np.sin(users) + rng.normal(size=len(users))
        rows = zip(users, values, strict=True)
        file.write_text("user,y\n" + "".join(f"user-{user},{value:.4f}\n" for user, value in rows))
    with place.coordinator() as coordinator:
        knobs = {"file": str(file), "model": "ridge", "alpha": 1.0, "max_levels": 10 * MOST_LEVELS}
        report = train_with(coordinator, place.config(**knobs)).report
    return repr((list(report.coefficients.items())[::97], report.intercept, report.train))


# ------------------------------------------------------------------ parts of a checkpoint

SIZE = 900
SHARES = ([[0, 100], [400, SIZE]], [[100, 400]])  # of two shards


def _apart(place: Place) -> None:
    worker, store = Worker(), Checkpoints(place.home / "checkpoints")
    weights, mean = np.zeros((8, SIZE)), np.zeros((2, SIZE))
    names = [SharedArray(key, array.shape, array.dtype) for key, array in enumerate((weights, mean))]
    for name, array in zip(names, (weights, mean), strict=True):
        worker.hold(name, array)
    memory, tokens = StepMemory(names[0], names[0], names[0], (("mean", names[1]),)), itertools.count()
    for step in (3, 5):
        weights[step % 8], mean[1] = np.linspace(0, step, SIZE), np.linspace(step, 9, SIZE)
        token, parts = f"{next(tokens):08x}", []
        for shard, stretches in enumerate(SHARES):
            path = store.directory / part_name(step, shard, token)
            asked = SavePart(memory, np.array(stretches), step % 8, 1, str(path), step)
            parts.append([path.name, worker.handle(asked)])
        store.save(Snapshot(step, {PARTS: parts, WIDTH: SIZE}, {"good": np.ones(3)}))


def _together(place: Place) -> str:
    found = Checkpoints(place.home / "checkpoints", warn=lambda text: None).load(5)
    return repr((found.step, found.meta, {name: array.tobytes() for name, array in found.arrays.items()}))


# ------------------------------------------------------------------ people, and what is whose


def _with_people(place: Place) -> None:
    for name, role in (("ada", "admin"), ("bob", "editor"), ("eve", "viewer")):
        accounts.add(name, f"a long password of {name}", role, private=name == "bob")
    accounts.disable("eve")
    (place.home / "other.json").write_text('{"no": "database"}')


def _known(place: Place) -> Parts:
    """Whoever cannot be read is nobody; a role, a password or a state is never another one. So are deeds."""
    people_place.forget()
    try:
        with people_place.opened() as store:
            deeds = Told("broken") if store.first_broken() is not None else repr(store.entries(100))
            return {"people": repr(store.people()), "deeds": deeds}
    except TrainingError as error:
        return {"people": Told(error), "deeds": Told(error)}


def _owned(place: Place) -> None:
    for name, who in zip(RUNS, (Person("ada", "editor", private=True), Person("bob", "editor")), strict=True):
        folder = runs_directory() / name
        folder.mkdir(parents=True)
        write_json(folder / "job.json", {"task": "train"})
        with as_person(who):
            belongings.claim(folder)


def _owners(place: Place) -> Parts:
    belongings._seen.clear()
    found = {name: belongings.thing_at(runs_directory() / name) for name in RUNS}
    return {
        name: Told("admins only") if thing.private and not thing.owners else repr(thing)
        for name, thing in found.items()
    }


# ------------------------------------------------------------------ backups, and what jobs have found so far


def _backed_up(place: Place) -> None:
    _with_people(place)
    _owned(place)
    write_backup(Output(_backup(place)), "0")


def _backup(place: Place) -> Path:
    return home() / "backup.tar.gz"


def _is_whole(place: Place) -> str:
    return repr(sorted(check_backup(_backup(place)).members.items()))


def _found_so_far(place: Place) -> None:
    for name in RUNS:
        (runs_directory() / name).mkdir(parents=True)
        write_so_far(runs_directory() / name, {"best": len(name), "run": name})


def _so_far(place: Place) -> Parts:
    found = {name: read_so_far(runs_directory() / name) for name in RUNS}
    return {name: Told("nothing yet") if values is None else repr(values) for name, values in found.items()}


TEAM_KINDS = (
    FileKind("texts of very many levels", "cache/*/texts.npz", _many_levels),
    FileKind("parts of a checkpoint", "checkpoints/*05.ckpt*", _together, made_again=False, make=_apart),
    FileKind("accounts of people and their deeds", people_file().name, _known, made_again=False, make=_with_people),
    FileKind("what belongs to whom", "runs/*/owner.json", _owners, made_again=False, make=_owned),
    FileKind("backups", "backup.tar.gz", _is_whole, made_again=False, make=_backed_up),
    FileKind("what jobs have found so far", "runs/*/so_far.json", _so_far, made_again=False, make=_found_so_far),
)
