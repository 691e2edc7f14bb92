"""The names of a file's columns and whether it has any text, for those who look at the parts of a table one by one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.data.files import file_format, read_sample
from shoal.data.first_look.source import inspect_text
from shoal.data.formats.containers import PACKED
from shoal.data.parquet_reader import inspect_parquet
from shoal.data.sniffing import OF_COLUMNS
from shoal.errors import DataError

TEXTS = ("csv", *PACKED)  # formats whose dialect is a matter of their own
BLANK = b"\xef\xbb\xbf \t\r\n"  # a byte-order mark among it


def is_empty(path: Path) -> bool:
    """Whether a text has nothing but blanks, which is no table but does no harm among others."""
    return file_format(path) in TEXTS and not read_sample(path)[0].strip(BLANK)


def columns_of(path: Path, dialect: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The names of the columns; None if the file is empty."""
    try:
        if file_format(path) == "parquet":
            return inspect_parquet(path, (), ()).layout.names
        about_text = {name: value for name, value in dialect.items() if name not in OF_COLUMNS}
        return inspect_text(path, about_text, (), ()).layout.names  # of columns that may not be here
    except DataError:
        if is_empty(path):
            return None
        raise
