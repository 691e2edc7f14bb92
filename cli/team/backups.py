"""The command that makes, checks and restores backups; what is in one is known to `backup`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError
from shoal.files.output import Output
from shoal.words import file_size, plural

GZIP = b"\x1f\x8b"  # how packed files begin


def add_commands(add: Callable[..., Any]) -> None:
    backup = add(
        "backup",
        help="everything that people made, in one file: make it, check it, restore it",
        usage="shoal backup create | check | restore FILE [--home FOLDER]",
    )
    backup.add_argument(
        "deed", choices=["create", "check", "restore"], help="restoring needs an empty home and database"
    )
    backup.add_argument("file", metavar="FILE", help="a name such as shoal.tar.gz; '-' to write to standard output")
    backup.add_argument("--home", metavar="FOLDER", default="", help="of which, or to which, in place of SHOAL_HOME")
    backup.set_defaults(command=_backup)


def _backup(chosen: argparse.Namespace) -> None:
    from shoal import __version__
    from shoal.backup.reading import check_backup, restore_backup
    from shoal.backup.writing import write_backup
    from shoal.people.deeds import allow
    from shoal.people.rights import SERVICE, Verb

    if chosen.home:
        os.environ["SHOAL_HOME"] = chosen.home
    if chosen.deed == "create":
        output = Output(chosen.file).check()
        _spare_what_is_no_backup(output)
        allow(Verb.ADMINISTER, SERVICE, f"backup made ({Path(chosen.file).name})")
        contents = write_backup(output, __version__)
        if output.is_plain:
            os.chmod(output.path, 0o600)  # it holds what the files of SHOAL_HOME hold
        if not output.is_standard_output:
            print(f"{chosen.file}: {_told(contents)}")
    elif chosen.deed == "check":
        print(f"{chosen.file} is whole: {_told(check_backup(Path(chosen.file)))}")
    else:
        contents = restore_backup(Path(chosen.file))
        allow(Verb.ADMINISTER, SERVICE, f"backup restored ({Path(chosen.file).name})")
        print(f"Restored {_told(contents)} Runs that were at work then are interrupted: shoal resume RUN.")


def _spare_what_is_no_backup(output: Output) -> None:
    """An earlier backup may be replaced; a table that was named by mistake is somebody's."""
    if not output.is_plain or not output.path.exists():
        return
    with output.path.open("rb") as file:
        begins = file.read(len(GZIP))
    if begins and begins != GZIP:
        raise ConfigError(
            f"Expected a new file or an earlier backup, got '{output.name}', which is neither. Give another name."
        )


def _told(contents: Any) -> str:
    files = sum(name.startswith("home/") for name in contents.members)
    rows = sum(int(table["rows"]) for table in contents.tables)
    there = (
        f", {plural(rows, 'row')} in {plural(len(contents.tables), 'table')} of the database" if contents.steps else ""
    )
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(contents.made))
    return f"{plural(files, 'file')}{there}, {file_size(contents.bytes)}, of {made}."
