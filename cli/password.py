"""The command about the dashboard's password; how it is kept and checked is in `dashboard.access`."""

from __future__ import annotations

import argparse
import getpass
import sys

from shoal.cli.flags import Add
from shoal.errors import ConfigError


def add_commands(add: Add) -> None:
    password = add(
        "password",
        help="set the dashboard's password, which it needs before other machines may reach it",
        description="Asks for a password twice, without showing it (or reads a line where input is no terminal), and "
        "keeps a hash of it under SHOAL_HOME. A running dashboard takes it at once: everybody has to log in again.",
    )
    password.add_argument("--remove", action="store_true", help="do without a password; for this machine only")
    password.set_defaults(command=_password)


def _password(chosen: argparse.Namespace) -> None:
    from shoal.dashboard.http.access import remove_password, set_password
    from shoal.home import password_file

    if chosen.remove:
        print("The password was removed." if remove_password() else "There was no password.")
        return
    set_password(_asked())
    print(f"The password is set (its hash is in {password_file()}). Everybody has to log in with it from now on.")


def _asked() -> str:
    from shoal.dashboard.http.access import check_wanted

    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    try:
        first = getpass.getpass("New password: ")
        check_wanted(first)
        second = getpass.getpass("The same again: ")
    except EOFError:
        raise ConfigError("Expected a password, got the end of the input. Nothing was changed.") from None
    if first != second:
        raise ConfigError("Expected the same password twice, got two different ones. Nothing was changed; try again.")
    return first
