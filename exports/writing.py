"""What goes wrong when an export is written, in plain words; what is written is elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from shoal.errors import ConfigError, DiskFull, ResourceError
from shoal.utils import is_full


@contextlib.contextmanager
def writing_to(out: Path) -> Iterator[None]:
    if out.is_dir():
        raise ConfigError(f"Expected the name of a file to write, got the folder '{out}'. Add a name to it.")
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise DiskFull(
                f"The disk is full: there is no room for '{out}'. Free some space, or choose a file on another disk."
            ) from error
        raise ResourceError(
            f"Expected to write '{out}', got: {error.strerror or error}. Choose another file or folder."
        ) from error
