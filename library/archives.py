"""Archives of runs that have ended: the whole folder in one compressed file, and back; and runs that are deleted.

    SHOAL_HOME/archive/ID.tar.xz    the folder
                       ID.json      its account, so that lists can show it (see `accounts`)
                       .ID.*        being written or unpacked, or left behind by a process that was killed
    SHOAL_HOME/trash/               folders on their way out

A run's checkpoints thin themselves out and have an archive folder of their own while the run goes on (`checkpoints`);
that is inside the run's folder and goes into its archive as it is. This module begins where a run has ended.

At every moment a run is whole in one place at least: an archive gets its name once it is written and compared with the
folder, byte by byte; only then the folder goes. A folder gets its name once it is unpacked; only then the archive goes.
Where both are there, because somebody was killed in between, the folder counts and the archive is made anew or removed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import lzma
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from shoal.errors import DiskFull, Remedy, ResourceError, Standing, StateError, TrainingError
from shoal.files.locks import lock_file
from shoal.home import archive_directory, entry_name, runs_directory, trash_directory
from shoal.library import accounts, notes
from shoal.people.belongings import OWNER, belong, sees, wishes
from shoal.people.deeds import allow
from shoal.people.rights import Verb
from shoal.runs.folder import ENDED, Run, is_run, write_json
from shoal.utils import is_full, sync_folder

# Of a run with 1,500 columns (1.2 MB): gzip -1 0.66 MB in 0.03 s, gzip -6 0.65 MB in 0.09 s, xz -1 0.52 MB in 0.19 s,
# xz -6 0.50 MB in 0.51 s. It happens once, in a process of its own, for the sake of the disk: so xz, but a quick one.
ENDING, LOCK = ".tar.xz", ".lock"
PRESET: Final = 1
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 and later
PIECE = 1 << 20  # bytes that are read at once
PATIENCE = 600.0  # seconds to wait for another process that archives or restores
BUSY = 1.0  # seconds to wait for whoever looks at a run's lock

_Share = Callable[[float], None]


def _silent(fraction: float) -> None:
    pass


def archive_path(run_id: str) -> Path:
    return archive_directory() / f"{entry_name(run_id)}{ENDING}"


def is_archived(run_id: str) -> bool:
    """Whether it is in the archive only."""
    return archive_path(run_id).exists() and not is_run(entry_name(run_id)) and sees(archive_path(run_id))


def archive_size(run_id: str) -> int:
    """Bytes of an archive; 0 if there is none."""
    with contextlib.suppress(OSError):
        return archive_path(run_id).stat().st_size
    return 0


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size if not path.is_dir() else 0
    return total


# ------------------------------------------------------------------ archive


def archive(run: Run, progress: _Share = _silent) -> Path:
    """Pack a run that has ended; its folder goes once the archive is known to hold all of it."""
    with _one_at_a_time(), _held(run, "archive"), _disk_errors(f"an archive of the run {run.id}"):
        account = dataclasses.replace(accounts.summary_of(run), archived=True)
        path = archive_path(run.id)
        unfinished = path.with_name(f".{path.name}.tmp")
        try:
            _pack(run.directory, unfinished, progress)
            _compare(run.directory, unfinished, progress)
            _copy_owner(run.directory, path)
            write_json(path.with_name(f"{run.id}.json"), account.as_dict())
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
        _remove_folder(run.directory)
    return path


def _copy_owner(folder: Path, archive: Path) -> None:
    """Whose it is stands beside the archive too, before that is there: nobody unpacks one to learn it."""
    belong(archive, wishes(folder))


def _pack(folder: Path, path: Path, progress: _Share) -> None:
    whole = max(1, size_of(folder))
    done = 0
    with path.open("wb") as file:
        with tarfile.open(fileobj=file, mode="w:xz", preset=PRESET) as tar:
            for found in [folder, *sorted(folder.rglob("*"))]:
                member = tar.gettarinfo(found, str(Path(folder.name) / found.relative_to(folder)))
                if member.isdir():
                    tar.addfile(member)
                elif member.isfile():
                    with found.open("rb") as content:
                        tar.addfile(member, content)
                    done += member.size
                    progress(0.9 * done / whole)
        file.flush()
        os.fsync(file.fileno())


def _compare(folder: Path, path: Path, progress: _Share) -> None:
    """Read the archive again, and the folder beside it."""
    packed = set()
    with tarfile.open(path, "r:xz") as tar:
        for member in tar:
            packed.add(member.name)
            content = tar.extractfile(member) if member.isfile() else None
            if content and not _same(content, folder.parent / member.name):
                raise _changed(folder.name)
    files = {str(Path(folder.name) / p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    if not files <= packed:
        raise _changed(folder.name)
    progress(1.0)


def _same(content: IO[bytes], path: Path) -> bool:
    with path.open("rb") as file:
        while True:
            piece = content.read(PIECE)
            if piece != file.read(PIECE):
                return False
            if not piece:
                return True


def _changed(run_id: str) -> StateError:
    return StateError(
        f"The archive of {run_id} is not the same as its folder: something changed while it was written. "
        "The folder stays as it is. Try again."
    )


# ------------------------------------------------------------------ several of them


def archive_all(run_ids: Sequence[str], progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Pack runs one after the other; which are done, and what went wrong with the others."""
    return _each(
        run_ids, "packing", lambda name, said: archive(Run(runs_directory() / Path(name).name), said), progress
    )


