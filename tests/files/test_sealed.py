"""Documents with a checksum: every flip, cut and swap is noticed or changes nothing; older ones pass where it is told."""

from __future__ import annotations

import json
import math
import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import DamagedFile
from shoal.files import sealed

VALUES: dict[str, Any] = {
    "version": 2,
    "levels": ["b", "a", "\ud800", 'a "quoted" text'],
    "coef": [0.1, -0.0, 1e300, 5e-324],
    "none": None,
    "nested": {"z": 1, "a": {"yes": True}},
}


@pytest.mark.parametrize("lines", [False, True])
def test_what_was_written_is_read(tmp_path: Path, lines: bool) -> None:
    sealed.write(tmp_path / "file.json", VALUES, lines=lines)
    found = sealed.read(tmp_path / "file.json")
    assert found == VALUES
    assert list(found) == list(VALUES)
    assert math.copysign(1, found["coef"][1]) == -1


def test_a_document_that_was_read_can_be_written_again_with_another_value(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    sealed.write(path, {**VALUES, sealed.CHECKSUM: "of another time"})
    assert sealed.read(path) == VALUES


def test_every_flipped_bit_is_noticed_or_changes_nothing() -> None:
    data = sealed.sealed(VALUES)
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        try:
            assert repr(sealed.proven(bytes(changed), "file")) == repr(VALUES), place
        except DamagedFile:
            continue


@pytest.mark.parametrize("seed", range(40))
def test_noise_and_cuts_are_noticed(seed: int) -> None:
    chance, data = random.Random(seed), sealed.sealed(VALUES)
    begin = chance.randrange(len(data))
    length = chance.randrange(1, 20)
    for changed in (data[:begin], data[:begin] + bytes(length) + data[begin + length :], data[begin:], b""):
        with pytest.raises(DamagedFile, match="'file' is damaged: expected"):
            sealed.proven(changed, "file")


@pytest.mark.parametrize("other", [b"[1, 2]", b"null", b"[" * 100_000, b"\xff\xfe", b"1" * 10_000])
def test_what_is_no_object_is_damaged(other: bytes) -> None:
    with pytest.raises(DamagedFile, match="is damaged"):
        sealed.proven(other, "file")


def test_a_document_in_the_place_of_another_is_damaged(tmp_path: Path) -> None:
    sealed.write(tmp_path / "one.json", VALUES, of="run one")
    assert sealed.read(tmp_path / "one.json", of="run one") == VALUES
    with pytest.raises(DamagedFile):
        sealed.read(tmp_path / "one.json", of="run two")


def test_an_older_document_passes_only_where_it_is_told_by_something_else() -> None:
    old = json.dumps({**VALUES, "version": 1}).encode()
    assert sealed.proven(old, "file", older=lambda values: values["version"] == 1)["version"] == 1
    with pytest.raises(DamagedFile, match="got none"):
        sealed.proven(old, "file")
    lost = sealed.sealed(VALUES).replace(b'"checksum"', b'"chacksum"')  # of a version that has one
    with pytest.raises(DamagedFile, match="got none"):
        sealed.proven(lost, "file", older=lambda values: values["version"] == 1)


def test_damage_tells_its_path_through_a_channel() -> None:
    with pytest.raises(DamagedFile) as said:
        sealed.proven(b"", "/a/file")
    assert pickle.loads(pickle.dumps(said.value)).path == "/a/file"


def test_a_file_that_is_not_there_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sealed.read(tmp_path / "none.json")
