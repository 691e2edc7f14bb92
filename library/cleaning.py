"""How to clean up under SHOAL_HOME while runs are at work; what there is, is in `inventory`. No command line, no pages.

What is in use stays. Readers of a data set or of shards have a share of the lock on its manifest (`locks.hold`), run
processes have the lock of their folder, and configs name the files of runs that wait or work. What goes is renamed to
SHOAL_HOME/removed-* first, under that lock, and deleted then: whoever comes at the same moment finds a whole folder or
none. Links are neither followed nor removed: nothing outside SHOAL_HOME is touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path

from shoal.errors import ResourceError, TrainingError
from shoal.files.locks import alone_with, lock_file
from shoal.files.parts import named, uploads_again
from shoal.home import (
    MANIFEST,
    REMOVED,
    cache_directory,
    cache_index,
    home,
    jobs_directory,
    names_in,
    removed_path,
    runs_directory,
    searches_directory,
    trash_directory,
)
from shoal.lazy.classes import dataclass
from shoal.library import archives
from shoal.library.cache_policies import first_to_go
from shoal.library.disk.references import (
    data_sets_of,
    folders_of_modules,
    json_of,
    modules_of_archives,
    rows_of_modules,
    uploads_of_models,
)
from shoal.library.inventory import Item, entries, items
from shoal.library.kinds import DiskKind, kind_of
from shoal.people.deeds import allow
from shoal.people.rights import SERVICE, Verb
from shoal.queueing import team
from shoal.runs import tickets
from shoal.runs.folder import ENDED, PATIENCE, Run

DAY = 86_400.0
ABANDONED = 3600.0  # seconds without a change after which something unfinished that has no lock is nobody's
FILES = ("uploads", "samples", "fetched")  # kinds that runs and jobs name as their files

IN_USE = "in use right now"
NEEDED = "needed by a run that waits or works"
AT_WORK = "still waiting or at work"
REFERRED = "used by a run or model that still exists"
AWAY = "with records in a database that cannot be reached"
ELSEWHERE = "on another disk, or not ours to move"


@dataclass(frozen=True)
class Criteria:
    """Which of a kind are to go: all, those without a change for so many days, those that no run or model refers to;
    or as many of these as it takes to free so many bytes, by the policy of that name."""

    older_than: float | None = None
    unused: bool = False
    enough: int | None = None
    first: str = "oldest"


ALL = Criteria()


@dataclass(frozen=True)
class CleaningPlan:
    """What a choice would remove, and how many stay for which reason."""

    kind: DiskKind
    items: tuple[Item, ...]
    kept: Counter[str] = field(default_factory=Counter)

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.items)


@dataclass(frozen=True)
class Cleaned:
    """What was removed, and how many stay for which reason."""

    kind: DiskKind
    count: int
    bytes: int
    kept: Counter[str]


# ------------------------------------------------------------------ who needs what


class _Needs:
    """What runs and jobs refer to, as they are at this moment."""

    def __init__(self) -> None:
        self.runs = _runs_in(runs_directory())  # also one that is being launched and has no config yet
        jobs = [run for name in names_in(jobs_directory()) for run in _runs_in(jobs_directory() / name)]
        self.searches = _runs_in(searches_directory())
        waiting = {*(ticket.run_id for ticket in tickets.tickets()), *team.glance().jobs}
        self.active = {run.directory: run for run in [*self.runs, *jobs, *self.searches] if _is_active(run, waiting)}
        self.files = {path for run in self.active.values() for path in _files_of(run)}

    def referred(self) -> set[str]:
        """Files of all runs and searches that exist, ended ones too: they may go on, be forked or looked at again."""
        return self.files | {path for run in [*self.runs, *self.searches] for path in _files_of(run)}


def _runs_in(folder: Path) -> list[Run]:
    """Nothing is cleaned while nobody can tell who needs it: a folder that cannot be read is an error."""
    found = [folder / name for name in (names_in(folder) if os.path.isdir(folder) or folder.is_symlink() else ())]
    return [Run(path) for path in found if path.is_dir() and not path.is_symlink()]


def _is_active(run: Run, waiting: set[str]) -> bool:
    """As `Run.is_active`, from what can be known without reading: most runs have ended long ago."""
    if run.is_alive or run.id in waiting:
        return True
    is_new = not (run.directory / "started").exists() and time.time() - _changed(run.directory) < PATIENCE
    return is_new and run.is_active


def _files_of(run: Run) -> Iterator[str]:
    names = [*named(uploads_again(run.config)["file"]), str(run.job.get("model") or "")]
    return (os.path.realpath(os.path.expanduser(name)) for name in names if name)


_Reason = Callable[[Item], str]  # why an item stays; empty if it may go


def _reason(kind: DiskKind, choice: Criteria) -> _Reason:
    needs = _Needs()
    if kind.name in ("runs", "jobs", "searches"):
        return lambda item: AT_WORK if item.path in needs.active else ""
    if kind.name == "checkpoints":
        return lambda item: AT_WORK if item.path.parent in needs.active else ""
    if kind.name == "shards":
        return lambda item: IN_USE if _is_read(item.path) else ""
    if kind.name == "data":
        return _reason_of_data(needs, choice)
    if kind.name in FILES:
        return _reason_of_files(needs, choice)
    if kind.name == "networks":
        return _reason_of_networks(needs, choice)
    if kind.name == "leftovers":
        return lambda item: "" if _is_abandoned(item) else IN_USE
    return lambda item: ""


def _reason_of_data(needs: _Needs, choice: Criteria) -> _Reason:
    needed = data_sets_of(needs.files)
    referred = data_sets_of(needs.referred()) if choice.unused else set()

    def reason(item: Item) -> str:
        if _is_read(item.path):
            return IN_USE
        if item.path.name in needed:
            return NEEDED
        return REFERRED if item.path.name in referred else ""

    return reason


def _reason_of_files(needs: _Needs, choice: Criteria) -> _Reason:
    referred = needs.referred() if choice.unused else set()
    hashes = uploads_of_models() if choice.unused else set()

    def reason(item: Item) -> str:
        inside = {os.path.realpath(item.path), *(os.path.realpath(e.path) for e in entries(item.path))}
        if inside & needs.files:
            return NEEDED
        return REFERRED if inside & referred or item.path.name in hashes else ""

    return reason


def _reason_of_networks(needs: _Needs, choice: Criteria) -> _Reason:
    needed, referred = folders_of_modules(needs.files), set[str]()
    if choice.unused:
        archived = modules_of_archives()
        referred = folders_of_modules(needs.referred()) | archived | rows_of_modules(archived)

    def reason(item: Item) -> str:
        if item.path.name in needed:
            return NEEDED
        if time.time() - item.changed < ABANDONED:  # stored a moment ago: its run may not be there yet
            return IN_USE
        return REFERRED if item.path.name in referred else ""

    return reason


def _is_read(folder: Path) -> bool:
    """Whether some process has a share of the lock on this data set or these shards."""
    with _alone_with(folder) as alone:
        return not alone


def _is_abandoned(item: Item) -> bool:
    if item.path.name.startswith(REMOVED) or item.path.parent == trash_directory():
        return True
    if (item.path / "lock").exists():
        with alone_with(item.path / "lock") as alone:
            return alone
    return time.time() - item.changed > ABANDONED


# ------------------------------------------------------------------ cleaning up


def plan(name: str, choice: Criteria = ALL) -> CleaningPlan:
    """What `clean` would do now."""
    kind = kind_of(name)
    before = None if choice.older_than is None else time.time() - choice.older_than * DAY
    reason, kept, go, found = _reason(kind, choice), Counter[str](), [], items()
    for item in (item for item in found if item.kind == kind.name):
        why = f"changed in the last {choice.older_than:g} days" if before and item.changed > before else reason(item)
        if why:
            kept[why] += 1
        else:
            go.append(item)
    go = go if choice.enough is None else first_to_go(go, choice.first, choice.enough)
    return CleaningPlan(kind, tuple(_with_checkpoints(go, found) if name == "runs" else go), kept)


def _with_checkpoints(runs: Iterable[Item], found: Iterable[Item]) -> Iterator[Item]:
    """Runs as large as they are with their checkpoints, which go with them."""
    inside = {item.path.parent: item.bytes for item in found if item.kind == "checkpoints"}
    return (Item(item.kind, item.path, item.bytes + inside.get(item.path, 0), item.changed) for item in runs)


def clean(name: str, choice: Criteria = ALL) -> Cleaned:
    """Remove what the choice names and nobody needs; what came to be needed meanwhile stays."""
    allow(Verb.ADMINISTER, SERVICE, f"cleaned up {name}")
    wanted = plan(name, choice)
    kept = wanted.kept.copy()
    gone: list[tuple[Item, Path]] = []
    for item in wanted.items:
        try:
            aside = _set_aside(item)
        except FileNotFoundError:  # somebody else was faster
            continue
        except OSError:
            kept[ELSEWHERE] += 1
            continue
        if isinstance(aside, Path):
            gone.append((item, aside))
        else:
            kept[aside] += 1
    if name == "data":
        _forget_missing_keys()
    _check_again(wanted.kind, choice, gone, kept)
    count, freed, failed = 0, 0, 0
    for item, aside in gone:
        _delete(aside)
        if aside.exists():
            failed += 1
        else:
            count, freed = count + 1, freed + item.bytes
    if failed:
        raise ResourceError(
            f"Removed {count} of {count + failed} {wanted.kind.many}; the rest could not be deleted and is in "
            f"'{home()}', under names that begin with '{REMOVED}'. Check whose files these are, then delete them."
        )
    return Cleaned(wanted.kind, count, freed, kept)


def _set_aside(item: Item) -> Path | str:
    """Give an item a name under which nobody looks for it; else why it stays."""
    if not _is_inside(item.path):
        return ELSEWHERE
    if item.kind == "archives":
        return _remove_archive(item.path.name.removesuffix(archives.ENDING))
    with contextlib.ExitStack() as stack:
        if item.kind in ("data", "shards") and not stack.enter_context(_alone_with(item.path)):
            return IN_USE
        if item.kind in ("runs", "jobs", "searches", "checkpoints"):
            directory = item.path.parent if item.kind == "checkpoints" else item.path
            lock = lock_file(directory / "lock")
            if lock is None:
                return AT_WORK
            stack.enter_context(lock)
            if _is_about_to_start(Run(directory)):
                return AT_WORK
        if item.kind == "runs":
            try:
                archives.forget_records(Run(item.path))
            except TrainingError:
                return AWAY
        aside = removed_path()
        item.path.rename(aside)
        if item.kind == "runs" and archives.archive_path(item.path.name).exists():
            _remove_archive(item.path.name)  # one that was not finished: it would take the run's place
        return aside


def _remove_archive(run_id: str) -> Path | str:
    """Archives have a lock and a way to go of their own; what is left of one is nothing."""
    try:
        archives.delete_archived(run_id)
    except TrainingError:
        return IN_USE
    return archives.archive_path(run_id)


def _is_about_to_start(run: Run) -> bool:
    """Whether a run whose lock we have was launched or resumed a moment ago, so that its process will come."""
    if tickets.has_ticket(run.id) or team.is_open(run.id):
        return True
    if (run.directory / "started").exists() or run.state in ENDED:
        return False
    written = [_changed(run.directory / name) for name in ("config.json", "state.json")]
    return time.time() - max(written) < PATIENCE


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _check_again(kind: DiskKind, choice: Criteria, gone: list[tuple[Item, Path]], kept: Counter[str]) -> None:
    """Put files back that a run which began meanwhile names: runs do not lock the file that they read."""
    if kind.name not in FILES or not gone:
        return
    needs = _Needs()
    files = needs.referred() if choice.unused else needs.files
    for item, aside in list(gone):
        names = [item.path, *(item.path / entry.name for entry in entries(aside))]
        if files & {os.path.join(os.path.realpath(path.parent), path.name) for path in names}:
            with contextlib.suppress(OSError):  # it is there again: the same file was uploaded once more
                aside.rename(item.path)
                gone.remove((item, aside))
                kept[NEEDED] += 1


def _is_inside(path: Path) -> bool:
    """Whether no link leads out of SHOAL_HOME on the way to this, nor is it one itself."""
    top = os.path.realpath(home())
    parent = os.path.realpath(path.parent)
    return not path.is_symlink() and (parent == top or parent.startswith(top + os.sep))


@contextlib.contextmanager
def _alone_with(folder: Path) -> Iterator[bool]:
    """Whether nobody reads this data set or these shards; nobody can begin to while the context lasts."""
    if not (folder / MANIFEST).exists():
        yield True  # damaged: readers make it anew
        return
    with alone_with(folder / MANIFEST) as alone:
        yield alone


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _forget_missing_keys() -> None:
    cache = cache_directory()
    for entry in entries(cache_index(cache)):
        key = str(json_of(Path(entry.path)).get("key", ""))
        if entry.name.endswith(".json") and not (cache / key / MANIFEST).exists():
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
