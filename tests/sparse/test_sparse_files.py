"""Files of sparse rows: read, fitted and predicted as scikit-learn does with its own reader, same bits whoever reads."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model as reference
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import shoal
from shoal.cli.app import main
from shoal.errors import ConfigError, DataError, OutOfMemory, StateError
from shoal.results.answers.table import TableLook
from shoal.settings.values import config_from
from shoal.sparse import table as sparse_table
from shoal.tasks.diagnose import diagnose
from shoal.tasks.predict import predict_file
from shoal.tasks.train import train

TIGHT = {"tol": 1e-13, "max_iter": 200_000}
PLAIN = {"standardize": False, "alpha": 0.003, "target": "label"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,500 rows x 3,000 columns, some of both without a value, with comments and groups."""
    random = np.random.default_rng(0)
    X = sp.random_array((1500, 3000), density=0.01, format="csr", rng=random, data_sampler=random.standard_normal)
    X = X.tolil()
    X[7] = 0.0
    X = X.tocsr()
    y = X[:, :9] @ np.linspace(-3, 4, 9) + 0.1 * random.standard_normal(1500) + 2
    found = tmp_path_factory.mktemp("rows") / "rows.svm"
    dump_svmlight_file(X, y, str(found), zero_based=False, comment="made here", query_id=np.arange(1500) // 10)
    return found


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_table, "BLOCK_BYTES", 100_000)


def known(path: Path) -> tuple[Any, Any]:
    X, y = load_svmlight_file(str(path), n_features=3001, zero_based=True)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # what its own solvers take
    return X, y


def weights(model: shoal.FittedModel, width: int = 3001) -> Any:
    w = np.zeros(width)
    for name, value in model.coefficients.items():
        w[int(name[1:])] = value
    return w


@pytest.mark.parametrize(
    ("model", "theirs"),
    [
        ("lasso", reference.Lasso(0.003, **TIGHT)),
        ("elasticnet", reference.ElasticNet(0.003, l1_ratio=0.5, **TIGHT)),
        ("ridge", reference.Ridge(0.003, solver="sparse_cg", tol=1e-14, max_iter=100_000)),
    ],
)
def test_models_are_scikit_learns(path: Path, model: str, theirs: Any) -> None:
    found = shoal.fit(path, model=model, **PLAIN)
    expected = theirs.fit(*known(path))
    np.testing.assert_allclose(weights(found), expected.coef_, atol=2e-7)
    assert found.intercept == pytest.approx(expected.intercept_, abs=1e-7)
    assert found.certificate["relative"] < 1e-10
    np.testing.assert_allclose(found.predict(path), expected.predict(known(path)[0]), atol=1e-6)
    assert found.scores["train"]["r2"] == pytest.approx(expected.score(*known(path)), abs=1e-7)


def test_linear_takes_the_smallest_norm_where_columns_are_more_than_rows(path: Path) -> None:
    X, y = known(path)
    found = shoal.fit(path, "label", "linear", standardize=False)
    centred = X.toarray() - X.toarray().mean(axis=0)
    np.testing.assert_allclose(weights(found), np.linalg.lstsq(centred, y - y.mean())[0], atol=1e-6)


def test_standardised_columns_and_test_rows_are_those_of_the_estimator(path: Path) -> None:
    X, y = known(path)
    found = shoal.fit(path, "label", "lasso", alpha=0.02, test_every=5)
    train = np.arange(len(y)) % 5 != 0
    same = shoal.Lasso(0.02, standardize=True).fit(X[train], y[train])
    np.testing.assert_allclose(weights(found), same.coef_, atol=1e-12)
    residual = (y - same.predict(X))[~train]
    assert found.scores["test"]["rmse"] == pytest.approx(np.sqrt(np.mean(residual**2)))
    assert found.scores["test"]["rows"] == 300


