"""Workers that are forks of their coordinator: they hold nothing of it but what they were given, and end as others do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal.engines.forking import can_fork

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
from contextlib import nullcontext
import atexit, json, os, signal, socket, sys, threading
from pathlib import Path
from shoal.engines.processes import ProcessEngine
from support.engine_requests import Die, Echo, Inherited, WhoAmI
if len(sys.argv) > 2:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
port, events, here = socket.create_server(("127.0.0.1", 0)), [], Path(sys.argv[1])
kept = (here / "kept").open("w")
kept.write("once")  # in a buffer that a fork has as well
print("said once")
signal.signal(signal.SIGTERM, lambda number, frame: print("not a worker's"))
atexit.register(lambda: print("ended", os.getpid()))
with ProcessEngine(2, on_event=events.append, forks=nullcontext) as engine:
    early = dict(engine.pids)
    first = list(engine.sweep([Inherited(*(os.readlink(f'/proc/self/fd/{one.fileno()}') for one in (port, kept))), *(WhoAmI(0.02) for _ in range(6))]))
    forks, commands = dict(engine.pids), [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in engine.pids.values()]
    ended = list(engine.sweep([Echo(0), Die(signal.SIGTERM, here / "died"), *map(Echo, range(2, 20))]))
    while "restarted" not in {event.kind for event in events}:
        list(engine.sweep(WhoAmI(0.02) for _ in range(2)))
print(json.dumps({
    "pid": os.getpid(), "early": early, "first": first, "forks": list(forks.values()), "ended": ended,
    "like us": [b"shoal.worker" not in command.split(bytes(1)) for command in commands],
    "events": [(event.kind, event.cause) for event in events],
}))
"""


def coordinator(folder: Path, *arguments: str) -> tuple[dict[str, Any], list[str]]:
    """What a coordinator says of its workers, and all else that it printed."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-c", SCRIPT, str(folder), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert not done.stderr
    *others, said, last = done.stdout.splitlines()
    found = json.loads(said)
    assert last == f"ended {found['pid']}"  # what it does at its end, no worker does
    assert (folder / "kept").read_text() == "once"
    return found, others


@pytest.mark.skipif(sys.platform != "linux", reason="the number of threads is told by Linux")
def test_forks_work_die_and_are_replaced_as_other_workers_and_inherit_nothing(tmp_path: Path) -> None:
    found, others = coordinator(tmp_path)
    assert others == ["said once"]
    assert found["early"] == {}  # they are made when they are needed, with all that was imported by then
    inherited, *who = found["first"]
    assert inherited == {"open": [], "threads": "1", "session": True, "terminal": os.devnull}
    assert set(who) <= set(found["forks"])
    assert found["pid"] not in found["forks"]
    assert found["like us"] == [True, True]
    assert found["ended"] == [0, "survived", *range(2, 20)]
    kinds = [kind for kind, _ in found["events"]]
    assert kinds.count("started") == 2
    assert kinds.count("lost") == kinds.count("restarted") == 1
    assert ["lost", "killed by signal 15 (SIGTERM)"] in found["events"]


def test_a_process_with_threads_is_not_forked(tmp_path: Path) -> None:
    found, _ = coordinator(tmp_path, "threads")
    assert len(found["early"]) == 2
    assert found["like us"] == [False, False]
    assert found["first"][0]["open"] == []


def test_linear_algebra_with_threads_forbids_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    assert not can_fork()
