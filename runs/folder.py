"""A run by its folder: what the files in it say, and the lock that its process holds.

    job.json      what to do: train or one of `jobs`, with its arguments; and which run it was forked from
    config.json   every knob
    state.json    {state, cause, reason, remedies, at}, written by the run process as it goes on
    progress.json the stage of the work and how much of it is done
    log.jsonl, log.txt, checkpoints/, model.json
    metrics.sqlite or records.json, and unsent.jsonl: the records of training (`storage.place`)
    result.json   the last word of a run that finished or was stopped; its "state" and "reason" say which and why
    error.json    the last word of one that failed, with the same "reason" and "remedies"
    lock          held by the kernel for as long as the process lives, however it ends
    started       there once the process has come so far; when, so that it is told where the folder is copied
    awaited       of a job: touched by whoever waits for it (`awaiting`)
    reserve       room for its last word on a full disk, while the process lives

Every document carries a checksum (`documents`). One that cannot be read is told as the state of the run: with a result
or an error that is damaged it failed, without a state it was interrupted, and why and what to do is said with it.

Decisions about runs are in `launch`, who may start when in `scheduling`. Imports are light: dashboards live on this.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import DamagedFile, Reason, Remedy, Standing, StateError, TrainingError
from shoal.files.locks import is_held
from shoal.files.parts import uploads_again
from shoal.home import RUN_NAME, can_be, entry_name, names_in, new_run_id, runs_directory, why_unreadable
from shoal.lazy.classes import dataclass
from shoal.people.belongings import sees, visible
from shoal.queueing import team
from shoal.results.fit import FitReport
from shoal.results.plain import Malformed, read
from shoal.results.tuned import CrossValidated
from shoal.runs import reserve
from shoal.runs.documents import ENDED, FITTED, LARGE, Mark, last_word, mark_of, owner_of, read_json, write_json
from shoal.runs.spawning import is_gone
from shoal.runs.tickets import place_in_words, ticket_at_work
from shoal.settings.config import RunConfig
from shoal.settings.values import config_from
from shoal.travel.journeys import catch_up, guests, held_up, is_guest

if TYPE_CHECKING:
    from shoal.storage import Storage

PATIENCE = 30.0  # seconds that a new process may take to say that it has started
ACTIVE = ("queued", "preparing", "running", "paused", "stopping")
KILLED = "The run ended before it was finished: its process was stopped"

__all__ = [
    "ACTIVE", "ENDED", "FITTED", "PATIENCE", "RUN_NAME", "Run", "find_run", "is_run", "list_runs", "new_run_id",
    "read_config", "write_json", "write_state",
]  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A run by its folder; everything about it is read from there."""

    directory: Path

    @property
    def id(self) -> str:
        return self.directory.name

    @property
    def owner(self) -> str:
        """The run that its files are of: another than `id` where a folder was copied under another name."""
        return owner_of(self.directory)

    def _read(self, name: str) -> dict[str, Any] | None:
        """A document; None where it is not there or damaged, which the state of the run tells (`standing`)."""
        try:
            return read_json(self.directory / name)
        except DamagedFile:
            return None

    @property
    def job(self) -> dict[str, Any]:
        return self._read("job.json") or {}

    @property
    def task(self) -> str:
        """train, or the name of one of `jobs`."""
        return str(self.job.get("task", "train"))

    @property
    def config(self) -> dict[str, Any]:
        return self._read("config.json") or {}

    @property
    def is_gradient(self) -> bool:
        """Whether it trains by gradient steps, and so has metrics, checkpoints and commands."""
        if self.task != "train":
            return False
        config = self.config
        return config.get("solver") == "gradient" if config else os.path.isdir(self.checkpoints_path)

    @property
    def search(self) -> str | None:
        """The search that it is a trial of."""
        found = self.job.get("search")
        return str(found["id"]) if isinstance(found, dict) and "id" in found else None

    @property
    def tuned(self) -> CrossValidated | None:
        """How its penalty was chosen, where that was by cross-validation before it began."""
        found = self.job.get("tuned")
        return read(CrossValidated, found, "tuned") if found else None

    @property
    def result_mark(self) -> Mark | None:
        return mark_of(self.directory / "result.json")

    @property
    def result(self) -> dict[str, Any] | None:
        """A large one, about very many columns, is parsed once for as long as somebody looks at this run."""
        mark, known = self.result_mark, vars(self)
        if mark is None or mark.size < LARGE:
            return mark and self._read("result.json")
        if known.get("_mark") != mark:
            known.update(_parsed=self._read("result.json"), _mark=mark)
        parsed: dict[str, Any] | None = known["_parsed"]
        return parsed

    @property
    def report(self) -> FitReport | None:
        """Of a fit that has one; a file that is not one is said to be damaged."""
        path = self.directory / "result.json"
        try:
            result = self.result or read_json(path)
            return None if result is None else FitReport.from_dict(result)
        except DamagedFile as error:
            raise DamagedFile(
                f"The result of {self.id} cannot be read. {error.message} Train again.", path=str(path)
            ) from None
        except Malformed as error:
            raise DamagedFile(
                f"The result of {self.id} is damaged ({error}): '{path}'. Train again.", path=str(path)
            ) from None

    @property
    def model_path(self) -> Path:
        return self.directory / "model.json"

    @property
    def metrics_path(self) -> Path:
        return self.directory / "metrics.sqlite"

    @property
    def metrics_url(self) -> str:
        return f"sqlite://{self.metrics_path}"

    @property
    def has_records(self) -> bool:
        """Whether there are records of training, in its folder or in the team's database."""
        return any(os.path.exists(self.directory / name) for name in ("metrics.sqlite", "records.json"))

    def open_records(self, timeout: float | None = None) -> Storage:
        """The records of this run, to be closed; those of another in their place are refused."""
        from shoal.storage import place
        from shoal.storage.base import TIMEOUT

        return place.open_records(self.directory, self.owner, TIMEOUT if timeout is None else timeout)

    @property
    def checkpoints_path(self) -> Path:
        return self.directory / "checkpoints"

    @property
    def progress(self) -> tuple[str, float]:
        if self.state == "queued":
            return "waiting in the queue", 0.0
        try:
            found = read_json(self.directory / "progress.json") or {}
        except DamagedFile:
            return "at work; how far it is cannot be read", 0.0
        return found.get("stage", "starting"), found.get("fraction", 0.0)

    @property
    def started_at(self) -> float | None:
        """When its process last began, in seconds since 1970."""
        with contextlib.suppress(OSError, ValueError):
            path = self.directory / "started"
            return float(path.read_text() or path.stat().st_mtime)
        return None

    @property
    def pid(self) -> int | None:
        """The run process, while it lives."""
        try:
            number = int((self.directory / "lock").read_text() or 0)
        except (OSError, ValueError):
            return None
        return number if number and is_held(self.directory / "lock") else None

    # ---------------------------------------------------------------- state

    @property
    def is_alive(self) -> bool:
        """Whether a process holds the run's lock, or a run host of the team has it."""
        return is_held(self.directory / "lock") or (team.is_set() and self._is_untold and team.is_held(self.id))

    @property
    def _is_untold(self) -> bool:
        """Whether it has not said how it ended, which a database that is away cannot know."""
        try:
            return self._last_word() is None
        except DamagedFile:
            return False

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def standing(self) -> Standing:
        """State and why, of one and the same look; interrupted: the process is gone without a last word."""
        found = self._said()
        if found.state in ACTIVE:
            return found
        problem = self._unreadable_settings()
        if problem is None:
            return found
        cause = f"{found.cause.rstrip('.')}. {problem.cause}" if found.cause else problem.cause
        return replace(found, cause=cause, reason=problem.reason, remedies=problem.remedies)

    def _said(self) -> Standing:
        try:
            said = self._last_word()
            if said:
                return said
            if self.is_alive:
                return Standing.read(read_json(self.directory / "state.json") or {}, "running")
            # The process may end between two looks: once the lock is free, its last word counts.
            return self._last_word() or self._without_process()
        except DamagedFile as damage:
            return self._with_damage(damage)

    def _with_damage(self, damage: DamagedFile) -> Standing:
        """The state of a run that says how it stands in a file which cannot be read."""
        if why := why_unreadable(self.directory / "config.json"):
            cause = f"Expected to read the folder '{self.directory}', got: {why}. Check its permissions and its disk."
            return Standing("failed", cause, Reason.RESOURCES)
        name = Path(damage.path).name
        if name == "state.json" and self.is_alive:
            return Standing("running", f"What its process is doing cannot be told. {damage.message}", damage.reason)
        if name == "state.json":
            cause = f"Its process is gone, and how it ended cannot be told. {damage.message}"
            return Standing("interrupted", cause, damage.reason, (self._way_on(),))
        what = "its result cannot be read" if name == "result.json" else "it failed, and why cannot be read"
        return Standing("failed", f"The run has ended, but {what}. {damage.message}", damage.reason, (self._way_on(),))

    @property
    def damage(self) -> DamagedFile | None:
        """What is wrong with one of the documents that say what it is and how it ended."""
        try:
            self._last_word()
            for name in ("config.json", "job.json"):
                read_json(self.directory / name)
        except DamagedFile as damage:
            return damage
        return None

    def _unreadable_settings(self) -> Standing | None:
        """What is wrong with the documents that a run begins with."""
        for name in ("config.json", "job.json"):
            try:
                read_json(self.directory / name)
            except DamagedFile as damage:
                return Standing("", f"Its settings cannot be read. {damage.message}", damage.reason, (self._way_on(),))
        return None

    @property
    def state(self) -> str:
        """One of ACTIVE or ENDED."""
        return self.standing.state

    @property
    def cause(self) -> str:
        """Why it is in this state, as the command line says it; empty where there is nothing to say."""
        return str(self.standing)

    @property
    def error(self) -> Standing | None:
        """How it stands, where it ended without a result to show."""
        found = self.standing
        without = found.state in ("failed", "interrupted") or (found.state == "stopped" and self.result is None)
        return found if without else None

    def _last_word(self) -> Standing | None:
        catch_up()  # with what it did in another home
        return last_word(self.directory)

    def _without_process(self) -> Standing:
        if team.is_set() and (standing := self._in_team()):
            return standing
        if self.is_waiting and (place := self._place()):
            return place
        begun = os.path.exists(self.directory / "started")
        if not begun and self._age() < PATIENCE and not is_gone(self.directory):
            return Standing("preparing", "Its process is starting.")
        if not begun and (said := self._last_word()):  # it may have come since the first look
            return said
        if not begun and reserve.is_out_of_reach(self.directory):
            return Standing("interrupted", f"{KILLED}. Its disk is full.", Reason.OUT_OF_DISK, (self._way_on(),))
        soon = " It goes on by itself in a moment." if self._goes_on() else ""
        return Standing("interrupted", f"{KILLED}.{soon}", Reason.KILLED, (self._way_on(),))

    def _in_team(self) -> Standing | None:
        """As the queue of the team says, where it knows of this run."""
        try:
            if place := team.place_in_words(self.id):
                return Standing("queued", place)
            ended = team.ended_in_words(self.id) or held_up(self.id)
        except TrainingError as error:
            return Standing("queued", f"It waits, but the queue cannot be read. {error.message}", Reason.RESOURCES)
        return Standing(*ended, Reason.KILLED, (self._way_on(),)) if ended else None

    def _goes_on(self) -> bool:
        """Whether somebody takes it up from its checkpoint, see `interruptions`."""
        with contextlib.suppress(StateError):
            return ticket_at_work(self.id) is not None
        return False

    def _place(self) -> Standing | None:
        """Of a run that waits, by its ticket; one whose ticket nobody can look for waits until somebody can."""
        try:
            place = place_in_words(self.id)
        except StateError as error:
            return Standing("queued", f"It waits, but the queue cannot be read. {error.message}", Reason.RESOURCES)
        said = Standing.read(self._read("state.json") or {}, "queued")  # one that was killed says so while it waits
        return Standing("queued", place, said.reason) if place else None

    def _way_on(self) -> Remedy:
        if self.task == "train" and self.config.get("target"):
            return Remedy.run("Start it again, or resume it", "resume", self.id)
        if self.task == "train" and os.path.isdir(self.checkpoints_path):
            return Remedy.run("Its checkpoints know its settings: fork it", "fork", self.id)
        return Remedy.say("Start it again")

    @property
    def is_waiting(self) -> bool:
        """Whether it is to be started when its turn comes; the queue knows its place by its ticket."""
        return (self._read("state.json") or {}).get("state") == "queued"

    def _age(self) -> float:
        with contextlib.suppress(OSError):
            return time.time() - self.directory.stat().st_mtime
        return PATIENCE


