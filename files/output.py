"""Files that a person asked for, written where they asked for them: one rule for all commands.

What Shoal keeps for itself is written by `utils.write_atomically`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, cast

from shoal.errors import ConfigError, DiskFull, Remedy, ResourceError
from shoal.files.parts import check_apart, local
from shoal.home import usual_umask
from shoal.utils import is_full

STANDARD_OUTPUT = "-"
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


class Output:
    """A place to write to: `-`, or a path by the rules of the shell.

    A plain file appears whole or not at all, below folders that are made if need be, with the rights that new files
    get or those that the old one had. What a link leads to is written, and the link stays; pipes and devices are
    written to as they are. Never written is what something is made from (`inputs`, by what they are), by any name.
    """

    def __init__(self, named: str | Path, inputs: Mapping[str, str | Path] | None = None) -> None:
        self.name = str(named)
        self.path = Path(named).expanduser()
        self.inputs = {what: str(path) for what, path in (inputs or {}).items()}
        self._dash = named == STANDARD_OUTPUT

    @property
    def is_standard_output(self) -> bool:
        """Whether what is printed would end up among what is written."""
        if self._dash:
            return True
        found, own = self._stat(), _standard_output()
        return found is not None and own is not None and os.path.samestat(found, own)

    @property
    def is_plain(self) -> bool:
        """Whether it is or will be a file, to be written by whoever gets its path."""
        found = self._stat()
        return not self.is_standard_output and (found is None or stat.S_ISREG(found.st_mode))

    def check(self) -> Output:
        """Refuse what must not be written; before the work is done, and again when it is."""
        found = _standard_output() if self._dash else self._stat()
        if found is None:
            for file in self.inputs.values():
                check_apart(file, self.name)
            return self
        if stat.S_ISDIR(found.st_mode):
            raise ConfigError(f"Expected the name of a file to write, got the folder '{self.path}'. Add a name to it.")
        if stat.S_ISBLK(found.st_mode):
            raise ConfigError(f"Expected the name of a file to write, got the disk '{self.path}'. Choose a file on it.")
        if stat.S_ISREG(found.st_mode):
            for what, file in self.inputs.items():
                if any(_is_at(found, path) for path in local(file)):
                    way = Remedy.choose("Give another name", "out")
                    raise ConfigError(f"'{self.name}' is {what}; writing there would destroy it.", way)
        return self

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The file to write; what goes wrong with it is said in plain words."""
        self.check()
        names: set[str | None] = {None, str(self.path)}  # of what is written here: other errors are not about it
        try:
            with self._through() or self._whole(names) as file:
                yield file
        except BrokenPipeError:
            raise  # who reads has had enough
        except OSError as error:
            if error.filename not in names:
                raise
            raise self._told(error) from error

    def write(self, data: bytes) -> None:
        with self.open() as file:
            file.write(data)

    def _stat(self) -> os.stat_result | None:
        try:
            return self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._told(error) from error

    def _through(self) -> contextlib.AbstractContextManager[IO[bytes]] | None:
        """What is open already, or is no file: written to as it is."""
        if self.is_standard_output:
            return _printing()
        if match := _DESCRIPTOR.fullmatch(str(self.path)):
            return os.fdopen(os.dup(int(match[1])), "wb")
        found = self._stat()
        return None if found is None or stat.S_ISREG(found.st_mode) else self.path.open("wb")

    @contextlib.contextmanager
    def _whole(self, names: set[str | None]) -> Iterator[IO[bytes]]:
        """A new file beside the one that the name leads to, which takes its place when it is complete."""
        final = Path(os.path.realpath(self.path))
        unfinished = final.with_name(f".{final.name[:200]}-{os.getpid()}.tmp")
        names |= {str(final), str(unfinished), str(final.parent)}
        final.parent.mkdir(parents=True, exist_ok=True)
        before = final.stat() if final.exists() else None
        try:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
        except PermissionError:
            if before is None:
                raise
            with final.open("wb") as file:  # the folder takes no new file, but this one may be written
                yield file
            return
        try:
            with os.fdopen(descriptor, "wb") as file:
                if before is not None:
                    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
                elif (umask := usual_umask()) >= 0:
                    os.fchmod(descriptor, 0o666 & ~umask)
                yield file
            os.replace(unfinished, final)
        finally:
            unfinished.unlink(missing_ok=True)

    def _told(self, error: OSError) -> ResourceError:
        if is_full(error):
            return DiskFull(
                f"The disk is full: there is no room for '{self.path}'. Free some space, or choose a file on another "
                "disk."
            )
        return ResourceError(
            f"Expected to write '{self.path}', got: {error.strerror or error}. Choose another file or folder."
        )


def _is_at(found: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(found, path.stat())
    except OSError:
        return False


def _standard_output() -> os.stat_result | None:
    try:
        return os.fstat(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # closed, or none of the system's
        return None


@contextlib.contextmanager
def _printing() -> Iterator[IO[bytes]]:
    """Standard output for bytes, after what was printed before."""
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    gathered = io.BytesIO()  # a stream of text that stands in for it
    yield gathered
    cast(IO[str], sys.stdout).write(gathered.getvalue().decode())
