"""Packed files are read as the tables in them; what is no single table is refused by name; pipes are read as files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow
import pytest

from shoal.errors import DataError
from support.data.plain import NAMES, PLAIN, ROWS
from support.tables import opened, table, written


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, PLAIN)
    return out.getvalue()


PACKED = {
    "table.csv.gz": gzip.compress(PLAIN.encode()),
    "table.csv.zip": zipped("__MACOSX/._table.csv", "folder/table.csv"),
    "table.zip": zipped("table.csv"),
    "table.csv.bz2": bz2.compress(PLAIN.encode()),
    "table.csv.xz": lzma.compress(PLAIN.encode()),
    "table.csv.zst": pyarrow.compress(PLAIN.encode(), codec="zstd", asbytes=True),
    "no-ending": bz2.compress(PLAIN.encode("utf-16")),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_files_are_tables(name: str, tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, PACKED[name], name))
    assert list(dataset.columns) == NAMES
    assert [list(row.values()) for row in table(dataset)] == ROWS


@pytest.mark.parametrize("name", ["table.csv.bz2", "table.csv.xz", "table.csv.zst", "table.zip"])
def test_a_file_that_was_cut_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="could not be"):
        opened(written(tmp_path, PACKED[name][:-12], name))


def test_an_archive_of_several_files_names_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"got 2: a\.csv, b\.csv"):
        opened(written(tmp_path, zipped("a.csv", "b.csv"), "both.zip"))
    with pytest.raises(DataError, match="got none"):
        opened(written(tmp_path, zipped("folder/.hidden"), "none.zip"))


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    rows = "".join(f"{i},{3 * i + 1}\n" for i in range(50))
    words = [sys.executable, "-m", "shoal.cli.app", "train", "-", "--target", "y", "--out", tmp_path / "m.json"]
    done = subprocess.run(
        words, input=f"x,y\n{rows}", capture_output=True, text=True, timeout=120, env=_environment(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert "50" in done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []
    done = subprocess.run(
        [*words, "--detach"],
        input=f"x,y\n{rows}",
        capture_output=True,
        text=True,
        timeout=120,
        env=_environment(tmp_path),
    )
    assert done.returncode == 1
    assert "got a pipe" in done.stderr


def _environment(folder: Path) -> dict[str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(folder / "tmp")}
