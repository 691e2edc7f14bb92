"""What forms, hosts, machines and whole readings leave in a home, to be harmed: what is asked of each kind."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from shoal.dashboard.tables import filled
from shoal.errors import TrainingError
from shoal.files import sealed
from shoal.fitting.model_file import load_model, save_model
from shoal.home import (
    at_work_directory,
    compiled_directory,
    make_folder,
    models_directory,
    runs_directory,
    waiting_directory,
)
from shoal.library import archives
from shoal.people import belongings
from shoal.people.acting import as_person
from shoal.people.person import Person
from shoal.queueing.homes import home_mark
from shoal.runs import made_files, spawning, tickets
from shoal.runs.documents import write_json
from shoal.runs.folder import Run
from shoal.shelf import fetched
from shoal.storage.place import MARK, open_records
from shoal.storage.unsent import Unsent, UnsentBatch
from shoal.tasks.train import train_with
from support.harm.made_files import _with_modules
from support.harm.place import FileKind, Place, Told
from support.records import round_

Parts = dict[str, str]
NAMES = ("20260101-000000-0000001", "20260101-000000-0000002")
PEOPLE = (Person("ada", "editor", private=True), Person("bob", "editor"))


def _part(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except TrainingError as error:
        return Told(error)


def _runs() -> Iterator[Run]:
    for name in NAMES:
        run = Run(runs_directory() / name)
        make_folder(run.directory)
        write_json(run.directory / "job.json", {"task": "train"})
        write_json(run.directory / "config.json", {})
        yield run


# ------------------------------------------------------------------ forms

FORMS = [(f"file:{name}.csv", form) for name in ("one", "two") for form in (filled.TRAIN, filled.TUNE, filled.SEARCH)]


def _filled_in(place: Place) -> None:
    logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context").disabled = True  # no page is drawn
    for number, (key, form) in enumerate(FORMS):
        filled.keep(key, form, {filled.DRAFT: {"alpha": number + 0.5}, "target": key})


def _forms(place: Place) -> Parts:
    return {f"{key} {form}": _form(key, form) for key, form in FORMS}


def _form(key: str, form: str) -> str:
    found, why = filled.kept(key, form), filled.damage(key, form)
    return repr(found) if found or not why else Told(why)


# ------------------------------------------------------------------ a team


def _marked(place: Place) -> None:
    home_mark()
    list(_runs())


def _mark(place: Place) -> str:
    return home_mark()


def _elsewhere(place: Place) -> None:
    for run in _runs():
        sealed.write(run.directory / MARK, {"database": f"database of {run.id}"}, run.id)


def _records(place: Place) -> Parts:
    return {name: _place_of_records(name) for name in NAMES}


def _place_of_records(name: str) -> str:
    try:
        open_records(runs_directory() / name, name).close()
    except TrainingError as error:
        return str(error) if "SHOAL_DATABASE is not set here" in str(error) else Told(error)
    return "a file"


def _waiting(place: Place) -> None:
    for start, run in enumerate(_runs()):
        unsent = Unsent(run.directory)
        for number in range(8):
            rounds = [round_(number, 1 / (start + number + at + 1)) for at in range(3)]
            unsent.append([UnsentBatch(f"{run.id} {number}", rounds)])
        unsent.append([UnsentBatch(f"{run.id} back", forget_after=4)])


def _unsent(place: Place) -> Parts:
    """Batches by their names; of those that are missing, the warning that stands in their place."""
    parts: Parts = {}
    for name in NAMES:
        found = list(Unsent(runs_directory() / name).after(None))
        known = {batch.name: repr((batch.records, batch.forget_after)) for batch in found if name in batch.name}
        said = [record.text for batch in found if name not in batch.name for record in batch.records]  # type: ignore[union-attr]
        missing = Told(said[0]) if said else "missing without a word"
        parts |= {each: known.get(each, missing) for each in (f"{name} {number}" for number in (*range(8), "back"))}
    return parts


CODE = ("ab/one.so", "ab/one.cpp", "fxgraph/cd/two")
CONTENTS = {name: json.dumps({"model": name, "numbers": list(range(700))}).encode() for name in ("one", "two")}


def _copied(place: Place) -> Parts:
    """As whoever predicts with a model of the team reads it; `again` is the team's database, which has it."""
    fetched._proven.clear()
    return {name: _copy(name) for name in CONTENTS}


