"""Every loss: its derivatives, its best constant, and the deviance and likelihood of scipy and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_poisson_deviance, mean_squared_error

from shoal.losses.base import RowLoss
from shoal.losses.gamma import Gamma
from shoal.losses.logistic import Logistic
from shoal.losses.lognormal import Lognormal
from shoal.losses.named import loss_named, penalty_beside
from shoal.losses.poisson import Poisson, log_factorial
from shoal.losses.squared import Squared
from shoal.models import L1L2
from shoal.settings.when import CLASSES, LOSSES

rng = np.random.default_rng(5)
ETA = np.concatenate((rng.normal(size=200) * 3, [-30.0, 0.0, 30.0]))
TARGETS = {
    "logistic": (rng.random(len(ETA)) < 0.5).astype(float),
    "poisson": rng.poisson(3, len(ETA)).astype(float),
    "gamma": rng.gamma(2.0, 3.0, len(ETA)),
    "lognormal": rng.gamma(2.0, 3.0, len(ETA)),
    "squared": rng.normal(size=len(ETA)),
}
ALL = [Logistic(), Poisson(), Gamma(), Lognormal(), Squared()]
MEANS: dict[str, Callable[..., float]] = {
    "logistic": lambda y, mean: 2 * log_loss(y, np.clip(mean, 1e-16, 1 - 1e-16)),
    "poisson": mean_poisson_deviance,
    "gamma": mean_gamma_deviance,
    "lognormal": lambda y, mean: mean_squared_error(np.log(y), np.log(mean)),
    "squared": mean_squared_error,
}


@pytest.fixture(params=ALL, ids=lambda loss: loss.name)
def loss(request: pytest.FixtureRequest) -> RowLoss:
    found: RowLoss = request.param
    return found


def test_slope_and_curvature_are_those_of_the_value(loss: RowLoss) -> None:
    y, eta = TARGETS[loss.name][:200], ETA[:200]
    step = 1e-5
    below, at, above = (loss.at(y, eta + move) for move in (-step, 0.0, step))
    np.testing.assert_allclose((above.value - below.value) / (2 * step), at.slope, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose((above.slope - below.slope) / (2 * step), at.curvature, rtol=1e-5, atol=1e-5)
    assert (at.curvature >= 0).all()


def test_the_best_constant_is_the_link_of_the_mean_or_a_step_away(loss: RowLoss) -> None:
    y = TARGETS[loss.name]
    eta = np.full(len(y), loss.eta(float(y.mean())))
    if not loss.mean_is_constant:
        _, slope, curvature = loss.at(y, eta)
        eta += (step := loss.constant_step(float(slope.sum()), float(curvature.sum()), len(y)))
        loss, eta = loss.shifted(-step, -step).of_constant, eta - step
    assert abs(loss.at(y, eta).slope.mean()) < 1e-12
    np.testing.assert_allclose(loss.mean(eta), y.mean(), rtol=1e-12)


def test_the_curvature_that_is_expected_is_that_at_the_mean(loss: RowLoss) -> None:
    eta = ETA[:200]
    np.testing.assert_allclose(loss.expected(eta), loss.at(loss.mean(eta), eta).curvature, rtol=1e-9)


def test_deviance_is_that_of_scikit_learn(loss: RowLoss) -> None:
    y, eta = TARGETS[loss.name][:200], ETA[:200]
    ours = loss.deviance(y, eta, loss.at(y, eta).value).mean()
    assert ours == pytest.approx(MEANS[loss.name](y, loss.mean(eta)), rel=1e-12)


def test_likelihood_is_that_of_scipy() -> None:
    for each, theirs in ((Logistic(), stats.bernoulli.logpmf), (Poisson(), stats.poisson.logpmf)):
        y, eta = TARGETS[each.name][:200], ETA[:200]
        np.testing.assert_allclose(each.likelihood(y, each.at(y, eta).value), theirs(y, each.mean(eta)), rtol=1e-9)
    y, eta = TARGETS["lognormal"][:200], ETA[:200]
    ours = Lognormal().likelihood(y, Lognormal().at(y, eta).value)
    np.testing.assert_allclose(ours, stats.lognorm.logpdf(y, 1.0, scale=np.exp(eta)), rtol=1e-9)
    y = TARGETS["squared"]
    np.testing.assert_allclose(Squared().likelihood(y, Squared().at(y, ETA).value), stats.norm.logpdf(y, ETA))


def test_log_factorials() -> None:
    y = np.array([0.0, 1.0, 2.0, 10.0, 16.0, 17.0, 170.0, 1e6, 1e15])
    np.testing.assert_allclose(log_factorial(y), stats.poisson.logpmf(y, 1.0) * -1 - 1.0, rtol=1e-13, atol=1e-13)


def test_scores_far_out_are_finite_and_right() -> None:
    with np.errstate(all="raise", under="ignore"):
        value, slope, curvature = Logistic().at(np.array([1.0, 0.0]), np.array([1e4, 1e4]))
    assert value.tolist() == [0.0, 1e4]
    assert slope.tolist() == [0.0, 1.0]
    assert curvature.tolist() == [0.0, 0.0]


def test_losses_by_name_and_what_alpha_means_beside_them() -> None:
    of_rows = [name for name in LOSSES if name != CLASSES]  # which has a score for each class
    assert [loss_named(name).name for name in of_rows] == of_rows
    assert penalty_beside(loss_named("logistic"), "ridge", 3.0, 0.5, 100.0) == L1L2(l2=0.03)  # 1 / C of scikit-learn
    assert penalty_beside(loss_named("poisson"), "lasso", 0.25, 0.5, 100.0) == L1L2(l1=0.25)
    assert penalty_beside(loss_named("gamma"), "elasticnet", 0.5, 0.25, 100.0) == L1L2(l1=0.125, l2=0.375)
    assert penalty_beside(loss_named("gamma"), "none", 0.5, 0.25, 100.0) == L1L2()
