"""Files that plug-ins read: which plug-in a name belongs to, and the text that it makes of a file."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from shoal import plugins
from shoal.errors import ConfigError, DataError, TrainingError
from shoal.files.remote import remote_file

# Names that are never a plug-in's: their files are known by their first bytes, and nothing has to be searched for.
OWN_SUFFIXES = frozenset(("", ".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".parquet", ".pq"))
PACKED_SUFFIXES = (".gz", ".zip", ".bz2", ".xz", ".zst")


def plugin_reader(path: Path) -> plugins.Plugin | None:
    """The plug-in that reads files with such a name, if one is installed."""
    if remote_file(path) is not None:
        return None  # plug-ins open paths
    inner = path.with_suffix("") if path.suffix.lower() in PACKED_SUFFIXES else path
    return None if inner.suffix.lower() in OWN_SUFFIXES else plugins.reader_for(path)


def reader_question(path: Path) -> dict[str, str]:
    """What a file's answer depends on besides its content: the plug-in that reads it, and its version."""
    plugin = plugin_reader(path)
    return {"reader": f"{plugin.origin}: {plugin.name}"} if plugin else {}


class PluginText(io.RawIOBase):
    """The text that a plug-in's reader makes of a file, as a file; what goes wrong in it is said to be its doing."""

    def __init__(self, plugin: plugins.Plugin, path: Path) -> None:
        self.plugin, self.path = plugin, path
        self.pieces: Iterator[bytes] | None = None
        self.rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        while not self.rest:
            piece = self._next()
            if piece is None:
                return 0
            self.rest = memoryview(piece)
        count = min(len(target), len(self.rest))
        target[:count], self.rest = self.rest[:count], self.rest[count:]
        return count

    def _next(self) -> bytes | None:
        try:
            if self.pieces is None:
                self.pieces = iter(self.plugin.value.text(self.path))
            piece = next(self.pieces, None)
        except TrainingError:
            raise
        except Exception as error:
            raise DataError(
                f"'{self.path.name}' could not be read by the plug-in {self.plugin.origin} "
                f"({type(error).__name__}: {error}). Check the file, or tell the authors of the plug-in."
            ) from error
        if piece is not None and not isinstance(piece, bytes):
            raise ConfigError(
                f"Expected bytes from the reader '{self.plugin.name}' of the plug-in {self.plugin.origin}, "
                f"got {type(piece).__name__}. Install a version that fits, or uninstall it."
            )
        return piece

    def close(self) -> None:
        if isinstance(self.pieces, Generator):
            self.pieces.close()  # one that was left early lets go of its file
        super().close()