# ------------------------------------------------------------------ where runs are


def find_run(run_id: str) -> Run | None:
    """None for one that is not here, and for one that whoever acts may not see: nobody learns which it is."""
    catch_up()
    directory = runs_directory() / entry_name(run_id)
    return Run(directory) if is_run(directory.name) and sees(directory) else None


def list_runs() -> list[Run]:
    """All runs that whoever acts may see, the newest first, by the time in their names; also unreadable ones."""
    catch_up()
    names = visible(runs_directory(), sorted({*names_in(runs_directory())} - guests(), reverse=True))
    return [Run(runs_directory() / name) for name in names if is_run(name)]


def is_run(name: str) -> bool:
    """Whether this entry is a run that was launched here: it has a config, or nobody can tell whether it has."""
    return not (team.is_set() and is_guest(runs_directory() / name)) and can_be(runs_directory() / name / "config.json")


def read_config(run: Run) -> RunConfig:
    """The knobs of a run, or a plain word on what is wrong with its file."""
    path = run.directory / "config.json"
    why = f"'{path}' is gone."
    try:
        values = read_json(path)
    except DamagedFile as error:
        values, why = None, error.message
    if values is None:
        raise StateError(f"Expected the knobs of this run. {why} Start the fit anew, or fork it from a checkpoint.")
    if unknown := sorted(set(values) - {one.name for one in fields(RunConfig)}):
        told = f"Expected settings that this Shoal knows, got '{unknown[0][:80]}': another version launched this run."
        raise StateError(f"{told} Install that version on {os.uname().nodename[:80]} too, then resume the run.")
    return config_from(uploads_again(values))


def write_state(directory: Path, standing: Standing) -> None:
    write_json(directory / "state.json", {**standing.as_dict(), "at": time.time()}, last=standing.state in ENDED)
