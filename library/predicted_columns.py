"""What columns were like in rows that a saved version has predicted, day by day, beside the version: sums only, never a
row. How they are made is in `data.summaries`, what they say in `registry.drift`.

The file is as small as the model's columns times `DAYS`, and goes with its version.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.files.locks import one_at_a_time
from shoal.files.model_names import is_name
from shoal.home import models_directory
from shoal.library.saved_models import VERSION, Version
from shoal.results.answers.drift import SeenColumn, merged
from shoal.results.model import END, checksum_at_end
from shoal.results.plain import Malformed, plain, read

FILE = "predicted.json"
DAYS = 31  # that are kept

DayColumns = dict[str, dict[str, SeenColumn]]  # by day, such as 2026-11-17, and column


def version_at_path(model: Path) -> Version | None:
    """The saved version that a model file belongs to, if it is one's."""
    number = VERSION.fullmatch(model.parent.name)
    name = model.parent.parent.name
    if number is None or not is_name(name) or model.parent.parent.parent != models_directory():
        return None
    return Version(name, int(number[1]))


def days_of(version: Version) -> DayColumns:
    """DamagedFile if they cannot be read."""
    path = version.directory / FILE
    try:
        said = sealed.read(path, _of(version))
        return {day: {name: read(SeenColumn, own) for name, own in columns.items()}
                for day, columns in said.get("days", {}).items()}  # fmt: skip
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (Malformed, AttributeError, TypeError) as error:
        raise DamagedFile(f"'{path}' is damaged: {error}.", path=str(path)) from None


def _of(version: Version) -> str:
    """What the file is sealed with: the model that it is about, whatever that is called. Another's is damage."""
    with version.model_path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - END))
        return f"{FILE} of {checksum_at_end(file.read()) or ''}"


def add(version: Version, columns: Mapping[str, SeenColumn]) -> None:
    """Rows of today, merged with those before; OSError as usual. A version that is gone, and a file that cannot be
    read, are no reason to fail: the one needs none, the other begins anew."""
    if not columns or not version.exists:
        return
    path, today = version.directory / FILE, time.strftime("%Y-%m-%d")
    with one_at_a_time(path.with_suffix(".lock")):
        try:
            days = days_of(version)
        except DamagedFile:
            days = {}
            with contextlib.suppress(OSError):
                path.replace(f"{path}.damaged")
        days[today] = merged(days.get(today, {}), columns)
        kept: dict[str, Any] = {day: plain(days[day]) for day in sorted(days)[-DAYS:]}
        sealed.write(path, {"days": kept}, _of(version))
