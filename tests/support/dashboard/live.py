"""Records of a run, and what a browser makes of the messages about them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from shoal.dashboard.live.feed import ROUND_COLUMNS, RunFeed, columns
from shoal.dashboard.live.hub import message
from shoal.metrics import HostSample, Round, WorkerSample
from shoal.runs.launch import Run
from shoal.storage import Storage


def a_round(number: int, seconds: float | None = None, **more: Any) -> Round:
    begun = Round(
        round=number, epoch=number / 10, phase="steps", seconds=number / 100 if seconds is None else seconds,
        loss=1 / (1 + number), validation=None, distance=1 / (2 + number), gradient_norm=1.0, learning_rate=0.5,
        alpha=1.0, nonzeros=3, rows_per_second=1000.0, bytes_raw=80, bytes_sent=40, read=0.1, compute=0.5, wait=0.4,
        apply=0.1, staleness=0.0, workers=2,
    )  # fmt: skip
    return dataclasses.replace(begun, **more)


def a_host(seconds: float) -> HostSample:
    return HostSample(seconds, 0.5, 10, 40, 1.0, 2.0, 3.0, 4.0)


def a_worker(seconds: float, rank: int = 0, **more: Any) -> WorkerSample:
    return dataclasses.replace(WorkerSample(seconds, rank, 100 + rank, "working", 0.5, 1, 2, 0.0, 0.1, None), **more)


class Tab:
    """What a browser holds after the messages of a feed, as stream.js does it."""

    def __init__(self, run: Run) -> None:
        self.feed = RunFeed(run)
        self.data: dict[str, Any] = {}
        self.kinds: list[str] = []

    def look(self) -> str:
        found = self.feed.look()
        if found is None:
            return ""
        self.take(found.kind, json.loads(message(*found).partition(b"data: ")[2]))
        return found.kind

    def take(self, kind: str, body: dict[str, Any]) -> None:
        self.kinds.append(kind)
        if kind == "snapshot":
            self.data = body
            return
        for part, value in body.items():
            if part in ("rounds", "hosts", "rates"):
                for name, more in value.items():
                    self.data[part][name] += more
            elif part in ("events", "log"):
                self.data[part] += value
            else:
                self.data[part] = value

    @property
    def rounds(self) -> list[int]:
        return self.data["rounds"]["round"]

    def shows_all_of(self, storage: Storage) -> None:
        """No gap, no duplicate, no older version of a round."""
        whole = json.loads(json.dumps(columns(storage.rounds(10**9), ROUND_COLUMNS)))
        assert self.data["rounds"] == whole


def active(run: Run) -> None:
    """As if its process were about to start: the run is active."""
    (run.directory / "started").unlink()
