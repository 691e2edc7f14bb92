"""Sums of losses over rows against NumPy's, for every way a processor may take; single rows to their last digits."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.kernels.losses_kernel import KINDS, library, loss_sums
from shoal.losses.base import RowLoss
from shoal.losses.gamma import Gamma
from shoal.losses.logistic import Logistic
from shoal.losses.poisson import Poisson

RNG = np.random.default_rng(7)
LOSSES: dict[str, RowLoss] = {"logistic": Logistic(), "poisson": Poisson(), "gamma": Gamma()}
WAYS = ["loss_sums", "loss_sums_fused", "loss_sums_anywhere"]


def target(kind: str, n: int) -> np.ndarray:
    drawn = RNG.gamma(2.0, size=n)
    return {"logistic": np.floor(drawn) % 2, "poisson": np.floor(drawn), "gamma": drawn}[kind]


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * max(1.0, np.abs(expected).max(initial=0.0)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "p"), [(1, 0), (1, 1), (31, 6), (33, 7), (64, 8), (100, 17), (257, 50)])
def test_sums_are_those_of_numpy(way: str, kind: str, n: int, p: int) -> None:
    table = RNG.normal(3, 1, size=(n, p + 2))  # columns amid others, as blocks have them
    X, y, coef, centre = table[:, 1 : p + 1], target(kind, n), RNG.normal(size=p) * 0.2, RNG.normal(3, 0.1, size=p)
    offset, weight, beside, used = RNG.normal(size=n), RNG.random(n) + 0.1, RNG.normal(size=n), RNG.random(n) < 0.8
    found = loss_sums(
        kind, X, y, coef, -0.3, centre=centre, offset=offset, weight=weight, used=used, beside=beside, rows=True,
        way=getattr(library(), way),
    )  # fmt: skip
    eta = (X - centre) @ coef - 0.3 + offset
    value, g, h = LOSSES[kind].at(y, eta)
    U, c = np.column_stack((np.ones(n), X - centre)), weight * used
    assert found.square is not None
    assert found.beside is not None
    assert found.rows is not None
    close(np.array(found.value), (c * value).sum())
    close(found.slope, (c * g) @ U)
    close(found.square, U.T @ ((c * h)[:, None] * U))
    close(found.beside, (used * beside) @ U)
    close(np.array(found.rows), np.array([eta, LOSSES[kind].mean(eta), value]))
    assert found.reach == pytest.approx(np.abs(eta[used]).max(initial=0.0))
    assert found.margin == pytest.approx(((2 * y - 1) * eta)[used].min(initial=np.inf))
    alone = loss_sums(kind, X, y, coef, -0.3, centre=centre, offset=offset, weight=weight, used=used, squares=False)
    if way == "loss_sums":
        assert (alone.slope == found.slope).all()
        assert alone.value == found.value
        assert alone.square is None


@pytest.mark.parametrize("way", WAYS)
def test_exponentials_and_logarithms_have_their_last_digits(way: str) -> None:
    eta = np.concatenate((np.linspace(-760, 720, 20001), RNG.normal(size=5000) * 10, [0.0, -0.0, 1e-300, -1e-17]))
    none, nothing = np.zeros(len(eta)), np.zeros((len(eta), 0))
    at = {
        kind: loss_sums(kind, nothing, none, np.zeros(0), 0.0, offset=eta, rows=True, way=getattr(library(), way)).rows
        for kind in ("poisson", "logistic")
    }
    assert at["poisson"] is not None
    assert at["logistic"] is not None
    mean = np.exp(np.minimum(eta, 700))
    assert np.abs(at["poisson"].mean - mean).max(where=mean < 1e-300, initial=0.0) < 1e-300
    normal = mean > 1e-300
    assert (np.abs(at["poisson"].mean - mean)[normal] / np.spacing(mean[normal])).max() <= 2
    value = np.logaddexp(0, eta)  # of no
    lost = np.abs(at["logistic"].value - value)[eta > -690] / np.spacing(value[eta > -690])
    assert lost.max() <= 4


def test_steps_that_go_too_far_are_seen_in_the_sums() -> None:
    X, y = np.array([[1.0], [2.0], [np.inf], [3.0]]), np.zeros(4)
    found = loss_sums("logistic", X, y, np.array([1.0]), 0.0)
    assert not np.isfinite(found.value)
    assert not np.isfinite(found.slope).all()
    unused = loss_sums(
        "poisson", np.array([[1.0], [5e5]]), np.zeros(2), np.array([1e3]), 0.0, used=np.array([True, False])
    )
    assert np.isfinite(unused.slope).all()
    assert unused.reach == 1000


@pytest.mark.parametrize(
    "X",
    [
        np.asfortranarray(RNG.normal(size=(90, 9))),
        RNG.normal(size=(90, 18))[:, ::2],
        RNG.normal(size=(80, 9))[::-2],
        np.zeros((0, 4)),
        RNG.normal(size=(50, 12)).astype(np.float32),
    ],
    ids=["by columns", "every other column", "rows backwards", "no rows", "single precision"],
)
def test_rows_that_lie_otherwise(X: np.ndarray) -> None:
    y, coef = (RNG.random(2 * len(X)) < 0.5).astype(float)[::2], RNG.normal(size=X.shape[1])
    found = loss_sums("logistic", X, y, coef, 0.2)
    value, g, h = Logistic().at(y, X @ coef + 0.2)
    U = np.column_stack((np.ones(len(X)), X))
    assert found.square is not None
    np.testing.assert_allclose(found.value, value.sum(), rtol=1e-6 if X.dtype == np.float32 else 1e-12)
    if X.dtype == np.float64:
        close(found.slope, g @ U)
        close(found.square, U.T @ (h[:, None] * U))
