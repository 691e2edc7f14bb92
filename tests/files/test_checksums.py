"""CRC-32C against a bit-by-bit one and published values; files are proven when they are mapped, and once."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from shoal.errors import DamagedFile
from shoal.files import checksums
from shoal.files.checksums import checksum, made_aside, mapped, write_whole
from shoal.kernels.checksum_kernel import library


def bit_by_bit(data: bytes) -> int:
    """By the definition: division by the polynomial, one bit at a time."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "expected"),
    [  # RFC 3720, B.4
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"", 0),
    ],
)
def test_published_values(data: bytes, expected: int) -> None:
    assert checksum(data) == expected
    assert library().crc32c_by_table(0, data, len(data)) == expected


LENGTHS = [1, 7, 8, 9, 1023, 1024, 1025, 1280, 1535, 4096, 3 * 32768 - 1, 3 * 32768, 2 * 3 * 32768 + 13]


@pytest.mark.parametrize("length", LENGTHS)
def test_every_way_is_the_definition(length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    expected = bit_by_bit(data)
    assert checksum(data) == expected
    assert library().crc32c_by_lanes(0, data, length) == library().crc32c_by_table(0, data, length) == expected
    assert checksum(np.frombuffer(data, np.uint8)) == expected


@pytest.mark.parametrize("start", [1, 3, 8, 63])
def test_bytes_may_begin_anywhere(start: int) -> None:
    data = np.frombuffer(np.random.default_rng(start).bytes(5000), np.uint8)
    assert checksum(data[start:], 12345) == library().crc32c_by_table(12345, data[start:].tobytes(), 5000 - start)


@pytest.mark.parametrize("cut", [0, 1, 8, 40_000, 3 * 32768, 200_000])
def test_pieces_have_the_checksum_of_the_whole(cut: int) -> None:
    data = np.random.default_rng(1).bytes(200_000)
    assert checksum(data[cut:], checksum(data[:cut])) == checksum(data)


def test_only_arrays_without_gaps_have_one() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        checksum(np.arange(10)[::2])


def test_a_file_is_proven_when_it_is_mapped(tmp_path: Path) -> None:
    path, data = tmp_path / "file", np.random.default_rng(2).bytes(100_000)
    path.write_bytes(data)
    assert mapped(str(path), len(data), checksum(data)).tobytes() == data
    changed = bytearray(data)
    changed[70_000] ^= 4
    path.write_bytes(changed)
    with pytest.raises(DamagedFile, match=r"expected checksum [0-9a-f]{8}, got [0-9a-f]{8}") as said:
        mapped(str(path), len(data), checksum(data))
    assert said.value.path == str(path)


@pytest.mark.parametrize("left", [0, 50, 99_999])
def test_a_file_that_was_cut_short_is_damaged(tmp_path: Path, left: int) -> None:
    path, data = tmp_path / "file", np.random.default_rng(2).bytes(100_000)
    path.write_bytes(data[:left])
    with pytest.raises(DamagedFile, match=f"expected 100000 bytes, got {left}"):
        mapped(str(path), len(data), checksum(data))


def test_a_file_that_is_gone_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="expected a file"):
        mapped(str(tmp_path / "none"), 10, 0)


def test_an_empty_file_is_mapped(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert mapped(str(tmp_path / "file"), 0, checksum(b"")).size == 0


def test_a_process_proves_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, data = tmp_path / "file", b"12345678"
    path.write_bytes(data)
    proven: list[str] = []
    finish = checksums.RunningProof.finish
    monkeypatch.setattr(checksums.RunningProof, "finish", lambda proof: (proven.append(proof.path), finish(proof)))
    for _ in range(3):
        mapped(str(path), 8, checksum(data))
    assert proven == [str(path)]
    (tmp_path / "other").write_bytes(data)
    os.replace(tmp_path / "other", path)  # made anew: another file of that name
    mapped(str(path), 8, checksum(data))
    assert proven == [str(path)] * 2


def test_a_file_is_proven_while_it_is_used(tmp_path: Path) -> None:
    path, data = tmp_path / "numbers", np.arange(1000, dtype=np.uint8)
    path.write_bytes(data.tobytes())
    found, proof = checksums.mapped_to_prove(str(path), 1000, checksums.checksum(data))
    assert proof is not None
    for end in (10, 600):
        proof.upto(end)
        assert checksums.mapped_to_prove(str(path), 1000, checksums.checksum(data))[1] is not None  # not yet
    proof.finish()
    assert np.array_equal(found, data)
    assert checksums.mapped_to_prove(str(path), 1000, checksums.checksum(data))[1] is None
    _, other = checksums.mapped_to_prove(str(path), 1000, 7)
    assert other is not None
    with pytest.raises(DamagedFile, match="is damaged: expected checksum 00000007"):
        other.finish()


def test_whoever_wakes_in_the_middle_of_a_file_spoils_none_that_was_made_meanwhile(tmp_path: Path) -> None:
    """A worker that was silent for too long is replaced; what it writes when it wakes is its own."""
    target = tmp_path / "block.bin"
    slow = made_aside(str(target))
    slow.__enter__().write(b"half")
    with made_aside(str(target)) as other:
        other.write(b"whole")
    assert target.read_bytes() == b"whole"
    assert slow.__exit__(EOFError, EOFError(), None) is False
    assert target.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [target]


def test_who_wrote_a_file_sums_it_once_and_sees_a_change_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under another name: a data set gets its own when its blocks are written."""
    (tmp_path / "made").mkdir()
    data = np.random.default_rng(4).normal(size=(1000, 30))
    seal = write_whole(str(tmp_path / "made" / "block"), (data, np.arange(7, dtype=np.int32)))
    (tmp_path / "made").rename(tmp_path / "named")
    path = tmp_path / "named" / "block"
    with monkeypatch.context() as patch:
        patch.setattr(checksums, "checksum", lambda data, before=0: pytest.fail("summed again"))
        assert mapped(str(path), *seal)[: data.nbytes].tobytes() == data.tobytes()
    changed = bytearray(path.read_bytes())
    changed[5000] ^= 1
    path.write_bytes(changed)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))  # however coarse the clock of the file system is
    with pytest.raises(DamagedFile, match="expected checksum"):
        mapped(str(path), *seal)
