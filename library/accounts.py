"""A short account of every run, for lists; a thousand runs are listed in milliseconds.

A result may be megabytes, so it is read once: the account of a run that has ended is kept in its folder (summary.json),
with sizes and times of the files it was made from. If one of them changes (the run is resumed, annotated, tampered
with), the account is made anew. Accounts are also kept in memory. Runs that go on are always read anew.

Archived runs have their account beside the archive (see `archives`). What is decided about runs is in `runs`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile, Reason, StateError, TrainingError
from shoal.files.parts import title
from shoal.home import archive_directory, names_in, runs_directory
from shoal.lazy.classes import dataclass
from shoal.library import notes
from shoal.people.belongings import visible
from shoal.queueing import team
from shoal.results.outcome import Headline, headline_of
from shoal.results.plain import Malformed, plain, read
from shoal.runs.documents import read_json
from shoal.runs.folder import ACTIVE, ENDED, RUN_NAME, Run, find_run, is_run, write_json
from shoal.runs.launch import resolve
from shoal.settings.config import RunConfig
from shoal.settings.when import is_penalised
from shoal.travel.journeys import catch_up, guests

FILE, VERSION = "summary.json", 4
MADE_FROM = ("config.json", "job.json", "state.json", "result.json", "error.json", "started", notes.FILE)
_FileStamps = list[list[int] | None]


@dataclass(frozen=True)
class Summary:
    """One run in a list. None where there is nothing to say: an exact fit has no epochs, a failed one no scores."""

    id: str
    state: str
    cause: str = ""
    reason: str = Reason.UNKNOWN
    model: str | None = None
    target: str | None = None
    file: str | None = None
    solver: str | None = None
    mode: str | None = None
    alpha: float | None = None
    l1_ratio: float | None = None
    epochs: float | None = None
    epochs_wanted: int | None = None
    distance: float | None = None
    train_r2: float | None = None
    train_rmse: float | None = None
    test_r2: float | None = None
    test_rmse: float | None = None
    headline: Headline | None = None  # where there is no R2
    started: float | None = None  # seconds since 1970
    duration: float | None = None  # seconds
    forked_from: str | None = None
    tags: tuple[str, ...] = ()
    note: str = ""
    name: str = ""  # that a person gave it
    search: str | None = None  # that it is a trial of
    archived: bool = False

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE and not self.archived

    @property
    def is_gradient(self) -> bool:
        return self.solver == "gradient"

    @property
    def file_name(self) -> str:
        return title(self.file or "")

    @property
    def made(self) -> float | None:
        """When it began, or, if it never did, when it was made, which its name says."""
        if self.started is not None:
            return self.started
        match = RUN_NAME.fullmatch(self.id)
        with contextlib.suppress(ValueError, OverflowError):
            return time.mktime(time.strptime(match[1], "%Y%m%d-%H%M%S")) if match else None
        return None

    def has_words(self, words: Iterable[str]) -> bool:
        """Whether all of them are somewhere in what a person knows it by."""
        told = (
            f"{self.id} {self.name} {self.file_name} {self.target or ''} {' '.join(self.tags)} {self.note}".casefold()
        )
        return all(word.casefold() in told for word in words)

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self)
        return found


_known: dict[str, tuple[_FileStamps, Summary]] = {}  # by folder or archive: what it was made from, and the account
_waiting: dict[str, tuple[_FileStamps, Summary]] = {}  # in the queue of a team, by folder: when its files last changed


# ------------------------------------------------------------------ lists


def summaries(archived: bool = False) -> list[Summary]:
    """All runs, the newest first; with those in the archive, if they are asked for."""
    notes.look()
    root, queue = str(runs_directory()), _glance()
    found = []
    for name in run_names():  # there may be thousands, so that every look at a file counts
        folder = f"{root}/{name}"
        if queue and (waiting := _waits_still(folder, queue)):
            found.append(waiting)
            continue
        stamps = _stamps(folder)
        if stamps[0] is not None or is_run(name):
            found.append(_account(folder, stamps, queue))
    here = {summary.id for summary in found}
    if archived:
        found += [summary for summary in _archived() if summary.id not in here]
        found.sort(key=lambda summary: summary.id, reverse=True)
    _forget_all_but(len(found))
    return found


def have_gone_on(seen: Sequence[Summary]) -> bool:
    """Whether one of these runs is not what it was when it was seen; time alone does not count."""
    notes.look()
    at, queue = str(runs_directory()), _glance()
    now = ((one, _account(folder, _stamps(folder), queue)) for one in seen if (folder := f"{at}/{one.id}"))
    return any(_timeless(after) != _timeless(before) for before, after in now)


def _timeless(summary: Summary) -> Summary:
    return dataclasses.replace(summary, duration=None)


def run_names() -> list[str]:
    """The folders of runs that whoever acts may see, the newest first."""
    catch_up()
    return visible(runs_directory(), sorted({*names_in(runs_directory())} - guests(), reverse=True))


def _archived() -> list[Summary]:
    names = [name for name in names_in(archive_directory()) if name.endswith(".tar.xz") and name[0] != "."]
    return [archived_summary(name.removesuffix(".tar.xz")) for name in visible(archive_directory(), names)]


def _forget_all_but(count: int) -> None:
    """Runs that are gone leave the memory, of this home and of any other."""
    for known in (_known, _waiting):
        if len(known) > 2 * count + 1000:
            known.clear()


def find_named(name: str) -> Run:
    """By the name that a person gave a run (the newest of those), or by its own; StateError if there is none."""
    try:
        return resolve(name)
    except StateError:
        named = next((summary for summary in summaries() if summary.name == name), None)
        found = find_run(named.id) if named and name else None
        if found is None:
            raise
        return found


# ------------------------------------------------------------------ one run


def summary_of(run: Run) -> Summary:
    """From memory or summary.json if the run has ended and nothing in its folder has changed since; else anew."""
    notes.look()
    return _account(str(run.directory), key_of(run), _glance())


def _glance() -> team.Glance | None:
    """At the queue of a team; None where there is none, or it cannot be read."""
    with contextlib.suppress(TrainingError):
        return team.glance() if team.is_set() else None
    return None


def _account(folder: str, key: _FileStamps, queue: team.Glance | None) -> Summary:
    known = _known.get(folder)
    if known and known[0] == key:
        return known[1]
    run = Run(Path(folder))
    kept = _kept(f"{folder}/{FILE}", key)
    if kept is None:
        changed = _changed(folder)
        kept = _made(run)
        if kept.state not in ENDED:
            if queue and kept.state == "queued":
                _waiting[folder] = changed, kept
            return kept
        with contextlib.suppress(OSError):  # without room it is made anew the next time
            write_json(run.directory / FILE, {"version": VERSION, "key": key, "summary": kept.as_dict()})
    _known[folder] = key, kept
    return kept


def _waits_still(folder: str, queue: team.Glance) -> Summary | None:
    """The account of a run that waits in the queue of a team as it did before, but for how many are ahead of it.

    Hundreds may. Each of their files is renamed into place, so that one look at the folder tells whether any is new.
    """
    known = _waiting.get(folder)
    if known is None:
        return None
    changed, before = known
    place = team.place_at(queue, before.id) if _changed(folder) == changed else None
    if place is None:
        del _waiting[folder]
        return None
    if place == before.cause:
        return before
    found = object.__new__(Summary)  # a small part of the time that `dataclasses.replace` takes
    vars(found).update(vars(before), cause=place)
    _waiting[folder] = changed, found
    return found


def _changed(folder: str) -> _FileStamps:
    """When a file in it last got its name, or was removed; and what the team's database notes of it."""
    noted = notes.mark(os.path.basename(folder))
    try:
        return [[os.stat(folder).st_mtime_ns], noted]
    except OSError:
        return [None, noted]


