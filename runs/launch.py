"""What can be done with detached runs: launch, find, resume, fork, and send commands; the work itself is in `tasks`.

A run's folder is where everyone meets (see `folder`). Imports are light: a dashboard lives on this; what needs
NumPy (checkpoints, the store of metrics) is imported by the functions that need it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.database import address
from shoal.errors import DamagedFile, Reason, Remedy, ResourceError, Standing, StateError, TrainingError
from shoal.files.locks import own_lock
from shoal.files.parts import absolute, named, seen_as
from shoal.home import DATA_FORMAT, LATEST, by_beginning, jobs_directory, runs_directory, searches_directory
from shoal.people import jobs
from shoal.people.acting import person
from shoal.people.belongings import claim, sees_everything
from shoal.people.deeds import allow, check
from shoal.people.rights import SERVICE, Verb
from shoal.queueing import team
from shoal.queueing.jobs import CANCELLED
from shoal.results.plain import plain
from shoal.results.tuned import CrossValidated
from shoal.runs import awaiting, interruptions, made_files, scheduling, tickets
from shoal.runs.documents import RESUMABLE, read_json
from shoal.runs.folder import ACTIVE, Run, find_run, list_runs, new_run_id, read_config, write_json, write_state
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.tracing import spans
from shoal.utils import disk_errors

if TYPE_CHECKING:
    from shoal.storage import Storage
    from shoal.training.checkpoints import Checkpoints, Snapshot

__all__ = [
    "Run", "Settled", "find_run", "fork", "launch", "launch_job", "list_runs", "metrics_of",
    "new_run_id", "post", "resolve", "resume", "wait_settled",
]  # fmt: skip

STARTS, FOLDER = "run started", "the folder of a run"  # a deed; where a disk may be full
BY_SIGNAL = 0  # the number of a stop that went to the process as a signal, because nobody takes commands yet
LOOK, STARTING = 0.05, 5.0  # seconds between two looks for an outcome; that a process may take to tell its number
WITHDRAWN = Standing("stopped", "It was stopped while it waited in the queue.", Reason.STOPPED)
BUSY = 2.0  # seconds to wait for a store that another process has locked: a person waits as well


# ------------------------------------------------------------------ find


def resolve(name: str) -> Run:
    """The run of a name, of a beginning that only one name has, or the newest for `last`."""
    runs = {run.id: run for run in list_runs()}
    if found := by_beginning(name, runs, "run", latest=True):
        return found
    expected = f"Expected the name of a run, a beginning of it, or '{LATEST}', got '{name}'"
    if not runs:
        raise StateError(f"{expected}; there are no runs yet.", Remedy.run("Start one", "train"))
    raise StateError(f"{expected}.", Remedy.run("See them", "runs"))


@contextlib.contextmanager
def metrics_of(run: Run) -> Iterator[Storage | None]:
    """The store of a run's metrics; None if it has none yet."""
    if not run.has_records:
        yield None
        return
    with run.open_records(BUSY) as storage:
        yield storage


# ------------------------------------------------------------------ start


def launch(
    config: RunConfig, search: Mapping[str, Any] | None = None, tuned: CrossValidated | None = None, request: str = "",
) -> Run:  # fmt: skip
    """Start a fit in a process of its own session; it goes on when its starter is gone. Gradient runs queue.

    With the database of a team, a run host takes it, as a job of whoever acts: trials of a search stay here.

    A trial says of which `search` it is: {"id": ..., "trial": ...}. A model whose penalty was chosen by
    cross-validation keeps how, and its error there. A run that a program asked for keeps which `request` that was.
    """
    check(Verb.START, SERVICE, STARTS)
    more = {"search": dict(search or {}), "tuned": plain(tuned), "request": request, "person": person().name}
    source = searches_directory() / str(search["id"]) if search else None
    return _new_run(config, {"task": "train", **{name: said for name, said in more.items() if said}}, source)


def _new_run(config: RunConfig, job: dict[str, Any], source: Path | None, snapshot: Snapshot | None = None) -> Run:
    """`source` is what it comes from, where that is more than its table: a search, or the run of a checkpoint."""
    config = _from_anywhere(config)
    table = next(iter(named(config.file)), None)
    for part in (source, *named(config.file)):
        if part is not None:
            check(Verb.START, part, STARTS)
    with disk_errors(FOLDER):
        while True:
            directory = runs_directory() / new_run_id()
            with contextlib.suppress(FileExistsError):
                directory.mkdir(parents=True)
                if _has_place(directory, config):
                    break
        try:
            claim(directory, source or table)
            allow(Verb.START, directory, STARTS)
            if snapshot is not None:
                _checkpoints(Run(directory), config).save(snapshot)
            return _start(directory, job, config)
        except (OSError, TrainingError):
            scheduling.leave(Run(directory))
            shutil.rmtree(directory, ignore_errors=True)
            raise


def _has_place(directory: Path, config: RunConfig) -> bool:
    """Whether its records have one: a new folder goes again if a team's database knows another run of its name."""
    if config.solver != "gradient" or not address.is_set():
        return True  # an exact fit has none
    from shoal.storage import place

    known = False
    try:
        known = place.begin(directory, directory.name)
    finally:
        if not known:
            directory.rmdir()
    return known


