"""Weights that a module is asked about: taken once where nobody can change them, and anew wherever something might have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from shoal.networks.live import LiveModule, loaded
from support.gradient.nets import Rows, rows, small, stored


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveModule:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    return loaded(str(stored(small(), rows())), "float64")


def fixed(w: np.ndarray) -> np.ndarray:
    w = w.copy()
    w.flags.writeable = False
    return w


def gradient(module: LiveModule, w: np.ndarray, data: Rows) -> bytes:
    module.seed(1)
    return module.gradient(*data, w)[0].tobytes()


def test_a_gradient_is_of_the_weights_that_come_with_it_whatever_came_before(module: LiveModule) -> None:
    X, y = rows(32)
    data = X, y
    some, other = fixed(module.start), fixed(module.start + 0.1)
    wanted = gradient(module, some, data)
    assert gradient(module, some, data) == wanted
    assert gradient(module, other, data) != wanted
    assert gradient(module, some, data) == wanted
    with torch.no_grad():
        next(module.module.parameters()).add_(1.0)  # as a layer might that writes into itself
    assert gradient(module, some, data) == wanted


def test_weights_that_can_be_written_to_are_read_each_time(module: LiveModule) -> None:
    X, y = rows(32)
    w = module.start.copy()
    before = gradient(module, w, (X, y))
    w += 0.1
    assert gradient(module, w, (X, y)) == gradient(module, fixed(module.start + 0.1), (X, y)) != before
