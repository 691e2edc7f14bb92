"""Text columns of any number of levels: the answers of dense fits and of scikit-learn, and predictions from them."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.linear_model as reference
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import OneHotEncoder

import shoal
from shoal.cli.app import main
from shoal.data import files
from shoal.data.texts import levels
from shoal.errors import ConfigError, DataError, OutOfMemory, StateError
from shoal.fitting.model_file import load_model
from shoal.settings.values import config_from
from shoal.sparse.texts import cells, models
from shoal.tasks.predict_rows import RowPredictor
from shoal.tasks.train import train

TIGHT = {"tol": 1e-13, "max_iter": 200_000}
ROWS, LEVELS = 3000, 400
HASHER = HashingVectorizer(n_features=2**12, alternate_sign=False, norm=None)


def table(rows: int = ROWS, levels: int = LEVELS) -> pd.DataFrame:
    """Numbers with gaps and one far from zero, levels that are alike, long or missing, weights."""
    random = np.random.default_rng(0)
    names = np.array([f"user {i}" for i in range(levels)], object)
    names[:6] = ["Ab", "ab", "a b", "x" * 120, 'a "quoted", one', "__missing__"]
    effect, who = random.normal(size=levels), random.integers(0, levels, rows)
    found = pd.DataFrame({
        "a": random.normal(size=rows), "far": 1e5 + random.normal(size=rows), "user": names[who],
        "city": random.choice(np.array(["Oslo", "Rom", "Wien"], object), rows), "w": random.integers(1, 4, rows),
    })  # fmt: skip
    found["y"] = 2 * found.a + found.far + effect[who] + (found.city == "Rom") + 0.1 * random.normal(size=rows)
    found.loc[random.integers(0, rows, 60), "a"] = np.nan
    found.loc[random.integers(0, rows, 60), "user"] = None
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("texts") / "table.csv"
    table().to_csv(found, index=False)
    return found


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "block_bytes", lambda numbers: 40_000)


def knobs(model: str) -> dict[str, Any]:
    alpha = {"ridge": 3.0, "lasso": 0.004, "elasticnet": 0.004}
    return {"target": "y", "model": model, "exclude": ["w"], **({"alpha": alpha[model]} if model in alpha else {})}


DENSE: dict[str, dict[str, Any]] = {
    "as it is": {},
    "weights": {"weights": "w", "exclude": []},
    "test rows": {"test_every": 3, "impute": "drop"},
    "rare": {"min_level_rows": 7, "test_fraction": 0.2},
    "all levels": {"coding": "full", "intercept": False, "indicators": True},
    "other reference": {"reference": ["user=ab", "city=Rom"], "standardize": False},
    "products": {"interactions": ["city:a"], "squares": ["a"], "transform": ["far=bins(3)+plain"]},
}


# Every model with the table as it is, a lasso and another one with each change of it. Not linear where columns depend on one
# another: the dense fit is as good as any other then.
SMOOTH = ("ridge", "linear", "elasticnet")
FITS = [
    *((model, "as it is") for model in SMOOTH),
    *(("lasso", name) for name in DENSE),
    *((SMOOTH[i % 3], name) for i, name in enumerate([name for name in DENSE if name != "as it is"])),
]


@pytest.mark.parametrize(("model", "name"), FITS)
def test_a_sparse_fit_is_the_dense_one(path: Path, model: str, name: str) -> None:
    more = DENSE[name]
    dense = shoal.fit(path, **{**knobs(model), **more}, max_levels=1000)
    found = shoal.fit(path, **{**knobs(model), **more}, max_levels="unlimited")
    ours, theirs = found.coefficients, dense.coefficients
    for name in {*ours, *theirs}:
        assert ours.get(name, 0.0) == pytest.approx(theirs.get(name, 0.0), rel=1e-8, abs=1e-8), name
    assert {name for name in theirs if theirs[name]} <= {*ours}, "weights of 0 are left out, and nothing else"
    assert found.intercept == pytest.approx(dense.intercept, rel=1e-8)
    for rows in ("train", "test"):
        known = {score: value for score, value in dense.scores[rows].items() if value is not None}
        assert {score: found.scores[rows][score] for score in known} == pytest.approx(known, rel=1e-8)
    same = ("rows_dropped", "filled", "references", "rows_read", "columns_used")
    assert {k: found.report.get(k) for k in same} == {k: dense.report.get(k) for k in same}
    unseen = [said for said in dense.warnings if "level that no training row has" in said]
    assert [said for said in found.warnings if "level that no training row has" in said] == unseen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of levels that test rows alone have
        np.testing.assert_allclose(found.predict(path), dense.predict(path), rtol=1e-8)


def test_a_fit_is_scikit_learns_on_a_sparse_matrix_made_by_others(tmp_path: Path) -> None:
    """More levels than a dense fit is let to have."""
    random, many, rows = np.random.default_rng(1), 25_000, 60_000
    who = np.concatenate((np.arange(many), random.integers(0, many, rows - many)))
    frame = pd.DataFrame({"a": random.normal(size=rows), "id": [f"id-{i:05d}" for i in who]})
    frame["y"] = frame.a + random.normal(size=many)[who] + 0.1 * random.normal(size=rows)
    frame.to_csv(tmp_path / "table.csv", index=False)
    hot = OneHotEncoder(drop="first", dtype=np.float64).fit(frame[["id"]])
    X = sp.csr_matrix(sp.hstack([frame[["a"]].to_numpy(), hot.transform(frame[["id"]])]))
    theirs = reference.Ridge(0.5, solver="sparse_cg", tol=1e-14, max_iter=10_000).fit(X, frame.y)
    asked = {"target": "y", "model": "ridge", "alpha": 0.5, "standardize": False, "max_levels": 30_000}
    found = shoal.fit(tmp_path / "table.csv", **asked)
    names = ["a", *(f"id={level}" for level in hot.categories_[0][1:])]
    assert [*found.coefficients] == names
    np.testing.assert_allclose(list(found.coefficients.values()), theirs.coef_, atol=1e-7)
    np.testing.assert_allclose(found.predict(tmp_path / "table.csv"), theirs.predict(X), atol=1e-7)
    of_frame = shoal.fit(frame, **asked)
    np.testing.assert_allclose(list(of_frame.coefficients.values()), theirs.coef_, atol=1e-7)
    np.testing.assert_allclose(of_frame.predict(frame), theirs.predict(X), atol=1e-7)
    half = len(frame) // 2
    for name, part in (("one.csv", frame[:half]), ("two.csv", frame[half:])):
        part.to_csv(tmp_path / name, index=False)
    of_parts = shoal.fit([tmp_path / "one.csv", tmp_path / "two.csv"], **asked)
    np.testing.assert_allclose(list(of_parts.coefficients.values()), theirs.coef_, atol=1e-7)
    with pytest.raises(StateError, match="Expected a model of at most 10,000 columns, got 25,000"):
        found.export("python", tmp_path / "model.py")
    with pytest.raises(ConfigError, match="Expected an alpha: none is chosen beside max_levels above 20,000"):
        shoal.fit(frame, "y", "ridge", max_levels=30_000)
    left = shoal.fit(tmp_path / "table.csv", **{**asked, "max_levels": 24_999})
    assert [*left.coefficients] == ["a"]
    assert any(
        "'id' has 25,000 different values and is left out (limit: max_levels = 24999)" in w for w in left.warnings
    )


def test_the_answer_has_the_same_bits_whoever_reads(path: Path, tmp_path: Path) -> None:
    said = set()
    for workers in (0, 1, 3):
        engine = {"engine": "processes", "workers": workers} if workers else {"engine": "inline"}
        found = train(config_from({**knobs("ridge"), "file": str(path), "max_levels": "unlimited", **engine}))
        said.add(tuple(found.report.coefficients.items()))
    assert len(said) == 1


def test_lasso_leaves_levels_without_a_weight_out_of_the_file(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.json"
    found = shoal.fit(path, "y", "lasso", alpha=0.05, exclude=["w"], max_levels="unlimited", out=str(out))
    weights = {name: value for name, value in found.coefficients.items() if name.startswith("user=")}
    assert weights
    assert all(weights.values())
    assert len(weights) < LEVELS / 2
    loaded = shoal.load(out)
    np.testing.assert_array_equal(loaded.predict(path), found.predict(path))


def test_levels_that_were_not_trained_with_are_told(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a dense model tells them, in a file and in a frame, whether texts are looked up or made columns of."""
    new = table().head(200)
    new.loc[[3, 4, 5], "user"] = ["nobody", "nobody", " Ab "]
    new.to_csv(tmp_path / "new.csv", index=False)
    asked = {**knobs("ridge"), "impute": "drop"}  # no training row lacks a value
    dense = shoal.fit(path, **asked, max_levels=1000)
    out = tmp_path / "model.json"
    sparse = shoal.fit(path, **asked, max_levels="unlimited", out=str(out))
    monkeypatch.setattr(models, "MANY", 100)
    told = dense.predict_to(tmp_path / "new.csv", tmp_path / "dense.csv")
    found = sparse.predict_to(tmp_path / "new.csv", tmp_path / "sparse.csv", keep=["user"])
    assert told.unknown_levels["user"]["nobody"] == 2
    assert found.unknown_levels == told.unknown_levels
    assert (found.unseen_levels, found.warnings) == (told.unseen_levels, told.warnings)
    with (tmp_path / "dense.csv").open() as one, (tmp_path / "sparse.csv").open() as two:
        theirs, ours = ([float(row["prediction"]) for row in csv.DictReader(file)] for file in (one, two))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    rows = RowPredictor(load_model(out)).predict(
        json.loads(new.drop(columns="y").to_json(orient="records", double_precision=15))
    )
    np.testing.assert_allclose(rows.predictions, theirs, rtol=1e-9)
    with pytest.warns(UserWarning, match=r"'nobody' \(2\)"):
        np.testing.assert_allclose(sparse.predict(new), theirs, rtol=1e-9)
    assert main(["predict", str(out), str(tmp_path / "new.csv"), "--out", "-"]) == 0
    assert "'nobody' (2)" in capsys.readouterr().err


