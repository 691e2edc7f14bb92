"""A group of `torch.distributed` (gloo) by the loopback interface; who belongs to it and what is summed is not here.

Peers find each other by a file that only they know, and listen at ports that the system chooses, at 127.0.0.1 only.
A group is of no use any more once something of it has failed: whoever goes on makes another one.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor

LOOPBACK = "127.0.0.1"
c10d: Any = torch.distributed  # whose stubs lack what is used here


class GlooGroup:
    """One member's end."""

    def __init__(self, file: str, place: int, size: int, patience: float) -> None:
        """Waits for the others for as long as `patience`; RuntimeError if one does not come."""
        self._place, self._size = place, size
        within = datetime.timedelta(seconds=patience)
        Path(file).touch()  # PyTorch would wait five minutes for a folder that is not there
        store = c10d.FileStore(file, size)
        store.set_timeout(within)
        options = c10d.ProcessGroupGloo._Options()
        options._timeout, options._threads = within, 1
        options._devices = [c10d.ProcessGroupGloo.create_device(hostname=LOOPBACK)]
        self._group = c10d.ProcessGroupGloo(store, place, size, options)

    def exchanged(self, parts: Sequence[Tensor], rows: Sequence[int], patience: float) -> Tensor:
        """`parts[i]`, a table (rows[place], n_i), goes to member i; what comes from all is (sum of rows, n_place).

        RuntimeError where a peer is gone, or silent for longer than `patience`.
        """
        width = parts[self._place].shape[1]
        out = torch.cat([part.reshape(-1) for part in parts])
        into = torch.empty((sum(rows), width), dtype=out.dtype)
        self._group.alltoall_base(
            into.view(-1), out, [width * count for count in rows], [part.numel() for part in parts],
            timeout=datetime.timedelta(seconds=patience),
        ).wait()  # fmt: skip
        return into