def restore_all(run_ids: Sequence[str], progress: Callable[[str, float], None]) -> dict[str, Any]:
    return _each(run_ids, "unpacking", restore, progress)


def _each(
    names: Sequence[str], what: str, act: Callable[[str, _Share], object], progress: Callable[[str, float], None]
) -> dict[str, Any]:
    problems: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(names):
        stage = what if len(names) == 1 else f"{what} run {i + 1} of {len(names)}"
        try:
            act(name, lambda fraction, i=i, stage=stage: progress(stage, (i + fraction) / len(names)))  # type: ignore[misc]
        except TrainingError as error:
            problems[name] = Standing.after(error).as_dict()
    return {"done": [name for name in names if name not in problems], "problems": problems}


# ------------------------------------------------------------------ restore


def restore(run_id: str, progress: _Share = _silent) -> Run:
    """Bring an archived run back; its archive goes once the folder is whole again."""
    with _one_at_a_time(), _disk_errors(f"the folder of the run {run_id}"):
        path = _existing(run_id)
        folder = runs_directory() / Path(run_id).name
        if is_run(folder.name):
            raise StateError(f"Expected an archived run to restore, but the folder of {run_id} is there. Use that.")
        unpacked = path.with_name(f".{folder.name}.restoring")
        try:
            _unpack(path, folder.name, unpacked, progress)
            if not (unpacked / folder.name / "config.json").is_file():
                raise _unusable(run_id, "it holds no settings of a run")
            folder.parent.mkdir(parents=True, exist_ok=True)
            os.rename(unpacked / folder.name, folder)
            sync_folder(folder.parent)
        finally:
            shutil.rmtree(unpacked, ignore_errors=True)
        _remove_archive(path)
    return Run(folder)


def _unpack(path: Path, name: str, into: Path, progress: _Share) -> None:
    """Only plain files and folders of the one run, nowhere else; links and devices are refused."""
    whole = max(1, path.stat().st_size)
    into.mkdir(mode=0o700)
    try:
        with path.open("rb") as file, lzma.open(file) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
            for member in tar:
                inside = Path(member.name).parts[:1] == (name,) and ".." not in Path(member.name).parts
                if not inside or not (member.isfile() or member.isdir()):
                    raise _unusable(name, f"it holds '{member.name}', which is no file of this run")
                member.mode &= 0o755
                tar.extract(member, into, **SAFELY)
                progress(min(1.0, file.tell() / whole))
            while stream.read(PIECE):  # the checksum of the whole comes after its last file
                pass
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError) as error:
        raise _unusable(name, f"it is damaged ({error})") from error


def _unusable(run_id: str, why: str) -> StateError:
    return StateError(
        f"The archive of {run_id} cannot be used: {why}. Nothing was restored. "
        f"Replace '{archive_path(run_id)}' by a good copy, or delete it."
    )


def _existing(run_id: str) -> Path:
    path = archive_path(run_id)
    if not path.exists():
        raise StateError(
            f"Expected an archived run, but there is no archive of '{run_id}'.",
            Remedy.run("See them", "runs --archived"),
        )
    return path