def test_a_model_of_few_levels_predicts_a_file_of_very_many(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": ["a", "b"] * 50, "y": [1.0, 2.0] * 50})
    found = shoal.fit(frame, "y", "linear")
    many = pd.DataFrame({"t": [*"ab", *(f"other {i}" for i in range(21_000))]})
    many.to_csv(tmp_path / "many.csv", index=False)
    with pytest.warns(UserWarning, match="21,000 rows have a level"):
        predicted = found.predict(tmp_path / "many.csv")
    np.testing.assert_allclose(predicted[:3], [1.0, 2.0, 1.0])


# ------------------------------------------------------------------ hashes


@pytest.mark.parametrize("how", ["hash", "words"])
def test_hashes_are_scikit_learns(tmp_path: Path, how: str) -> None:
    random, rows = np.random.default_rng(2), 2000
    words = np.array(["red", "blue", "Green", "x1", "über", "of", "the"], object)
    texts = [" ".join(random.choice(words, count)) for count in random.integers(1, 6, rows)]
    frame = pd.DataFrame({"a": random.normal(size=rows), "note": texts})
    frame["y"] = frame.a + [2.0 * text.count("red") - text.count("x1") for text in texts] + random.normal(size=rows)
    frame.loc[7, "note"] = None
    path = tmp_path / "notes.csv"
    frame.to_csv(path, index=False)
    filled = ["" if text is None or text != text else text for text in frame.note]
    if how == "words":
        H = HASHER.transform(filled)
    else:
        H = FeatureHasher(2**12, input_type="string", alternate_sign=False).transform(
            [[text] if text else [] for text in filled]
        )
    X = sp.csr_matrix(sp.hstack([frame[["a"]].to_numpy(), H]))
    theirs = reference.Ridge(1.0, solver="sparse_cg", tol=1e-14, max_iter=10_000).fit(X, frame.y)
    asked = {"target": "y", "model": "ridge", "alpha": 1.0, "standardize": False, "transform": [f"note={how}(12)"]}
    out = tmp_path / "model.json"
    found = shoal.fit(path, **asked, out=str(out))
    weights = np.zeros(2**12)
    for name, value in found.coefficients.items():
        if name != "a":
            weights[int(name.removeprefix(f"{how}(note)="))] = value
    np.testing.assert_allclose([found.coefficients["a"], *weights], theirs.coef_, atol=1e-8)
    for predicted in (found.predict(path), found.predict(frame), shoal.load(out).predict(path)):
        np.testing.assert_allclose(predicted, theirs.predict(X), atol=1e-8)
    new = pd.DataFrame({"a": [0.0], "note": ["never seen: the x1"]})
    added = theirs.intercept_
    if how == "words":
        (added,) = theirs.predict(sp.csr_matrix(sp.hstack([[[0.0]], HASHER.transform(new.note)])))
    assert found.predict(new)[0] == pytest.approx(added, abs=1e-8)
    with pytest.raises(StateError, match="This model hashes texts"):
        shoal.load(out).export("python", tmp_path / "model.py")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another loss": ({"model": "logistic", "max_levels": "unlimited"}, "Expected an exact fit of a linear"),
    "steps": ({"solver": "gradient", "max_levels": "unlimited"}, "cannot be worked out beside max_levels"),
    "bounds": ({"nonnegative": True, "max_levels": "unlimited"}, "no nonnegative beside max_levels above 20,000"),
    "a hash of numbers": ({"transform": ["a=hash(10)"]}, "Expected a text column for hash"),
    "too many bits": ({"transform": ["user=hash(31)"]}, "bits of a hash there are to be, from 1 to 30"),
    "a shape of text": ({"transform": ["user=hash(4)+log"]}, "A text has no log"),
    "a level that is not there": ({"max_levels": "unlimited", "reference": ["user=nobody"]}, "got 'nobody'"),
}


