"""What holds for everything that a gradient run can minimise, whoever is behind the protocol; derivatives are numeric."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from shoal.coordinator import Coordinator
from shoal.data_pipeline import Shards
from shoal.engines.inline import InlineEngine
from shoal.home import home
from shoal.metrics import Timings
from shoal.models import Array, Values
from shoal.settings.values import config_from
from shoal.training.objectives.base import Objective
from shoal.training.objectives.preparing import prepare_objective

OBJECTIVES: dict[str, dict[str, Any]] = {
    "squares": {"target": "number", "model": "elasticnet", "alpha": 0.05},
    "weighted squares": {"target": "number", "model": "ridge", "alpha": 1.0, "weights": "w"},
    "logistic": {"target": "yes", "model": "logistic", "shrink": "lasso", "alpha": 2.0, "class_weight": "balanced"},
    "poisson": {"target": "counts", "model": "poisson", "offset": "w", "offset_as": "exposure"},
    "gamma": {"target": "amount", "model": "gamma", "shrink": "ridge", "alpha": 0.1, "weights": "w"},
    "classes": {"target": "kind", "model": "multinomial", "shrink": "elasticnet", "alpha": 2.0, "weights": "w",
                "class_weight": "balanced"},
    "huber": {"target": "number", "model": "huber", "shrink": "lasso", "alpha": 10.0, "weights": "w"},
    "huber, no intercept": {"target": "number", "model": "huber", "intercept": False, "huber_epsilon": 1.1},
    "without intercept": {"target": "yes", "model": "logistic", "intercept": False, "shrink": "ridge", "alpha": 1.0},
}  # fmt: skip


class Met(NamedTuple):
    objective: Objective
    coordinator: Coordinator
    shards: Shards
    X: Values
    y: Values

    def value(self, w: Array) -> float:
        """F by the sum over all rows that workers would report."""
        return self.objective.loss(w, self.objective.model.gradient(self.X, self.y, w)[1])

    def mean_gradient(self, w: Array) -> Array:
        return self.objective.model.gradient(self.X, self.y, w)[0] / len(self.y)


@pytest.fixture(params=OBJECTIVES)
def met(request: pytest.FixtureRequest, place: Path) -> Iterator[Met]:
    path = place / "all.csv"
    if not path.exists():
        random = np.random.default_rng(8)
        X = random.standard_normal((200, 3)) * [1.0, 3.0, 0.2] + [4.0, 0.0, 1.0]
        eta = X @ [0.3, -0.2, 1.0] - 1.5
        pd.DataFrame(X, columns=["a", "b", "c"]).assign(
            w=random.uniform(0.5, 2.0, 200), number=eta + random.standard_normal(200),
            yes=random.random(200) < 1 / (1 + np.exp(-eta)), counts=random.poisson(np.exp(eta)),
            amount=random.gamma(2.0, np.exp(eta)),
            kind=np.array(["fir", "oak", "yew"])[np.digitize(eta + random.logistic(size=200), [-0.5, 1.0])],
        ).astype({"yes": int}).to_csv(path, index=False)  # fmt: skip
    knobs = {"file": str(path), "features": ["a", "b", "c"], "solver": "gradient", **OBJECTIVES[request.param]}
    config = config_from(knobs)
    with InlineEngine() as engine:
        coordinator = Coordinator(engine, home())
        objective = prepare_objective(coordinator, coordinator.open(config), config, Timings())
        shards = objective.shards(coordinator, 1, "float64")
        objective.meet(coordinator, shards)
        yield Met(objective, coordinator, shards, *shards.open(0))


def test_parameters_are_one_vector_with_named_parts(met: Met) -> None:
    objective = met.objective
    assert sum(part.size for part in objective.parts) == objective.size == len(objective.start)
    name, weights = objective.parts[0]
    assert name == "coefficients"
    assert weights % objective.width == 0
    assert objective.nonzeros(objective.start) == 0
    assert objective.nonzeros(np.ones(objective.size)) == weights


def test_the_gradient_is_the_derivative_of_the_value(met: Met) -> None:
    random = np.random.default_rng(1)
    w = met.objective.start + 0.1 * random.standard_normal(met.objective.size)
    smooth = [met.value(w + e) - met.objective.model.penalty.value(w + e) for e in _small(len(w), 1e-6)]
    ahead, behind = np.split(np.array(smooth), 2)
    np.testing.assert_allclose(met.mean_gradient(w), (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-8)


def _small(size: int, step: float) -> list[Array]:
    return [*(step * np.eye(size)), *(-step * np.eye(size))]


def test_the_start_is_a_whole_way_from_the_optimum_and_slopes_are_judged_by_it(met: Met) -> None:
    objective, start = met.objective, met.objective.start
    assert met.value(start) == pytest.approx(objective.at_start, rel=1e-12)
    found = objective.away_by_rows(start, met.mean_gradient(start), objective.model.gradient(met.X, met.y, start)[1])
    assert found.objective == pytest.approx(1, abs=0.6)  # of other losses to the third order
    assert objective.scale > 0
    assert not found.within(1e-6)


def test_at_the_optimum_nothing_is_left_and_every_way_leads_up(met: Met) -> None:
    objective, w = met.objective, _down(met)
    found = objective.away(w)
    assert found.within(1e-10)
    assert found.slope == pytest.approx(0, abs=1e-6)
    random = np.random.default_rng(2)
    for _ in range(20):
        other = w + 0.01 * random.standard_normal(len(w))
        above = met.value(other) - met.value(w)
        assert above > 0
        reach = objective.at_start - met.value(w)
        assert (objective.away(other).objective or 0) == pytest.approx(above / reach, rel=0.05)


def _down(met: Met) -> Array:
    """By plain proximal steps of the length that the bounds allow: they are to be safe."""
    objective = met.objective
    top, w = objective.bounds(met.coordinator, met.shards).top, objective.start
    before = met.value(w)
    for _ in range(20_000):
        w = objective.model.update(w, met.mean_gradient(w), 1 / top)
        now = met.value(w)
        assert now <= before + 1e-13
        if objective.away(w).within(1e-13):
            break
        before = now
    return w


def test_the_bounds_hold_for_all_rows_and_for_each(met: Met) -> None:
    objective = met.objective
    top, row = objective.bounds(met.coordinator, met.shards)
    random, base = np.random.default_rng(3), met.mean_gradient(objective.start)
    for _ in range(20):
        d = 1e-4 * random.standard_normal(objective.size)
        assert (met.mean_gradient(objective.start + d) - base) @ d <= top * (d @ d) * (1 + 1e-6)
        i = int(random.integers(len(met.y)))
        one = [objective.model.gradient(met.X[[i]], met.y[[i]], at)[0] for at in (objective.start + d, objective.start)]
        assert (one[0] - one[1]) @ d <= row * (d @ d) * (1 + 1e-6)
    assert row >= top


def test_another_alpha_is_another_penalty_and_the_old_one_is_known_again(met: Met) -> None:
    objective, before = met.objective, met.objective.alpha
    w = objective.start + 0.3
    value, away = objective.model.penalty.value(w), objective.away(w)
    objective.set_alpha(4 * before)
    assert objective.model.penalty.value(w) == pytest.approx(4 * value)
    assert objective.penalised == (value > 0)
    objective.set_alpha(before)
    assert objective.away(w) == away
