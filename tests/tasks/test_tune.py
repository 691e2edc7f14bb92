"""`shoal tune`: the keys and what they mean, the choice of the penalty, and the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.linear_model as reference
from sklearn.preprocessing import StandardScaler

import shoal as api
from shoal.errors import ConfigError
from shoal.fitting.model_file import load_model
from support.references import CODINGS, our_names
from support.tables import SHARED, TIGHT, rows, shared, shoal, tuned

DATA = SHARED / "data" / "regression"


def test_the_keys_and_what_they_mean(table: Path) -> None:
    found = tuned(table, "--model", "lasso", "--folds", "5", "--n-alphas", "20")
    alphas, mean, se = (np.array(found[key]) for key in ("alphas", "cv_mean", "cv_se"))
    assert alphas.shape == mean.shape == se.shape == (20,)
    assert (np.diff(alphas) < 0).all()
    assert found["best"] == alphas[mean.argmin()]
    assert found["one_se"] == alphas[mean <= mean.min() + se[mean.argmin()]].max()
    assert found["one_se"] > found["best"]
    X, y = rows()
    scaler = StandardScaler().fit(X)
    for which in ("best", "one_se"):
        theirs = reference.Lasso(alpha=found[which], **TIGHT).fit(scaler.transform(X), y)
        ours = [found["coefficients"][which][f"x{j}"] for j in range(5)]
        np.testing.assert_allclose(ours, theirs.coef_ / scaler.scale_, rtol=1e-8, atol=1e-9)
        weights = list(found["coefficients_standardized"][which].values())
        np.testing.assert_allclose(weights, theirs.coef_, rtol=1e-8, atol=1e-9)
        predicted = np.array(ours) @ X.T + found["intercepts"][which]
        np.testing.assert_allclose(predicted, theirs.predict(scaler.transform(X)), rtol=1e-9)
        score = found["scores"][which]["train"]
        assert score["rmse"] == pytest.approx(float(np.sqrt(((y - predicted) ** 2).mean())), rel=1e-9)
        assert score["r2"] == pytest.approx(theirs.score(scaler.transform(X), y), rel=1e-9)
        place = found["alphas"].index(found[which])
        assert found["n_features_kept"][place] == np.count_nonzero(theirs.coef_)
    assert (found["folds"], found["fold_by"], found["rows"], found["model"]) == (5, "row", 80, "lasso")
    assert found["certificate"]["relative"] < 1e-12
    assert found["warnings"] == []
    assert set(found["timings"]) == {"ingest", "sums", "tune", "total"}


def test_ten_folds_hundred_alphas_and_lasso_are_usual(table: Path) -> None:
    found = tuned(table)
    assert (len(found["alphas"]), found["folds"], found["model"]) == (100, 10, "lasso")


def test_a_second_tune_reads_no_file(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tuned(table)

    def reading(*_: Any) -> None:
        raise AssertionError("the file was read again")

    monkeypatch.setattr("shoal.passes.ingest.Ingest", reading)
    second = tuned(table, "--model", "ridge", "--fold-by", "hash")
    assert second["rows"] == first["rows"]


def test_the_linear_model_has_one_error(table: Path) -> None:
    found = tuned(table, "--model", "linear", "--folds", "4")
    assert found["alphas"] == [0.0]
    X, y = rows()
    errors = []
    for k in range(4):
        train, test = np.arange(80) % 4 != k, np.arange(80) % 4 == k
        fitted = reference.LinearRegression().fit(X[train], y[train])
        errors.append(((y[test] - fitted.predict(X[test])) ** 2).mean())
    assert found["cv_mean"][0] == pytest.approx(np.mean(errors), rel=1e-9)
    assert found["cv_se"][0] == pytest.approx(np.std(errors, ddof=1) / 2, rel=1e-8)


def test_the_mixing_ratio_is_chosen_too(table: Path) -> None:
    found = tuned(table, "--model", "elasticnet", "--l1-ratio", "0.1,0.5,1", "--n-alphas", "15", "--folds", "4")
    smallest = {one["l1_ratio"]: min(one["cv_mean"]) for one in found["l1_ratios"]}
    assert list(smallest) == [0.1, 0.5, 1.0]
    assert found["l1_ratio"] == min(smallest, key=lambda ratio: smallest[ratio])
    chosen = next(one for one in found["l1_ratios"] if one["l1_ratio"] == found["l1_ratio"])
    assert (chosen["alphas"], chosen["cv_mean"], chosen["best"]) == (found["alphas"], found["cv_mean"], found["best"])
    for one in found["l1_ratios"]:
        alone = tuned(table, "--model", "elasticnet", "--l1-ratio", str(one["l1_ratio"]), "--n-alphas", "15",
                      "--folds", "4")  # fmt: skip
        assert alone["cv_mean"] == one["cv_mean"]


def test_test_rows_are_scored(table: Path) -> None:
    found = tuned(table, "--test-fraction", "0.25", "--alphas", "0.3", "--fold-by", "hash", "--folds", "4")
    assert found["scores"]["best"]["train"]["rows"] == found["rows"]
    test = found["scores"]["best"]["test"]
    assert test["rows"] + found["rows"] == 80
    answer = shoal("train", table, "--target", "y", "--model", "lasso", "--alpha", "0.3", "--test-fraction", "0.25",
                   "--json").json  # fmt: skip
    assert test["r2"] == pytest.approx(answer["test"]["r2"], rel=1e-9)
    assert test["rmse"] == pytest.approx(answer["test"]["rmse"], rel=1e-9)


def test_folds_whose_rows_are_all_kept_for_testing(table: Path) -> None:
    """--test-every 5 takes all rows of the folds 0 and 5 of ten by row: the others answer, and it is said."""
    assert tuned(table, "--test-every", "5", "--alphas", "0.3")["fold_by"] == "hash"  # so nobody is caught by it
    found = tuned(table, "--test-every", "5", "--fold-by", "row", "--alphas", "0.3")
    assert any("fold 0, 5 are among those kept for testing" in said for said in found["warnings"])
    X, y = rows()
    errors, index = [], np.arange(80)
    for k in (1, 2, 3, 4, 6, 7, 8, 9):
        train, test = (index % 5 != 0) & (index % 10 != k), index % 10 == k
        scaler = StandardScaler().fit(X[train])
        fitted = reference.Lasso(alpha=0.3, **TIGHT).fit(scaler.transform(X[train]), y[train])
        errors.append(((y[test] - fitted.predict(scaler.transform(X[test]))) ** 2).mean())
    assert found["cv_mean"][0] == pytest.approx(np.mean(errors), rel=1e-8)
    assert found["cv_se"][0] == pytest.approx(np.std(errors, ddof=1) / np.sqrt(8), rel=1e-7)


def lasso_cases() -> list[Any]:
    return [
        pytest.param(path.name, coding, id=f"{path.name.split('.')[0]}-{coding}")
        for path in sorted(DATA.glob("*.reference.json"))
        for coding in json.loads(path.read_text())["codings"]
    ] or [pytest.param("missing.reference.json", "", id="shared-is-missing")]


@pytest.mark.parametrize(("file", "coding"), lasso_cases())
def test_stored_lasso_solutions(file: str, coding: str) -> None:
    """All alphas of a reference in one path; each is reached as the best of a path of its own."""
    stored = json.loads(shared("data", "regression", file).read_text())
    details = stored["codings"][coding]
    names = our_names(stored, details["columns"])
    for name, expected in details["models"].items():
        if not name.startswith("lasso"):
            continue
        answer = shoal(
            "tune", DATA / stored["file"], "--target", stored["target"], "--alphas", repr(expected["alpha"]),
            "--features", ",".join(stored["features"]), "--coding", CODINGS[coding], "--test-every", "5",
            "--fold-by", "hash", "--missing", ",".join(stored["read"]["na_tokens"]), "--json",
        ).json  # fmt: skip
        weights = np.array([answer["coefficients_standardized"]["best"][column] for column in names])
        theirs = np.array(expected["coef_standardised"])
        np.testing.assert_allclose(weights, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())
        assert answer["scores"]["best"]["test"]["rmse"] == pytest.approx(expected["test_rmse"], rel=1e-6)
        assert answer["scores"]["best"]["train"]["r2"] == pytest.approx(expected["train_r2"], rel=1e-6)


def test_the_table_marks_both_choices(table: Path) -> None:
    answer = shoal("tune", table, "--target", "y", "--folds", "5")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "lasso model of y: 5 folds by row, 80 training rows"
    kept = shoal("tune", table, "--target", "y", "--test-every", "5", "--fold-by", "row").out.splitlines()[0]
    assert kept == "lasso model of y: 8 of 10 folds (the others are kept for testing) by row, 64 training rows"
    marked = [line for line in lines if "<-" in line]
    assert [line.split("<- ")[1] for line in marked] == ["1-SE", "best"]
    curve = [line for line in lines if len(line.split()) >= 4 and line.split()[0].replace(".", "").isdigit()]
    assert 10 <= len(curve) <= 22
    assert "of 100 alphas; --json gives all)" in answer.out
    assert any(line.split() == ["column", "at", "best", "at", "1-SE"] for line in lines)
    found = tuned(table, "--folds", "5")
    assert f"{found['coefficients']['best']['x0']:.6g}" in answer.out
    assert f"{found['coefficients']['one_se']['x0']:.6g}" in answer.out


def test_the_table_of_mixing_ratios(table: Path) -> None:
    answer = shoal("tune", table, "--target", "y", "--model", "elasticnet", "--l1-ratio", "0.2,0.9", "--n-alphas", "5")
    assert answer.out.count("<- chosen") == 1
    assert answer.out.splitlines()[0].startswith("elasticnet model of y, l1_ratio = 0.")


# ------------------------------------------------------------------ the model that was chosen


def test_the_chosen_model_is_written_with_its_error(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    found = tuned(table, "--model", "elasticnet", "--l1-ratio", "0.2,0.9", "--out", out, "--at", "1-se", "--folds", "4")
    model = load_model(out)
    kept = model.report.cross_validation
    assert kept is not None
    place = found["alphas"].index(found["one_se"])
    assert (kept.mse, kept.se) == (found["cv_mean"][place], found["cv_se"][place])
    assert (kept.folds, kept.fold_by, kept.chosen, kept.alphas) == (4, "row", "one_se", 100)
    assert (model.report.alpha, model.report.l1_ratio) == (found["one_se"], found["l1_ratio"])
    for name, value in found["coefficients"]["one_se"].items():
        assert model.report.coefficients[name] == pytest.approx(value, rel=1e-8, abs=1e-10)
    assert [one.kind for one in model.report.intervals] == ["debiased"]


def test_a_model_is_not_written_over_its_table(table: Path) -> None:
    before = table.read_bytes()
    answer = shoal("tune", table, "--target", "y", "--out", table)
    assert answer.code == 1
    assert "would destroy it" in answer.err
    assert table.read_bytes() == before


def test_a_file_of_settings_for_train_is_one_for_tune(table: Path, tmp_path: Path) -> None:
    settings = tmp_path / "run.yaml"
    settings.write_text(f"file: {table}\ntarget: y\nmodel: elasticnet\nl1_ratio: 0.3\nalpha: 7\nepochs: 3\n")
    answer = shoal("tune", "--config", settings, "--json")
    assert (answer.code, answer.json["model"], answer.json["l1_ratio"]) == (0, "elasticnet", 0.3)
    assert "leaves out: alpha, epochs" in answer.err
    over = shoal("tune", "--config", settings, "--model", "lasso", "--json")
    assert over.json["model"] == "lasso"
    settings.write_text("target: y\nmodle: ridge\n")
    assert "'modle'. Did you mean" in shoal("tune", table, "--config", settings).err


def test_what_has_no_effect_is_refused_with_what_would_give_it_one(table: Path, tmp_path: Path) -> None:
    ratio = shoal("tune", table, "--target", "y", "--model", "ridge", "--l1-ratio", "0.5")
    assert "--model elasticnet" in ratio.err
    settings = tmp_path / "ratio.yaml"
    settings.write_text("model: ridge\nl1_ratio: 0.2\n")
    assert "--model elasticnet" in shoal("tune", table, "--target", "y", "--config", settings).err
    with pytest.raises(ConfigError, match="model 'lasso', where it has none"):
        api.tune(str(table), "y", l1_ratio=0.5)
    place = shoal("tune", table, "--target", "y", "--at", "1-se")
    assert "there is no --out" in place.err
