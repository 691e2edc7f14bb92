"""What is installed and how it is set up, as pairs of words, and as one text for a bug report. It draws nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from shoal.dashboard.parts import wording
from shoal.dashboard.tables import uploads
from shoal.database.address import is_set
from shoal.errors import TrainingError
from shoal.home import home
from shoal.kernels import build as native
from shoal.runs import slots
from shoal.words import file_size

LIBRARIES = ("scipy", "pandas", "scikit-learn", "pyarrow", "streamlit", "plotly")
Facts = list[tuple[str, str]]


def versions() -> Facts:
    """Programs and libraries, ours first."""
    own = [
        ("Shoal", version("shoal")),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("System", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("CSV reader", native.built_with("csv_kernel") or "built on first use"),
        ("NumPy", f"{np.__version__}, {blas()}"),
    ]
    return [*own, *((name, version(name)) for name in LIBRARIES)]


def version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def blas() -> str:
    """The linear algebra that NumPy was built with."""
    found: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    library = found.get("Build Dependencies", {}).get("blas", {})
    return f"{library.get('name', 'unknown BLAS')} {library.get('version', '')}".strip()


def setup() -> Facts:
    """Where things are kept and what limits there are; no secrets."""
    return [
        ("SHOAL_HOME", _without_user(home())),
        (
            "Store of records",
            f"SQLite {sqlite3.sqlite_version}: metrics.sqlite in each run's folder"
            + ("; of new runs: the database that SHOAL_DATABASE names" if is_set() else ""),
        ),
        ("Engines", "one process for small exact fits, worker processes for the rest"),
        ("Cluster engines", _cluster_engines()),
        ("Slots", _slots()),
        ("Largest upload", _upload_limit()),
        ("Listens on", f"{st.get_option('server.address') or 'all addresses'}:{st.get_option('server.port')}"),
    ]


def _cluster_engines() -> str:
    try:
        installed = f"Ray {importlib.metadata.version('ray')}"
    except importlib.metadata.PackageNotFoundError:
        return "none installed"
    address = os.environ.get(slots.CLUSTER)
    return f"{installed}, the cluster at {address}" if address else f"{installed}, a small cluster for each run"


def _slots() -> str:
    try:
        said = "SHOAL_SLOTS" if os.environ.get("SHOAL_SLOTS") else "one a core"
        return f"{slots.slots()} for gradient runs ({said})"
    except TrainingError as error:
        return wording.told(error)


def _upload_limit() -> str:
    try:
        said = "SHOAL_MAX_UPLOAD" if os.environ.get("SHOAL_MAX_UPLOAD") else "unless SHOAL_MAX_UPLOAD says otherwise"
        return f"{file_size(uploads.largest())} ({said})"
    except TrainingError as error:
        return wording.told(error)


def _without_user(path: Path) -> str:
    """A path that can be shown around."""
    try:
        return str(Path("~") / path.relative_to(Path.home()))
    except ValueError:
        return str(path)


def bug_report(plugins: list[dict[str, Any]], more: Facts) -> str:
    """Everything above in one text; no names of files, no addresses, no secrets."""
    facts = [*versions(), *(fact for fact in setup() if fact[0] != "Listens on"), *more]
    width = max(len(name) for name, _ in facts)
    lines = [f"{name:<{width}}  {value}" for name, value in facts]
    for plugin in plugins:
        state = plugin["problem"] or "loads"
        lines.append(f"plug-in: {plugin['what']} {plugin['name']}: {state}")
    return "\n".join([*lines, f"command: {Path(sys.argv[0]).name}"])