def key_of(run: Run) -> _FileStamps:
    """Times and sizes of what an account is made from."""
    return _stamps(str(run.directory))


def _stamps(folder: str) -> _FileStamps:
    found: _FileStamps = []
    for name in MADE_FROM:
        try:
            status = os.stat(f"{folder}/{name}")
        except OSError:
            found.append(None)
        else:
            found.append([status.st_mtime_ns, status.st_size])
    if noted := notes.mark(os.path.basename(folder)):
        found.append(noted)
    return found


def _kept(path: str, key: _FileStamps) -> Summary | None:
    """The account in a file, if it was made from what is there now."""
    try:
        found = read_json(Path(path)) or {}
        if found.get("version") == VERSION and found.get("key") == key:
            return from_dict(found.get("summary"))
    except (DamagedFile, Malformed):  # it is made anew
        pass
    return None


def from_dict(values: Any) -> Summary:
    """Raises `Malformed` where a value is not what it should be."""
    return read(Summary, values)


def archived_summary(run_id: str) -> Summary:
    """The account beside an archive; if that is gone, just what the name says."""
    path = f"{archive_directory()}/{run_id}.json"
    try:
        status = os.stat(path)
        key: _FileStamps = [[status.st_mtime_ns, status.st_size]]
        known = _known.get(path)
        if known and known[0] == key:
            return known[1]
        found = dataclasses.replace(from_dict(read_json(Path(path))), id=run_id, archived=True)
    except (OSError, DamagedFile, Malformed) as error:
        why = error.message if isinstance(error, DamagedFile) else f"The account of '{path}' is damaged or gone."
        cause = f"What is known of this run is inside its archive: restore it. {why}"
        return Summary(run_id, "failed", cause, Reason.BAD_STATE, archived=True)
    _known[path] = key, found
    return found


