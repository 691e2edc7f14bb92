"""Where the records of a run are kept; `open_storage` alone chooses the implementation."""

from __future__ import annotations

from shoal.errors import ConfigError
from shoal.storage.base import TIMEOUT, Command, Storage

__all__ = ["Command", "Storage", "open_storage"]

MEMORY = "memory://"
SQLITE = "sqlite://"


def open_storage(url: str, timeout: float = TIMEOUT, of: str = "") -> Storage:
    """The store that a URL names, made if it is new: memory:// or sqlite:///absolute/path.sqlite (taken literally).

    `of` is the run whose records they are, if that is known: those of another are refused.
    """
    if url == MEMORY:
        from shoal.storage.memory import MemoryStorage

        return MemoryStorage()
    if url.startswith(SQLITE + "/"):
        from shoal.storage.sql import SqliteStorage

        return SqliteStorage(url.removeprefix(SQLITE), timeout, of)
    raise ConfigError(
        f"Expected a store as memory:// or sqlite:///absolute/path.sqlite, got '{url}'. Write it in one of these forms."
    )
