"""Commands that start the dashboard and say who may come in: password, accounts, tokens; what it serves is in `main.py`
and `dashboard/`."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from shoal.cli.flags import Add
from shoal.cli.printing import print_json, table
from shoal.errors import ConfigError, ResourceError
from shoal.home import home, make_folder, password_file, tightened
from shoal.people.person import EDITOR, ROLES
from shoal.people.records import TeamMember
from shoal.words import plural

FOLDERS = ("SHOAL_HOME", "SHOAL_DATA")
USAGE = (
    "shoal people add NAME [--role viewer|editor|admin] [--private] [--no-password] | list | role NAME ROLE | "
    "disable NAME | enable NAME | password NAME | link NAME EMAIL | remove NAME | audit [--limit N] | move"
)
NEEDS = {"list": 0, "audit": 0, "move": 0, "role": 2, "link": 2}  # words after a deed
NEEDS |= dict.fromkeys(("add", "disable", "enable", "password", "remove"), 1)


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
    _add_people(add)
    _add_tokens(add)


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
    """Typed twice by a person, or the next line where input is no terminal."""
    from shoal.people.passwords import check_length

    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    try:
        first = getpass.getpass("New password: ")
        check_length(first)
        second = getpass.getpass("The same again: ")
    except EOFError:
        raise ConfigError("Expected a password, got the end of the input. Nothing was changed.") from None
    if first != second:
        raise ConfigError("Expected the same password twice, got two different ones. Nothing was changed; try again.")
    return first


# ------------------------------------------------------------------ accounts


def _add_people(add: Add) -> None:
    people = add(
        "people",
        help="accounts on the dashboard: who may log in, with which role; and the log of who did what",
        usage=USAGE,
        description="With the first account, which is an admin's, people log in with their names, and the dashboard's "
        "own password and printed address count no more. A running dashboard takes every change at once.",
    )
    people.add_argument("deed", choices=list(NEEDS), metavar="DEED", help=", ".join(NEEDS))
    people.add_argument(
        "words", nargs="*", metavar="NAME", help="of the person; for role and link, the role or e-mail address after it"
    )
    people.add_argument(
        "--role", choices=list(ROLES), help=f"of a new account (default: {EDITOR}, and admin for the first)"
    )
    people.add_argument(
        "--private", action="store_true", help="what a new person makes is for them alone until they share it"
    )
    people.add_argument(
        "--no-password", action="store_true", help="a new person, named by e-mail address, comes by the OpenID provider"
    )
    people.add_argument("--limit", type=int, default=100, metavar="N", help="entries of the log (default: 100)")
    people.add_argument("--json", action="store_true", help="print one JSON object")
    people.set_defaults(command=_people)


def _people(chosen: argparse.Namespace) -> int:
    wanted = NEEDS[chosen.deed]
    if len(chosen.words) != wanted:
        names = ("no name", "one name", f"a name and {'a role' if chosen.deed == 'role' else 'an address'}")[wanted]
        raise ConfigError(
            f"Expected {names} after 'shoal people {chosen.deed}', got {len(chosen.words)} words. Usage: {USAGE}."
        )
    deeds = {"list": _list_people, "audit": _audit, "move": _move_people}
    return deeds.get(chosen.deed, _change_people)(chosen)


def _change_people(chosen: argparse.Namespace) -> int:
    from shoal.people import accounts
    from shoal.people.oidc import arrivals

    name = chosen.words[0]
    if chosen.deed == "add":
        role = chosen.role or (EDITOR if accounts.there_are_any() else ROLES[-1])
        done = accounts.add(name, None if chosen.no_password else _asked(), role, chosen.private)
    elif chosen.deed == "password":
        accounts.named(name)  # before a password is typed for nobody
        done = accounts.set_password(name, _asked())
    else:
        deeds: dict[str, Callable[..., TeamMember]] = {
            "role": accounts.give_role, "disable": accounts.disable, "enable": accounts.enable,
            "link": arrivals.link, "remove": accounts.remove,
        }  # fmt: skip
        done = deeds[chosen.deed](*chosen.words)
    if chosen.json:
        print_json({"name": done.name, "role": done.role, "state": done.state, "private": done.private})
    else:
        said = {
            "add": f"{done.name} can log in, as {done.role}", "role": f"{done.name} is {done.role} from now on",
            "disable": f"{done.name} cannot log in any more, and is logged out everywhere",
            "link": f"whoever has {done.subject.removeprefix('mailto:')} at the OpenID provider logs in as {done.name}",
            "enable": f"{done.name} can log in again", "password": f"{done.name} has a new password, and is logged out",
            "remove": f"{done.name} has no account any more; what they made stays, and their name is not given again",
        }  # fmt: skip
        print(said[chosen.deed])
    return 0


def _list_people(chosen: argparse.Namespace) -> int:
    from shoal.people import accounts

    known = accounts.everybody()
    if chosen.json:
        said = ("name", "role", "state", "private", "created", "seen")
        print_json({"people": [{name: getattr(one, name) for name in said} for one in known]})
    elif not known:
        print("Nobody has an account yet. Make the first one, an admin's, with: shoal people add NAME")
    else:
        rows = [
            (one.name, one.role, one.state, "private" if one.private else "shared", _day(one.created),
             _day(one.seen) if one.seen else "never")
            for one in known
        ]  # fmt: skip
        table(("name", "role", "account", "what they make", "since", "last login"), rows, right=set())
    return 0


def _move_people(chosen: argparse.Namespace) -> int:
    from shoal.people.moving import move

    people, entries = move()
    if chosen.json:
        print_json({"people": people, "entries": entries})
    else:
        said = f"{plural(people, 'account')} with a log of {plural(entries, 'line')}"
        print(f"Moved {said} to the team's database; nobody has to log in again. The file is now people.sqlite.moved.")
    return 0


def _audit(chosen: argparse.Namespace) -> int:
    """The newest first; 1 where an entry is not what was written."""
    from shoal.people import accounts

    found, broken = accounts.audit(max(1, chosen.limit)), accounts.first_broken()
    if chosen.json:
        said = ("id", "at", "who", "deed", "thing", "origin")
        print_json({"entries": [{name: getattr(one, name) for name in said} for one in found], "broken_at": broken})
    elif not found:
        print("Nothing is written down yet: the log begins with the first account.")
    else:
        rows = [(_second(one.at), one.who, one.deed, one.thing or "-", one.origin or "-") for one in found]
        table(("when", "who", "what", "on what", "from where"), rows, right=set())
    if broken is not None and not chosen.json:
        print(
            f"warning: entry {broken} is not what was written, or one before it is missing. "
            "Put back the newest copy of the accounts (people.sqlite, or a backup of the database) with a whole log."
        )
    return 0 if broken is None else 1


def _second(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


# ------------------------------------------------------------------ tokens


def _add_tokens(add: Add) -> None:
    for name, others in (("tokens", ""), ("token", "the same as tokens: ")):
        _add_token(add, name, others)


def _add_token(add: Add, name: str, others: str) -> None:
    token = add(
        name,
        help=f"{others}tokens for programs that use the API",
        usage=f"shoal {name} create NAME [--person WHO] [--scope read|write|admin] [--days N] | list | revoke TOKEN",
    )
    token.add_argument("deed", choices=["create", "list", "revoke"], help="make one, see all, or end one")
    token.add_argument(
        "which", nargs="?", default="", metavar="NAME", help="of a new token; or its name or id to end it"
    )
    token.add_argument(
        "--scope", default="read", choices=["read", "write", "admin"],
        help="what it may do, as a viewer, an editor or an admin may (default: read)",
    )  # fmt: skip
    token.add_argument("--person", default="", metavar="NAME", help="for whom it acts, where there are accounts")
    token.add_argument("--days", type=float, default=90.0, metavar="N", help="until it ends (default: 90)")
    token.add_argument("--json", action="store_true", help="print one JSON object")
    token.set_defaults(command=_token)


def _token(chosen: argparse.Namespace) -> None:
    if chosen.deed != "list" and not chosen.which:
        raise ConfigError(f"Expected a name after 'shoal tokens {chosen.deed}', got none. Add it.")
    {"create": _create, "list": _list_tokens, "revoke": _revoke}[chosen.deed](chosen)


def _create(chosen: argparse.Namespace) -> None:
    from shoal.library import tokens

    text, made = tokens.create(chosen.which, chosen.scope, chosen.days, chosen.person.strip().lower())
    if chosen.json:
        said = ("id", "name", "scope", "person", "expires")
        print_json({"token": text, **{name: getattr(made, name) for name in said}})
        return
    print(text)
    whose = f" of {made.person}" if made.person else ""
    print(
        f"This is the token '{made.name}'{whose} ({made.scope}), good until {_day(made.expires)}. It is shown only now."
    )


def _list_tokens(chosen: argparse.Namespace) -> None:
    from shoal.library import tokens
    from shoal.people import accounts

    known, people = tokens.tokens(), accounts.by_name()
    if chosen.json:
        said = ("id", "name", "scope", "person", "created", "expires", "used")
        print_json({"tokens": [
            {**{name: getattr(token, name) for name in said}, "good": not token.standing(people)} for token in known
        ]})  # fmt: skip
    elif not known:
        print("There are no tokens yet. Make one with: shoal tokens create NAME")
    else:
        rows = [
            (one.id, one.name, one.person or "nobody", one.scope, _day(one.created),
             _day(one.expires) + (f" ({why})" if (why := one.standing(people)) else ""),
             _day(one.used) if one.used else "never")
            for one in known
        ]  # fmt: skip
        table(("id", "name", "person", "scope", "made", "good until", "last used"), rows, right=set())


def _revoke(chosen: argparse.Namespace) -> None:
    from shoal.library import tokens

    gone = tokens.revoke(chosen.which)
    if chosen.json:
        print_json({"revoked": gone.id, "name": gone.name})
    else:
        print(f"the token '{gone.name}' ({gone.id}) is no longer good")


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
