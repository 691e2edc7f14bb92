"""The command that starts the dashboard; what it serves is in `main.py` and `dashboard/`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from shoal.cli.flags import Add
from shoal.home import home

MAIN = Path(__file__).parents[1] / "main.py"  # its settings are beside it, in .streamlit/config.toml
FOLDERS = ("SHOAL_HOME", "SHOAL_DATA")


def add_commands(add: Add) -> None:
    dashboard = add(
        "dashboard",
        help="start the dashboard on this machine",
        usage="shoal dashboard [--port N] [--home FOLDER] [-- STREAMLIT FLAGS]",
        description="Start the dashboard on this machine, http://127.0.0.1:5000 unless told otherwise.",
    )
    dashboard.add_argument(
        "--port", type=int, default=5000, metavar="N", help="0 for any that is free (default: %(default)s)"
    )
    dashboard.add_argument("--home", metavar="FOLDER", help="where runs, models and caches are kept, as SHOAL_HOME")
    dashboard.add_argument(
        "flags", nargs="*", metavar="STREAMLIT FLAGS",
        help="after '--', settings of the server such as --server.address 0.0.0.0",
    )  # fmt: skip
    dashboard.set_defaults(command=_dashboard)


def _dashboard(chosen: argparse.Namespace) -> NoReturn:
    if chosen.home:
        os.environ["SHOAL_HOME"] = chosen.home
    for name in FOLDERS:
        if folder := os.environ.get(name):
            os.environ[name] = str(Path(folder).expanduser().absolute())
    home().mkdir(parents=True, exist_ok=True)
    os.chdir(home())  # Streamlit takes settings from the current folder, which may be those of another program
    flags = ["--server.port", str(chosen.port), *chosen.flags]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "streamlit", "run", str(MAIN), *flags])
