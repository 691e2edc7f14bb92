"""A run on its way between homes: sent off with its job, taken by a run host, brought home to where it was launched.

The files of a run count in one home at a time, which its parcel names. A host of that home has them; one of another
fetches what the database has, and from then on its home counts. The home of origin gets the documents back while the
run is at work elsewhere, and everything when it has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shoal.database.address import is_set
from shoal.errors import StateError, TrainingError
from shoal.files.locks import is_held, lock_file
from shoal.home import guests_directory, make_folder, names_in, runs_directory
from shoal.queueing.homes import home_mark
from shoal.travel import packing
from shoal.travel.parcels import SMALL, FileMark, Parcel, is_table, parcels
from shoal.utils import identity_of

LOOK = 0.5  # seconds for which a look at the runs that are elsewhere is good enough
MOST = 0.1  # seconds of one look after which no other run is brought
REST = 30.0  # seconds until what is damaged on its way home is looked at again
ENDINGS = ("result.json", "error.json")

_looking, _looked = threading.Lock(), 0.0
_seized: set[tuple[int, str, int]] = set()  # by process, run and fence
_refused: dict[str, tuple[float, str]] = {}  # when and why what came of a run could not be brought home


# ------------------------------------------------------------------ off


def send_off(folder: Path, config: Mapping[str, Any]) -> str:
    """Give all that a run begins with to the database, if it travels; the home whose hosts alone may take it, or none.

    A run that was elsewhere has been brought home before.
    """
    tables = packing.tables(config) if not config.get("out") else None
    checkpoint = packing.newest_checkpoint(folder)
    if tables is None or packing.size_of(checkpoint) > packing.CHECKPOINT:
        parcels().drop(folder.name)
        return home_mark()
    everything = {**packing.documents(folder), **checkpoint, **tables}
    parcels().begin(folder.name, home_mark(), packing.contents(everything))
    return ""


# ------------------------------------------------------------------ for run hosts


def is_to_be_fetched(run: str) -> bool:
    """Whether a host of this home has not the files that count."""
    parcel = parcels().find(run)
    return parcel is not None and (parcel.home != home_mark() or not (runs_directory() / run).is_dir())


def fetch(run: str, fence: int) -> None:
    """All of a run into this home, which counts from then on; StateError where another host holds it by now."""
    folder, parcel = runs_directory() / run, parcels().find(run)
    if parcel is None:
        raise StateError(f"Nothing is known of the run {run} any more: somebody may have removed it.")
    with contextlib.ExitStack() as arriving:
        if parcel.origin != home_mark():
            make_folder(guests_directory())
            if lock := lock_file(guests_directory() / run):
                arriving.enter_context(lock)
        make_folder(folder)
        _fetch(parcel, folder, fence)


def _fetch(parcel: Parcel, folder: Path, fence: int) -> None:
    seize(folder)
    packing.remove_others(folder, parcel.files)
    coming = _from_elsewhere(parcel) if parcel.origin == home_mark() else parcel.files
    places = {name: packing.place_of(folder, name) for name in packing.in_order(coming)}
    tables = [path for name, path in places.items() if is_table(name) and path.exists()]
    known = {packing.owner_of(one) for path in tables for one in (path, path.parent)}
    for name, path in places.items():
        mark = parcel.files[name]
        if path not in known and not packing.is_here(path, mark):  # whose a table is that was here stays as it is
            packing.put(path, mark, parcels().pieces(parcel.run, name))
    if not parcels().settle(parcel.run, fence, home_mark()):
        raise StateError(f"Another host has taken over the run {parcel.run}, or it was ended.")


def is_guest(folder: Path) -> bool:
    """Whether a run was launched in another home."""
    return (guests_directory() / folder.name).exists()


def guests() -> set[str]:
    """Runs of other homes that are or were at work in this one: people look at them where they launched them."""
    return set(names_in(guests_directory())) if is_set() else set()


class Sent:
    """What a host has sent of one run: only what has changed since is sent again."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, ...]] = {}

    def send(self, folder: Path, fence: int, all_of_it: bool = False) -> bool:
        """The newest checkpoint with the documents of its moment, and of a guest small ones whenever they change.

        `all_of_it` when it has ended here: then, and not before, its last word goes too. Whether its checkpoint is
        small enough to travel: without it the run goes on in this home only.
        """
        if not all_of_it and (folder / packing.UNSENT).exists():
            return True  # what it goes on from is never ahead of its records
        checkpoint = packing.newest_checkpoint(folder)
        if not (travels := packing.size_of(checkpoint) <= packing.CHECKPOINT):
            checkpoint = {}
        due = all_of_it or bool(self._changed(checkpoint))
        if not due and not is_guest(folder):
            return travels
        wanted = {**checkpoint, **packing.documents(folder)}
        changed = self._changed(wanted)
        if not due:  # a long log is not sent anew for each of its lines
            changed = {name: path for name, path in changed.items() if path.stat().st_size <= SMALL}
        if changed:
            seen = {name: identity_of(path) for name, path in changed.items()}
            contents = packing.contents(changed)
            if all_of_it or not any((folder / name).exists() for name in ENDINGS):
                parcels().send(folder.name, fence, contents, wanted)
                self._seen |= seen
        return travels

    def _changed(self, files: Mapping[str, Path]) -> dict[str, Path]:
        return {name: path for name, path in files.items() if self._seen.get(name) != identity_of(path)}


