"""What columns were like in rows that a saved version has predicted, day by day, beside the version: sums only, never a
row. How they are made is in `data.summaries`, what they say in `registry.drift`.

The file is as small as the model's columns times `DAYS`, and goes with its version.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.files.model_names import is_name
from shoal.library.saved_models import Version
from shoal.results.answers.drift import SeenColumn, merged
from shoal.results.plain import Malformed, plain, read
from shoal.shelf.base import VERSION, KeptModel
from shoal.shelf.place import shelf

FILE = "predicted.json"
DAYS = 31  # that are kept

DayColumns = dict[str, dict[str, SeenColumn]]  # by day, such as 2026-11-17, and column


def version_at_path(model: Path) -> Version | None:
    """The saved version that a model file belongs to, if it is one's."""
    number = VERSION.fullmatch(model.parent.name)
    name = model.parent.parent.name
    if number is None or not is_name(name) or model != shelf().place(name, int(number[1])):
        return None
    return Version(name, int(number[1]))


def days_of(version: Version) -> DayColumns:
    """DamagedFile if they cannot be read."""
    found = shelf().find(version.name)
    return _days_in(found, version.number) if found else {}


def _days_in(model: KeptModel, number: int) -> DayColumns:
    document = f"v{number}/{FILE}"
    where = shelf().said(model.name, document)
    try:
        said = sealed.proven(model.read(document), where, _of(model, number))
        return {day: {name: read(SeenColumn, own) for name, own in columns.items()}
                for day, columns in said.get("days", {}).items()}  # fmt: skip
    except FileNotFoundError:
        return {}
    except (Malformed, AttributeError, TypeError) as error:
        raise DamagedFile(f"'{where}' is damaged: {error}.", path=where) from None


def _of(model: KeptModel, number: int) -> str:
    """What the document is sealed with: the model that it is about, whatever that is called. Another's is damage."""
    return f"{FILE} of {model.mark(number)}"


def add(version: Version, columns: Mapping[str, SeenColumn]) -> None:
    """Rows of today, merged with those before; OSError as usual. A version that is gone, and a document that cannot be
    read, are no reason to fail: the one needs none, the other begins anew."""
    if not columns or not version.exists:
        return
    document, today = f"v{version.number}/{FILE}", time.strftime("%Y-%m-%d")
    with shelf().changing(version.name) as change:
        if version.number not in change.numbers:
            return
        try:
            days = _days_in(change, version.number)
        except DamagedFile:
            days = {}
            change.write(f"{document}.damaged", change.read(document))
        days[today] = merged(days.get(today, {}), columns)
        kept: dict[str, Any] = {day: plain(days[day]) for day in sorted(days)[-DAYS:]}
        change.write(document, sealed.sealed({"days": kept}, _of(change, version.number)))
