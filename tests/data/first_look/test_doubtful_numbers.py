"""Numbers and dates that may be something else than they are read as: said once, and nothing is said of plain ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables import opened, written

N = 24
TOLD: dict[str, tuple[str, list[str], str]] = {
    "days of spreadsheets": ("Order Date", [f"{44561 + i}" for i in range(N)], "may be days as spreadsheets count them"),
    "months": ("period", [f"{2019 + i // 12}{i % 12 + 1:02d}" for i in range(N)], "(2019-01-01) to have dates"),
    "the year last": ("fecha", [f"{i + 1:02d}{i % 12 + 1:02d}2022" for i in range(N)], "which may be days, the year last"),
    "Persian years": ("day", [f"14{i // 12:02d}/{i % 12 + 1:02d}/{i + 1:02d}" for i in range(N)], "the Persian or the Islamic"),
    "shares in two ways": ("share", [f"{i + 1.5}%" if i else "0.385" for i in range(N)], "but not in 1 row of those"),
}  # fmt: skip
NOT_TOLD: dict[str, tuple[str, list[str]]] = {
    "numbers of orders": ("order", [f"{44561 + i}" for i in range(N)]),
    "six digits": ("population", [f"{200000 + 4321 * i}" for i in range(N)]),
    "eight digits": ("id", [f"{12345678 + 7919 * i}" for i in range(N)]),
    "shares, all with their sign": ("share", [f"{i + 1.5}%" for i in range(N)]),
    "no share": ("share", [f"{i + 1.5}%" if i else "0" for i in range(N)]),
    "our years": ("day", [f"20{i + 1:02d}/{i % 12 + 1:02d}/{i + 1:02d}" for i in range(N)]),
}


def notes_of(folder: Path, name: str, cells: list[str]) -> str:
    text = f"{name};y\n" + "".join(f"{cell};{i * i % 7}\n" for i, cell in enumerate(cells))
    return "\n".join(note for note in opened(written(folder, text)).notes if f"'{name}'" in note)


@pytest.mark.parametrize("case", TOLD)
def test_what_numbers_may_be_is_told(tmp_path: Path, case: str) -> None:
    name, cells, said = TOLD[case]
    assert said in notes_of(tmp_path, name, cells)


@pytest.mark.parametrize("case", NOT_TOLD)
def test_plain_numbers_are_not_spoken_of(tmp_path: Path, case: str) -> None:
    assert "may be" not in (said := notes_of(tmp_path, *NOT_TOLD[case]))
    assert "read alike" not in said
