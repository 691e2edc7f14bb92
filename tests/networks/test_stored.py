"""Modules and rows on disk: what is not as it was stored is refused, and stored anew by whoever brings it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shoal.errors import DamagedFile, TrainingError
from shoal.networks.live import loaded
from shoal.networks.stored import ANEW, read_module
from support.gradient.nets import flat, rows, small, stored


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["X", "y", "test_X", "test_y"])
def test_rows_with_a_flipped_bit_are_refused_and_stored_anew(name: str) -> None:
    data, test = rows(200), rows(40, seed=6)
    file = stored(small(), data, test=test)
    found = read_module(str(file)).data
    found.prove()
    flip(found.folder / f"{name}.npy", -3)
    with pytest.raises(DamagedFile, match="are damaged: expected the fingerprint"):
        found.prove()
    assert stored(small(), data, test=test) == file
    found.prove()
    np.testing.assert_array_equal(found.open("X"), data[0])


def test_a_damaged_header_of_rows_is_told() -> None:
    found = read_module(str(stored(small(), rows(200)))).data
    path = found.folder / "X.npy"
    path.write_bytes(path.read_bytes()[:10] + b"{'descr': (" + path.read_bytes()[21:])
    with pytest.raises(TrainingError, match="cannot be read") as caught:
        found.prove()
    assert ANEW in str(caught.value)


def test_what_a_module_begins_with_is_proven_and_stored_anew() -> None:
    module = small()
    file = stored(module, rows(200))
    start = file.with_name("start.safetensors")
    flip(start, -3)
    with pytest.raises(DamagedFile, match=r"start\.safetensors' is damaged"):
        loaded(str(file), "float64")
    assert stored(module, rows(200)) == file
    np.testing.assert_array_equal(loaded(str(file), "float64").start, flat(module))