# ------------------------------------------------------------------ made anew


def _made(run: Run) -> Summary:
    config, result = run.config, _mapping(run.result)
    standing = run.standing
    state = standing.state
    about = notes.seen(run)
    gradient = run.is_gradient
    done = {"epochs": _number(result.get("epochs")), "distance": _number(result.get("distance_to_optimum"))}
    if gradient and not result:
        done = _done_so_far(run)
    train, test = _mapping(result.get("train")), _mapping(result.get("test"))
    penalised = is_penalised({**_usual(), **config})
    return Summary(
        id=run.id, state=state, cause=str(standing), reason=standing.reason,
        model=_text(config.get("model")), target=_text(config.get("target")), file=_text(config.get("file")),
        solver=_text(config.get("solver")),
        mode=_text(config.get("mode")) if gradient else None,
        alpha=_number(result.get("alpha", config.get("alpha"))) if penalised else None,
        l1_ratio=_number(config.get("l1_ratio")) if config.get("model") == "elasticnet" else None,
        epochs=done["epochs"], epochs_wanted=_whole(config.get("epochs")) if gradient else None,
        distance=done["distance"], train_r2=_number(train.get("r2")), train_rmse=_number(train.get("rmse")),
        test_r2=_number(test.get("r2")), test_rmse=_number(test.get("rmse")),
        headline=headline_of(result.get("outcome")), started=run.started_at,
        duration=_duration(run, state, result), forked_from=_text(_mapping(run.job.get("forked_from")).get("run")),
        tags=about.tags, note=about.note, name=about.name, search=run.search,
    )  # fmt: skip


@functools.cache
def _usual() -> dict[str, Any]:
    return RunConfig().as_dict()


def _duration(run: Run, state: str, result: dict[str, Any]) -> float | None:
    """Of the work, where the result tells it; else since its process began."""
    total = _number(_mapping(result.get("timings")).get("total"))
    if total is not None:
        return total
    since = run.started_at
    if since is None or state == "queued":
        return None
    if state in ACTIVE:
        return max(0.0, time.time() - since)
    at = _said_at(run)
    return None if at is None else max(0.0, at - since)


def _said_at(run: Run) -> float | None:
    """When the run process last spoke."""
    with contextlib.suppress(DamagedFile):
        return _number((read_json(run.directory / "state.json") or {}).get("at"))
    return None


def _done_so_far(run: Run) -> dict[str, float | None]:
    """By the last record of training."""
    from shoal.runs.commands import metrics_of

    with contextlib.suppress(TrainingError, OSError), metrics_of(run) as storage:
        last = storage.last_round() if storage else None
        if last:
            return {"epochs": last.epoch, "distance": last.distance}
    return {"epochs": None, "distance": None}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    """A finite number."""
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if fits else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
