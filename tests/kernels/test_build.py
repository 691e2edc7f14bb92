"""Compiled libraries in SHOAL_HOME: made once, and made again where a byte of them is another than it was."""

from __future__ import annotations

import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shoal.home import kernels_directory
from shoal.kernels import build as builder


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As it is where the package came without compiled libraries, and its folder is its installer's."""
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    package = tmp_path / "site-packages" / "kernels"
    package.mkdir(parents=True)
    for source in builder.HERE.glob("*.[ch]"):
        shutil.copy(source, package)
    monkeypatch.setattr(builder, "HERE", package)
    return package


def harm(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_library_is_made_once_and_again_where_it_was_harmed(installed: Path) -> None:
    made = builder.build("lines_kernel")
    assert made.parent == kernels_directory()
    whole, when = made.read_bytes(), made.stat().st_mtime_ns
    assert builder.build("lines_kernel").stat().st_mtime_ns == when
    harm(made)
    assert builder.build("lines_kernel").read_bytes() == whole
    made.with_suffix(".sum").unlink()
    when = made.stat().st_mtime_ns
    assert builder.build("lines_kernel").stat().st_mtime_ns > when
    assert list(installed.glob("build")) == []


def test_a_change_in_any_part_of_a_source_makes_another_library(installed: Path) -> None:
    before = builder.library_path("csv_kernel")
    part = installed / "csv_dates.h"
    part.write_text(part.read_text() + "/* changed */\n")
    assert builder.library_path("csv_kernel") != before


def test_threads_that_need_a_library_at_once_are_not_in_each_others_way(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    def compiled(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        Path(command[command.index("-o") + 1]).write_bytes(b"a library")
        both.wait(60)  # neither has given it its name when the other has written it
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", compiled)
    with ThreadPoolExecutor(2) as pool:
        made, same = pool.map(builder.build, ["path_kernel"] * 2)
    assert made == same
    assert {path.suffix for path in kernels_directory().iterdir()} == {".so", ".sum"}