def _copy(name: str) -> str:
    data = CONTENTS[name]

    def again() -> Any:
        yield data

    path = fetched.proven(fetched.place(name, 1), name, len(data), hashlib.sha256(data).hexdigest(), again)
    return repr(path.read_bytes())


# ------------------------------------------------------------------ whole readings


def _several_files(place: Place) -> str:
    """Three files that are one table."""
    folder = place.folder / "parts"
    if not folder.exists():
        folder.mkdir()
        head, *rows = place.table.read_text().splitlines(keepends=True)
        for number, part in enumerate(np.array_split(np.array(rows, object), 3)):
            (folder / f"part-{number}.csv").write_text(head + "".join(part))
    return _fit(place, file=str(folder), test_every=5)


def _dates_and_words(place: Place) -> str:
    """Days that are written in several ways, and one word in several spellings."""
    file = place.folder / "written.csv"
    if not file.exists():
        head, *rows = place.table.read_text().splitlines()
        lines = [f"{head},day,answer"]
        for number, row in enumerate(rows):
            year, month, day = 2019, number % 12 + 1, number % 28 + 1
            text = f"{day:02}.{month:02}.{year}" if number % 3 else f"{year}-{month:02}-{day:02}"
            lines.append(f"{row},{text},{('Ja', 'JA', 'ja ', 'Nein', 'nein')[number * number % 5]}")
        file.write_text("\n".join([*lines, ""]))
    return _fit(place, file=str(file), one_spelling=["answer"], test_every=5)


def _fit(place: Place, **knobs: Any) -> str:
    with place.coordinator() as coordinator:
        report = train_with(coordinator, place.config(**knobs)).report
    return repr((report.coefficients, report.intercept, report.train, report.test))


def _with_bands(place: Place) -> str:
    """A model whose intervals follow two lines of quantiles."""
    path = place.home / "bands.json"
    if not path.exists():
        with place.coordinator() as coordinator:
            save_model(path, train_with(coordinator, place.config(bands=0.9, test_every=5)).model)
    found = load_model(path)
    assert found.file.report.bands
    return repr((found.coef.tobytes(), found.intercept, found.file))


def _shards_of_modules(place: Place) -> str:
    from shoal.data.splits import Split
    from shoal.networks.stored import read_module
    from shoal.training.objectives.array_shards import deal_arrays

    read_module.cache_clear()
    stored = read_module((place.folder / "module").read_text())
    with place.coordinator() as coordinator:

        def dealt() -> str:
            found = deal_arrays(coordinator, stored.data, Split(), shards=2, seed=0, partition="hash")
            return repr([values.tobytes() for shard in range(2) for values in found.open(shard)])

        return coordinator.cache.mending(dealt)


def _with_shards_of_modules(place: Place) -> None:
    _with_modules(place)
    _shards_of_modules(place)


def _compiled(place: Place) -> None:
    """As PyTorch leaves them: what is in them does not matter, they are never loaded here."""
    from shoal.networks.compiling import keep_compiled

    for name in CODE:
        make_folder((compiled_directory() / name).parent)
        (compiled_directory() / name).write_bytes(name.encode() * 900)
    keep_compiled()


def _code(place: Place) -> Parts:
    from shoal.networks.compiling import prove_compiled

    whole = prove_compiled()
    parts = {name: compiled_directory() / name for name in CODE}
    return {
        name: repr(path.read_bytes()) if path.exists() else Told("gone" if whole else "compiled again")
        for name, path in parts.items()
    }


# ------------------------------------------------------------------ runs


def _with_models(place: Place) -> None:
    for run, alpha in zip(_runs(), (1.0, 3.0), strict=True):
        with place.coordinator() as coordinator:
            model = train_with(coordinator, place.config(model="ridge", alpha=alpha)).model
        save_model(run.model_path, model)
        made_files.seal(run.directory, ["model.json"])


def _models_of_runs(place: Place) -> Parts:
    made_files._whole.clear()
    return {name: _part(lambda name=name: _model_of(name)) for name in NAMES}  # type: ignore[misc]


def _model_of(name: str) -> str:
    path = made_files.prove_model(runs_directory() / name / "model.json")
    return repr(load_model(path).file)