def _from_anywhere(config: RunConfig) -> RunConfig:
    """The same with whole paths: the run process lives in another folder."""
    file = absolute(config.file)
    out = str(Path(config.out).expanduser().absolute()) if config.out else None
    return dataclasses.replace(config, file=file, out=out)


def launch_job(task: str, config: RunConfig, arguments: Mapping[str, Any] | None = None, anew: bool = False) -> Run:
    """Do one of `jobs` in a process of its own, or find it done: same file, options and arguments, same folder.

    A damaged answer, or one with damaged files, is made again.
    `anew` forgets an earlier answer, which may have come from a full disk or a killed process.
    It ends when nobody waits for it any more (see `awaiting`).
    """
    jobs.check(task, named(config.file), arguments or {})
    directory = jobs_directory() / task / _fingerprint(config, task, dict(arguments or {}))
    if anew or Run(directory).damage or made_files.damage(directory):
        _forget(Run(directory))
    with disk_errors(FOLDER):
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            return Run(directory)
        return _start(directory, {"task": task, **awaiting.begin(directory, task), **(arguments or {})}, config)


def sees_job(job: Run) -> bool:
    """Whether whoever acts sees all that a job has read: what it found is for nobody else."""
    known = sees_everything() or bool(job.config)  # one that does not say what it has read is for admins
    return known and jobs.sees_read(named(str(job.config.get("file") or "")), job.job)


def _forget(job: Run) -> None:
    """Remove a job that has ended; its process may have said so a moment ago, and not be gone yet."""
    deadline = time.monotonic() + STARTING
    while not job.is_active and job.is_alive and time.monotonic() < deadline:
        time.sleep(LOOK)
    if not job.is_active:
        shutil.rmtree(job.directory, ignore_errors=True)


