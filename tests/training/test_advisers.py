"""Advice of plug-ins: asked for, left out when it is none, told with the plug-in's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.errors import ConfigError
from shoal.settings.values import config_from
from shoal.steps.checkpointing import CheckpointMoment
from shoal.training.advisers import Advisers
from support.brought.example_plugin import at_hand

Install = Callable[..., None]
MOMENT = CheckpointMoment(round=7, epoch=1.5, seconds=3.0, since=1.0, took=0.1, loss=0.5, score=None)
STRATEGY = """
    from shoal.steps.checkpointing import CheckpointStrategy
    class Mine(CheckpointStrategy):
        def due(self, moment):
            return {due}
        def kept(self, steps):
            return {kept}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    yield from at_hand(tmp_path / "site", monkeypatch)


def advised(warnings: list[str], **knobs: str) -> Advisers:
    return Advisers(config_from({"file": "a.csv", "target": "y", "solver": "gradient", **knobs}), warnings.append)


def with_strategy(install: Install, warnings: list[str], due: str = "None", kept: str = "None") -> Advisers:
    install("plug-a", "shoal.checkpoint_strategies", "mine = plug_a:Mine", STRATEGY.format(due=due, kept=kept))
    return advised(warnings, checkpoint_strategy="mine")


@pytest.mark.parametrize(("seconds", "since", "due"), [(5.0, 4.9, False), (5.0, 5.0, True), (0.0, 99.0, False)])
def test_without_advice_the_knobs_decide(seconds: float, since: float, due: bool, install: Install) -> None:
    warnings: list[str] = []
    for advisers in (Advisers(), with_strategy(install, warnings)):
        assert advisers.due(seconds, since, lambda: MOMENT) is due
        assert advisers.kept([0, 5]) is None
    assert warnings == []


def test_a_strategy_decides_whatever_the_knobs_say(install: Install) -> None:
    advisers = with_strategy(install, [], due="moment.round == 7", kept="{0, 99}")
    assert advisers.due(0.0, 0.0, lambda: MOMENT)
    assert advisers.kept([0, 5, 7]) == {0}


@pytest.mark.parametrize("kept", ["3", "['a']", "1 / 0", "{1.5}"])
def test_a_strategy_that_is_wrong_is_told_once_and_left_out(kept: str, install: Install) -> None:
    warnings: list[str] = []
    advisers = with_strategy(install, warnings, due="True", kept=kept)
    assert advisers.due(5.0, 0.0, lambda: MOMENT)
    assert advisers.kept([0, 5]) is None
    assert not advisers.due(5.0, 0.0, lambda: MOMENT)
    assert advisers.kept([0, 5]) is None
    (said,) = warnings
    assert said.startswith("The checkpoint strategy 'mine' ")
    assert "left out from now on" in said


def test_one_that_cannot_be_made_or_is_something_else_is_refused(install: Install) -> None:
    code = "class Mine:\n    pass\n"
    install("plug-a", "shoal.checkpoint_strategies", "mine = plug_a:Mine", code)
    with pytest.raises(ConfigError, match=r"checkpoint strategy 'mine' of the plug-in plug-a 1\.2 is not what it has"):
        advised([], checkpoint_strategy="mine")
    install("plug-b", "shoal.checkpoint_strategies", "bad = plug_b:Bad",
            STRATEGY.replace("Mine", "Bad").format(due=1, kept=2) + "        def __init__(self, x): ...\n")  # fmt: skip
    with pytest.raises(ConfigError, match=r"checkpoint strategy 'bad' .* could not be made: TypeError"):
        advised([], checkpoint_strategy="bad")
