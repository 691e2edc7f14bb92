"""What a person chose for a table, how it is read and what to predict, kept with it: SHOAL_HOME/tables.

Pages are drawn from their address; this is what a link to a table puts into it, on every page, tomorrow too.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from shoal.dashboard.parts import places
from shoal.dashboard.tables.sources import Asked, tidy
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.home import table_choices_file

PARTS = ("read", "target")  # of an address
STOOD = "stood"  # in the file of choices


def keep(found: Asked, stood: Mapping[str, Any] | None = None) -> None:
    """Make this what is chosen for the table; where it is nothing, nothing is left of what was.

    `stood` is where columns were that are still named as another reading of the file named them.
    """
    path = table_choices_file(found.table.key)
    chosen = {part: value for part, value in found.address.items() if part in PARTS}
    with contextlib.suppress(OSError):  # a full disk: the address still has it
        if chosen:
            path.parent.mkdir(parents=True, exist_ok=True)
            also = {STOOD: dict(stood)} if stood else {}
            sealed.write(path, {"table": found.table.key, **chosen, **also}, path.parent.name)
        else:
            path.unlink(missing_ok=True)


def predict(found: Asked, target: str | None) -> None:
    """Make a column the one to predict, here and wherever the table is used next; fit for callbacks."""
    keep(replace(found, target=target or None))
    places.amend(target=target or None)


def leave_out(found: Asked, columns: list[str]) -> None:
    """Make these the columns that models of the table do without, on every page; fit for callbacks."""
    choose(found, "exclude", columns)


def choose(found: Asked, knob: str, values: list[str]) -> None:
    """Make these the values of a knob of the table that takes several, on every page; fit for callbacks."""
    after = replace(found, read=tidy({**found.read, knob: list(dict.fromkeys(values))}))
    keep(after)
    places.amend(read=after.address.get("read"), **_ticks(found, after))


def _ticks(before: Asked, after: Asked) -> dict[str, str | None]:
    """Where the address has the columns without a tick (on the Tune page), these as well."""
    try:
        out = list(json.loads(st.query_params["out"]))
    except (KeyError, TypeError, ValueError):
        return {}
    was, now = (list(one.read.get("exclude", [])) for one in (before, after))
    names = list(dict.fromkeys([*(name for name in out if name not in was), *now]))
    return {"out": json.dumps(names) if names else None}


def damage(key: str) -> str:
    """Why what was chosen for a table cannot be read; empty if it can, or nothing was."""
    path = table_choices_file(key)
    try:
        known = sealed.read(path, path.parent.name)
    except FileNotFoundError:
        return ""
    except DamagedFile as error:
        return error.message
    except OSError as error:
        return f"'{path}' cannot be read: {error.strerror}."
    return "" if known.get("table") == key else f"'{path}' is damaged: it is about another table."


def address_of(key: str) -> dict[str, str]:
    """The address of a table with all that was chosen for it."""
    known = stored(key)
    return {"data": key, **{part: str(known[part]) for part in PARTS if part in known}}


def stored(key: str) -> dict[str, Any]:
    """All that is kept of what was chosen for a table; nothing where it cannot be read, which the Data page says."""
    path = table_choices_file(key)
    try:
        known = sealed.read(path, path.parent.name)
    except (OSError, DamagedFile):
        return {}
    return known if known.get("table") == key else {}
