"""A little of `make fuzz`: no kind of file that was harmed at random becomes another answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.harm.fuzzing import CRASH, KINDS, MENDED, SILENT, TOLD, fuzz
from support.harm.place import FileKind

TIMES = 6


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_harm_is_made_good_or_said(kind: FileKind, tmp_path: Path) -> None:
    if "PyTorch" in kind.name:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    found = fuzz(kind, tmp_path, TIMES, seed=1)
    assert found.faults == []
    assert found.counts[SILENT] == found.counts[CRASH] == 0
    assert found.counts[MENDED] or found.counts[TOLD] or kind.spare  # harm reaches what is asked
