"""The commands that start the dashboard, set its password, make tokens; what it serves: `main.py`, `dashboard/`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from shoal.cli.flags import Add
from shoal.cli.printing import print_json, table
from shoal.errors import ConfigError, ResourceError
from shoal.home import home, make_folder, password_file, tightened

FOLDERS = ("SHOAL_HOME", "SHOAL_DATA")


def add_commands(add: Add) -> None:
    dashboard = add(
        "dashboard",
        help="start the dashboard on this machine",
        usage="shoal dashboard [--port N] [--home FOLDER] [--no-token] [--no-browser] [-- STREAMLIT FLAGS]",
        description="Start the dashboard on this machine, at port 5000 unless told otherwise. Without a password it "
        "prints an address that lets one browser in, and opens it where there is a screen.",
    )
    dashboard.add_argument(
        "--port", type=int, default=5000, metavar="N", help="0 for any that is free (default: %(default)s)"
    )
    dashboard.add_argument("--home", metavar="FOLDER", help="where runs, models and caches are kept, as SHOAL_HOME")
    dashboard.add_argument(
        "--no-token", action="store_true", help="let every user of this machine in, who knows the port"
    )
    dashboard.add_argument("--no-browser", action="store_true", help="only print the address")
    dashboard.add_argument(
        "flags", nargs="*", metavar="STREAMLIT FLAGS",
        help="after '--', settings of the server such as --server.address 0.0.0.0",
    )  # fmt: skip
    dashboard.set_defaults(command=_dashboard)
    password = add(
        "password",
        help="set the dashboard's password, which it needs before other machines may reach it",
        description="Asks for a password twice, without showing it (or reads a line where input is no terminal), and "
        "keeps a hash of it under SHOAL_HOME. A running dashboard takes it at once: everybody has to log in again.",
    )
    password.add_argument("--remove", action="store_true", help="do without a password; for this machine only")
    password.set_defaults(command=_password)
    _add_token(add)


def _dashboard(chosen: argparse.Namespace) -> NoReturn:
    if chosen.home:
        os.environ["SHOAL_HOME"] = chosen.home
    for name in FOLDERS:
        if folder := os.environ.get(name):
            os.environ[name] = str(Path(folder).expanduser().absolute())
    for name, wanted in {"SHOAL_NO_TOKEN": chosen.no_token, "SHOAL_NO_BROWSER": chosen.no_browser}.items():
        if wanted:
            os.environ[name] = "1"
    _check_port(chosen.port)
    make_folder(home())
    if said := tightened():  # of --home, which was not known before
        print(f"note: {said}", file=sys.stderr)
    os.chdir(home())  # Streamlit takes settings from the current folder, which may be those of another program
    flags = ["--server.port", str(chosen.port), *chosen.flags]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "shoal.dashboard.serve", *flags])


def _check_port(port: int) -> None:
    """Before the server starts, which would say the same in words of its own, and later."""
    import socket

    if not 0 <= port <= 65535:
        raise ConfigError(f"Expected a port from 0 to 65535, got {port}. Leave --port out for 5000.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that has just ended is no reason
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ResourceError(
                f"Expected port {port} to be free for the dashboard, got: {error.strerror}. "
                "Choose another one with --port; 0 takes any that is free."
            ) from None


def _password(chosen: argparse.Namespace) -> None:
    from shoal.dashboard.http.access import remove_password, set_password

    if chosen.remove:
        print("The password was removed." if remove_password() else "There was no password.")
        return
    set_password(_asked())
    print(f"The password is set (its hash is in {password_file()}). Everybody has to log in with it from now on.")


def _asked() -> str:
    import getpass

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


# ------------------------------------------------------------------ tokens


def _add_token(add: Add) -> None:
    token = add(
        "token", help="tokens for programs that use the API", usage="shoal token create NAME | list | revoke TOKEN"
    )
    token.add_argument("deed", choices=["create", "list", "revoke"], help="make one, see all, or end one")
    token.add_argument(
        "which", nargs="?", default="", metavar="NAME", help="of a new token; or its name or id to end it"
    )
    token.add_argument("--scope", default="read", choices=["read", "write"], help="what it may do (default: read)")
    token.add_argument("--days", type=float, default=90.0, metavar="N", help="until it ends (default: 90)")
    token.add_argument("--json", action="store_true", help="print one JSON object")
    token.set_defaults(command=_token)


def _token(chosen: argparse.Namespace) -> None:
    if chosen.deed != "list" and not chosen.which:
        raise ConfigError(f"Expected a name after 'shoal token {chosen.deed}', got none. Add it.")
    {"create": _create, "list": _list, "revoke": _revoke}[chosen.deed](chosen)


def _create(chosen: argparse.Namespace) -> None:
    from shoal.library import tokens

    text, made = tokens.create(chosen.which, chosen.scope, chosen.days)
    if chosen.json:
        print_json({"token": text, "id": made.id, "name": made.name, "scope": made.scope, "expires": made.expires})
        return
    print(text)
    print(f"This is the token '{made.name}' ({made.scope}), good until {_day(made.expires)}. It is shown only now.")


def _list(chosen: argparse.Namespace) -> None:
    from shoal.library import tokens

    known = tokens.tokens()
    if chosen.json:
        said = ("id", "name", "scope", "created", "expires", "used")
        print_json({"tokens": [{name: getattr(token, name) for name in said} for token in known]})
    elif not known:
        print("There are no tokens yet. Make one with: shoal token create NAME")
    else:
        rows = [
            (one.id, one.name, one.scope, _day(one.created), _day(one.expires) + (" (over)" if one.is_over() else ""),
             _day(one.used) if one.used else "never")
            for one in known
        ]  # fmt: skip
        table(("id", "name", "scope", "made", "good until", "last used"), rows, right=set())


def _revoke(chosen: argparse.Namespace) -> None:
    from shoal.library import tokens

    gone = tokens.revoke(chosen.which)
    if chosen.json:
        print_json({"revoked": gone.id, "name": gone.name})
    else:
        print(f"the token '{gone.name}' ({gone.id}) is no longer good")


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
