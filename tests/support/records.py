"""Records of a run that look like real ones; the processes that tests start make them too."""

from __future__ import annotations

import dataclasses
from typing import Any

from shoal.metrics import HostSample, Round, WorkerSample


def round_(number: int, loss: float = 1.0, **values: Any) -> Round:
    record = Round(
        round=number, epoch=number / 7, phase="steps", seconds=number / 3, loss=loss, validation=None, distance=0.25,
        gradient_norm=1e-9, learning_rate=0.1, alpha=0.5, nonzeros=3, rows_per_second=1e6 / 3, bytes_raw=2**40 + number,
        bytes_sent=number, read=0.1, compute=0.6, wait=0.2, apply=0.1, staleness=1.5, workers=2,
    )  # fmt: skip
    return dataclasses.replace(record, **values)


def worker(seconds: float, rank: int, **values: Any) -> WorkerSample:
    sample = WorkerSample(seconds, rank, 4000 + rank, "running", 0.75, 10**9, 55, 0.5, 0.125, None)
    return dataclasses.replace(sample, **values)


def host(seconds: float) -> HostSample:
    return HostSample(seconds, 0.5, 3 * 10**9, 8 * 10**9, 1e6, 2e6, 1 / 3, 0.0)
