"""Numbers that rows further down show to be texts: what was said of the first rows is said no more, and why is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables import opened, written


@pytest.mark.parametrize(
    ("first", "later", "how"),
    [("{i},234.00 kg", "{i} kg/x", " written like 1,234.56 kg"), ("{i}", "A{i}", "")],
)
def test_it_is_told(first: str, later: str, how: str, tmp_path: Path) -> None:
    rows = [(first if i < 500 else later).format(i=i + 1) for i in range(1000)]
    dataset = opened(written(tmp_path, "balance;y\n" + "".join(f"{cell};{i}\n" for i, cell in enumerate(rows))))
    assert dataset.columns["balance"].is_number is False
    said = [note for note in dataset.notes if "'balance'" in note]
    assert len(said) == 1
    assert f"is read as text: its first values are numbers{how}, but further down are others" in said[0]
