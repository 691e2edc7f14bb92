"""Records of a run that look like real ones; the processes that tests start make them too."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.metrics import HostSample, Round, WorkerSample
from shoal.storage.thinning import Bucket

NAN, INF = math.nan, math.inf


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


def same(a: Any, b: Any) -> bool:
    """Equal values of equal types, NaN included, so that 1 is not taken for 1.0 nor None for NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and same(vars(a), vars(b))
    return type(a) is type(b) and bool(a == b)


def same_all(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(same(left, right) for left, right in zip(a, b, strict=True))


def noisy(count: int, seed: int, spoiled: float = 0.0) -> list[Round]:
    """Recorded rounds with gaps between them and a loss that jumps about, some of it NaN or infinite."""
    draw = random.Random(seed)
    numbers = itertools.accumulate(draw.choice((1, 1, 3, 50)) for _ in range(count))
    losses = (draw.choice((NAN, INF, -INF)) if draw.random() < spoiled else draw.gauss(0, 1) for _ in range(count))
    return [round_(number, loss) for number, loss in zip(numbers, losses, strict=True)]


def extremes(records: Sequence[Round]) -> tuple[float, float]:
    losses = [record.loss for record in records if not math.isnan(record.loss)]
    return min(losses), max(losses)


def is_fair_sample(thin: Sequence[Round], whole: Sequence[Round], points: int) -> bool:
    known = {record.round: record for record in whole}
    return (
        min(len(whole), points // 2) <= len(thin) <= points
        and all(a.round < b.round for a, b in itertools.pairwise(thin))
        and all(same(record, known[record.round]) for record in thin)
        and (thin[0].round, thin[-1].round) == (whole[0].round, whole[-1].round)
        and extremes(thin) == extremes(whole)
    )


def look_at(losses: Sequence[float]) -> Callable[[int, int, int], list[Bucket]]:
    """Buckets by brute force: NumPy's extremes over the records that a bucket stands for."""

    def bucket(first: int, size: int) -> Bucket:
        part = np.array(losses[first : first + size])
        assert len(part) == size, "a bucket that is not full was asked for"
        known = np.flatnonzero(~np.isnan(part))
        if not len(known):
            return Bucket(first, NAN, first, NAN)
        low, high = int(known[part[known].argmin()]), int(known[part[known].argmax()])
        return Bucket(first + low, float(part[low]), first + high, float(part[high]))

    return lambda level, first, stop: [bucket(i * 4**level, 4**level) for i in range(first, stop)]


def read_log(directory: Path) -> Iterator[dict[str, Any]]:
    """The entries of log.jsonl, oldest first; a line that was cut off by a crash is left out."""
    try:
        lines = (directory / "log.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            yield json.loads(line)
