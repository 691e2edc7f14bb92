"""Uploaded files on disk: under SHOAL_HOME/uploads, by their content and a harmless name; nothing is parsed here."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from shoal.dashboard.tables.room import Room
from shoal.errors import ConfigError, DiskFull
from shoal.files.locks import alone_with
from shoal.home import uploads_directory
from shoal.people.acting import person
from shoal.people.belongings import claim, sees, thing_at
from shoal.people.deeds import allow, check
from shoal.people.rights import SERVICE, Verb
from shoal.utils import is_full

CHUNK = 1 << 20
ENDINGS = ("csv", "tsv", "txt", "gz", "zip", "bz2", "xz", "zst", "parquet", "xlsx", "xlsm", "svm", "libsvm", "svmlight")
FOLDER = re.compile(r"[0-9a-f]{24}")
UNFINISHED = ".unfinished-"
AT_HAND = "X-Shoal-Table"  # header with the key of the table at hand in a tab, percent-encoded
MOST = 20 * 10**9  # bytes of one file, unless SHOAL_MAX_UPLOAD says otherwise
UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SPARE = 64 << 20  # bytes that all uploads together leave free: runs write their records to the same disk
MAKE_ROOM = (
    "Free some space (the System page can clean up), or set SHOAL_HOME to a folder on a larger disk, and try again."
)
NO_ROOM = f"The disk has no room for the rest of this file, and nothing of it was kept. {MAKE_ROOM}"

NAME_BYTES = 160  # of a name without its ending; file systems take 255

_room = Room()


def safe_name(name: str) -> str:
    """The last part of a name, with letters, digits, dots, dashes and underscores only; never hidden, never long.

    Latin letters lose their accents, those of other scripts stay as they are: the name can still be read.
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    bare = re.sub("(?<=[A-Za-z])[\u0300-\u036f]+", "", unicodedata.normalize("NFD", last))
    signs = (sign if _may_be_in_a_name(sign) else "/" for sign in unicodedata.normalize("NFC", bare))
    plain = re.sub("/+", "_", "".join(signs)).lstrip(".-")
    stem, dot, ending = plain.partition(".")
    short = stem[:60].encode()[:NAME_BYTES].decode(errors="ignore")
    return f"{short}{dot}{ending[-20:]}" if stem else "table.csv"


def _may_be_in_a_name(sign: str) -> bool:
    """Letters and digits, and the marks that some scripts write them with; nothing that cannot be seen."""
    return sign.isalnum() or sign in "._-" or unicodedata.category(sign) in ("Mn", "Mc")


# ------------------------------------------------------------------ a file that comes in pieces


class Incoming:
    """A file of which more may come; it gets its name when it is complete."""

    def __init__(self, folder: Path, announced: int) -> None:
        self.folder = folder
        self.size = 0
        self._digest = hashlib.sha256()
        if not _room.keep(self, announced, folder, SPARE):
            raise DiskFull(shortage(announced) or NO_ROOM)
        try:
            self._descriptor, self._unfinished = _locked_file(folder)
        except BaseException:
            _room.give_back(self)
            raise

    def write(self, piece: bytes | bytearray) -> None:
        if not _room.take(self, len(piece), self.folder, SPARE):
            raise DiskFull(NO_ROOM)
        self._digest.update(piece)
        rest = memoryview(piece)
        with _full_disk_in_words():
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        self.size += len(piece)

    def settle(self, name: str) -> Path:
        """Give the file its name; one that is there already stays, so that its data set is found again."""
        path = own_place(self.folder, self._digest.hexdigest(), safe_name(name))
        new = not path.exists()
        path.parent.mkdir(exist_ok=True)
        if new or thing_at(path).owners:  # what belongs to nobody stays everybody's
            claim(path)
        allow(Verb.START, path, "file uploaded")
        if new:
            self._unfinished.replace(path)
        return path

    def close(self) -> None:
        self._unfinished.unlink(missing_ok=True)  # what is not settled is not wanted
        os.close(self._descriptor)
        _room.give_back(self)


def own_place(folder: Path, digest: str, name: str) -> Path:
    """Where a file of this content and name belongs: the same bytes of two people are two uploads.

    What one of them keeps is then neither named nor to be guessed by the other, who could not tell whether it is there.
    A file of before that was so, which belongs to them or to nobody, is found where it is.
    """
    plain, who = folder / digest[:24] / name, person().name
    if not who or (plain.exists() and (not (owners := thing_at(plain).owners) or who in owners)):
        return plain
    return folder / hashlib.sha256(f"{digest} {who}".encode()).hexdigest()[:24] / name


@contextlib.contextmanager
def incoming(announced: int = 0) -> Iterator[Incoming]:
    """Room for a new file, of which so many bytes are announced; nothing of it stays unless it is settled."""
    check(Verb.START, SERVICE, "file uploaded")
    folder = uploads_directory()
    with _full_disk_in_words():
        folder.mkdir(parents=True, exist_ok=True)
        sweep()
        upload = Incoming(folder, announced)
    try:
        yield upload
    finally:
        upload.close()


def _locked_file(folder: Path) -> tuple[int, Path]:
    """A new file that is locked while its writer lives, so that a killed server's remains can be told from it."""
    while True:
        path = folder / f"{UNFINISHED}{secrets.token_hex(8)}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if path.exists():  # a sweep may have come before the lock
            return descriptor, path
        os.close(descriptor)


def sweep() -> None:
    """Remove what killed servers left behind: unfinished files that nobody holds."""
    for path in uploads_directory().glob(f"{UNFINISHED}*"):
        if path.is_dir():
            _sweep_folder(path)
            continue
        with contextlib.suppress(OSError), alone_with(path) as alone:
            if alone:
                path.unlink(missing_ok=True)


def _sweep_folder(path: Path) -> None:
    """A folder is made in a moment: one that is an hour old was left by a server that was killed then."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > 3600:
            shutil.rmtree(path, ignore_errors=True)


def largest() -> int:
    """The most bytes that one file may have: SHOAL_MAX_UPLOAD, such as 500MB or 20 GB."""
    given = os.environ.get("SHOAL_MAX_UPLOAD", "").strip()
    if not given:
        return MOST
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]B)?", given, re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        raise ConfigError(f"Expected a size such as 500MB or 20GB in SHOAL_MAX_UPLOAD, got '{given}'. Change it.")
    return int(float(found[1]) * UNITS[(found[2] or "").upper()])


def shortage(size: int) -> str:
    """Why a file of this size does not fit on the disk; empty if it does."""
    left = _room.left(uploads_directory(), SPARE)
    if size <= left:
        return ""
    return (
        f"The disk has no room for this file: it has {size / 1e6:,.0f} MB, and there are {left / 1e6:,.0f} MB for it "
        f"beside what others upload. {MAKE_ROOM}"
    )


@contextlib.contextmanager
def _full_disk_in_words() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise DiskFull(
                f"The disk is full: the file could not be saved, and nothing of it was kept. {MAKE_ROOM}"
            ) from error
        raise


# ------------------------------------------------------------------ find


def key_of(path: Path) -> str | None:
    """What an address calls this upload; None for a file that is none."""
    return f"{path.parent.name}/{path.name}" if path.parent.parent == uploads_directory() else None


def find(key: str) -> Path | None:
    """The upload with this key. Keys come from addresses, so nothing but hash and name gets through."""
    folder, _, name = key.partition("/")
    if not FOLDER.fullmatch(folder) or not name or safe_name(name) != name:
        return None
    path = uploads_directory() / key
    there = path.is_file() or path.is_dir()  # a folder holds several that came together
    return path if there and sees(path) else None