def is_wanted_elsewhere(folder: Path) -> bool:
    """Whether others need what a run has left that has ended here: its home of origin, or the next host."""
    return is_guest(folder) or not (folder / "result.json").exists()


def see_off(held: Iterable[str]) -> list[str]:
    """Remove guests that have ended, or went on elsewhere, also those that a killed host has left; their names."""
    with contextlib.suppress(StateError):
        coming = {name for name in guests() if is_held(guests_directory() / name)}
        if going := guests() - coming - set(held):
            going -= parcels().still_at(home_mark(), sorted(going))
        for name in going:
            shutil.rmtree(runs_directory() / name, ignore_errors=True)
            (guests_directory() / name).unlink(missing_ok=True)
        return sorted(going)
    return []


# ------------------------------------------------------------------ home again


def catch_up() -> None:
    """Bring what runs of this home do elsewhere, as far as that was not done a moment ago; while the database is away
    nothing comes."""
    global _looked
    if not is_set() or time.monotonic() - _looked < LOOK or not _looking.acquire(blocking=False):
        return
    try:
        with contextlib.suppress(TrainingError, OSError):
            began = time.monotonic()
            for parcel in parcels().away_from(home_mark()):
                if time.monotonic() - began > MOST:
                    return  # whoever looks next goes on: a list of runs is not to wait for all of them
                if not _rests(parcel.run) and _is_news(parcel):
                    _bring(parcel.run)
        _looked = time.monotonic()
    finally:
        _looking.release()


def _bring(run: str) -> None:
    """One that is damaged keeps no other from coming; where it is this disk or the database, none can come."""
    try:
        bring_home(run)
        _refused.pop(run, None)
    except StateError as error:
        _refused[run] = time.monotonic(), error.message


def _rests(run: str) -> bool:
    return run in _refused and time.monotonic() - _refused[run][0] < REST


def held_up(run: str) -> tuple[str, str] | None:
    """A state and why, where this process has found that what a run did elsewhere cannot be brought here."""
    found = _refused.get(run)
    return ("interrupted", f"What it did in another home cannot be had. {found[1]}") if found else None


def bring_home(run: str) -> None:
    """What counts of a run, where that is elsewhere: documents while it is at work, everything when it has ended."""
    folder = runs_directory() / run
    with parcels().held(run) as held:
        if held is None or held.parcel.home == home_mark() or held.parcel.origin != home_mark():
            return
        parcel = held.parcel
        if not folder.is_dir():  # removed by a person
            if not parcel.is_open:
                held.drop()
            return
        _seize_once(parcel)
        (folder / packing.UNSENT).unlink(missing_ok=True)  # of rounds that are made again there
        wanted = _wanted(parcel)
        if not parcel.is_open:
            packing.remove_others(folder, parcel.files)
        for name in ENDINGS:
            if name not in wanted:
                (folder / name).unlink(missing_ok=True)
        places = {name: packing.place_of(folder, name) for name in packing.in_order(wanted)}
        news = [name for name, path in places.items() if not packing.is_here(path, wanted[name])]
        small = held.small(news)
        for name in news:
            pieces = iter([small[name]]) if name in small else held.pieces(name)
            packing.put(places[name], wanted[name], pieces)
        if parcel.is_finished:
            held.drop()
        elif not parcel.is_open:
            held.settle(parcel.origin)


def origin_of(run: str) -> str:
    """The home that a run was launched in, if that is another one; empty where nobody knows."""
    with contextlib.suppress(TrainingError):
        parcel = parcels().find(run) if is_set() else None
        return parcel.origin if parcel and parcel.origin != home_mark() else ""
    return ""


def forget(folder: Path) -> None:
    """A run of this home is removed, and what the database has of it."""
    if is_set() and not is_guest(folder):
        parcels().drop(folder.name)


def _is_news(parcel: Parcel) -> bool:
    folder = runs_directory() / parcel.run
    if not parcel.is_open or not folder.is_dir() or _seizing(parcel) not in _seized:
        return True
    wanted = _wanted(parcel)
    return any(not packing.is_here(packing.place_of(folder, name), mark) for name, mark in wanted.items())


def _wanted(parcel: Parcel) -> dict[str, FileMark]:
    """All that comes back now: tables never left, and of a run at work its ending waits until all of it is there."""
    files = _from_elsewhere(parcel)
    if not parcel.is_open:
        return {name: mark for name, mark in files.items() if not is_table(name)}
    if any(name in files for name in ENDINGS):
        return {}
    return {name: mark for name, mark in files.items() if "/" not in name and mark.size <= SMALL}


def _from_elsewhere(parcel: Parcel) -> dict[str, FileMark]:
    """What counts in the home of origin as it comes: whose a run is, and who sees it, is said there alone."""
    return {name: mark for name, mark in parcel.files.items() if name not in packing.SAID_AT_HOME}


def _seize_once(parcel: Parcel) -> None:
    if _seizing(parcel) not in _seized:
        seize(runs_directory() / parcel.run)
        _seized.add(_seizing(parcel))


def _seizing(parcel: Parcel) -> tuple[int, str, int]:
    return os.getpid(), parcel.run, parcel.fence


def seize(folder: Path) -> None:
    """Another lock in the place of the one that is there: a process which has that one, and was taken for dead, gives
    no file a name any more (`processes.warm.FolderFence`)."""
    own = folder / f".lock-{os.urandom(4).hex()}"
    lock = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.replace(own, folder / "lock")
    os.close(lock)
