"""A group among threads of this process: what is exchanged, where it listens, and peers that do not come or go away."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from shoal.allreduce.gloo import GlooGroup


def formed(folder: Path, size: int) -> list[GlooGroup]:
    with ThreadPoolExecutor(size) as pool:
        made = [pool.submit(GlooGroup, str(folder / "group"), place, size, 60.0) for place in range(size)]
        return [one.result() for one in made]


def test_each_receives_its_stretch_of_all_rows_in_the_order_of_the_members(tmp_path: Path) -> None:
    rows, ends = [2, 0, 3], [0, 3, 4, 9]
    whole = np.random.default_rng(2).standard_normal((sum(rows), ends[-1]))
    before = {one.laddr for one in psutil.Process().net_connections("inet") if one.status == "LISTEN"}
    groups = formed(tmp_path, 3)
    doors = {one.laddr for one in psutil.Process().net_connections("inet") if one.status == "LISTEN"} - before
    assert {door.ip for door in doors} == {"127.0.0.1"}
    own = np.split(whole, np.cumsum(rows)[:-1])
    with ThreadPoolExecutor(3) as pool:
        asked = [
            pool.submit(group.exchanged, [torch.tensor(mine[:, a:b]) for a, b in itertools.pairwise(ends)], rows, 60.0)
            for group, mine in zip(groups, own, strict=True)
        ]  # fmt: skip
        for place, one in enumerate(asked):
            assert np.array_equal(one.result().numpy(), whole[:, ends[place] : ends[place + 1]])


def test_a_peer_that_goes_away_is_told_at_once_and_one_that_never_comes_in_time(tmp_path: Path) -> None:
    groups = formed(tmp_path, 2)
    parts = [torch.zeros((1, 4)), torch.zeros((1, 4))]
    del groups[1]
    with pytest.raises(RuntimeError, match=r"[Cc]onnection"):
        groups[0].exchanged(parts, [1, 1], 600.0)
    with pytest.raises(RuntimeError, match=r"[Tt]imed out|[Tt]imeout"):
        GlooGroup(str(tmp_path / "alone"), 0, 2, 0.2)
    with pytest.raises(OSError, match="none"):
        GlooGroup(str(tmp_path / "none" / "there"), 0, 2, 600.0)
