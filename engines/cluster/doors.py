"""Who of a cluster can still be reached: its head, and nodes whose workers fell silent.

Without its head nothing new is placed, and Ray ends this process a minute later; a node that is cut off counts as
whole for about as long.
"""

from __future__ import annotations

import contextlib
import socket
import threading

EVERY = 1.0  # seconds between two questions
PATIENCE = 2.0  # seconds for an answer ...
AT_ONCE = 0.5  # ... or while a run waits for it
MISSED = 4  # questions in a row without an answer, after which the head counts as gone

Door = tuple[str, int]  # host and port: that somebody listens there is the answer


class Doors:
    """Asks by itself, beside whatever this process does."""

    def __init__(self, head: str) -> None:
        host, _, port = head.rpartition(":")
        self.head, self._door = head, (host.strip("[]"), int(port))
        self._missed = 0
        self._cut: dict[str, Door] = {}
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
            for node, door in list(self._cut.items()):
                if answers(door):
                    del self._cut[node]


def answers(door: Door, seconds: float = PATIENCE) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(door, seconds).close()
        return True
    return False
