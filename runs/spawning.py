"""How the process of a run, a search or the queue is started: detached, with what it is given; not what it does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from shoal.database.address import VARIABLE as DATABASE
from shoal.home import home
from shoal.utils import THREAD_LIMITS

STOPS = (signal.SIGTERM, signal.SIGINT)  # what asks for an orderly end
killed_by: dict[str, int] = {}  # signals that ended processes which this one has started, by the name of their folder


def spawn(
    directory: Path,
    module: str = "shoal.processes.run",
    held: Sequence[IO[str]] = (),
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Start the process of a run (or of a search) in a session of its own; it goes on when its starter is gone.

    Files with locks that are `held` go over to it; their descriptors are its arguments. Signals wait until
    it is ready for them.
    """
    given = [file.fileno() for file in held]
    with (directory / "log.txt").open("ab") as log, _signals_held():
        process = subprocess.Popen(
            [python, "-P", "-m", module, str(directory), *map(str, given)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=given,
            cwd="/", env={**_without_ours(environment), "SHOAL_HOME": str(home()), **THREAD_LIMITS},
        )  # fmt: skip
    # Somebody must hear of its end, or it stays a zombie for as long as the dashboard lives.
    killed_by.pop(directory.name, None)
    threading.Thread(target=_bury, args=(process, directory.name), name=f"reaper-{directory.name}", daemon=True).start()


def _bury(process: subprocess.Popen[bytes], name: str) -> None:
    code = process.wait()
    if code < 0:
        killed_by[name] = -code


def _without_ours(other: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of this process; where there is an `other` one, what is about Shoal comes from there alone.

    All but the address of the database, which is written nowhere: it comes from whoever starts the process.
    """
    if not other:
        return dict(os.environ)
    own = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_") or name == DATABASE}
    return own | dict(other)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """A process that is started in here hears of a stop when it is ready to, and not before: see `hear_signals`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear_signals() -> None:
    """For a process that `spawn` has started, once it knows what to do about them."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
