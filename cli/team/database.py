"""The commands about the team's database: which tables it has, and making it ready; the steps are in `database`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any


def add_commands(add: Callable[..., Any]) -> None:
    db = add(
        "db",
        help="the database of a team (SHOAL_DATABASE): see whether it is ready, and make it so",
        usage="shoal db status | upgrade",
    )
    db.add_argument("deed", choices=["status", "upgrade"], help="see which tables there are, or make those missing")
    db.add_argument("--json", action="store_true", help="print one JSON object")
    db.set_defaults(command=_status_or_upgrade)


def _status_or_upgrade(chosen: argparse.Namespace) -> int:
    return _upgrade(chosen.json) if chosen.deed == "upgrade" else _status(chosen.json)


def _upgrade(as_json: bool) -> int:
    from shoal.database.connections import database
    from shoal.database.migrations import steps, upgrade
    from shoal.database.plain_errors import plain_errors

    known = database()
    with known.connection(checked=False) as connection, plain_errors(known.shown):
        taken = upgrade(connection)
    if as_json:
        print(json.dumps({"database": known.shown, "steps": len(steps()), "taken": [step.number for step in taken]}))
    elif taken:
        for step in taken:
            print(f"step {step.number}: {step.name.replace('_', ' ')}")
        print(f"{known.shown} is ready.")
    else:
        print(f"{known.shown} was ready already (step {len(steps())}).")
    return 0


def _status(as_json: bool) -> int:
    """0 only where Shoal can work with it."""
    from shoal.database.connections import database
    from shoal.database.migrations import newer, steps, version_of
    from shoal.database.plain_errors import plain_errors

    known = database()
    with known.connection(checked=False) as connection, plain_errors(known.shown):
        found, wanted = version_of(connection), len(steps())
        server = connection.info.server_version // 10000
    if as_json:
        print(json.dumps({"database": known.shown, "server": server, "step": found, "steps": wanted}))
    elif found > wanted:
        raise newer(found)
    elif found < wanted:
        print(f"{known.shown} (PostgreSQL {server}) has {found} of {wanted} steps. Make it ready: shoal db upgrade")
    else:
        print(f"{known.shown} (PostgreSQL {server}) is ready (step {found}).")
    return 0 if found == wanted else 1
