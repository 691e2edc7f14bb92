"""The estimators against scikit-learn's checks and its answers, and their bits against one another."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
import sklearn.linear_model as reference
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from shoal.api.estimators import ElasticNet, Lasso, LinearRegression, Ridge, close_pools
from shoal.passes import arrays as array_requests
from shoal.tasks import workers as engine_pool
from support.processes import command_of

ESTIMATORS = [LinearRegression, Ridge, Lasso, ElasticNet]
TIGHT = {"tol": 1e-13, "max_iter": 200_000}
PAIRS = [
    (LinearRegression(), reference.LinearRegression(tol=1e-15)),
    (Ridge(alpha=3.0), reference.Ridge(alpha=3.0, solver="svd")),
    (Lasso(alpha=0.05), reference.Lasso(alpha=0.05, **TIGHT)),
    (ElasticNet(alpha=0.1, l1_ratio=0.3), reference.ElasticNet(alpha=0.1, l1_ratio=0.3, **TIGHT)),
]


@pytest.fixture(scope="module")
def pool() -> Iterator[None]:
    """Workers that are kept from one test to the next, as they are from one fit to the next."""
    with engine_pool.pooled_engine(2):
        pass
    yield
    close_pools()


@pytest.fixture
def own_pools() -> Iterator[None]:
    """For a test that starts workers of its own."""
    close_pools()
    yield
    close_pools()


def _numbers(n: int = 200, p: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.logspace(-1, 1, p) + 5
    return X, X @ np.linspace(-1, 2, p) + rng.standard_normal(n) - 3


def _correlated() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = np.sqrt(0.95) * rng.standard_normal((300, 1)) + np.sqrt(0.05) * rng.standard_normal((300, 12))
    return X, X[:, 0] - X[:, 3] + rng.standard_normal(300)


# ------------------------------------------------------------------ scikit-learn's own checks


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scikit_learns_checks_pass_inline(estimator: type) -> None:
    _check(estimator(engine="inline"))


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scikit_learns_checks_pass_with_a_reused_pool_of_two_workers(estimator: type) -> None:
    before = _workers()
    _check(estimator(engine="processes", n_workers=2))
    assert _workers() == before


def _check(estimator: object) -> None:
    results = check_estimator(estimator, on_skip=None, on_fail="raise")
    skipped = [r["check_name"] for r in results if r["status"] != "passed"]
    assert len(results) > 40
    assert skipped in ([], ["check_array_api_input"])  # it needs SCIPY_ARRAY_API to be set before SciPy is imported


def _workers() -> set[int]:
    return {child.pid for child in psutil.Process().children() if "shoal.worker" in command_of(child)}


# ------------------------------------------------------------------ equal to scikit-learn


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rows", [_numbers, _correlated])
def test_equal_to_scikit_learn(ours: object, theirs: object, intercept: bool, rows: object) -> None:
    X, y = rows()
    ours = clone(ours).set_params(fit_intercept=intercept).fit(X, y)
    theirs = clone(theirs).set_params(fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-9)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8, atol=1e-8)
    assert ours.certificate_.relative < 1e-10
    assert ours.certificate_.rests_on == "data"


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_several_targets_are_fitted_one_by_one(ours: object, theirs: object) -> None:
    X, y = _numbers()
    Y = np.column_stack((y, X[:, 1] ** 2, np.cos(y)))
    ours, theirs = clone(ours).fit(X, Y), clone(theirs).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8, atol=1e-9)
    assert ours.predict(X).shape == Y.shape
    for k in range(3):
        np.testing.assert_allclose(clone(ours).fit(X, Y[:, k]).coef_, ours.coef_[k], rtol=1e-10, atol=1e-12)


def test_standardize_is_a_scaler_before_the_model() -> None:
    from sklearn.preprocessing import StandardScaler

    X, y = _numbers()
    scaler = StandardScaler().fit(X)
    theirs = reference.Lasso(alpha=0.3, **TIGHT).fit(scaler.transform(X), y)
    ours = Lasso(alpha=0.3, standardize=True).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_ / scaler.scale_, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shape", ["dependent", "wide"])
def test_of_many_answers_the_one_with_the_smallest_norm_is_given_and_said(shape: str) -> None:
    X, y = _numbers(40, 6)
    X = np.column_stack((X, X[:, 0] + X[:, 1])) if shape == "dependent" else X[:5]
    y = y[: len(X)]
    model = LinearRegression().fit(X, y)
    centred = X - X.mean(axis=0)
    expected = np.linalg.lstsq(centred, y - y.mean(), rcond=1e-12)[0]
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-7, atol=1e-9)
    assert model.rank_ == np.linalg.matrix_rank(centred)
    assert "smallest norm" in " ".join(model.notes_)


def test_a_table_too_ill_conditioned_for_moments_is_fitted_from_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.api.array_fits.SMALL", 0)
    monkeypatch.setattr("shoal.api.array_fits.POLISHED", 0)
    x = np.linspace(0, 1, 400)
    X = np.vander(x, 9, increasing=True)[:, 1:]
    model = LinearRegression().fit(X, X.sum(axis=1) + 1)
    np.testing.assert_allclose(model.coef_, 1, rtol=1e-7)


# ------------------------------------------------------------------ the same bits


@pytest.mark.usefixtures("own_pools")
@pytest.mark.parametrize("estimator", [LinearRegression, Lasso])
@pytest.mark.parametrize("small", [0, 1e12], ids=["moments", "triangle"])
def test_the_bits_do_not_depend_on_engine_or_worker_count(
    estimator: type, small: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.api.array_fits.SMALL", small)
    monkeypatch.setattr(array_requests, "RANGE_VALUES", 4096)
    X, y = _numbers(5000, 9)
    Y = np.column_stack((y, y**2))
    first = estimator(engine="inline").fit(X, Y)
    for workers in (1, 2, 3):
        other = estimator(engine="processes", n_workers=workers).fit(X, Y)
        assert other.coef_.tobytes() == first.coef_.tobytes()
        assert other.intercept_.tobytes() == first.intercept_.tobytes()
        assert other.certificate_ == first.certificate_


@pytest.mark.parametrize("estimator", [Ridge(1.0), LinearRegression(), Lasso(0.05)])
def test_the_bits_do_not_depend_on_the_threads_of_the_caller(estimator: Any) -> None:
    """More columns than rows are solved in this process, whose libraries may have been given any number of threads."""
    random = np.random.default_rng(4)
    X, y = random.normal(size=(120, 1500)), random.normal(size=120)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(estimator.fit(X, y).coef_.copy())
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("change", [np.asfortranarray, lambda X: np.repeat(X, 2, axis=1)[:, ::2]])
def test_the_bits_do_not_depend_on_the_layout(change: object) -> None:
    X, y = _numbers(3000, 9)
    assert Ridge().fit(change(X), y).coef_.tobytes() == Ridge().fit(X, y).coef_.tobytes()


def test_single_precision_is_fitted_in_double() -> None:
    X, y = _numbers()
    single = X.astype(np.float32)
    model = Ridge().fit(single, y)
    assert model.coef_.dtype == np.float64
    np.testing.assert_array_equal(model.coef_, Ridge().fit(single.astype(np.float64), y).coef_)


# ------------------------------------------------------------------ input


def test_names_of_a_data_frame_are_kept_and_checked() -> None:
    X, y = _numbers(50, 3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = Lasso(alpha=0.01).fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c"]])


@pytest.mark.parametrize(
    ("estimator", "wrong"),
    [
        (Ridge(alpha=-1), "alpha"),
        (Lasso(alpha="much"), "alpha"),
        (ElasticNet(alpha=np.nan), "alpha"),
        (ElasticNet(l1_ratio=2), "l1_ratio"),
        (LinearRegression(engine="ray"), "engine"),
        (LinearRegression(n_workers=0), "n_workers"),
    ],
)
def test_a_wrong_parameter_is_named_when_fitting(estimator: object, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"Expected {wrong} to be"):
        estimator.fit(*_numbers(10, 2))


def test_values_whose_squares_overflow_are_refused() -> None:
    X, y = _numbers(10, 2)
    with pytest.raises(ValueError, match="too large"):
        LinearRegression().fit(X * 1e300, y)


# ------------------------------------------------------------------ the pool


@pytest.mark.usefixtures("own_pools")
def test_threads_share_one_pool() -> None:
    X, y = _numbers()
    expected = Ridge(engine="inline").fit(X, y).coef_
    found: list[np.ndarray] = []

    def work() -> None:
        found.append(Ridge(engine="processes", n_workers=2).fit(X, y).coef_)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all((coef == expected).all() for coef in found)
    assert len(_workers()) == 2


def test_an_idle_pool_goes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_pool, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(engine_pool, "_kept", {})
    before = _workers()
    Ridge(engine="processes", n_workers=1).fit(*_numbers(20, 2))
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in _workers() - before], timeout=20)
    assert not alive
    Ridge(engine="processes", n_workers=1).fit(*_numbers(20, 2))
    close_pools()


@pytest.mark.usefixtures("own_pools")
def test_a_worker_killed_between_fits_is_replaced() -> None:
    X, y = _numbers()
    model = Ridge(engine="processes", n_workers=2).fit(X, y)
    for pid in _workers():
        psutil.Process(pid).kill()
    assert (clone(model).fit(X, y).coef_ == model.coef_).all()


SCRIPT = """
    import os, signal, sys
    import numpy as np, psutil
    from shoal.api.estimators import Ridge
    X = np.arange(20.0).reshape(10, 2) ** 2
    coef = Ridge(engine="processes", n_workers=2).fit(X, X[:, 0]).coef_
    print(*(child.pid for child in psutil.Process().children()), flush=True)
    {end}
"""


@pytest.mark.parametrize(
    "end",
    [
        "raise SystemExit(3)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        # A fork has workers of its own, and the end of neither process harms or keeps those of the other.
        """
    if os.fork() == 0:
        assert (Ridge(engine="processes", n_workers=2).fit(X, X[:, 0]).coef_ == coef).all()
        sys.exit(0)
    assert os.wait()[1] == 0
    assert (Ridge(engine="processes", n_workers=2).fit(X, X[:, 0]).coef_ == coef).all()
""",
    ],
    ids=["exit", "killed", "forked"],
)
def test_no_worker_outlives_its_process(end: str) -> None:
    script = textwrap.dedent(SCRIPT.format(end=end.strip()))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=250, check=False)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert "Traceback" not in done.stderr
    left = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(left, timeout=30)
    assert not alive
