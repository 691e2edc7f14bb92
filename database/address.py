"""The address of the team's database, read from SHOAL_DATABASE here and nowhere else; it holds a password.

It is never written anywhere: not into a folder, a ticket, a log or a page, nor given as an argument. Processes that
ours start inherit it. What people see is `shown`.
"""

from __future__ import annotations

import os
from urllib.parse import parse_qs, unquote, urlsplit

from shoal.errors import ConfigError

VARIABLE = "SHOAL_DATABASE"
BEGINNINGS = ("postgresql://", "postgres://")


def address() -> str:
    """Of the database, empty where there is none; ConfigError, which does not repeat it, if it is not one."""
    found = os.environ.get(VARIABLE, "").strip()
    if found and not found.startswith(BEGINNINGS):
        raise ConfigError(
            f"Expected {VARIABLE} as postgresql://user:password@host/database, got something else (not shown: it may "
            "hold a password). Correct it, or unset it to keep everything in files."
        )
    return found


def is_set() -> bool:
    """Whether there is a database; as cheap as a look at the environment."""
    return bool(os.environ.get(VARIABLE, "").strip())


def shown(address: str) -> str:
    """For people: user, host and database, without the password and without further parameters."""
    try:
        parts = urlsplit(address)
        asked = parse_qs(parts.query)
    except ValueError:
        return "the database"
    who, _, where = parts.netloc.rpartition("@")
    user = unquote(who.partition(":")[0]) or asked.get("user", [""])[0]
    where = where or ",".join(asked.get("host", []))
    name = unquote(parts.path.lstrip("/")) or asked.get("dbname", [""])[0]
    return f"{parts.scheme}://{f'{user}@' if user else ''}{where}/{name}"
