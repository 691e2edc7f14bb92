"""Who of a cluster can still be reached: its head, and nodes that have workers.

Without its head nothing new is placed, and Ray ends this process a minute later; a node that is cut off counts as
whole for about as long. One whose raylet was killed says so by itself: its port is shut.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import threading
import time
from collections.abc import Mapping

EVERY = 1.0  # seconds between two questions
PATIENCE = 2.0  # seconds for an answer ...
AT_ONCE = 0.5  # ... or while a run waits for it
MISSED = 4  # questions in a row without an answer, after which the head counts as gone
SHUT = 2  # times in a row that a node's machine answers that nobody listens there any more: its raylet has ended

Door = tuple[str, int]  # host and port: that somebody listens there is the answer


class Doors:
    """Asks by itself, beside whatever this process does."""

    def __init__(self, head: str) -> None:
        host, _, port = head.rpartition(":")
        self.head, self._door = head, (host.strip("[]"), int(port))
        self._missed = 0
        self._cut: dict[str, Door] = {}
        self._watched: dict[str, Door] = {}
        self._refused: dict[str, int] = {}  # times in a row
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="doors of the cluster", daemon=True)
        self._thread.start()

    @property
    def head_is_gone(self) -> bool:
        return self._missed >= MISSED

    @property
    def cut(self) -> frozenset[str]:
        """Nodes that could not be reached when they were last asked."""
        return frozenset(self._cut)

    @property
    def shut(self) -> frozenset[str]:
        """Nodes whose machines say that nobody listens any more, which is true however busy they are."""
        return frozenset(node for node, times in list(self._refused.items()) if times >= SHUT)

    def watch(self, node: str, door: Door) -> None:
        """A worker is there."""
        self._watched = {**self._watched, node: door}

    def suspect(self, node: str, door: Door) -> None:
        """A worker there is silent: see whether its node is, and for how long."""
        if not answers(door, AT_ONCE):
            self._cut[node] = door

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self._missed = 0 if answers(self._door) else self._missed + 1
            watched = self._watched
            shut = refusing(watched, AT_ONCE)
            self._refused = {node: self._refused.get(node, 0) + 1 for node in shut}
            for node, door in list(self._cut.items()):
                if answers(door):
                    del self._cut[node]


def answers(door: Door, seconds: float = PATIENCE) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(door, seconds).close()
        return True
    return False


def refusing(doors: Mapping[str, Door], seconds: float) -> set[str]:
    """Those at which a machine answers that nobody listens; all are asked at the same time."""
    asked: dict[int, tuple[str, socket.socket]] = {}
    found, poll = set[str](), select.poll()
    with contextlib.ExitStack() as stack:
        for node, (host, port) in doors.items():
            line = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            line.setblocking(False)
            code = line.connect_ex((host, port))
            if code == errno.ECONNREFUSED:
                found.add(node)
            elif code == errno.EINPROGRESS:
                asked[line.fileno()] = node, line
                poll.register(line, select.POLLOUT)
        deadline = time.monotonic() + seconds
        while asked and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(1000 * left):
                poll.unregister(descriptor)
                node, line = asked.pop(descriptor)
                if line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED:
                    found.add(node)
    return found
