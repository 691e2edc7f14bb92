"""Every path under SHOAL_HOME, and names of folders there; what files say is known to those who write them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from shoal.errors import StateError
from shoal.utils import close_to_others
from shoal.words import listed

T = TypeVar("T")

STAMP = "%Y%m%d-%H%M%S"  # how names that begin with the time write it
RUN_NAME = re.compile(r"(\d{8}-\d{6})-(\d{7})")
LONGEST_NAME = 200  # bytes; systems refuse more than 255, some after we add an ending
UMASK = "SHOAL_UMASK"  # the person's own, for processes that ours start
LATEST = "last"  # the name of the newest run or search, wherever one is asked for
REMOVED = "removed-"  # what the names of things on their way out begin with
UNFINISHED = "unfinished-"  # of folders of the cache that are being made
SHARDS = "shards-"  # of folders of the cache that hold shards
DATA_FORMAT = 16  # of data sets in the cache: one of another format is never found again
_own: set[str] = set()  # home folders that were found to be this user's
MANIFEST = "manifest.json"  # in a folder of the cache once it is whole; its readers have a share of the lock on it


def home() -> Path:
    """Where everything is kept: SHOAL_HOME, or .shoal in the user's home folder.

    StateError for one that is another user's, whoever asks: what is in it is trusted, compiled kernels included.
    """
    path = Path(os.environ.get("SHOAL_HOME") or Path.home() / ".shoal").expanduser().absolute()
    if str(path) not in _own and _is_own(path):
        _own.add(str(path))
    return path


# ------------------------------------------------------------------ whose it is


def keep_private() -> None:
    """In a process of ours, first of all: files that it makes are for their owner only."""
    before = os.umask(0o077)
    os.environ.setdefault(UMASK, f"{before:o}")


def usual_umask() -> int:
    """Of files that a person asked for by name: as it was before a process of ours began; -1 where it is unchanged."""
    try:
        return int(os.environ[UMASK], 8) & 0o777
    except (KeyError, ValueError):
        return -1


def _is_own(path: Path) -> bool:
    """Whether a home folder is this user's; False if there is none yet, or it cannot be looked at."""
    mine = (0, os.geteuid())
    try:
        links = [place for place in (path, *path.parents) if place.is_symlink() and place.lstat().st_uid not in mine]
        owner = path.stat().st_uid
    except OSError:
        return False  # which is said by whoever needs it
    if owner != os.geteuid() or links:
        whose = f"the link {links[0]}" if links else "it"
        raise StateError(
            f"Expected SHOAL_HOME, '{path}', to belong to the user that runs Shoal (number {os.geteuid()}), but "
            f"{whose} belongs to another. Set SHOAL_HOME to a folder of your own."
        )
    return True


def tightened() -> str:
    """Close the home folder to other users of the machine; what was done, to be said, or nothing where all was well."""
    path = home()
    _is_own(path)  # whatever it was before
    try:
        found = path.stat()
        if not found.st_mode & 0o077:
            return ""
    except OSError:
        return ""  # there is none yet
    try:
        path.chmod(found.st_mode & 0o700)
    except OSError:
        return f"Other users of this machine can read '{path}', and its rights cannot be changed."
    close_to_others(path)  # what is in it too: a copy of the home keeps rights, not the folder around it
    return f"'{path}' could be read by other users of this machine; from now on only its owner can."


def make_folder(path: Path) -> None:
    """A folder and those above it; the home folder among them is for its owner only, whoever makes it."""
    if path.is_relative_to(own := home()) and not own.exists():
        own.parent.mkdir(parents=True, exist_ok=True)
        own.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(parents=True, exist_ok=True)


# ------------------------------------------------------------------ names, and what can be read


def by_beginning(name: str, known: Mapping[str, T], what: str, latest: bool = False) -> T | None:
    """What a person means: the one of that name, or of a beginning that only one name has; None if none has it.

    With `latest`, LATEST is the first of them: the newest.
    """
    if latest and name == LATEST:
        return next(iter(known.values()), None)
    found = [name] if name in known else [full for full in known if name and full.startswith(name)]
    if len(found) > 1:
        raise StateError(
            f"Expected the beginning of one {what}'s name, but {len(found)} begin with '{name}': "
            f"{listed(found, 5)}. Add more of it."
        )
    return known[found[0]] if found else None


def new_run_id() -> str:
    """A name that begins with the time to 100 nanoseconds, and comes after those of all runs, whatever the clock says:
    names in order are runs in order."""
    now = time.time_ns()
    name = f"{time.strftime(STAMP, time.localtime(now // 10**9))}-{now // 100 % 10**7:07d}"
    archived = (entry.partition(".")[0] for entry in names_in(archive_directory()))
    return after_all(name, [*names_in(runs_directory()), *archived], RUN_NAME)


def after_all(name: str, others: Iterable[str], form: re.Pattern[str]) -> str:
    """The name, or the next one behind all `others` of this form: a time and a number of as many digits as it has.

    The clock may have been put back, and it is in every autumn.
    """
    newest = max((other for other in others if form.fullmatch(other)), default="")
    if name > newest or not (found := form.fullmatch(newest)):
        return name
    number = int(found[2]) + 1
    if number < 10 ** len(found[2]):
        return f"{found[1]}-{number:0{len(found[2])}d}"
    with contextlib.suppress(ValueError, OverflowError):  # digits that are no time
        later = datetime.strptime(found[1], STAMP) + timedelta(seconds=1)
        return f"{later:{STAMP}}-{0:0{len(found[2])}d}"
    return name