def _fingerprint(config: RunConfig, *more: Any) -> str:
    """Of the file as it is now, of how it is read and of every option: what has changed is looked at again."""
    text = json.dumps([DATA_FORMAT, config.as_dict(), seen_as(config.file), *more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _start(directory: Path, job: dict[str, Any], config: RunConfig) -> Run:
    run = Run(directory)
    with spans.span("launch", run=run.id):
        write_json(directory / "job.json", {**job, **({"trace": here} if (here := spans.here()) else {})})
        write_json(directory / "config.json", config.as_dict())
        scheduling.enqueue(run, config)
        scheduling.begin(run, config)
    return run


# ------------------------------------------------------------------ resume and fork


def resume(run: Run, elsewhere: Mapping[str, Any] | None = None) -> Run:
    """Go on with a run: a paused one by a command, one whose process is gone from its newest checkpoint.

    It keeps its folder and its metrics. An exact fit, which has no checkpoints, is done again. One that waits in the
    queue is started if its turn has come. `elsewhere`: another engine or cluster, which gives the same weights.
    """
    if elsewhere:
        _check_resumable(run)
    if run.state == "paused":
        post(run, "resume", {})
        return run
    allow(Verb.CHANGE, run.directory, "run resumed")
    if run.state == "queued":
        tickets.tickets()  # or why nobody can start it
        scheduling.hurry(run)
        scheduling.keep_going()
        return run
    _check_resumable(run)
    config = _moved(read_config(run), elsewhere or {})
    _mend_job(run)
    with disk_errors(FOLDER), own_lock(run.directory) as mine:
        if not mine:
            raise StateError(f"The run {run.id} was resumed by somebody else a moment ago.", _look_at(run))
        close_open_commands(run)
        interruptions.end_work(run)
        if elsewhere:
            write_json(run.directory / "config.json", config.as_dict())
        for name in ("result.json", "error.json", "started", "progress.json"):
            (run.directory / name).unlink(missing_ok=True)
        if not scheduling.enqueue(run, config):
            write_state(run.directory, Standing("preparing"))
    with disk_errors(FOLDER):
        scheduling.begin(run, config)
    return run


def _moved(config: RunConfig, elsewhere: Mapping[str, Any]) -> RunConfig:
    """The same with another engine or cluster; one that is named is Ray's, and other engines have none."""
    if not elsewhere:
        return config
    engine = elsewhere.get("engine") or ("ray" if elsewhere.get("cluster") else config.engine)
    nowhere = {} if engine == "ray" else {"cluster": "", "open_cluster": False}
    return config_from({**config.as_dict(), **nowhere, **elsewhere, "engine": engine})


def _mend_job(run: Run) -> None:
    """What is among the runs is a fit, even where the document that says so is damaged; where it came from is lost."""
    try:
        read_json(run.directory / "job.json")
    except DamagedFile:
        write_json(run.directory / "job.json", {"task": "train"})


def _check_resumable(run: Run) -> None:
    state = run.state
    if state in RESUMABLE:
        return
    expected = f"Expected a run that is paused, stopped, failed or interrupted to resume, but {run.id} is {state}."
    if state == "finished":
        way = Remedy.run("To go on from one of its checkpoints with other settings, fork it", "fork", run.id)
        raise StateError(expected, way)
    raise StateError(expected, _look_at(run))


def _look_at(run: Run) -> Remedy:
    return Remedy.run("See how it stands", "show", run.id)


def close_open_commands(run: Run) -> list[str]:
    """A command that the earlier process did not see is not for the next one: nobody expects it. Their names."""
    with metrics_of(run) as storage:
        if storage is None:
            return []
        storage.take()
        last = storage.last_round()
        closed = [command for command in storage.commands() if command.outcome is None]
        for command in closed:
            storage.settle(command.id, last.round if last else 0, "The run ended before it saw this command.")
        return [command.name for command in closed]


def fork(run: Run, step: int | None = None, changes: Mapping[str, Any] | None = None) -> Run:
    """A new run from a checkpoint of another (the newest, if no step is named), with some knobs changed."""
    if not run.is_gradient:
        raise StateError(
            f"Expected a gradient run, which has checkpoints, but {run.id} is an exact fit.",
            Remedy.run("Start another fit", "train"),
        )
    from shoal.runs.forks import forked

    config, snapshot = forked(_snapshot(run, step), changes or {})
    job = {"task": "train", "forked_from": {"run": run.id, "step": snapshot.step}}
    return _new_run(config, job, run.directory, snapshot)


def _snapshot(run: Run, step: int | None) -> Snapshot:
    checkpoints = _checkpoints(run, None)
    snapshot = checkpoints.newest() if step is None else checkpoints.load(step)
    if snapshot is None:
        raise StateError(
            f"Expected a checkpoint to go on from, but the run {run.id} has none yet. Wait until it has saved one.",
            Remedy.run("Or save one now", "send", run.id, "checkpoint"),
        )
    return snapshot


def _checkpoints(run: Run, config: RunConfig | None) -> Checkpoints:
    from shoal.training.checkpoints import Checkpoints

    return Checkpoints(run.checkpoints_path, config.keep_checkpoints if config else 5, of=run.owner)


# ------------------------------------------------------------------ commands


class Settled(NamedTuple):
    """What became of a command: "done" or why not, and the round in which it took effect; None until then."""

    outcome: str | None
    round: int | None = None


def post(run: Run, name: str, arguments: Mapping[str, Any] | None = None) -> int:
    """Leave a command for a live run; its number, for `wait_settled`.

    A stop before training listens (in the queue, while the file is read, in an exact fit) goes to the process as a
    signal; so does one to a queued run without a process, which then loses its place.
    """
    allow(Verb.CHANGE, run.directory, f"command {name}", always=name == "stop")
    state = run.state
    if name == "stop" and state == "interrupted" and interruptions.goes_on(run):
        return _stop_by_signal(run)  # before it goes on by itself
    if state not in ACTIVE:
        raise StateError(
            f"Expected a run that is alive, but {run.id} is {state}, so it takes no commands.", _advice(run)
        )
    if name == "stop" and (state in ("queued", "preparing") or not run.is_gradient):
        return _stop_by_signal(run)
    if not run.is_gradient:
        raise StateError(f"The run {run.id} is an exact fit: it takes seconds and no command but stop.")
    if state == "queued":
        raise StateError(f"The run {run.id} waits in the queue; it takes commands other than stop once it has begun.")

    try:
        with run.open_records(BUSY) as storage:
            return storage.post(name, dict(arguments or {}))
    except ResourceError:
        if name != "stop":
            raise
        return _stop_by_signal(run)  # no room for a command on a full disk


def _advice(run: Run) -> Remedy:
    if run.state == "finished":
        return Remedy.run("Fork it to go on with other settings", "fork", run.id)
    return Remedy.run("Resume it first", "resume", run.id)


def _stop_by_signal(run: Run) -> int:
    if job := team.cancel(run.id):  # its host hears of it, wherever that is
        if job.state == CANCELLED:
            write_state(run.directory, WITHDRAWN)
        return BY_SIGNAL
    deadline = time.monotonic() + STARTING
    while (pid := run.pid) is None:
        with own_lock(run.directory, wait=LOOK) as mine:
            if mine:
                scheduling.leave(run)
                write_state(run.directory, WITHDRAWN)
                return BY_SIGNAL
        if time.monotonic() > deadline:
            raise StateError(f"The process of {run.id} is starting right now. Try again in a second.")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return BY_SIGNAL


def wait_settled(run: Run, command: int, timeout: float = 2.0) -> Settled:
    """Wait until a command is settled, the run has ended, or the time is up."""
    deadline = time.monotonic() + timeout
    while True:
        active = run.is_active
        found = _settled(run, command, active)
        if found.outcome is not None or time.monotonic() >= deadline:
            return found
        if not active:
            return Settled("The run ended before it saw this command.")
        time.sleep(LOOK)


def _settled(run: Run, command: int, active: bool) -> Settled:
    if command == BY_SIGNAL:
        return Settled(None if active else "done")
    with metrics_of(run) as storage:
        for known in storage.commands() if storage else ():
            if known.id == command:
                return Settled(known.outcome, known.round)
    return Settled(None)