# ------------------------------------------------------------------ delete


def delete(run: Run) -> int:
    """Remove a run that has ended, for good; the bytes that are free again."""
    allow(Verb.CHANGE, run.directory, "run deleted")
    with _held(run, "delete"), _disk_errors(f"what goes away with the run {run.id}"):
        freed = size_of(run.directory)
        leftover = archive_path(run.id)  # of a process that was killed between making it and removing the folder
        if leftover.exists():
            freed += leftover.stat().st_size
            _remove_archive(leftover)
        forget_records(run)
        _remove_folder(run.directory)
    return freed


def delete_archived(run_id: str) -> int:
    """Remove an archive for good; the bytes that are free again."""
    allow(Verb.CHANGE, archive_path(run_id), "archive deleted")
    with _one_at_a_time(BUSY), _disk_errors(f"the folder of the archive of {run_id}"):
        path = _existing(run_id)
        freed = path.stat().st_size
        _forget_records_of(run_id)
        _remove_archive(path)
    return freed


def forget_records(run: Run) -> None:
    """Those in a team's database; before the folder goes, or nobody would know of them any more."""
    from shoal.storage import place  # needs NumPy, which lists of runs do not
    from shoal.travel import journeys

    journeys.forget(run.directory)
    place.remove(run.directory, run.id)
    notes.forget(run.id)


def _forget_records_of(archived: str) -> None:
    from shoal.storage import place
    from shoal.travel import journeys

    journeys.forget(runs_directory() / archived)
    place.remove_archived(archived)
    notes.forget(archived)


def _remove_archive(path: Path) -> None:
    path.unlink(missing_ok=True)
    for ending in (".json", f".{OWNER}"):
        path.with_name(f"{path.name.removesuffix(ENDING)}{ending}").unlink(missing_ok=True)


def _remove_folder(folder: Path) -> None:
    """It vanishes at once, and with it the run; what it holds goes after that."""
    trash = trash_directory()
    trash.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(folder, trash / f"{folder.name}-{os.urandom(4).hex()}")
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.rmtree(folder)  # on another disk
    empty_trash()


def empty_trash() -> None:
    """Also of those that were killed while they emptied it."""
    for folder in trash_directory().glob("*"):
        shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------ locks and disks


@contextlib.contextmanager
def _held(run: Run, what: str) -> Iterator[None]:
    """A run that has ended, with its lock, so that nobody resumes it meanwhile."""
    state, before = run.state, accounts.key_of(run)
    if state not in ENDED:
        raise StateError(
            f"Expected a run that has ended to {what}, but {run.id} is {state}.",
            Remedy.run("Stop it first", "stop", run.id),
        )
    try:
        lock = lock_file(run.directory / "lock", BUSY)
    except FileNotFoundError:
        raise StateError(f"Expected a run to {what}, but the folder of {run.id} is gone.") from None
    if lock is None:
        raise StateError(
            f"The process of {run.id} is at work.", Remedy.run("Wait until it has ended, or stop it", "stop", run.id)
        )
    with lock:
        if accounts.key_of(run) != before:
            raise StateError(f"The run {run.id} was changed by somebody else a moment ago. Look at it, and try again.")
        yield


@contextlib.contextmanager
def _one_at_a_time(patience: float = PATIENCE) -> Iterator[None]:
    """Whoever has the lock of the archive may remove what others left unfinished."""
    folder = archive_directory()
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_file(folder / LOCK, patience)
    if lock is None:
        raise StateError("Another process is archiving or restoring runs right now. Try again when it is done.")
    with lock:
        _sweep(folder)
        yield


def _sweep(folder: Path) -> None:
    """Remove what is unfinished, and accounts whose archive was never finished."""
    for path in list(folder.iterdir()):
        if path.name.startswith(".") and path.name != LOCK:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        elif path.suffix == ".json" and not archive_path(path.stem).exists():
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _disk_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise DiskFull(f"The disk is full: there is no room for {what}. Nothing was lost.") from error
        raise ResourceError(
            f"Expected to write {what}, got: {error.strerror or error}. Nothing was lost; check the folder."
        ) from error
