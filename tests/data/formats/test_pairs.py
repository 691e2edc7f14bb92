"""Files of sparse rows are told apart from tables, and never read as one column of text in silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import shoal


@pytest.mark.parametrize("options", [{}, {"zero_based": False}, {"comment": "made by hand"}, {"query_id": [1] * 60}])
def test_what_scikit_learn_writes_is_looked_at_as_sparse_rows(tmp_path: Path, options: dict[str, object]) -> None:
    X = sp.random_array((60, 500), density=0.02, format="csr", rng=np.random.default_rng(0))
    dump_svmlight_file(X, np.arange(60.0), str(tmp_path / "rows.svm"), **options)
    found = shoal.inspect(tmp_path / "rows.svm")
    assert found.sparse is not None
    assert (found.rows, found.sparse.values) == (60, X.nnz)
    again, y = load_svmlight_file(str(tmp_path / "rows.svm"), n_features=501)[:2]
    assert shoal.Lasso(0.01).fit(again, y).certificate_.relative < 1e-12


@pytest.mark.parametrize(
    "text",
    [
        "5 12:30 13:45\n7 1:05 2:10\n9 11:00 12:59\n",
        "n t\n1 2:30\n2 3:40\n",
        "a,b\n1,2\n3,4\n",
        "1 2 3\n4 5 6\n",
        "1:2 3:4\n5:6 7:8\n",
    ],
)
def test_tables_that_look_a_little_alike_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.txt").write_text(text)
    assert shoal.inspect(tmp_path / "t.txt")["rows"] > 0


def test_who_names_the_delimiter_gets_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("1 1:0.5 2:0.25\n2 1:0.75 2:0.5\n")
    assert len(shoal.inspect(tmp_path / "t.txt", delimiter=" ")["columns"]) == 3