def _working(place: Place) -> None:
    for run, need in zip(_runs(), (1, 2), strict=True):
        tickets.issue(run.id, tickets.Terms(need, 4, environment={"SHOAL_SLOTS": "4"}))
    make_folder(at_work_directory())
    for path in waiting_directory().iterdir():
        path.rename(at_work_directory() / path.name)


def _at_work(place: Place) -> Parts:
    found = {ticket.run_id: ticket for ticket in tickets.tickets_at_work()}
    return {name: _part(lambda one=one: repr(dataclasses.astuple(one.terms))) for name, one in found.items()}  # type: ignore[misc]


def _starting(place: Place) -> None:
    """One whose process is there, and one whose process is gone."""
    with subprocess.Popen(["true"]) as gone:
        alive, dead = _runs()
        spawning.note_process(alive.directory, os.getpid())
        spawning.note_process(dead.directory, gone.pid)


def _gone(place: Place) -> Parts:
    """Nobody takes one for gone that is there; where nobody can tell, it is waited for."""
    found = {name: spawning.is_gone(runs_directory() / name) for name in NAMES}
    return {
        name: Told("It is starting.") if found[name] is False and name == NAMES[1] else repr(found[name])
        for name in NAMES
    }


# ------------------------------------------------------------------ what else belongs to whom


def _owned_models(place: Place) -> None:
    for name, who in zip(("one", "two"), PEOPLE, strict=True):
        make_folder(models_directory() / name)
        with as_person(who):
            belongings.claim(models_directory() / name)
    (place.home / "other.json").write_text('{"no": "model"}')


def _owners_of_models(place: Place) -> Parts:
    return _owners(models_directory() / name for name in ("one", "two"))


def _owned_archives(place: Place) -> None:
    for run, who in zip(list(_runs()), PEOPLE, strict=True):
        with as_person(who):
            belongings.claim(run.directory)
        write_json(run.directory / "state.json", {"state": "stopped", "cause": "", "reason": "stopped"})
        (run.directory / "started").touch()
        archives.archive(run)


def _owners_of_archives(place: Place) -> Parts:
    return _owners(archives.archive_path(name) for name in NAMES)


def _owners(paths: Any) -> Parts:
    belongings._seen.clear()
    found = {path.name: belongings.thing_at(path) for path in paths}
    return {
        name: Told("admins only") if thing.private and not thing.owners else repr(asdict(thing))
        for name, thing in found.items()
    }


KEPT_KINDS = (
    FileKind("what was filled in on forms", "tables/*.json", _forms, made_again=False, make=_filled_in),
    FileKind("marks of homes", "home.mark", _mark, made_again=False, make=_marked),
    FileKind("where records are", f"runs/*/{MARK}", _records, made_again=False, make=_elsewhere),
    FileKind("records that wait for a database", "runs/*/unsent.jsonl", _unsent, made_again=False, make=_waiting),
    FileKind("copies of a team's model files", "fetched/*/v1/model.json", _copied, spare=True),
    FileKind("data sets of several files", "cache/[0-9a-f]*/*.[bjn]*", _several_files, spare=True),
    FileKind("data sets of mixed dates and spellings", "cache/[0-9a-f]*/*.[bjn]*", _dates_and_words, spare=True),
    FileKind("model files with bands", "bands.json", _with_bands, made_again=False),
    FileKind(
        "shards of rows of PyTorch modules", "cache/shards-*/[shm]*", _shards_of_modules, make=_with_shards_of_modules
    ),
    FileKind("what PyTorch compiled", "compiled/*/**/*", _code, made_again=False, make=_compiled),
    FileKind("sums of what PyTorch compiled", "compiled/files.json", _code, made_again=False, make=_compiled),
    FileKind("model files of runs", "runs/*/[fm]*.json", _models_of_runs, made_again=False, make=_with_models),
    FileKind("tickets of runs at work", "queue/working/*", _at_work, made_again=False, make=_working),
    FileKind("processes of runs", "runs/*/process", _gone, made_again=False, make=_starting, spare=True),
    FileKind("whose models are", "models/*/owner.json", _owners_of_models, made_again=False, make=_owned_models),
    FileKind("whose archives are", "archive/*.owner.json", _owners_of_archives, False, _owned_archives),
)
