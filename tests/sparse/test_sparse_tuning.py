"""Penalties of sparse rows chosen by folds: as for the same table of cells, and as scikit-learn with the same folds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import ElasticNetCV, LassoCV, RidgeCV

import shoal
from shoal.cli.app import main
from shoal.errors import ConfigError, OutOfMemory
from shoal.metrics import Timings
from shoal.settings.config import RunConfig
from shoal.solve.rows import sparse as sparse_rows
from shoal.tasks.train import coordinated
from shoal.tasks.tune import TuningRequest, tune_with
from shoal.whatif.penalty_choice import Tuned
from shoal.whatif.rows_choice import CurveSoFar

ROWS, WIDTH, FOLDS = 240, 60, 5
ALPHAS = [0.3, 0.1, 0.03, 0.01, 0.003]
MODELS = ["lasso", "elasticnet", "ridge"]


@pytest.fixture(scope="module")
def made() -> tuple[Any, Any]:
    random = np.random.default_rng(5)
    X = sp.random_array((ROWS, WIDTH), density=0.15, format="csr", rng=random, data_sampler=random.standard_normal)
    return X, X[:, :6] @ np.array([3.0, -2, 1, 1, -1, 0.5]) + 0.2 * random.standard_normal(ROWS) + 7


@pytest.fixture(scope="module")
def sparse(made: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sparse") / "rows.svm"
    dump_svmlight_file(*made, str(path), zero_based=False)
    return path


@pytest.fixture(scope="module")
def cells(made: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cells") / "rows.csv"
    X, y = made
    head = ",".join(["label", *(f"x{j + 1}" for j in range(WIDTH))])
    rows = [",".join(map(repr, [float(b), *map(float, a)])) for a, b in zip(X.toarray(), y, strict=True)]
    path.write_text("\n".join([head, *rows]) + "\n", "utf-8")
    return path


@pytest.fixture(params=["all columns at once", "column by column"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Few columns are one problem; with a lower bound they go the way of many."""
    if request.param == "column by column":
        monkeypatch.setattr(sparse_rows, "FEW", 5)
    return str(request.param)


def tuned(
    path: Path, model: str = "lasso", seen: Any = None, request: TuningRequest | None = None, **more: Any
) -> Tuned:
    config = RunConfig(file=str(path), target="label", model=model, **more)
    request = request or TuningRequest(folds=FOLDS, fold_by="row", alphas=ALPHAS)
    with coordinated(config) as coordinator:
        return tune_with(coordinator, config, request, Timings(), seen or (lambda so_far: None))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("more", [{}, {"test_every": 6}, {"standardize": False}, {"intercept": False}], ids=str)
def test_the_answer_is_that_of_the_same_table_of_cells(
    sparse: Path, cells: Path, model: str, more: dict[str, Any], either_way: str
) -> None:
    request = TuningRequest(folds=FOLDS, fold_by="hash" if more else "row", n_alphas=20)
    found, expected = (tuned(path, model, request=request, **more) for path in (sparse, cells))
    np.testing.assert_allclose(found.path.alphas, expected.path.alphas, rtol=1e-12)
    np.testing.assert_allclose(found.curve.errors, expected.curve.errors, rtol=1e-6)
    np.testing.assert_allclose(found.train[0], expected.train[0], rtol=1e-6)
    np.testing.assert_allclose(found.test[0], expected.test[0], rtol=1e-6)
    assert (found.curve.best, found.curve.one_se) == (expected.curve.best, expected.curve.one_se)
    theirs = expected.coefficients("best")
    for name, value in found.coefficients("best").items():
        assert value == pytest.approx(theirs.pop(name), abs=1e-6)
    assert not any(theirs.values()), "columns that are not named have no weight"
    assert found.certificate.relative < 1e-6


