"""Files of a home about runs, models, searches, the archive and the queue, to be harmed: what is asked of each kind.

Kinds that training reads (data sets, shards, studies, models, checkpoints) are in `fuzzing`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from shoal.dashboard.http import access
from shoal.dashboard.runs import columns
from shoal.dashboard.tables import recent
from shoal.errors import Reason, Standing, TrainingError
from shoal.files.locks import own_lock
from shoal.fitting.model_file import load_model, save_model
from shoal.home import runs_directory, searches_directory
from shoal.library import accounts, alias_history, aliases, archives, notes, predicted_columns, saved_models
from shoal.results.answers.drift import SeenColumn
from shoal.runs import tickets
from shoal.runs.documents import write_json
from shoal.runs.folder import Run, list_runs, write_state
from shoal.search.folder import list_searches
from shoal.search.plan import Account, SearchPlan, Trial
from shoal.search.space import usual_space
from shoal.tasks.train import train_with
from support.harm.place import FileKind, Place, Told

FIRST, SECOND = "20260101-000000-0000001", "20260101-000000-0000002"
STOPPED = Standing("stopped", "Stopped by a command.", Reason.STOPPED)
RESULT = {**STOPPED.as_dict(), "train": {"r2": 0.5, "rmse": 2.0, "rows": 9}, "timings": {"total": 1.5}, "epochs": 2.5}
ERROR = {"state": "failed", "reason": "bad_data", "message": "Expected numbers, got words.", "kind": "DataError"}

Parts = dict[str, str]


def _part(ask: Callable[[], str]) -> str:
    """One part of an answer; Told where it cannot be given."""
    try:
        return ask()
    except TrainingError as error:
        return Told(error)


# ------------------------------------------------------------------ runs


def _runs(place: Place, **documents: dict[str, object]) -> None:
    """Two that have ended, each with a note, and with these documents."""
    for run in (Run(runs_directory() / name) for name in (FIRST, SECOND)):
        run.directory.mkdir(parents=True)
        (run.directory / "started").touch()
        write_json(run.directory / "job.json", {"task": "train"})
        write_json(run.directory / "config.json", place.config(solver="gradient").as_dict())
        write_state(run.directory, STOPPED)
        for name, values in documents.items():
            write_json(run.directory / f"{name}.json", values)
        notes.write(run, ["baseline", f"try-{run.id[-1]}"], f"as it should be in {run.id}")


def _listed(place: Place) -> Parts:
    found = accounts.summaries(archived=True)
    return {one.id: Told(one.cause) if _is_bad(one) else json.dumps(one.as_dict()) for one in found}


def _is_bad(found: accounts.Summary | Standing) -> bool:
    return found.reason == Reason.BAD_STATE and bool(found.cause)


def _with_accounts(place: Place) -> None:
    _runs(place, result=RESULT)
    accounts.summaries()


def _noted(place: Place) -> Parts:
    found = {run.id: notes.read(run) for run in list_runs()}
    return {name: _note(about) for name, about in found.items()}


def _note(about: notes.About) -> str:
    return Told(about.note) if about.note.startswith("What was noted here cannot be read") else repr(about)


def _standings(place: Place) -> Parts:
    return {run.id: Told(run.cause) if _is_bad(run.standing) else repr(run.standing) for run in list_runs()}


def _alive(place: Place) -> Parts:
    """While a process has the first run's lock; its `at` is no part of what is said."""
    run = Run(runs_directory() / FIRST)
    with own_lock(run.directory):
        stage, fraction = run.progress
        said = Told(stage) if "cannot be read" in stage else repr((stage, fraction))
        return {**_standings(place), "progress": said}


def _going_on(place: Place) -> None:
    _runs(place)
    folder = runs_directory() / FIRST
    write_state(folder, Standing("paused", "Paused by a command."))
    write_json(folder / "progress.json", {"stage": "training", "fraction": 0.25})


# ------------------------------------------------------------------ archive


def _packed(place: Place) -> None:
    _runs(place, result=RESULT)
    for run in list_runs():
        archives.archive(run)


def _restored(place: Place) -> Parts:
    return {name: _part(lambda name=name: _unpacked(name)) for name in (FIRST, SECOND)}  # type: ignore[misc]


