"""Advice of plug-ins: asked for, left out when it is none, told with the plug-in's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.errors import ConfigError, EngineError, TrainingError
from shoal.settings.values import config_from
from shoal.steps.checkpointing import CheckpointMoment
from shoal.steps.failure import FailurePolicy, Loss
from shoal.storage.base import Fenced
from shoal.training.advisers import Advisers
from shoal.training.checkpoints import Checkpoints
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


# ------------------------------------------------------------------ recovery


HANDLER = """
    from shoal.steps.failure import RecoveryHandler
    class Mine(RecoveryHandler):
        def worker_lost(self, loss):
            return {lost}
        def run_failed(self, failure):
            return {failed}
"""
OWN = FailurePolicy("retry", 3)


def with_handler(install: Install, warnings: list[str], lost: str = "None", failed: str = "None") -> Advisers:
    install("plug-a", "shoal.recovery_handlers", "mine = plug_a:Mine", HANDLER.format(lost=lost, failed=failed))
    return advised(warnings, recovery="mine", retries="2")


def test_a_handler_decides_about_a_loss_and_is_named(install: Install) -> None:
    warnings: list[str] = []
    policy = with_handler(install, warnings, "'stop' if loss.signal == 9 else None").after_losses(OWN)
    assert policy.restarts == 3
    assert policy.decide(Loss(1, 1, 1, "killed", 9)) == "stop"
    assert policy.why(1) == "the recovery handler 'mine' says so"
    assert "'mine' says of worker 1, which is gone: stop." in warnings[0]
    assert policy.decide(Loss(1, 4, 0, "killed", 15)) == "stop"
    assert policy.why(4) == "it was lost 4 times in a row, and no other is left"


def test_nobody_goes_on_where_nobody_is_left(install: Install) -> None:
    policy = with_handler(install, [], "'go on'").after_losses(OWN)
    assert policy.decide(Loss(1, 1, 1)) == "go on"
    assert policy.decide(Loss(1, 1, 0)) == "stop"


@pytest.mark.parametrize("lost", ["'perhaps'", "1 / 0", "True", "[]"])
def test_a_handler_that_is_wrong_leaves_it_to_the_knobs(lost: str, install: Install) -> None:
    warnings: list[str] = []
    policy = with_handler(install, warnings, lost).after_losses(OWN)
    assert [policy.decide(Loss(1, 1, 1)), policy.decide(Loss(1, 1, 1))] == ["replace", "replace"]
    (said,) = warnings
    assert said.startswith("The recovery handler 'mine' ")


class Attempts:
    """Work that fails so many times, each time for one reason."""

    def __init__(self, failures: int, error: TrainingError) -> None:
        self.left, self.error, self.told = failures, error, list[str]()

    def __call__(self, again: str) -> str:
        self.told.append(again)
        self.left -= 1
        if self.left >= 0:
            raise self.error
        return "done"


def test_a_run_that_failed_goes_on_as_often_as_retries_allows(install: Install, tmp_path: Path) -> None:
    warnings: list[str] = []
    advisers, folder = with_handler(install, warnings, failed="'retry'"), Checkpoints(tmp_path / "none")
    work = Attempts(2, EngineError("All are gone."))
    assert advisers.persist(work, "", folder) == "done"
    assert not work.told[0]
    assert work.told[1:] == warnings
    assert "recovery handler 'mine' lets it go on (try 2 of 2): All are gone." in work.told[2]
    with pytest.raises(EngineError):
        advisers.persist(Attempts(3, EngineError("All are gone.")), "", folder)
    assert "retries allows 2" in warnings[-1]


@pytest.mark.parametrize("failed", ["None", "'give up'", "'retry' if failure.reason == 'out_of_disk' else None", "7"])
def test_a_run_that_nobody_wants_to_go_on_has_failed(failed: str, install: Install, tmp_path: Path) -> None:
    advisers, folder = with_handler(install, [], failed=failed), Checkpoints(tmp_path / "none")
    work = Attempts(1, EngineError("All are gone."))
    with pytest.raises(EngineError, match="All are gone"):
        advisers.persist(work, "", folder)
    assert len(work.told) == 1


def test_a_run_in_other_hands_is_not_held_on_to(install: Install, tmp_path: Path) -> None:
    work = Attempts(1, Fenced("Somebody else has it."))
    with pytest.raises(Fenced):
        with_handler(install, [], failed="'retry'").persist(work, "", Checkpoints(tmp_path / "none"))
    assert len(work.told) == 1