def test_every_fold_is_scikit_learns_with_the_same_rows_and_alphas(
    sparse: Path, made: tuple[Any, Any], either_way: str
) -> None:
    X, y = made[0].toarray(), made[1]
    row = np.arange(ROWS)
    splits = [(row[row % FOLDS != fold], row[row % FOLDS == fold]) for fold in range(FOLDS)]
    tight = {"cv": splits, "tol": 1e-12, "max_iter": 10**6}
    plain = {"standardize": False}
    lasso = LassoCV(alphas=ALPHAS, **tight).fit(X, y)
    found = tuned(sparse, "lasso", **plain)
    np.testing.assert_allclose(found.curve.errors, lasso.mse_path_.T, rtol=1e-6)
    assert found.alpha("best") == lasso.alpha_
    net = ElasticNetCV(alphas=ALPHAS, l1_ratio=0.5, **tight).fit(X, y)
    found = tuned(sparse, "elasticnet", **plain)
    np.testing.assert_allclose(found.curve.errors, net.mse_path_.T, rtol=1e-6)
    assert found.alpha("best") == net.alpha_
    ridge = RidgeCV(alphas=ALPHAS, cv=splits, scoring="neg_mean_squared_error").fit(X, y)
    found = tuned(sparse, "ridge", **plain)
    assert found.alpha("best") == ridge.alpha_
    assert found.curve.mean[found.curve.best] == pytest.approx(-ridge.best_score_, rel=1e-6)


def test_the_bits_are_the_same_for_any_number_of_workers(sparse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.sparse.table.BLOCK_BYTES", 4000)
    monkeypatch.setattr(sparse_rows, "FEW", 5)
    answers = [tuned(sparse, "lasso", workers=workers, engine="processes").as_dict() for workers in (1, 2)]
    monkeypatch.setattr("shoal.whatif.turns.HANDS", 1)
    answers.append(tuned(sparse, "lasso", engine="inline").as_dict())
    assert answers[0] == answers[1] == answers[2]


def test_the_curve_is_seen_from_its_strong_end_while_it_is_worked_out(
    sparse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.whatif.turns.HANDS", 1)  # with several it depends on the machine who is how far
    seen: list[CurveSoFar] = []
    found = tuned(sparse, "lasso", seen.append, TuningRequest(folds=FOLDS, n_alphas=30))
    known = [one.known for one in seen]
    assert known == sorted(known)
    assert 0 < known[len(known) // 2] < 30 == known[-1]
    first = next(one for one in seen if one.known)
    assert first.curve is not None
    assert 2 <= len(first.curve.errors) < FOLDS
    early = next(one for one in seen if one.counts.min() >= 5)
    assert early.curve is not None
    assert early.curve.mean.tolist() == found.curve.mean[: early.known].tolist()


def test_train_chooses_an_alpha_that_nobody_named(sparse: Path) -> None:
    model = shoal.fit(sparse, "label", "lasso", test_every=6)
    expected = tuned(sparse, "lasso", request=TuningRequest(), test_every=6)
    assert model.alpha == expected.alpha("best")
    assert model.report["cross_validation"]["best"] == model.alpha


def test_a_path_in_python_has_its_models(sparse: Path) -> None:
    path = shoal.path(sparse, "label", folds=FOLDS, n_alphas=15)
    best = path.best_model()
    at = dict(zip(path.names, path.coef[path.tuned.curve.best].tolist(), strict=True))
    for name, value in best.coefficients.items():
        assert value == pytest.approx(at[name], abs=1e-8)
    plain = shoal.path(sparse, "label", n_alphas=15, folds=None)
    np.testing.assert_allclose(plain.alphas, path.alphas)
    assert plain.kept == path.kept


def test_the_command_line_tunes_and_writes_the_model(
    sparse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.json"
    assert main(["tune", str(sparse), "--model", "lasso", "--folds", "5", "--json", "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["target"], found["folds"]) == ("label", 5)
    assert json.loads(out.read_text("utf-8"))["alpha"] == found["best"]


@pytest.mark.parametrize("way", ["class", "group:x1", "time:x1"])
def test_folds_that_need_columns_are_refused_in_words(sparse: Path, way: str) -> None:
    with pytest.raises(ConfigError, match="Expected folds of these sparse rows by row or hash"):
        tuned(sparse, request=TuningRequest(folds=3, fold_by=way))


def test_what_memory_does_not_hold_is_refused_before_it_is_taken(sparse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.sparse.folds.available_memory", lambda: 400_000)
    with pytest.raises(OutOfMemory, match=r"Choosing a penalty .* Use fewer alphas, fewer rows or more memory"):
        tuned(sparse)
    monkeypatch.setattr("shoal.sparse.folds.available_memory", lambda: 1_000_000)
    with pytest.raises(OutOfMemory, match=r"Choosing among 5,000 penalties"):
        tuned(sparse, "ridge", request=TuningRequest(n_alphas=5000))
