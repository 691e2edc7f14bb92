"""Which cached things go first: the orders that are built in, those of plug-ins, and wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.cli import app as cli
from shoal.errors import ConfigError
from shoal.library.cache_policies import first_to_go
from shoal.library.inventory import Item
from support.brought.example_plugin import at_hand

Install = Callable[..., None]
POLICY = """
    from shoal.library.cache_policies import CachedItem, CachePolicy
    class Mine(CachePolicy):
        def order(self, items):
            {code}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    yield from at_hand(tmp_path / "site", monkeypatch)


THINGS = [Item("data", Path("/nowhere/a"), 50, 30.0), Item("data", Path("/nowhere/b"), 10, 10.0),
          Item("data", Path("/nowhere/c"), 20, 20.0)]  # fmt: skip


def gone(first: str, enough: int) -> str:
    return "".join(item.path.name for item in first_to_go(THINGS, first, enough))


@pytest.mark.parametrize(
    ("first", "enough", "names"),
    [("oldest", 10, "b"), ("oldest", 11, "bc"), ("oldest", 10**9, "bca"), ("oldest", 0, ""), ("largest", 51, "ac"),
     ("unopened", 30, "bc")],
)  # fmt: skip
def test_as_few_go_as_it_takes(first: str, enough: int, names: str) -> None:
    assert gone(first, enough) == names


def test_a_policy_of_a_plug_in_may_let_some_stay(install: Install) -> None:
    code = "return [item for item in sorted(items, key=lambda i: i.name, reverse=True) if item.bytes < 40]"
    install("plug-a", "shoal.cache_policies", "mine = plug_a:Mine", POLICY.format(code=code))
    assert gone("mine", 10**9) == "cb"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "The cache policy 'mine' failed .ZeroDivisionError"),
        ("return None", "The cache policy 'mine' failed .TypeError"),
        ("return [CachedItem('data', '../other', 1, 0.0, 0.0)]", "in order that it was given, got CachedItem"),
        ("return ['a']", "in order that it was given, got 'a'"),
    ],
)
def test_a_policy_that_is_wrong_removes_nothing(code: str, said: str, install: Install) -> None:
    install("plug-a", "shoal.cache_policies", "mine = plug_a:Mine", POLICY.format(code=code))
    with pytest.raises(ConfigError, match=said):
        gone("mine", 10)


def test_a_policy_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="Expected as cache policy one of oldest, largest, unopened, got 'newest'"):
        gone("newest", 10)


@pytest.mark.parametrize(
    "flags", [["--enough", "much"], ["--first", "largest"], ["--enough=-3GB"], ["--enough", "1..2GB"]]
)
def test_wrong_flags_are_refused(flags: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    assert cli.main(["clean", "data", *flags]) != 0
    assert "Expected --enough" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["5GB", "500 mb", "1e9", "2.5k", "7 GiB"])
def test_sizes_as_people_write_them(size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    assert cli.main(["clean", "data", "--enough", size]) == 0
