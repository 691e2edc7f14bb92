"""Processes of Ray that wait on nodes for whoever comes next: one that is started when a worker is asked for has to
import Ray first, which takes longer than most fits. Ray keeps as many as a node has cores; it makes them when it starts
if it is told to (RAY_enable_worker_prestart=1), and none in place of those that were used."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from shoal.engines.cluster.calls import call
from shoal.engines.cluster.doors import AT_ONCE, Door

PRESTART = b"/ray.rpc.NodeManagerService/PrestartWorkers"
COUNT = 5  # the number of the field that says how many
MOST = 100  # processes that a node is asked for: fewer than a byte of a message counts
PATIENCE = 2.0  # seconds for all nodes together: nobody waits for those who come next


def leave_behind(doors: Iterable[Door]) -> int:
    """A process on each node for each time that its door is named; how many nodes have promised it."""
    promised, deadline = 0, time.monotonic() + PATIENCE
    for door, count in Counter(doors).items():
        if (left := deadline - time.monotonic()) <= 0:
            break
        message = bytes([COUNT << 3, min(count, MOST)])
        promised += b"grpc-status\x010" in call(door, PRESTART, message, min(left, AT_ONCE), token())
    return promised


def token() -> str:
    """As Ray finds it."""
    if found := os.environ.get("RAY_AUTH_TOKEN"):
        return found.strip()
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""  # an open cluster
