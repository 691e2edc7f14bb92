"""The process of a detached run, `python -m shoal.processes.run DIRECTORY`: from lock to last word; work is in `tasks`.

A gradient run is started when its turn has come, with its lock and its slots in its hands (see `runs.scheduling`).

SIGTERM and SIGINT ask for an orderly stop: as a command where training listens, at once where it does not (while the
file is read, in an exact fit). A second signal ends the process as usual. A job that nobody waits for any more ends by
itself. Whatever ends it, the kernel frees its locks, and its workers, which hang on a pipe to it, end as well.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shoal.errors import Reason, Remedy, Standing, TrainingError
from shoal.files.locks import own_lock
from shoal.home import keep_private, searches_directory
from shoal.processes.attendant import Attendant, FolderGone, Stopped, Unawaited
from shoal.runs import interruptions, made_files, reserve, scheduling
from shoal.runs.awaiting import WaitWatch
from shoal.runs.commands import close_open_commands
from shoal.runs.documents import has_ended
from shoal.runs.folder import FITTED, Run, read_config, write_json, write_state
from shoal.runs.slots import slots_for
from shoal.runs.spawning import hear_signals
from shoal.settings.config import RunConfig
from shoal.tracing import spans
from shoal.utils import RunLog, is_full, may_fork
from shoal.words import duration

ORPHANED = 10.0  # seconds in which the process of a search may come back to its trials
QUEUE = 3.0  # seconds between two looks whether somebody cares for the runs that wait, and for this one
PROGRESS = 0.1  # seconds between two notes of how far it has come


class Hosted(NamedTuple):
    """What the process of a run is told by its run host."""

    fence: int | None = None  # with which it is held: records of an older one are refused
    again: str = ""  # why it is taken up once more


class SearchWatch:
    """A trial whose search was killed ends after a while: nobody would look at it. A search that ended as it should
    has ended its trials; one of those that goes on again was resumed by a person."""

    def __init__(self, search: Path, stop: Callable[[], None]) -> None:
        self._search, self._stop, self._since = Run(search), stop, 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if self._search.is_alive or self._search.state != "interrupted":
            self._since = 0.0
        elif not self._since:
            self._since = now
        elif now - self._since > ORPHANED:
            self._since = math.inf
            self._stop()


class Seldom:
    """A chore that is not done at every look."""

    def __init__(self, chore: Callable[[], None], seconds: float) -> None:
        self._chore, self._seconds, self._last = chore, seconds, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._last >= self._seconds:
            self._last = time.monotonic()
            self._chore()


# ------------------------------------------------------------------ one life


class Life:
    """From the lock to the last word."""

    def __init__(self, run: Run, log: RunLog, attendant: Attendant, hosted: Hosted) -> None:
        self.run, self.log, self.attendant, self._hosted = run, log, attendant, hosted
        self._unsaid: Standing | None = None  # for which there was no room
        attendant.chores.append(self._say_again)
        if search := run.search:
            attendant.chores.append(SearchWatch(searches_directory() / Path(search).name, attendant.stop))
        self._patience = float(run.job.get("patience") or 0.0)
        if self._patience:
            give_up = functools.partial(attendant.give_up, self._say_unawaited)
            attendant.chores.append(WaitWatch(run.directory, self._patience, give_up))

    def live(self) -> None:
        """Its last act is to write a result or an error, then the lock goes with it."""
        try:
            hear_signals()  # one that came as the process started is heard here
            self._work(read_config(self.run))
        except Stopped:
            self.attendant.ignore_signals()
            cause, reason = "It was stopped by a signal before it had a result.", Reason.STOPPED
            if why := self.attendant.no_room:
                cause, reason = f"It was stopped, and without a result. {why}", Reason.OUT_OF_DISK
            self.say(Standing("stopped", cause, reason, (self._way_on(),)))
        except Unawaited:
            self.attendant.ignore_signals()
            self._say_unawaited()
        except Exception as error:  # noqa: BLE001 - whatever it was, the folder must say so
            self.attendant.ignore_signals()
            self._fail(error)

    def _say_unawaited(self) -> None:
        """As if it had been interrupted: whoever comes back starts it again."""
        cause = f"Nobody has waited for it for {duration(self._patience)}, so it was ended."
        self.say(Standing("interrupted", cause, Reason.UNAWAITED, (self._way_on(),)))

    def _work(self, config: RunConfig) -> None:
        if not self.run.is_gradient:
            self.say(Standing("running"))
            self._conclude(_quick_work(self.run, config, self._progress()))
            return
        tries = interruptions.begin_work(self.run, config, slots_for(config))
        if (tries or self._hosted.again) and "stop" in close_open_commands(self.run):
            self.say(interruptions.STOPPED)
            return
        self.say(Standing("preparing"))
        scheduling.has_begun(self.run)  # in this order: a run that waits no longer is never started again
        self.attendant.chores.append(Seldom(scheduling.watch, QUEUE))
        from shoal.tasks.train import train_in_folder

        again = f"Its process was killed; it goes on by itself (try {tries} of {config.retries})." if tries else ""
        fence, again = self._hosted.fence, self._hosted.again or again
        report = train_in_folder(self.run, config, self._progress(), self.log, self._training_says, again, fence)
        self._conclude(report.as_dict())

    def _conclude(self, result: dict[str, Any]) -> None:
        self.attendant.ignore_signals()
        self._keep_model(result)
        write_json(self.run.directory / "result.json", result)
        self.say(Standing.read(result, "finished") if "state" in result else FITTED)

    def _keep_model(self, result: dict[str, Any]) -> None:
        """A saved version of a finished run's model, where the settings say so; whatever goes wrong with that, the run
        itself is complete."""
        name = str(self.run.config.get("register") or "")
        if not name or self.run.task != "train" or result.get("state", "finished") != "finished":
            return  # a person saves it
        try:
            from shoal.files.model_names import safe_name
            from shoal.library.saved_models import save_for_owner

            version = save_for_owner(self.run, result, safe_name(name), self.log.info, self._hosted.fence)
            self.log.info(f"The model is saved as {version.name}, version {version.number}.")
        except Exception as error:  # noqa: BLE001 - see above; the model file is in the run's folder all the same
            self.log.warning(f"The model could not be saved among the models: {failure(error)}")

    def say(self, standing: Standing) -> None:
        """Put the state on record; a full disk must not end a run that could go on."""
        self.log.info(f"{standing.state}: {standing}" if standing.cause else standing.state)
        self._unsaid = None
        try:
            write_state(self.run.directory, standing)
        except FileNotFoundError:
            raise FolderGone from None
        except OSError as error:
            self._unsaid = standing
            self.log.warning(f"The state could not be written ({error.strerror}).")

    def _say_again(self) -> None:
        """What could not be written becomes true for others as soon as there is room."""
        unsaid = self._unsaid
        if unsaid is not None:
            with contextlib.suppress(OSError):
                write_state(self.run.directory, unsaid)
                self._unsaid = None

    def _training_says(self, standing: Standing) -> None:
        self.attendant.listens = True
        self.say(standing)

    def _fail(self, error: Exception) -> None:
        ending = failure(error)
        self.log.error(str(ending), error)
        found = ending.as_dict()
        said = {"message": found.pop("cause"), "kind": type(error).__name__, **found}
        with contextlib.suppress(OSError):  # then it is interrupted for all to see, and the log says why
            write_json(self.run.directory / "error.json", said, last=True)
            write_state(self.run.directory, ending)

    def _way_on(self) -> Remedy:
        if self.run.task != "train":
            return Remedy.say("Start it again")
        return Remedy.run("Resume it", "resume", self.run.id)

    def _progress(self) -> Callable[[str, float], None]:
        last = 0.0

        def progress(stage: str, fraction: float) -> None:
            nonlocal last
            if time.monotonic() - last > PROGRESS or fraction >= 1:
                last = time.monotonic()
                with contextlib.suppress(OSError):
                    write_json(self.run.directory / "progress.json", {"stage": stage, "fraction": fraction})

        return progress


def _quick_work(run: Run, config: RunConfig, progress: Callable[[str, float], None]) -> dict[str, Any]:
    """What does not queue: an exact fit, or a job such as a look at a file."""
    if run.task != "train":
        from shoal.processes.jobs import work

        return work(run, config, progress)
    from shoal.fitting.model_file import save_model
    from shoal.tasks.train import train

    trained = train(config, progress, run.id, run.tuned)
    save_model(run.model_path, trained.model)
    made_files.seal(run.directory, [made_files.MODEL])
    return trained.report.as_dict()


def failure(error: Exception) -> Standing:
    """How a run stands that ended with this error."""
    if isinstance(error, TrainingError):
        return Standing.after(error)
    if isinstance(error, MemoryError):
        cause = "There is not enough memory for this run. Close other programs, use fewer workers or fewer columns."
        return Standing("failed", cause, Reason.OUT_OF_MEMORY)
    if isinstance(error, OSError) and error.strerror:
        where = f"'{error.filename}'" if error.filename else "a file or device"
        cause = f"Expected to read or write {where}, got: {error.strerror}. Check it, then resume the run."
        return Standing("failed", cause, Reason.OUT_OF_DISK if is_full(error) else Reason.RESOURCES)
    cause = f"The run failed for an unforeseen reason ({type(error).__name__}). Its log has the details."
    return Standing("failed", cause, Reason.UNFORESEEN)


def main(directory: Path, lock: int | None = None, slots: Sequence[int] = (), hosted: Hosted | None = None) -> None:
    """One process a run: a second one, started by mistake, finds the lock taken or the last word said, and leaves; so
    does one whose run was stopped before it came so far.

    `hosted` where a run host of a team has taken it.

    The slots are given back after the last word: the next run begins when this one has said how it ended.
    """
    run = Run(directory)
    for descriptor in (*slots, *([] if lock is None else [lock])):
        os.set_inheritable(descriptor, False)  # workers must not keep them
    with own_lock(directory, given=lock) as mine:
        if not mine or has_ended(directory):
            return
        _live(run, hosted or Hosted())
        # Before the lock goes: from then on the folder may be made anew, for a job that is started again.
        if not any((directory / name).exists() for name in ("config.json", "lock")):
            shutil.rmtree(directory, ignore_errors=True)  # removed by somebody: what was written since
    for descriptor in slots:
        os.close(descriptor)
    scheduling.keep_going()


def _live(run: Run, hosted: Hosted) -> None:
    (run.directory / "started").write_text(repr(time.time()))
    reserve.keep(run.directory)
    attendant = Attendant(run)
    try:
        with (
            RunLog(run.directory) as log,
            attendant.attending(),
            may_fork(attendant.away),
            spans.tracing("shoal-run", log.warning),
            spans.span(f"run: {run.task}", str(run.job.get("trace") or ""), run=run.id),
        ):
            Life(run, log, attendant, hosted).live()
    except FolderGone:
        pass
    finally:
        reserve.give_back(run.directory)
        scheduling.leave(run)


if __name__ == "__main__":
    keep_private()
    given = [int(text) for text in sys.argv[2:]]
    main(Path(sys.argv[1]), given[0] if given else None, given[1:])
