"""Exact medians of columns by counting, in as many passes whatever the number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from shoal.data.dataset import Dataset
from shoal.data.splits import Split
from shoal.passes.blocks import CountKeys, Probe, value_of_key

Swept = Callable[[str, Sequence[Any]], Iterator[Any]]  # (stage, requests) -> their reports, in order


def medians(swept: Swept, dataset: Dataset, columns: Sequence[str], target: str, split: Split) -> dict[str, float]:
    """The exact medians of the training rows in four counting passes, whatever the number of rows.

    Each pass counts the next 16 bits of the values' ordered keys among those that fit what is known so far.
    """
    probes = [Probe(name, 0, 0) for name in columns for _ in range(2)]
    ranks: list[int] = []
    for step in range(4):
        requests = [CountKeys(str(dataset.directory), b, target, split, tuple(probes)) for b in dataset.blocks]
        counts = np.asarray(sum(swept("finding medians", requests)))  # one at a time: half a MB a probe
        if step == 0:
            totals = counts.sum(axis=1)
            ranks = [int((n - 1) // 2 if i % 2 == 0 else n // 2) for i, n in enumerate(totals)]
        for i, probe in enumerate(probes):
            below = np.cumsum(counts[i])
            bits = int(np.searchsorted(below, ranks[i], side="right"))
            ranks[i] -= int(below[bits - 1]) if bits else 0
            probes[i] = Probe(probe.column, probe.known_bits + 16, (probe.prefix << 16) | min(bits, 0xFFFF))
    values = [value_of_key(probe.prefix) for probe in probes]
    found = {name: values[2 * i] / 2 + values[2 * i + 1] / 2 for i, name in enumerate(columns)}
    return {name: value for i, (name, value) in enumerate(found.items()) if totals[2 * i]}
