"""Files behind an address (https://, s3://, ...) in place of paths: read by ranges, or from the beginning.

What is read is always of one state of the file, and whole. How servers are asked is in `stores`; what a table means is
known elsewhere.
"""

from __future__ import annotations

import contextlib
import glob
import io
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from shoal.errors import ConfigError, DataError

if TYPE_CHECKING:
    from shoal.files.stores import OtherStore, RemoteState, Web

ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
PLAIN = ("http", "https")
OTHERS = ("s3", "gs", "gcs", "abfs", "abfss", "az", "memory")  # stores that fsspec knows
SECRET = re.compile(r"sig$|signature|token|key$|secret|passw|credential|auth|session", re.IGNORECASE)
PIECE = 1 << 20  # bytes that are asked for at a time when a file is read from its beginning


def is_address(name: str) -> bool:
    return ADDRESS.match(name) is not None


def is_listed(name: str) -> bool:
    """Whether it is a pattern or, behind a last /, a folder of a store that can say what is in it."""
    store, _, path = name.partition("://")
    return is_address(name) and store.lower() in OTHERS and (glob.has_magic(path) or path.endswith("/"))


def listed_at(name: str) -> list[str]:
    """The addresses of all files that a pattern or folder of a store stands for."""
    from shoal.files.stores import OtherStore

    check_address(name)
    return OtherStore(name, address_title(name)).listed()


def check_address(name: str) -> None:
    """Refuse what cannot be read, and what would put a secret into settings, logs and model files."""
    parts = urllib.parse.urlsplit(name)
    if parts.scheme.lower() not in (*PLAIN, *OTHERS):
        raise ConfigError(
            f"Expected an address that begins with one of {', '.join((*PLAIN, *OTHERS))}, got '{parts.scheme}://...'. "
            "Download the file and name it by its path.", knobs=["file"],
        )  # fmt: skip
    if "@" in parts.netloc or any(SECRET.search(key) for key, _ in urllib.parse.parse_qsl(parts.query)):
        raise ConfigError(
            f"The address of '{_last(parts.path)}' has a password, token or signature in it, which would stand in "
            "settings, logs and model files. Leave it out: a login for http is taken from ~/.netrc, that of other "
            "stores from their usual environment; or download the file.", knobs=["file"],
        )  # fmt: skip


def address_title(name: str) -> str:
    """The name of the file for the eye."""
    return _last(urllib.parse.urlsplit(name).path)


def remote_file(path: object) -> RemoteFile | None:
    """What stands in for a path, if it is that."""
    return path if isinstance(path, RemoteFile) else None


def at_any_place(path: Path) -> bool:
    """Whether the file can be read from anywhere in it, or only from its beginning."""
    file = remote_file(path)
    return file is None or file.state.ranged


def check_ranges(name: str) -> None:
    """Refuse a file that has to be read at any place where its server cannot do that."""
    file = RemoteFile(name)
    if not file.state.ranged:
        raise DataError(
            f"'{file.name}' cannot be read at any place, which a Parquet file needs: its server has no ranges. "
            "Download it and name it by its path."
        )


def place(name: str) -> Path:
    """A path, or what stands in for one where a table is behind an address."""
    return cast(Path, RemoteFile(name)) if is_address(name) else Path(name).expanduser().absolute()


def _last(path: str) -> str:
    return urllib.parse.unquote(path.rstrip("/").rpartition("/")[2]) or "table"


class RemoteFile:
    """A file behind an address, in place of a `Path`; as text the address, with the state that is meant behind a #."""

    def __init__(self, name: str) -> None:
        self.address, _, self._mark = name.partition("#")
        check_address(self.address)
        self._state: RemoteState | None = None

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        return _last(urllib.parse.urlsplit(self.address).path)

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    def is_file(self) -> bool:
        return True

    def is_dir(self) -> bool:
        return False

    def stat(self) -> RemoteState:
        """Asked for anew each time: whoever asks wants to know whether it changed."""
        self._state = self._store.state()
        if self._mark and self._state.mark != self._mark:
            from shoal.files.stores import changed_there

            raise changed_there(self.name)
        return self._state

    @property
    def state(self) -> RemoteState:
        return self._state or self.stat()

    @property
    def stamped(self) -> str:
        """The address with the state that it has now, which whoever reads it later has to find."""
        return f"{self.address}#{self.state.mark}" if self.state.mark else self.address

    @property
    def _store(self) -> Web | OtherStore:
        from shoal.files.stores import OtherStore, Web  # where something is asked: commands start without http

        scheme = urllib.parse.urlsplit(self.address).scheme.lower()
        return Web(self.address, self.name) if scheme in PLAIN else OtherStore(self.address, self.name)

    def open(self, mode: str = "rb", buffering: int = -1) -> IO[bytes]:
        """From the beginning or, where the server has ranges, at any place."""
        from shoal.files.stores import RangeReader

        state, store = self.state, self._store
        raw = RangeReader(store, state) if state.ranged else store.stream(state)
        return cast(IO[bytes], io.BufferedReader(raw, PIECE))

    def read_at(self, target: memoryview, offset: int) -> None:
        """Fill `target` from `offset` of this state of the file."""
        store, mark = self._store, self._mark or self.state.mark
        store.fill(target, offset, mark)


@contextlib.contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """The bytes of a file that can be read at any place, by its path or address."""
    with RemoteFile(name).open() if is_address(name) else open(name, "rb") as file:
        yield file