def entry_name(text: str) -> str:
    """What a text, which may come from an address, can mean in one of our folders; empty for what is no name there."""
    name = Path(text).name
    if name == ".." or "\0" in name or len(name.encode("utf-8", "replace")) > LONGEST_NAME:
        return ""
    return name if name.isascii() or name == name.encode("utf-8", "replace").decode() else ""


def names_in(folder: Path) -> list[str]:
    """The names in a folder; none if it is not there. One that cannot be read is said to be so: it is not empty."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(
            f"Expected to read the folder '{folder}', got: {error.strerror}. Check its permissions and its disk."
        ) from None


def why_unreadable(path: Path) -> str:
    """Why nobody can tell whether a file is there; empty if one can."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return str(error.strerror)
    return ""


def can_be(path: Path) -> bool:
    """Whether a file is there, or nobody can tell."""
    return path.exists() if not why_unreadable(path) else True


# ------------------------------------------------------------------ folders and files


def restored_path(name: str) -> Path:
    """Where a file of a backup lay below the home that it was made of, see `backup`."""
    return home() / name


def cache_directory(at: Path | None = None) -> Path:
    """Data sets and shards by their keys; `at` is another home than this one."""
    return (at or home()) / "cache"


def cache_index(cache: Path) -> Path:
    """Which key a file had when it was last read, an entry for each question."""
    return cache / "index"


def runs_directory() -> Path:
    """A folder for each run, see `runs.folder`."""
    return home() / "runs"


def jobs_directory() -> Path:
    """Where `processes.jobs` leave their answers: TASK/FINGERPRINT."""
    return home() / "jobs"


def searches_directory() -> Path:
    return home() / "searches"


def models_directory() -> Path:
    """Saved models: NAME/vNUMBER, see `library.saved_models`."""
    return home() / "models"


def fetched_directory() -> Path:
    """Model files of a team's database that were needed on this machine, see `shelf.fetched`."""
    return home() / "fetched"


def guests_directory() -> Path:
    """A mark for each run of another home that hosts of this one work on, see `travel.journeys`."""
    return home() / "guests"


def moved_models_directory() -> Path:
    """Folders of models that were moved into a team's database, see `shelf.moving`."""
    return home() / "models.moved"


def modules_directory() -> Path:
    """PyTorch modules and rows that runs were started with, see `networks.stored`."""
    return home() / "modules"


def compiled_directory() -> Path:
    """What PyTorch compiled of modules, see `networks.compiling`; made again where it is gone."""
    return home() / "compiled"


def archive_directory() -> Path:
    """Packed runs and their accounts, see `library.archives`."""
    return home() / "archive"


def trash_directory() -> Path:
    """Folders of runs on their way out."""
    return home() / "trash"


def uploads_directory() -> Path:
    """Files from browsers, by their content: HASH/NAME."""
    return home() / "uploads"


def samples_directory() -> Path:
    """Example tables and made-up ones."""
    return home() / "samples"


def kernels_directory() -> Path:
    """Kernels that were built on first use, where the package's own folder cannot be written to."""
    return home() / "kernels"


def queue_directory() -> Path:
    """The locks of the queue, see `runs.scheduling`."""
    return home() / "queue"


def waiting_directory() -> Path:
    """The tickets of runs that wait: NUMBER-RUN, in the order of their numbers."""
    return queue_directory() / "waiting"


def at_work_directory() -> Path:
    """The tickets of runs at work that go on by themselves if their process is killed, by the same names."""
    return queue_directory() / "working"


def slot_file(number: int) -> Path:
    """Locked by the run that has this slot."""
    return queue_directory() / f"slot-{number}"


def password_file() -> Path:
    return home() / "password"


def home_mark_file() -> Path:
    """By which machines of a team know that they see the same home, see `queueing.homes`."""
    return home() / "home.mark"


def session_key_file() -> Path:
    return home() / "session.key"


def ended_sessions_file() -> Path:
    return home() / "ended_sessions.json"


def tokens_file() -> Path:
    """What is kept of the tokens for programs, see `library.tokens`."""
    return home() / "tokens.json"


def people_file() -> Path:
    """Accounts and the log of deeds, see `people`; there once somebody has an account."""
    return home() / "people.sqlite"


def people_elsewhere_file() -> Path:
    """There where the accounts of this home are in a team's database, see `people.place`."""
    return home() / "people.in-database"


def request_file(digest: str) -> Path:
    """What became of a request of a program that may come twice, see `dashboard.api.keys`."""
    return home() / "requests" / f"{digest}.json"


def recent_tables_file() -> Path:
    return home() / "recent.json"


def run_columns_path() -> Path:
    return home() / "columns" / "runs.json"


def table_choices_file(key: str) -> Path:
    """What was chosen for a table of the dashboard, see `dashboard.tables.choices`; a key may be any text."""
    return home() / "tables" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def dashboard_log() -> Path:
    return home() / "dashboard.log"


def opening_page(port: int) -> Path:
    """A page that leads into the dashboard at this port, for its owner only."""
    return home() / f"dashboard-{port}.html"


def error_log() -> Path:
    """Traces of what the command line did not foresee."""
    return home() / "error.log"


def removed_path() -> Path:
    """A new name for something on its way out, on the disk that everything here is on."""
    return home() / f"{REMOVED}{os.urandom(8).hex()}"
