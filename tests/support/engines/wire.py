"""A slow cable in user space, for kernels without netem: `python -m support.engines.wire NAME OTHER SECONDS BITS`.

Its ends are two new network devices of these names, which may be moved to other namespaces. A frame leaves the other
end when those before it have left, each for as long as its bits take, and so many seconds later. It prints a line when
both ends are there, and ends when its input does.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

TESTS = Path(__file__).parents[2]
TUNSETIFF, TAP, PLAIN = 0x400454CA, 0x0002, 0x1000  # a device of whole frames, with nothing in front of them
FRAME = 1 << 16
QUEUE = 1000  # frames that wait for the wire; more are lost, as in a switch


class Wire:
    """The process, as tests see it."""

    def __init__(self, ends: tuple[str, str], seconds: float, bits: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.engines.wire", *ends, str(seconds), str(bits)], text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "expected a device /dev/net/tun that may be opened"

    def close(self) -> None:
        self.process.communicate(timeout=30)


class Direction:
    """From one end to the other: frames that are on their way, with the time at which they come out."""

    def __init__(self, source: int, target: int, seconds: float, bits: float) -> None:
        self.source, self._target, self._seconds, self._bits = source, target, seconds, bits
        self._free = 0.0  # from when on nothing is being put on the wire
        self._under_way: deque[tuple[float, bytes]] = deque()

    def take(self, now: float) -> None:
        frame = os.read(self.source, FRAME)
        if len(self._under_way) < QUEUE:
            self._free = max(now, self._free) + 8 * len(frame) / self._bits
            self._under_way.append((self._free + self._seconds, frame))

    def give(self, now: float) -> float | None:
        """Let out what is due; the time of the next one."""
        while self._under_way and self._under_way[0][0] <= now:
            try:
                os.write(self._target, self._under_way.popleft()[1])
            except OSError:  # the other end is not plugged in
                continue
        return self._under_way[0][0] if self._under_way else None


def end(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP | PLAIN))
    return device


def main(one: str, other: str, seconds: str, bits: str) -> None:
    ends = end(one), end(other)
    ways = {
        source: Direction(source, target, float(seconds), float(bits))
        for source, target in (ends, reversed(ends))
    }  # fmt: skip
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        due = [when for way in ways.values() if (when := way.give(now)) is not None]
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        ready, _, _ = select.select([*ways, sys.stdin], [], [], timeout)
        if sys.stdin in ready:
            return
        for source in ready:
            ways[source].take(time.monotonic())


if __name__ == "__main__":
    main(*sys.argv[1:])
