"""Clipping of gradients, and schedules of the learning rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shoal.errors import ConfigError
from shoal.settings.config import SCHEDULES
from shoal.steps.clipping import clipped
from shoal.steps.optimizers import schedule

# Clipping


@given(arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e308, 1e308)), st.floats(1e-3, 1e6))
def test_clipping_by_the_norm(gradient: np.ndarray, limit: float) -> None:
    result, length = clipped(gradient, limit), math.hypot(*gradient)
    if length <= limit * (1 - 1e-12):
        assert np.array_equal(result, gradient)
    elif length >= limit * (1 + 1e-12):
        assert math.hypot(*result) == pytest.approx(limit, rel=1e-12)
        largest = int(np.abs(gradient).argmax())
        assert result == pytest.approx(gradient / gradient[largest] * result[largest], rel=1e-9, abs=1e-300)


def test_clipping_at_the_edges() -> None:
    gradient = np.array([3.0, 4.0])
    assert clipped(gradient, 0) is gradient
    assert clipped(gradient, 5.0).tolist() == [3.0, 4.0]
    assert clipped(gradient, 1.0) == pytest.approx(np.array([0.6, 0.8]), rel=1e-15)
    assert clipped(np.zeros(2), 1.0).tolist() == [0.0, 0.0]
    assert np.isnan(clipped(np.array([1.0, math.nan]), 0.5)).any()
    assert np.isinf(clipped(np.array([1.0, math.inf]), 0.5)).any()


# Schedules


def rate_at(name: str, epoch: float, **knobs: float) -> float:
    known = {"epochs": 20, "warmup": 0.0, "decay": 0.25, "decay_every": 5.0, **knobs}
    return schedule(name, 2.0, epoch=epoch, **known)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("constant", [2.0, 2.0, 2.0, 2.0, 2.0]),
        ("step", [2.0, 2.0, 0.5, 0.125, 2 * 0.25**4]),
        ("exponential", [2.0, 1.0, 0.5, 0.125, 2 * 0.25**4]),
        ("inverse", [2.0, 2 / 2.5, 0.5, 2 / 7, 2 / 13]),
        ("cosine", [2.0, 1 + math.cos(math.pi / 8), 1 + math.cos(math.pi / 4), 1.0, 0.0]),
    ],
)
def test_schedules_at_epochs_0_2_5_5_10_and_20(name: str, expected: list[float]) -> None:
    assert [rate_at(name, epoch) for epoch in (0, 2.5, 5, 10, 20)] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", SCHEDULES)
def test_warm_up_comes_first_and_then_the_schedule(name: str) -> None:
    rates = [rate_at(name, epoch, warmup=4.0) for epoch in (0, 1, 2, 3)]
    assert rates == pytest.approx([0.2, 0.65, 1.1, 1.55])
    late = rate_at(name, 4 + 3.3, warmup=4.0, epochs=24)
    assert late == pytest.approx(rate_at(name, 3.3))


@given(
    st.sampled_from(SCHEDULES),
    st.floats(0, 50),
    st.floats(0, 50),
    st.floats(0, 30),
    st.floats(1e-3, 1),
    st.floats(0.1, 20),
)
def test_schedules_stay_between_0_and_the_rate_and_fall_after_warm_up(
    name: str, one: float, other: float, warmup: float, decay: float, every: float
) -> None:
    knobs = {"warmup": warmup, "decay": decay, "decay_every": every}
    early, late = (rate_at(name, epoch, **knobs) for epoch in sorted((one, other)))
    assert 0 <= late <= 2
    assert 0 <= early <= 2
    assert early >= late * (1 - 1e-12) or min(one, other) < warmup


def test_a_warm_up_as_long_as_the_run() -> None:
    assert rate_at("cosine", 20, warmup=20.0) == 2.0
    assert rate_at("cosine", 10, warmup=20.0) == pytest.approx(1.1)


@pytest.mark.parametrize("knobs", [{"decay": 0.0}, {"decay": 1.5}, {"decay": math.nan}, {"decay_every": 0.0}])
def test_decays_that_make_no_sense(knobs: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"decay to be more than 0 and at most 1"):
        rate_at("step", 1.0, **knobs)


def test_unknown_schedules() -> None:
    with pytest.raises(ConfigError, match=r"constant, step, exponential, cosine, inverse, got 'linear'"):
        rate_at("linear", 1.0)
