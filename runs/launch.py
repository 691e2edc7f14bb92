"""What can be done with detached runs: launch, find, resume and fork; the work itself is in `tasks`.

A run's folder is where everyone meets (see `folder`). Imports are light: a dashboard lives on this; what needs
NumPy (checkpoints, the store of metrics) is imported by the functions that need it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.database import address
from shoal.errors import DamagedFile, Remedy, Standing, StateError, TrainingError
from shoal.files.locks import own_lock
from shoal.files.model_names import safe_name
from shoal.files.parts import absolute, named, seen_as
from shoal.home import (
    DATA_FORMAT,
    LATEST,
    by_beginning,
    jobs_directory,
    make_folder,
    runs_directory,
    searches_directory,
)
from shoal.people import jobs
from shoal.people.acting import person
from shoal.people.belongings import claim, sees_everything
from shoal.people.deeds import allow, check, check_saving
from shoal.people.rights import SERVICE, Verb
from shoal.queueing import team
from shoal.results.plain import plain
from shoal.results.tuned import CrossValidated
from shoal.runs import awaiting, interruptions, made_files, scheduling, tickets
from shoal.runs.commands import close_open_commands, end_process, post
from shoal.runs.documents import RESUMABLE, read_json
from shoal.runs.folder import Run, find_run, list_runs, new_run_id, read_config, write_json, write_state
from shoal.runs.spawning import PROCESS
from shoal.settings.config import RunConfig
from shoal.settings.limits import check_sparse
from shoal.settings.values import moved
from shoal.tracing import spans
from shoal.travel.journeys import bring_home, forget, origin_of
from shoal.utils import disk_errors

if TYPE_CHECKING:
    from shoal.training.checkpoints import Checkpoints, Snapshot

__all__ = ["Run", "find_run", "fork", "launch", "launch_job", "list_runs", "new_run_id", "resolve", "resume"]

STARTS, RESUMES = "run started", "run resumed"  # deeds
FOLDER = "the folder of a run"  # where a disk may be full
LOOK, STARTING = 0.05, 5.0  # seconds between two looks for an outcome; that a process may take to tell its number


# ------------------------------------------------------------------ find


def resolve(name: str) -> Run:
    """The run of a name, of a beginning that only one name has, or the newest for `last`."""
    runs = {run.id: run for run in list_runs()}
    if found := by_beginning(name, runs, "run", latest=True):
        return found
    expected = f"Expected the name of a run, a beginning of it, or '{LATEST}', got '{name}'"
    if elsewhere := team.elsewhere(name) or origin_of(name):
        raise StateError(f"{expected}. Its files are in another home, {elsewhere}: look at it there.")
    if not runs:
        raise StateError(f"{expected}; there are no runs yet.", Remedy.run("Start one", "train"))
    raise StateError(f"{expected}.", Remedy.run("See them", "runs"))


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
    check_sparse(config)
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
    if config.register:  # not only at its end, when nobody looks any more
        check_saving(safe_name(config.register))
    with disk_errors(FOLDER):
        while True:
            directory = runs_directory() / new_run_id()
            make_folder(directory.parent)
            with contextlib.suppress(FileExistsError):
                directory.mkdir()
                if _has_place(directory, config):
                    break
        try:
            claim(directory, source or table)
            if snapshot is not None:
                _checkpoints(Run(directory), config).save(snapshot)
            run = _start(directory, job, config)
            _write_down(run)
            return run
        except (OSError, TrainingError):
            scheduling.leave(Run(directory))
            with contextlib.suppress(TrainingError):
                forget(directory)
            shutil.rmtree(directory, ignore_errors=True)
            raise


def _write_down(run: Run) -> None:
    """Once it is on its way: what fails before is no deed. What cannot be written down does not go on."""
    try:
        allow(Verb.START, run.directory, STARTS)
    except TrainingError:
        with contextlib.suppress(TrainingError, OSError):
            end_process(run)
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
        make_folder(directory.parent)
        try:
            directory.mkdir()
        except FileExistsError:
            return Run(directory)
        job = {"task": task, **awaiting.begin(directory, task), **(arguments or {}), **jobs.asker(task)}
        return _start(directory, job, config)


def job_before(task: str, config: RunConfig, arguments: Mapping[str, Any]) -> Run | None:
    """One that is under way or has its answer, as `launch_job` would find it; none is started, and none made again."""
    jobs.check(task, named(config.file), arguments)
    run = Run(jobs_directory() / task / _fingerprint(config, task, dict(arguments)))
    if not run.directory.is_dir() or run.damage or made_files.damage(run.directory):
        return None
    return run if run.is_active or run.result is not None else None


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
    check(Verb.CHANGE, run.directory, RESUMES)
    if run.state == "queued":
        tickets.tickets()  # or why nobody can start it
        allow(Verb.CHANGE, run.directory, RESUMES)
        scheduling.hurry(run)
        scheduling.keep_going()
        return run
    if team.is_set():
        bring_home(run.id)
    _check_resumable(run)
    config = moved(read_config(run), elsewhere or {})
    allow(Verb.CHANGE, run.directory, RESUMES)
    _mend_job(run)
    with disk_errors(FOLDER), own_lock(run.directory) as mine:
        if not mine:
            raise StateError(f"The run {run.id} was resumed by somebody else a moment ago.", _look_at(run))
        close_open_commands(run)
        interruptions.end_work(run)
        if elsewhere:
            write_json(run.directory / "config.json", config.as_dict())
        write_state(run.directory, Standing("preparing"))  # before it counts as not begun, see `spawning.note_lost`
        for name in (PROCESS, "result.json", "error.json", "started", "progress.json", "so_far.json"):
            (run.directory / name).unlink(missing_ok=True)
        scheduling.enqueue(run, config)
    with disk_errors(FOLDER):
        scheduling.begin(run, config)
    return run


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