def test_the_same_bits_whoever_reads(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    for engine, workers in (("inline", 0), ("processes", 1), ("processes", 2), ("processes", 3)):
        home = tmp_path / f"{engine}{workers}"
        monkeypatch.setenv("SHOAL_HOME", str(home))
        knobs = {"file": str(path), "engine": engine, "workers": workers}
        saved = tmp_path / f"{engine}{workers}.json"
        report = train(config_from({**knobs, **PLAIN, "model": "lasso", "out": str(saved)})).report
        predict_file(saved, config_from(knobs), tmp_path / "p.csv")
        found.append((report.coefficients, report.intercept, (tmp_path / "p.csv").read_bytes()))
    assert found[0] == found[1] == found[2] == found[3]


def test_a_second_fit_reads_blocks_and_a_damaged_one_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    first = shoal.fit(path, model="lasso", **PLAIN)
    (folder,) = (tmp_path / "cache").glob("sparse-*")
    made = {one.name: one.stat().st_ino for one in folder.iterdir()}
    assert len(made) > 3
    assert shoal.fit(path, model="lasso", **PLAIN).coefficients == first.coefficients
    assert {one.name: one.stat().st_ino for one in folder.iterdir()} == made
    block = folder / "rows-000001.bin"
    data = bytearray(block.read_bytes())
    data[100] ^= 1
    block.write_bytes(data)
    assert shoal.fit(path, model="lasso", **PLAIN).coefficients == first.coefficients
    assert block.read_bytes() != bytes(data)


def test_by_the_command_line_also_packed(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed, model, out = tmp_path / "rows.svm.gz", tmp_path / "m.json", tmp_path / "p.csv"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    options = ["--model", "lasso", "--alpha", "0.02", "--test-every", "5"]
    assert main(["train", str(packed), *options, "--out", str(model)]) == 0
    assert "are not in the model" in capsys.readouterr().out
    assert main(["predict", str(model), str(packed), "--out", str(out), "--interval", "0.9"]) == 0
    with out.open() as file:
        rows = list(csv.DictReader(file))
    expected = shoal.load(model).predict(path)
    assert [float(row["prediction"]) for row in rows] == expected.tolist()
    assert all(float(row["lower"]) < float(row["prediction"]) < float(row["upper"]) for row in rows)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1 5:1 3:2", "expected indices that rise"),
        ("1 5:1 5:2", "expected indices that rise"),
        ("one 5:1", "expected label index:value"),
        ("1 5:nan", "expected label index:value"),
        ("1 5:1,5", "expected label index:value"),
        ("1 5:1e999", "expected label index:value"),
        ("1 -5:1", "expected label index:value"),
        ("1 99999999999:1", "expected label index:value"),
    ],
)
def test_a_row_that_is_none_is_named_with_its_line(tmp_path: Path, line: str, why: str) -> None:
    text = ["1 1:0.5 2:0.25", "# a remark", "", *["2 1:0.75 2:0.5"] * 20_000]
    text[15_000] = line
    (tmp_path / "rows.svm").write_text("\n".join(text))
    with pytest.raises(DataError, match=rf"Line 15,001 of 'rows.svm': {why}.*got '{line[:9]}"):
        shoal.fit(tmp_path / "rows.svm", "label", "lasso", alpha=0.1)


def test_numbers_are_those_that_python_reads(tmp_path: Path) -> None:
    texts = ["1.00000000000000000000001", "4.9e-324", "1e-3", "+.5", "-7.", "0.1234567890123456789", "9007199254740993"]
    (tmp_path / "rows.svm").write_text("".join(f"{text} 1:{text} 3:1\r\n" for text in texts))
    block = sparse_table.SparseRange(str(tmp_path / "rows.svm"), 0, 10_000).read()
    assert block.labels.tolist() == [float(text) for text in texts]
    assert block.values[::2].tolist() == [float(text) for text in texts]
    assert block.indices.tolist() == [1, 3] * len(texts)


