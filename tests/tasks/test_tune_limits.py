"""`shoal tune` on odd tables, and what it refuses in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.linear_model as reference
from sklearn.preprocessing import StandardScaler

import shoal as api
from support.tables import TIGHT, Answer, frame_of, rows, shoal, tuned, written


def refused(path: Path, *flags: str | Path) -> str:
    """One plain sentence or two, and no traceback."""
    answer: Answer = shoal("tune", path, "--target", "y", *flags)
    assert answer.code == 1
    assert answer.is_plain()
    return answer.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--folds", "1"], "at least 2 folds, got 1"),
        (["--folds", "0"], "at least 2 folds, got 0"),
        (["--folds", "many"], "whole number after --folds, got 'many'"),
        (["--folds", "81"], "at most as many folds as rows, got 81 folds of 80 rows"),
        (["--fold-by", "colour"], "row, hash, class, group:COLUMN or time:COLUMN, got 'colour'"),
        (["--fold-by", "group:"], "got 'group:'"),
        (["--fold-by", "group:nothing"], "'nothing'"),
        (["--fold-by", "time:nothing"], "'nothing'"),
        (["--alphas", "0.1,-2"], "at least 0, got -2"),
        (["--alphas", "nan"], "finite numbers of at least 0, got nan"),
        (["--alphas", "1,inf"], "got inf"),
        (["--alphas", ""], "at least one alpha to try, got none"),
        (["--alphas", ","], "at least one alpha"),
        (["--alphas", "a,b"], "after --alphas, got 'a,b'"),
        (["--alphas", "1,2", "--n-alphas", "5"], "Both alphas and a number of alphas"),
        (["--n-alphas", "0"], "from 1 to 10,000, got 0"),
        (["--n-alphas", "-3"], "got -3"),
        (["--n-alphas", "2.5"], "whole number after --n-alphas"),
        (["--model", "linear", "--alphas", "1"], "has no penalty"),
        (["--model", "lasso", "--l1-ratio", "0.1,0.2"], "give it one with --model elasticnet"),
        (["--model", "elasticnet", "--l1-ratio", "1.2"], "from 0 (ridge) to 1 (lasso), got 1.2"),
        (["--model", "elasticnet", "--l1-ratio", "half"], "after --l1-ratio, got 'half'"),
        (["--features", "x0,y"], "also among the features"),
        (["--features", "x9"], "got 'x9'"),
        (["--model", "tree"], "Expected --model to be one of linear, ridge"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_plain_sentence(table: Path, flags: list[str], said: str) -> None:
    assert said in refused(table, *flags)


def test_no_target(table: Path) -> None:
    answer = shoal("tune", table)
    assert answer.is_plain()
    assert "Expected a target" in answer.err


def test_the_target_cannot_be_text(tmp_path: Path) -> None:
    path = written(tmp_path, "x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(20)))
    assert "Expected a column of numbers as target" in refused(path)


def odd(tmp_path: Path, **columns: Any) -> Path:
    X, y = rows(40, 3)
    path = tmp_path / "odd.csv"
    frame_of(X, y).assign(**columns).to_csv(path, index=False)
    return path


def test_a_group_column_with_one_group(tmp_path: Path) -> None:
    said = refused(odd(tmp_path, team="only"), "--fold-by", "group:team", "--folds", "2")
    assert "at least 2 groups in column 'team' for 2 folds, got 1" in said


def test_fewer_groups_than_folds(tmp_path: Path) -> None:
    path = odd(tmp_path, team=np.arange(40) % 3)
    assert "got 3" in refused(path, "--fold-by", "group:team", "--folds", "5")


def test_time_that_is_text(tmp_path: Path) -> None:
    path = odd(tmp_path, when=np.where(np.arange(40) % 2, "soon", "late"))
    assert "Expected dates or numbers in 'when'" in refused(path, "--fold-by", "time:when")


def test_time_that_stands_still(tmp_path: Path) -> None:
    path = odd(tmp_path, when=np.arange(40) // 30)
    assert "the same time in 'when'" in refused(path, "--fold-by", "time:when", "--folds", "3")


def test_groups_that_predict_are_warned_of(tmp_path: Path) -> None:
    path = odd(tmp_path, team=np.where(np.arange(40) % 8 < 4, "a", "b"))
    found = tuned(path, "--fold-by", "group:team", "--folds", "2")
    assert any("'team' makes the folds" in said for said in found["warnings"])
    assert not tuned(path, "--fold-by", "group:team", "--folds", "2", "--exclude", "team")["warnings"]


def test_a_fold_without_variation_of_the_target(tmp_path: Path) -> None:
    """Only fold 1 has rows with another target, so that fold 1 is trained on rows that are all alike."""
    X, y = rows(40, 2)
    y = np.where(np.arange(40) % 4 == 1, y, 5.0)
    path = tmp_path / "flat.csv"
    frame_of(X, y).to_csv(path, index=False, float_format="%.17g")
    found = tuned(path, "--folds", "4", "--alphas", "0.1")
    assert any("does not vary over the training rows of fold 1" in said for said in found["warnings"])
    errors = []
    for k in range(4):
        train, test = np.arange(40) % 4 != k, np.arange(40) % 4 == k
        scaler = StandardScaler().fit(X[train])
        fitted = reference.Lasso(alpha=0.1, **TIGHT).fit(scaler.transform(X[train]), y[train])
        errors.append(((y[test] - fitted.predict(scaler.transform(X[test]))) ** 2).mean())
    assert found["cv_mean"][0] == pytest.approx(np.mean(errors), rel=1e-8)


def test_a_target_without_any_variation(tmp_path: Path) -> None:
    assert "The target does not vary" in refused(odd(tmp_path, y=0.1))  # whose mean is rounded
    path = odd(tmp_path, y=5.0)
    assert "The target does not vary" in refused(path)
    found = tuned(path, "--alphas", "1,0.1")
    assert found["cv_mean"] == [0.0, 0.0]
    assert found["intercepts"]["best"] == 5.0
    assert found["scores"]["best"]["train"]["r2"] is None


def test_constant_columns(tmp_path: Path) -> None:
    found = tuned(odd(tmp_path, same=3.0), "--folds", "4")
    assert any("do not vary" in said and "same" in said for said in found["warnings"])
    assert found["coefficients"]["best"]["same"] == 0
    np.testing.assert_allclose(found["cv_mean"], tuned(odd(tmp_path), "--folds", "4")["cv_mean"], rtol=1e-12)


def test_a_column_that_varies_in_one_fold_only(tmp_path: Path) -> None:
    found = tuned(odd(tmp_path, spike=(np.arange(40) == 6).astype(float)), "--folds", "4", "--alphas", "0.01")
    assert any("some fold" in said and "spike" in said for said in found["warnings"])


def test_columns_without_any_value(tmp_path: Path) -> None:
    found = tuned(odd(tmp_path, empty=np.nan), "--folds", "4")
    assert any("'empty' has no value in any row and is left out" in said for said in found["warnings"])
    assert "empty" not in found["coefficients"]["best"]


def test_a_column_without_a_value_in_the_training_rows_of_a_fold(tmp_path: Path) -> None:
    """It has values in the rows of fold 2 only: without them it is no column at all, and the others answer."""
    X, y = rows(40, 3)
    late = np.where(np.arange(40) % 4 == 2, X[:, 0] ** 2, np.nan)
    found = tuned(odd(tmp_path, late=late), "--folds", "4", "--alphas", "0.05")
    train, test = np.arange(40) % 4 != 2, np.arange(40) % 4 == 2
    scaler = StandardScaler().fit(X[train])
    alone = reference.Lasso(alpha=0.05, **TIGHT).fit(scaler.transform(X[train]), y[train])
    error = ((y[test] - alone.predict(scaler.transform(X[test]))) ** 2).mean()
    path = api.path(tmp_path / "odd.csv", target="y", alphas=[0.05], folds=4)
    assert path.tuned.curve.errors[2, 0] == pytest.approx(error, rel=1e-8)
    assert found["cv_mean"][0] == pytest.approx(path.cv_mean[0], rel=1e-12)


def test_more_columns_than_rows(tmp_path: Path) -> None:
    X, y = rows(12, 20)
    path = tmp_path / "wide.csv"
    frame_of(X, y).to_csv(path, index=False, float_format="%.17g")
    found = tuned(path, "--folds", "3", "--alphas", "2,1")
    assert any("20 columns and 12 training rows" in said for said in found["warnings"])
    errors = []
    for k in range(3):
        train, test = np.arange(12) % 3 != k, np.arange(12) % 3 == k
        scaler = StandardScaler().fit(X[train])
        for alpha in (2.0, 1.0):
            fitted = reference.Lasso(alpha=alpha, **TIGHT).fit(scaler.transform(X[train]), y[train])
            errors.append(((y[test] - fitted.predict(scaler.transform(X[test]))) ** 2).mean())
    np.testing.assert_allclose(found["cv_mean"], np.array(errors).reshape(3, 2).mean(axis=0), rtol=1e-8)


def test_more_folds_than_rows_with_a_target(tmp_path: Path) -> None:
    path = odd(tmp_path, y=np.where(np.arange(40) < 6, np.arange(40.0), np.nan))
    assert "Choose fewer folds" in refused(path, "--folds", "10")


def test_repeated_and_unsorted_alphas(table: Path) -> None:
    found = tuned(table, "--alphas", "0.1,5,0.1,1", "--folds", "4")
    assert found["alphas"] == [5.0, 1.0, 0.1]
    assert any("given more than once" in said for said in found["warnings"])
    assert found["cv_mean"] == tuned(table, "--alphas", "5,1,0.1", "--folds", "4")["cv_mean"]


def test_of_equal_errors_the_strongest_penalty(table: Path) -> None:
    found = tuned(table, "--alphas", "1e9,1e8", "--folds", "4")
    assert found["best"] == found["one_se"] == 1e9


def test_alpha_zero_is_least_squares(table: Path) -> None:
    found = tuned(table, "--alphas", "1,0", "--folds", "4")
    assert found["cv_mean"][1] == pytest.approx(
        tuned(table, "--model", "linear", "--folds", "4")["cv_mean"][0], rel=1e-9
    )
