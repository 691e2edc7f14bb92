"""How fast predictions come over HTTP, `python -m benchmarks.serving`: one row and 1,000 rows a request, from `shoal
serve` and from the dashboard's API; another process asks, over a few connections that stay open.

The client sends requests that were made before and reads answers by their length, so that it takes as little as it can
of the two cores that it shares with the server. Each figure is the middle of several turns, with the ends.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil

TURNS = 5
CASES = ((1, 1, 3.0), (1, 2, 3.0), (1, 8, 3.0), (1000, 1, 3.0), (1000, 2, 3.0))  # rows, connections, seconds
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
NUMBERS, ROWS = 20, 20_000


def made(folder: Path) -> tuple[Path, list[dict[str, object]]]:
    """A table of 20 numbers and 2 texts, and rows of it to ask about."""
    chance = np.random.default_rng(0)
    X = chance.normal(size=(ROWS, NUMBERS))
    city, kind = chance.choice(list("abcdefgh"), ROWS), chance.choice(["x", "y", "z"], ROWS)
    y = X @ chance.normal(size=NUMBERS) + 2.0 * (city == "a") + chance.normal(size=ROWS)
    names = [*(f"x{i}" for i in range(NUMBERS)), "city", "kind"]
    path = folder / "table.csv"
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow([*names, "y"])
        cells = zip(X.round(4).tolist(), city.tolist(), kind.tolist(), y.round(4).tolist(), strict=True)
        lines.writerows([*numbers, a, b, target] for numbers, a, b, target in cells)
    some = zip(X[:1000].round(4).tolist(), city[:1000].tolist(), kind[:1000].tolist(), strict=True)
    return path, [dict(zip(names, [*numbers, a, b], strict=True)) for numbers, a, b in some]


def request(path: str, token: str, rows: list[dict[str, object]]) -> bytes:
    body = json.dumps({"rows": rows}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Asker:
    """One connection: sends a request, reads its answer, and again."""

    def __init__(self, port: int, text: bytes) -> None:
        self.text, self.rest, self.wanted = text, b"", -1
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = 0.0

    def ask(self) -> None:
        self.sent = time.perf_counter()
        self.socket.sendall(self.text)

    def heard(self) -> float | None:
        """Seconds that the answer took, once it is whole."""
        self.rest += self.socket.recv(1 << 18)
        if self.wanted < 0:
            head, end, _ = self.rest.partition(b"\r\n\r\n")
            if not end:
                return None
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(self.rest[:500].decode())
            found = LENGTH.search(head)
            assert found is not None
            self.wanted = len(head) + 4 + int(found[1])
        if len(self.rest) < self.wanted:
            return None
        self.rest, self.wanted = self.rest[self.wanted :], -1
        return time.perf_counter() - self.sent


def loaded(port: int, text: bytes, connections: int, seconds: float) -> tuple[float, list[float]]:
    """Requests a second, and how long each took."""
    askers = {asker.socket: asker for asker in (Asker(port, text) for _ in range(connections))}
    taken: list[float] = []
    begun = time.perf_counter()
    for asker in askers.values():
        asker.ask()
    while time.perf_counter() - begun < seconds:
        for ready in select.select(list(askers), [], [], 1.0)[0]:
            found = askers[ready].heard()
            if found is not None:
                taken.append(found)
                askers[ready].ask()
    whole = time.perf_counter() - begun
    for asker in askers.values():
        asker.socket.close()
    return len(taken) / whole, taken


@contextlib.contextmanager
def serving(home: Path, pattern: str, *words: str) -> Iterator[tuple[int, int]]:
    """A server's port and process."""
    environment = {**os.environ, "SHOAL_HOME": str(home), "SHOAL_NO_BROWSER": "1"}
    command = [sys.executable, "-P", "-m", "shoal.cli.app", *words, "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = next(int(found[1]) for line in process.stdout if (found := re.search(pattern, line)))
            yield port, process.pid
        finally:
            process.terminate()


def processor(process: int) -> float:
    """Seconds of a processor that the server has had: the same on a busy machine as on an idle one."""
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


def measured(name: str, port: int, process: int, path: str, token: str, rows: list[dict[str, object]]) -> list[str]:
    lines = []
    for count, connections, seconds in CASES:
        text = request(path, token, rows[:count])
        loaded(port, text, connections, 0.5)
        before = processor(process)
        turns = [loaded(port, text, connections, seconds) for _ in range(TURNS)]
        own = 1e3 * (processor(process) - before) / sum(len(turn[1]) for turn in turns)
        rate = sorted(turn[0] for turn in turns)
        ranks = {rank: sorted(1e3 * np.quantile(turn[1], rank) for turn in turns) for rank in (0.5, 0.95, 0.99)}
        said = " | ".join(f"{statistics.median(one):.2f} ({one[0]:.2f} to {one[-1]:.2f})" for one in ranks.values())
        rates = f"{statistics.median(rate):,.0f} ({rate[0]:,.0f} to {rate[-1]:,.0f})"
        lines.append(f"| {name} | {count:,} | {connections} | {rates} | {said} | {own:.2f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dashboard", action="store_true", help="also the dashboard's own API")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-serving-") as folder:
        home = Path(folder) / "home"
        os.environ["SHOAL_HOME"] = str(home)
        table, rows = made(Path(folder))
        shoal = [sys.executable, "-P", "-m", "shoal.cli.app"]
        fit = ["train", str(table), "--target", "y", "--model", "ridge", "--alpha", "1", "--register", "bench"]
        subprocess.run([*shoal, *fit], check=True, stdout=subprocess.DEVNULL)
        made_token = subprocess.run([*shoal, "token", "create", "bench"], check=True, capture_output=True, text=True)
        token = made_token.stdout.splitlines()[0]
        head = ("server", "rows a request", "connections", "requests a second", "p50 ms", "p95 ms", "p99 ms",
                "processor ms a request")  # fmt: skip
        print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
        with serving(home, r"served at http://127\.0\.0\.1:(\d+)/", "serve", "bench") as (port, process):
            measured("shoal serve", port, process, "/predict", token, rows)
        if chosen.dashboard:
            with serving(home, r"http://[a-z.0-9]+:(\d+)/", "dashboard", "--no-token") as (port, process):
                measured("dashboard", port, process, "/api/v1/models/bench/versions/latest/predict", token, rows)


if __name__ == "__main__":
    main()
