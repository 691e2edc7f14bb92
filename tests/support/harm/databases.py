"""The databases of a home, to be harmed: records of training and the study of a search. Documents are in `home_files`."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from shoal.errors import TrainingError
from shoal.home import runs_directory, searches_directory
from shoal.metrics import Event
from shoal.runs.documents import write_json
from shoal.runs.folder import Run
from shoal.search.folder import Search
from shoal.search.plan import Account
from shoal.storage import Storage
from support.harm.place import FileKind, Place, Told
from support.records import host, noisy, worker

RUN, SEARCH = "20260101-000000-0000001", "260101-000001"

Parts = dict[str, str]


# ------------------------------------------------------------------ records


def _recorded(place: Place) -> None:
    run = Run(runs_directory() / RUN)
    run.directory.mkdir(parents=True)
    write_json(run.directory / "job.json", {"task": "train"})
    with run.open_records() as storage:
        storage.add(noisy(700, 3, spoiled=0.1))
        storage.add([worker(at / 2, rank) for at in range(40) for rank in range(2)])
        storage.add([host(at / 2) for at in range(40)])
        storage.add([Event(float(at), "checkpoint", at, f"Checkpoint of round {at}.") for at in range(30)])
        for _ in range(3):
            storage.post("set", {"alpha": 0.5})


ASKED: dict[str, Callable[[Storage], object]] = {
    "all rounds": lambda storage: storage.rounds(10_000),
    "a chart": lambda storage: storage.rounds(100),
    "the last round": lambda storage: storage.last_round(),
    "workers": lambda storage: storage.workers(),
    "one worker": lambda storage: storage.worker_history(1),
    "the machine": lambda storage: storage.hosts(),
    "events": lambda storage: storage.events(),
    "commands": lambda storage: storage.commands(),
}


def _records(place: Place) -> Parts:
    """Each as a page asks for it; what cannot be answered is said, and what is not as it was is never shown."""
    try:
        with Run(runs_directory() / RUN).open_records() as storage:
            return {name: _part(storage, ask) for name, ask in ASKED.items()}
    except TrainingError as error:
        return {name: Told(error) for name in ASKED}


def _part(storage: Storage, ask: Callable[[Storage], object]) -> str:
    try:
        found = repr(ask(storage))
    except TrainingError as error:
        return Told(error)
    return Told(found) if "a damaged command" in found else found


# ------------------------------------------------------------------ the study of a search


def _studied(place: Place) -> None:
    """Eight trials, as Optuna keeps them, and the account of the search."""
    import optuna

    from shoal.processes.search_trials import Trials, open_study

    search = Search(searches_directory() / SEARCH)
    search.directory.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = open_study(search.directory, 0)
    for number in range(8):
        trial = study.ask()
        rate = trial.suggest_float("learning_rate", 1e-4, 1.0, log=True)
        said = {
            "place": number + 1,
            "state": "short",
            "score": rate,
            "run": f"run-{number}",
            "cause": "0.1 after 20 s.",
        }
        trial.suggest_categorical("mode", ["sync", "async"])
        trial.report(-1.5, 1)
        for name, value in said.items():
            trial.set_user_attr(name, value)
        study.tell(trial, rate)
    trials = Trials(study, None, None)  # type: ignore[arg-type]
    write_json(search.directory / "account.json", Account([], {}, 1.0, trials.seals()).as_dict())
    study._storage.remove_session()  # type: ignore[attr-defined]


def _trials(place: Place) -> str:
    """What a search that goes on says of the trials before."""
    import optuna

    from shoal.processes.search_trials import Trials, open_study, told

    search = Search(searches_directory() / SEARCH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = open_study(search.directory, 0, search.account.seals)
    found = repr([told(trial, None) for trial in Trials(study, None, None).counted()])  # type: ignore[arg-type]
    study._storage.remove_session()  # type: ignore[attr-defined]
    return found


DATABASES = (
    FileKind("records of training", f"runs/{RUN}/metrics.sqlite", _records, made_again=False, make=_recorded),
    FileKind("study of a search", f"searches/{SEARCH}/study.db", _trials, made_again=False, make=_studied),
)
