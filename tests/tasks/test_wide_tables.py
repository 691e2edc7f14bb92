"""Tables of very many columns: long headers are read, absurd ones refused; leaks and fits need no square matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso, LinearRegression, Ridge

import shoal as api
from shoal.data import files
from shoal.data.first_look import source
from shoal.errors import DataError, StateError
from shoal.fitting.guidance import leaks
from shoal.settings.config import RunConfig
from shoal.tasks.train import look, train
from support.tables import opened, shoal, written


def test_a_header_of_more_than_a_megabyte_is_read(tmp_path: Path) -> None:
    names = [f"c{i}_{'n' * 500}" for i in range(3_000)]
    path = written(tmp_path, ",".join(names) + "\n" + (",".join("1" for _ in names) + "\n") * 3)
    assert len(path.read_bytes()) > files.SAMPLE_BYTES
    assert [column.name for column in opened(path).manifest.columns] == names


def test_more_columns_than_anybody_can_use_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_COLUMNS", 50)
    path = written(tmp_path, "1," * 60 + "1\n")
    with pytest.raises(DataError, match="columns, got 61 or more"):
        opened(path)


def test_inspect_prints_the_first_columns_and_how_to_see_all(tmp_path: Path) -> None:
    path = written(tmp_path, ",".join(f"c{i}" for i in range(250)) + "\n" + ",".join("1" * 250) + "\n")
    few, every = shoal("inspect", path), shoal("inspect", path, "--all")
    assert "1 rows, 250 columns" in few.out
    assert "... and 50 more columns; --all prints them" in few.out
    assert "c199 " in few.out
    assert "c200 " not in few.out
    assert "c249 " in every.out
    assert "more columns" not in every.out


def test_leaks_of_a_wide_table_are_those_of_a_narrow_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{1e6 + i * i % 17},{3 - 2 * (1e6 + i * i % 17)},{i * 7 % 5},{'ab'[i % 2]}" for i in range(60)]
    path = written(tmp_path, "y,tells,x,level\n" + "\n".join(rows) + "\n")
    config = RunConfig(file=str(path), target="y")

    def leaking() -> list[str]:
        return [column["name"] for column in look(config)["columns"] if "leak" in column["flags"]]

    assert leaking() == ["tells"]
    monkeypatch.setattr(leaks, "MOST_EXACT", 0)
    monkeypatch.setattr("shoal.coordinator.Coordinator.moments", None)  # no matrix of all columns is asked for
    assert leaking() == ["tells"]


def genes(folder: Path, rows: int = 40, columns: int = 620) -> Path:
    """More columns than rows, with gaps and a column of texts."""
    random = np.random.default_rng(11)
    values = random.standard_normal((rows, columns)).round(3)
    y = (2 * values[:, 0] - values[:, 5] + 0.1 * random.standard_normal(rows)).round(3)
    texts = [[str(v) for v in row] for row in values.tolist()]
    for i in range(0, rows, 7):
        texts[i][3] = ""
    lines = [",".join([str(y[i]), "ab"[i % 2], *texts[i]]) for i in range(rows)]
    return written(folder, "\n".join([",".join(["y", "kind", *(f"g{j}" for j in range(columns))]), *lines]) + "\n")


@pytest.mark.parametrize("engine", ["inline", "processes"])
@pytest.mark.parametrize("knobs", [{"model": "lasso", "alpha": 0.05}, {"model": "ridge", "alpha": 3.0}])
def test_a_table_wider_than_long_is_solved_without_a_matrix_of_its_columns(
    engine: str, knobs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.coordinator.Coordinator.moments", None)
    path = genes(tmp_path)
    found = train(RunConfig(file=str(path), target="y", test_every=5, engine=engine, workers=2, **knobs)).report
    frame = pd.read_csv(path)
    held = np.arange(len(frame)) % 5 == 0
    X = pd.concat(
        [frame.drop(columns=["y", "kind"]), pd.get_dummies(frame["kind"], prefix="kind", prefix_sep="=")], axis=1
    )
    X = X[list(found.coefficients)].astype(float)
    X = X.fillna(X[~held].median())
    Z = (X - X[~held].mean()) / X[~held].std(ddof=0)
    peer: Any = Lasso(alpha=0.05, tol=1e-12, max_iter=10**6) if knobs["model"] == "lasso" else Ridge(alpha=3.0)
    peer.fit(Z[~held], frame["y"][~held])
    weights = dict(zip(X.columns, peer.coef_, strict=True))
    assert found.coefficients_standardized == pytest.approx(weights, abs=1e-7)
    assert found.test.rows == 8
    assert found.test.r2 == pytest.approx(peer.score(Z[held], frame["y"][held]), abs=1e-8)
    assert found.certificate is not None
    assert found.certificate.relative is not None
    assert found.certificate.relative < 1e-12


def test_estimators_take_wide_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    X = random.standard_normal((50, 600)) + 100
    Y = X[:, :2] + random.standard_normal((50, 2))
    monkeypatch.setattr("shoal.api.estimators.solve_all", None)
    for ours, peer in [(api.Lasso(0.1), Lasso(0.1, tol=1e-12, max_iter=10**6)), (api.Ridge(5.0), Ridge(5.0))]:
        assert ours.fit(X, Y).coef_ == pytest.approx(peer.fit(X, Y).coef_, abs=1e-7)
        assert ours.intercept_ == pytest.approx(peer.intercept_, rel=1e-6)
    no_intercept = api.Ridge(5.0, fit_intercept=False).fit(X, Y[:, 0])
    assert no_intercept.coef_ == pytest.approx(Ridge(5.0, fit_intercept=False).fit(X, Y[:, 0]).coef_, abs=1e-9)
    linear = api.LinearRegression().fit(X, Y[:, 0])
    assert linear.coef_ == pytest.approx(LinearRegression().fit(X, Y[:, 0]).coef_, abs=1e-9)


def test_python_fits_wide_tables_from_files_frames_and_arrays(tmp_path: Path) -> None:
    path = genes(tmp_path)
    frame = pd.read_csv(path)
    found = [api.fit(source, target="y", model="lasso", alpha=0.1, test_every=4) for source in (str(path), frame)]
    assert found[0].coefficients == pytest.approx(found[1].coefficients)
    assert "lasso" in str(found[0].summary())
    assert found[0].predict(frame) == pytest.approx(found[1].predict(frame))
    with pytest.raises(StateError, match="Fit it anew"):
        found[0].refit(alpha=0.2)
    chosen = api.fit(frame, target="y", model="lasso")
    assert chosen.alpha == api.path(frame, target="y", model="lasso", folds=10).best
    whole = api.path(frame, target="y", model="lasso", alphas=[0.5, 0.1], test_every=4)
    assert dict(zip(whole.names, whole.coef[1], strict=True)) == pytest.approx(found[0].coefficients)
    assert api.path(str(path), target="y", model="lasso", alphas=[0.5, 0.1], folds=4).best == 0.1


def test_explaining_thousands_of_columns_says_what_the_file_says_and_what_not(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    X = random.standard_normal((60, 1100)).round(3)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(1100)])
    frame.assign(y=X[:, 0] + random.standard_normal(60).round(3)).to_csv(tmp_path / "wide.csv", index=False)
    shoal("train", tmp_path / "wide.csv", "--target", "y", "--model", "lasso", "--alpha", 0.3, "--out", tmp_path / "m")
    said = shoal("explain", tmp_path / "m")
    assert "lasso model of y" in said.out
    assert "up to 1,000 columns where rows are fewer, and this model has 1,100" in said.out
