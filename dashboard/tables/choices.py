"""What a person chose for a table, how it is read and what to predict, kept with it: SHOAL_HOME/tables.

Pages are drawn from their address; this is what a link to a table puts into it, on every page, tomorrow too.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from shoal.dashboard.parts import places
from shoal.dashboard.tables.sources import Asked
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.home import table_choices_file

PARTS = ("read", "target")  # of an address


def keep(found: Asked) -> None:
    """Make this what is chosen for the table; where it is nothing, nothing is left of what was."""
    path = table_choices_file(found.table.key)
    chosen = {part: value for part, value in found.address.items() if part in PARTS}
    with contextlib.suppress(OSError):  # a full disk: the address still has it
        if chosen:
            path.parent.mkdir(parents=True, exist_ok=True)
            sealed.write(path, {"table": found.table.key, **chosen}, path.parent.name)
        else:
            path.unlink(missing_ok=True)


def predict(found: Asked, target: str | None) -> None:
    """Make a column the one to predict, here and wherever the table is used next; fit for callbacks."""
    keep(replace(found, target=target or None))
    places.amend(target=target or None)


def address_of(key: str) -> dict[str, str]:
    """The address of a table with all that was chosen for it."""
    path = table_choices_file(key)
    try:
        known = sealed.read(path, path.parent.name)
    except (OSError, DamagedFile):
        known = {}  # as if nothing had been chosen; the Data page shows how the table is read
    if known.get("table") != key:
        known = {}
    return {"data": key, **{part: str(known[part]) for part in PARTS if part in known}}