def test_ranges_have_every_row_once_wherever_they_end(tmp_path: Path) -> None:
    text = "".join(f"{i} {i + 1}:1 {i + 7}:0.5\n" for i in range(40)).rstrip("\n")
    (tmp_path / "rows.svm").write_text(text)
    for size in (1, 7, 50, 300):
        starts = range(0, len(text), size)
        parts = [sparse_table.SparseRange(str(tmp_path / "rows.svm"), at, min(at + size, len(text))) for at in starts]
        assert [label for part in parts for label in part.read().labels.tolist()] == list(range(40))


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({"model": "poisson"}, "linear, ridge, lasso, elastic-net and logistic"),
        ({"model": "lasso", "alpha": 1.0, "features": ["x1"]}, "no features"),
        ({"model": "lasso", "alpha": 1.0, "target": "x1"}, "Expected the label"),
    ],
)
def test_what_is_for_tables_of_cells_is_refused_in_words(path: Path, knobs: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        shoal.fit(path, **{"target": "label", **knobs})


def test_what_does_not_fit_is_refused_before_and_other_models_are_told_apart(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n2,4\n3,6.5\n")
    with pytest.raises(DataError, match="the model needs 'a'"):
        shoal.fit(tmp_path / "t.csv", "b").predict(path)
    monkeypatch.setattr("shoal.sparse.fit.available_memory", lambda: 1_000_000)
    with pytest.raises(OutOfMemory, match="but only 1 MB may be used"):
        shoal.fit(path, model="lasso", **PLAIN)


def test_inspect_says_how_full_the_rows_are_and_what_the_label_looks_like(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X, y = known(path)
    found = shoal.inspect(path)
    counts = np.bincount(X.indices, minlength=3001)
    assert found.sparse is not None
    assert (found.rows, found.sparse.values, found.sparse.columns) == (1500, X.nnz, int((counts > 0).sum()))
    assert found.sparse.share == X.nnz / (1500 * found.sparse.columns)
    assert found.sparse.empty_rows == int((np.diff(X.indptr) == 0).sum())
    assert found.sparse.frequent[0] == (f"x{counts.argmax()}", counts.max())
    assert (found.columns[0].min, found.columns[0].max) == (y.min(), y.max())
    assert TableLook.from_dict(found.as_dict()) == found
    assert main(["inspect", str(path)]) == 0
    assert "1,500 sparse rows" in capsys.readouterr().out


def test_a_label_of_two_values_is_told_and_a_vast_index_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "vast.svm").write_text("1 3:1 2147483646:2\n-1 5:1 7:2\n1 3:1 7:2\n")
    found = shoal.inspect(tmp_path / "vast.svm")
    assert found.sparse is not None
    assert (found.sparse.columns, found.sparse.last) == (4, "x2147483646")
    assert found.target is not None
    assert found.target.kind == "yes_no"
    assert found.target.model == "linear"
    assert "Sparse rows have linear models only" in found.target.why
    with pytest.raises(OutOfMemory, match="2,147,483,647 columns needs"):
        shoal.path(tmp_path / "vast.svm", "label", folds=2)


def test_residuals_of_sparse_rows_are_refused_with_what_there_is_instead(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    shoal.fit(path, model="lasso", **PLAIN).save(out)
    with pytest.raises(StateError, match="this file has sparse rows"):
        diagnose(out, config_from({"file": str(path)}), own_data=True)


def test_a_report_knows_the_file_of_its_model(path: Path, tmp_path: Path) -> None:
    own = tmp_path / "rows.svm"
    own.write_bytes(path.read_bytes())
    model = tmp_path / "model.json"
    shoal.fit(own, model="lasso", **PLAIN).save(model)
    page = tmp_path / "report.html"
    assert main(["export", str(model), "--to", "report", "--out", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "trained on sparse rows" in text
    assert "not where it was" not in text
    assert "not what it was" not in text
    own.write_bytes(path.read_bytes() + b"1 3:4\n")
    assert main(["export", str(model), "--to", "report", "--out", str(page)]) == 0
    assert "rows.svm is not what it was when the model was trained" in page.read_text("utf-8")
