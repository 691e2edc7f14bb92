"""Detached runs as their folders show them, and how to start one; the work itself is in `runs`, never imported here.

A run's folder is where everyone meets: job.json (what to do), config.json, progress.json, result.json or error.json,
log.txt, and a lock that the kernel holds for as long as the run is alive. Imports are light: a dashboard lives on this.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config import RunConfig
from utils import THREAD_LIMITS, home, write_atomically

PATIENCE = 30.0  # seconds that a new process may take to say that it has started


@dataclass(frozen=True)
class Run:
    """A run by its folder; everything about it is read from there."""

    directory: Path

    @property
    def id(self) -> str:
        return self.directory.name

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            value: dict[str, Any] = json.loads((self.directory / name).read_text())
        except (OSError, ValueError):
            return None
        return value

    @property
    def task(self) -> str:
        """train, or inspect: only look at the file."""
        return str((self._read("job.json") or {}).get("task", "train"))

    @property
    def config(self) -> dict[str, Any]:
        return self._read("config.json") or {}

    @property
    def result(self) -> dict[str, Any] | None:
        return self._read("result.json")

    @property
    def model_path(self) -> Path:
        return self.directory / "model.json"

    @property
    def progress(self) -> tuple[str, float]:
        found = self._read("progress.json") or {"stage": "starting", "fraction": 0.0}
        return found["stage"], found["fraction"]

    @property
    def error(self) -> str | None:
        if self.state == "interrupted":
            return "The run ended before it was finished: its process was stopped. Start it again."
        found = self._read("error.json")
        return found["message"] if found else None

    @property
    def is_active(self) -> bool:
        return self.state in ("preparing", "running")

    @property
    def state(self) -> str:
        """preparing, running, finished, failed, or interrupted: the process is gone and left no result."""
        said = self._last_word()
        if said:
            return said
        if not (self.directory / "started").exists():
            return "preparing" if self._age() < PATIENCE else "interrupted"
        # The process may end between two looks: once the lock is free, its last word counts.
        return "running" if self._is_locked() else self._last_word() or "interrupted"

    def _last_word(self) -> str | None:
        for name, state in (("result.json", "finished"), ("error.json", "failed")):
            if (self.directory / name).exists():
                return state
        return None

    def _age(self) -> float:
        try:
            return time.time() - self.directory.stat().st_mtime
        except OSError:
            return PATIENCE

    def _is_locked(self) -> bool:
        with (self.directory / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
            return False


def new_run_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def runs_directory() -> Path:
    return home() / "runs"


def inspections_directory() -> Path:
    return home() / "inspections"


def find_run(run_id: str) -> Run | None:
    directory = runs_directory() / Path(run_id).name
    return Run(directory) if (directory / "config.json").exists() else None


def list_runs() -> list[Run]:
    """All runs, the newest first: their names begin with the time."""
    found = runs_directory().glob("*/config.json")
    return [Run(path.parent) for path in sorted(found, reverse=True)]


def launch(config: RunConfig) -> Run:
    """Start a fit in a process of its own session; it goes on when its starter is gone."""
    return _start(runs_directory() / new_run_id(), "train", config)


def launch_inspect(config: RunConfig, anew: bool = False) -> Run:
    """Look at a file in a process of its own, or find that this was done: same file and options, same folder.

    `anew` forgets an earlier answer, which may have come from a full disk or a killed process.
    """
    directory = inspections_directory() / _fingerprint(config)
    if anew and not Run(directory).is_active:
        shutil.rmtree(directory, ignore_errors=True)
    try:
        return _start(directory, "inspect", config)
    except FileExistsError:
        return Run(directory)


def _fingerprint(config: RunConfig) -> str:
    """Of the file as it is now and of every option, so that a changed file is looked at again."""
    try:
        seen = Path(config.file).stat()
        identity = [seen.st_size, seen.st_mtime_ns, seen.st_ino]
    except OSError:
        identity = []
    text = json.dumps([config.as_dict(), identity], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _start(directory: Path, task: str, config: RunConfig) -> Run:
    directory.mkdir(parents=True)
    write_atomically(directory / "job.json", json.dumps({"task": task}).encode())
    write_atomically(directory / "config.json", json.dumps(config.as_dict()).encode())
    with (directory / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "runs", str(directory)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, close_fds=True,
            cwd=Path(__file__).parent, env={**os.environ, **THREAD_LIMITS},
        )  # fmt: skip
    # Somebody must hear of its end, or it stays a zombie for as long as the dashboard lives.
    threading.Thread(target=process.wait, name=f"reaper-{directory.name}", daemon=True).start()
    return Run(directory)
