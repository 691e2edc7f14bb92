"""A folder with a plain checkpoint and a packed one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from shoal.training.checkpoints import Snapshot
from support.gradient.checkpoints import PACKED, Store


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Step 20 plain, step 10 packed in the archive."""
    folder = tmp_path_factory.mktemp("saved")
    store = Store(folder, keep=1)
    for step in (10, 20):
        store.save(Snapshot(step, {"cursor": step}, {"w": np.repeat(np.arange(8.0), 8)}))
    header = json.loads((folder / PACKED).read_bytes()[16:].split(b"\x78\x01")[0])
    assert header["packed"] == "zlib"
    return folder
