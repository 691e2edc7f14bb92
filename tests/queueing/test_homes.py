"""The mark of a home: made once, read from every version, and never another one by damage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from shoal.errors import DamagedFile
from shoal.home import home_mark_file
from shoal.queueing.homes import home_mark
from support.harm.damage import cut, flip, noise


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


def test_it_stays_as_it_was_made() -> None:
    assert home_mark() == home_mark()


def test_that_of_a_version_without_checksums_is_read() -> None:
    home_mark_file().parent.mkdir(parents=True, exist_ok=True)
    home_mark_file().write_text("büro-7-0123abcd\n")
    assert home_mark() == "büro-7-0123abcd"


@pytest.mark.parametrize("harm", [flip, noise, cut])
@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_one_is_no_other_home(harm: object, seed: int) -> None:
    made = home_mark()
    harm(home_mark_file(), random.Random(seed))  # type: ignore[operator]
    with pytest.raises(DamagedFile, match="mark by which hosts know"):
        raise AssertionError(f"'{home_mark()}' in place of '{made}'")