def _unpacked(name: str) -> str:
    try:
        folder = archives.restore(name).directory
    except TrainingError as error:
        whole = archives.archive_path(name).exists() and not (runs_directory() / name).exists()
        return Told(error) if whole else f"neither archive nor run, or half of one, after: {error}"
    return repr([(str(p.relative_to(folder)), p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()])


# ------------------------------------------------------------------ models


def _saved(place: Place) -> None:
    """Two models of two runs, each a version of its own."""
    _runs(place, result=RESULT)
    for run, knobs in zip(list_runs(), ({"model": "linear"}, {"model": "ridge", "alpha": 3.0}), strict=True):
        with place.coordinator() as coordinator:
            save_model(run.model_path, train_with(coordinator, place.config(**knobs)).model)
        saved_models.save_run(run, RESULT, f"model-{run.id[-1]}")
    shutil.rmtree(place.home / "cache")


def _cards(place: Place) -> Parts:
    versions = [model.latest for model in saved_models.list_models()]
    return {found.label: _part(lambda found=found: repr(found.card)) for found in versions}  # type: ignore[misc]


def _by_name(place: Place) -> Parts:
    names = [model.name for model in saved_models.list_models()]
    return {name: _part(lambda name=name: repr(load_model(aliases.model_path(name)))) for name in names}  # type: ignore[misc]


def _ways_back(place: Place) -> Parts:
    """Where a card came off as well, by an exchange with it, the list of models says so."""
    bad = [found.latest.damage for found in saved_models.list_models() if found.latest.damage]
    ways = {run.id: saved_models.version_of(run) for run in list_runs()}
    return {name: Told(bad[0]) if bad and not way else repr(way) for name, way in ways.items()}


def _aliased(place: Place) -> None:
    _saved(place)
    for model in saved_models.list_models():
        aliases.give(model.latest, "champion")


def _champions(place: Place) -> Parts:
    names = [model.name for model in saved_models.list_models()]
    return {name: _part(lambda name=name: aliases.resolve(f"{name}@champion").label) for name in names}  # type: ignore[misc]


def _moves(place: Place) -> Parts:
    names = [model.name for model in saved_models.list_models()]
    return {name: _part(lambda name=name: repr(alias_history.moves(name))) for name in names}  # type: ignore[misc]


def _predicted(place: Place) -> None:
    _saved(place)
    for rows, model in enumerate(saved_models.list_models(), 1):
        predicted_columns.add(model.latest, {"a": SeenColumn(10 * rows, 0, (4 * rows, 6 * rows), 0, 0.5, 2.0)})


def _summed(place: Place) -> Parts:
    latest = [model.latest for model in saved_models.list_models()]
    return {one.label: _part(lambda one=one: repr(predicted_columns.days_of(one))) for one in latest}  # type: ignore[misc]


# ------------------------------------------------------------------ searches


def _searched(place: Place) -> None:
    for name in ("260101-000001", "260101-000002"):
        folder = searches_directory() / name
        folder.mkdir(parents=True)
        (folder / "started").touch()
        trial = Trial(1, "reached", {"mode": "sync"}, score=1.0, distance=1e-7, seconds=1.0, cause="reached.")
        write_json(folder / "job.json", {"task": "search"})
        write_json(folder / "config.json", place.config(solver="gradient").as_dict())
        write_json(folder / "search.json", SearchPlan(usual_space(), name="steps").as_dict())
        write_json(folder / "account.json", Account([trial], {"mode": 1.0}, 2.0).as_dict())
        write_state(folder, Standing("finished", "All 1 trials are done.", Reason.COMPLETE))


def _searches(place: Place) -> Parts:
    found: Parts = {}
    for search in list_searches():
        standing, account = search.standing, search.account
        said = Told(standing) if _is_bad(standing) else repr((standing, account))
        asked = {
            "plan": _part(lambda s=search: repr(s.plan)),  # type: ignore[misc]
            "knobs": _part(lambda s=search: repr(s.config)),  # type: ignore[misc]
            "standing": said,
        }
        found |= {f"{search.id} {name}": part for name, part in asked.items()}
    return found


# ------------------------------------------------------------------ the queue, and what was used lately


def _queued(place: Place) -> None:
    _runs(place)
    for run, need in ((FIRST, 1), (SECOND, 2)):
        tickets.issue(run, tickets.Terms(need, 4, environment={"SHOAL_SLOTS": "4"}))


def _places(place: Place) -> Parts:
    found = {ticket.run_id: ticket for ticket in tickets.tickets()}
    parts = {name: _part(lambda ticket=ticket: repr(ticket.terms)) for name, ticket in found.items()}  # type: ignore[misc]
    return {**parts, "first": _first_place()}


def _first_place() -> str:
    words = tickets.place_in_words(FIRST) or ""
    return Told(words) if "cannot be read" in words else words


def _used(place: Place) -> None:
    _runs(place)
    for number in range(5):
        recent.remember(str(Path("/nowhere") / f"table-{number}.csv"), 10 + number, 3)


def _with_columns(place: Place) -> None:
    _runs(place)
    columns.keep(["State", "Model", "Note"])


def _columns(place: Place) -> str:
    """What cannot be read is as if nobody had chosen; never another choice."""
    found = columns.kept()
    return Told("The usual columns.") if found == columns.usual() else repr(found)


def _recent(place: Place) -> str:
    if why := recent.damage():
        return Told(why)
    return repr(recent.recent())


# ------------------------------------------------------------------ who may come in

BEGAN, PASSWORD = 1_000_000.0, "not a secret"


def _locked(place: Place) -> None:
    """Two sessions, one of which was ended; their tokens are in the hands of people."""
    access.set_password(PASSWORD)
    sessions, password = access.Sessions(access.signing_key(), lambda: BEGAN), access.current_password()
    assert password
    valid, ended = (sessions.begin(password) for _ in range(2))
    sessions.end(ended, password)
    (place.folder / "tokens").write_text(f"{valid} {ended}")


def _come_in(place: Place) -> Parts:
    """A minute later. To be asked for the password again, or for another one, is a word; to come in is not."""
    access._KnownPassword.seen = None
    valid, ended = (place.folder / "tokens").read_text().split()
    password = access.current_password()
    if password is None:
        return {"everybody": "comes in"}
    sessions = access.Sessions(access.signing_key(), lambda: BEGAN + 60)
    return {
        "ended": repr(sessions.is_valid(ended, password)),
        "valid": "comes in" if sessions.is_valid(valid, password) else Told("Log in."),
        "password": "comes in" if password.matches(PASSWORD) else Told("That is not the password."),
    }


HOME_KINDS = (
    FileKind("cards of saved models", "models/*/v*/card.json", _cards, made_again=False, make=_saved),
    FileKind("model files of saved models", "models/*/v*/model.json", _by_name, made_again=False, make=_saved),
    FileKind("aliases of models", "models/*/aliases.json", _champions, made_again=False, make=_aliased),
    FileKind("history of aliases", "models/*/alias-history.json", _moves, made_again=False, make=_aliased),
    FileKind("sums of predicted rows", "models/*/v*/predicted.json", _summed, made_again=False, make=_predicted),
    FileKind("columns of the list of runs", "columns/runs.json", _columns, made_again=False, make=_with_columns),
    FileKind("ways from runs to their models", f"runs/{FIRST}/saved.json", _ways_back, False, _saved, spare=True),
    FileKind("accounts of runs", "runs/*/summary.json", _listed, make=_with_accounts, spare=True),
    FileKind("notes on runs", f"runs/{FIRST}/about.json", _noted, False, lambda place: _runs(place)),
    FileKind("states of runs that go on", f"runs/{FIRST}/[ps]*.json", _alive, False, _going_on),
    FileKind("states of runs that ended", f"runs/{FIRST}/state.json", _standings, False, lambda place: _runs(place)),
    FileKind(
        "errors of runs", f"runs/{FIRST}/error.json", _standings, False, lambda place: _runs(place, error=dict(ERROR))
    ),
    FileKind("packed archives", "archive/*.tar.xz", _restored, made_again=False, make=_packed),
    FileKind("accounts of archives", "archive/*.json", _listed, made_again=False, make=_packed),
    FileKind("documents of a search", "searches/260101-000001/*.json", _searches, made_again=False, make=_searched),
    FileKind("tickets of the queue", "queue/waiting/*", _places, made_again=False, make=_queued),
    FileKind("tables used lately", "recent.json", _recent, made_again=False, make=_used),
    FileKind("password and sessions", "*[dny]", _come_in, made_again=False, make=_locked),
)