@pytest.mark.parametrize(("more", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_there_is_no_way_for_is_refused(path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        shoal.fit(path, **{"target": "y", "model": "linear", **more})


def test_other_tasks_say_that_they_have_no_way(path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be worked out beside max_levels above 20,000"):
        shoal.path(path, "y", "lasso", max_levels="unlimited")


def test_memory_is_refused_before_it_is_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "available_memory", lambda: 1_000_000)
    with pytest.raises(OutOfMemory, match=r"An exact fit to 12,000 values in 3,000 rows .* --max-levels 20000"):
        shoal.fit(path, **knobs("ridge"), max_levels="unlimited")
    monkeypatch.setattr(levels, "available_memory", lambda: 1_000)
    monkeypatch.setattr(levels, "MOST_LEVELS", 100)
    with pytest.raises(OutOfMemory, match=r"A text column has more than \d+ different values"):
        shoal.fit(
            path, **{**knobs("ridge"), "seed": 1, "features": ["a", "user"], "exclude": []}, max_levels="unlimited"
        )


def test_without_a_column_there_is_no_fit(path: Path) -> None:
    with pytest.raises(DataError, match="No column is left"):
        shoal.fit(path, **{**knobs("ridge"), "exclude": [], "features": ["user"]}, max_levels=100)


def test_new_levels_are_told_to_be_predicted_as_the_one_that_others_are_compared_with(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    who = random.integers(0, 900, 2000)
    frame = pd.DataFrame({"id": [f"n{i}" for i in who], "a": random.normal(size=2000)})
    frame["y"] = frame["a"] + who / 300
    asked: dict[str, Any] = {"alpha": 1.0, "max_levels": "unlimited", "test_every": 5}
    found = shoal.fit(frame, "y", "ridge", **asked)
    assert any("A level that is new is predicted as the one that others are compared with" in w for w in found.warnings)
    full = shoal.fit(frame, "y", "ridge", coding="full", **asked)
    assert not any("A level that is new" in w for w in full.warnings)
    row = {"id": "nobody", "a": 0.0}
    with pytest.warns(UserWarning, match="not trained with"):
        off = [abs(float(model.predict(row)[0]) - frame["y"].mean()) for model in (full, found)]
    assert off[0] < 0.2 < off[1]


def test_texts_that_come_again_are_no_keys(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("code,key,y\n" + "".join(f"c{i % 6000},k{i},{i % 7}\n" for i in range(24_000)))
    columns = {column["name"]: column for column in shoal.inspect(path)["columns"]}
    assert "id_like" in columns["key"]["flags"]
    assert "id_like" not in columns["code"]["flags"]
