"""Callbacks: called in order, kept apart from the run and from one another. How plug-ins are found is tested elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.errors import ConfigError
from shoal.metrics import Event, Round
from shoal.models import Array
from shoal.settings.config import RunConfig
from shoal.training.callbacks import Callback, Callbacks, RunView, callbacks_named

HOOKS = {
    "run_started": (),
    "round_ended": (
        Round(1, 0.5, "steps", 1.0, 2.0, None, None, 0.1, 0.01, 1.0, 3, 1e6, 8, 8, 0.1, 0.7, 0.1, 0.1, 0.0, 2),
    ),
    "worker_lost": (Event(1.0, "lost", 7, "Worker 1 is gone.", rank=1),),
    "checkpoint_saved": (7,),
    "run_ended": ("finished",),
}


class Run:
    """A run without anything behind it."""

    def __init__(self) -> None:
        self.config, self.round = RunConfig(), 7
        self.asked: list[tuple[str, Any]] = []

    def weights(self) -> Array:
        return np.ones(3)

    def stop(self, reason: str) -> None:
        self.asked.append(("stop", reason))

    def send(self, name: str, **arguments: Any) -> None:
        self.asked.append((name, arguments))


class Recorder(Callback):
    def __init__(self, name: str, log: list[Any]) -> None:
        self.name, self.log = name, log

    def __getattribute__(self, hook: str) -> Any:
        if hook in HOOKS:
            return lambda *arguments: self.log.append((self.name, hook, arguments))
        return super().__getattribute__(hook)


class Failing(Recorder):
    """Fails in one hook, with any error."""

    def __init__(self, hook: str, error: BaseException, log: list[Any]) -> None:
        super().__init__("failing", log)
        self.hook, self.error = hook, error

    def __getattribute__(self, hook: str) -> Any:
        if hook in HOOKS and hook == self.hook:
            return self.fail
        return super().__getattribute__(hook)

    def fail(self, *arguments: Any) -> None:
        raise self.error


def call_all(callbacks: Callback, run: RunView) -> None:
    for hook, arguments in HOOKS.items():
        getattr(callbacks, hook)(run, *arguments)


def test_the_base_does_nothing_at_every_hook() -> None:
    run = Run()
    call_all(Callback(), run)
    assert run.asked == []


def test_these_are_all_hooks() -> None:
    public = {name for name in vars(Callback) if not name.startswith("_")}
    assert public == set(HOOKS)
    assert all(getattr(Callback, hook).__doc__ for hook in HOOKS)
    assert all(hook in vars(Callbacks) for hook in HOOKS)


def test_every_hook_reaches_every_callback_in_order_with_its_arguments() -> None:
    run, log = Run(), []  # type: ignore[var-annotated]
    call_all(Callbacks([Recorder("a", log), Recorder("b", log)], pytest.fail), run)
    assert log == [(name, hook, (run, *arguments)) for hook, arguments in HOOKS.items() for name in "ab"]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize(
    "error", [ValueError("no"), MemoryError(), SystemExit(3), AssertionError("x"), RecursionError("deep")]
)
def test_one_that_fails_is_reported_once_and_left_out(hook: str, error: BaseException) -> None:
    log: list[Any] = []
    said: list[str] = []
    callbacks = Callbacks([Recorder("a", log), Failing(hook, error, log), Recorder("b", log)], said.append)
    assert len(callbacks) == 3
    for _ in range(3):
        call_all(callbacks, Run())
    assert len(callbacks) == 2
    assert len(said) == 1
    for part in ("test_callbacks.Failing", hook, type(error).__name__, str(error), "test_callbacks.py:"):
        assert part in said[0]
    calls = {name: [entry[1] for entry in log if entry[0] == name] for name in ("a", "failing", "b")}
    assert calls["a"] == calls["b"] == [*HOOKS] * 3
    assert calls["failing"] == [*HOOKS][: [*HOOKS].index(hook)]


def test_all_may_fail() -> None:
    said: list[str] = []
    callbacks = Callbacks([Failing("run_started", ValueError(str(i)), []) for i in range(3)], said.append)
    call_all(callbacks, Run())
    assert len(callbacks) == 0
    assert len(said) == 3


def test_ctrl_c_is_a_persons_and_passes() -> None:
    callbacks = Callbacks([Failing("round_ended", KeyboardInterrupt(), [])], pytest.fail)
    with pytest.raises(KeyboardInterrupt):
        call_all(callbacks, Run())
    assert len(callbacks) == 1


def test_a_callback_can_steer_the_run() -> None:
    class Steering(Callback):
        def round_ended(self, run: RunView, round: Round) -> None:
            assert run.round == 7
            run.weights()[:] = 0
            run.send("set", learning_rate=round.learning_rate / 2)
            run.stop("good enough")

    run, said = Run(), []  # type: ignore[var-annotated]
    call_all(Callbacks([Steering()], said.append), run)
    assert said == []
    assert run.asked == [("set", {"learning_rate": 0.005}), ("stop", "good enough")]


def test_no_names_is_no_callbacks() -> None:
    assert len(callbacks_named((), pytest.fail)) == 0


def test_an_unknown_name_is_said_before_the_run() -> None:
    with pytest.raises(ConfigError, match=r"Expected as callback .* got 'nobody'"):
        callbacks_named(["nobody"], pytest.fail)
