"""The Python API: files and frames to models, models to predictions, and the examples of its documentation."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import shoal
from shoal.cli import app as cli
from shoal.data.dataset import Dataset

SHARED = Path(__file__).parents[3] / "shared"
PENGUINS = SHARED / "data" / "regression" / "penguins.csv"
needs_shared = pytest.mark.skipif(not PENGUINS.exists(), reason="the shared data sets are not here")
NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "year"]
TEXTS = ["species", "island", "sex"]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Numbers, dates, levels, truth values; something is missing in each."""
    rng = np.random.default_rng(0)
    n = 60
    frame = pd.DataFrame({
        "x": rng.standard_normal(n).round(3),
        "count": rng.integers(0, 9, n).astype(float),
        "day": pd.date_range("2020-01-01", periods=n, freq="36h").strftime("%Y-%m-%dT%H:%M:%S"),
        "kind": rng.choice(["a", "b c", "dé"], n),
        "code": rng.choice([10.0, 20.0, 30.0], n),
        "good": rng.choice(["true", "false"], n),
    })  # fmt: skip
    frame["y"] = frame["x"] * 2 + (frame["kind"] == "a") + rng.standard_normal(n)
    for i, name in enumerate(frame.columns[:-1]):
        frame.loc[[i, i + 10], name] = None
    frame["code"] = frame["code"].astype("Int64")
    path = tmp_path / "mixed.csv"
    frame.to_csv(path, index=False)
    return path


MIXED = {"target": "y", "categorical": ["code"], "indicators": True}


def _reference(model: object) -> tuple[object, pd.DataFrame]:
    """scikit-learn's way to the same model."""
    frame = pd.read_csv(PENGUINS).dropna(subset="body_mass_g")
    texts = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="__missing__"),
        OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False),
    )
    columns = make_column_transformer((SimpleImputer(strategy="median"), NUMBERS), (texts, TEXTS))
    pipeline = make_pipeline(columns, StandardScaler(), model)
    return pipeline.fit(frame[NUMBERS + TEXTS], frame["body_mass_g"]), frame


# ------------------------------------------------------------------ fit


@needs_shared
@pytest.mark.parametrize(
    ("model", "alpha", "reference"),
    [
        ("linear", None, LinearRegression()),
        ("ridge", 2.5, Ridge(alpha=2.5)),
        ("lasso", 5.0, Lasso(alpha=5.0, tol=1e-12, max_iter=100_000)),
    ],
)
def test_a_fit_from_csv_equals_a_scikit_learn_pipeline(model: str, alpha: float | None, reference: object) -> None:
    penalty = {} if alpha is None else {"alpha": alpha}
    ours = shoal.fit(PENGUINS, target="body_mass_g", model=model, coding="drop_first", **penalty)
    theirs, frame = _reference(reference)
    np.testing.assert_allclose(list(ours.coefficients_standardized.values()), reference.coef_, rtol=1e-8, atol=1e-8)
    predictions = ours.predict(frame)
    np.testing.assert_allclose(predictions, theirs.predict(frame), rtol=1e-10)
    assert ours.scores["train"]["r2"] == pytest.approx(theirs.score(frame, frame["body_mass_g"]), rel=1e-10)
    assert (ours.inference is not None) == (model == "linear")
    assert ours.certificate["rests_on"] == "data"
    assert ours.certificate["relative"] < 1e-10


def test_the_report_is_what_the_command_line_prints(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = shoal.fit(str(mixed), target="y", model="ridge", alpha=0.5, test_every=4)
    arguments = ["train", str(mixed), "--target", "y", "--model", "ridge", "--alpha", "0.5", "--test-every", "4"]
    assert cli.main([*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert model.report.keys() == printed.keys()
    for name in printed.keys() - {"timings", "run_id"}:
        assert model.report[name] == printed[name], name


def test_a_model_shows_itself(mixed: Path) -> None:
    shown = repr(shoal.fit(mixed, model="lasso", alpha=0.1, test_every=5, **MIXED))
    assert shown.startswith("<FittedModel: lasso model of 'y', alpha = 0.1, 13 columns>")
    assert "test: 12 rows, r2" in shown
    assert "kind=b c" in shown
    assert shown.endswith("... and 1 more")


@pytest.mark.parametrize("data", [None, 3, [1, 2]])
def test_other_data_is_refused_in_one_sentence(data: object) -> None:
    with pytest.raises(TypeError, match=r"Expected the path of a file .* got \w+\. Convert it"):
        shoal.fit(data, target="y")


def test_errors_are_for_people(mixed: Path, tmp_path: Path) -> None:
    with pytest.raises(shoal.TrainingError, match="Expected the names of knobs, got 'alhpa'"):
        shoal.fit(mixed, target="y", alhpa=1.0)
    with pytest.raises(shoal.TrainingError, match=r"none\.csv"):
        shoal.fit(tmp_path / "none.csv", target="y")
    with pytest.raises(shoal.TrainingError, match="Expected a column of the file, got 'z'"):
        shoal.fit(mixed, target="z")


def test_a_fit_with_kept_workers_equals_one_without(mixed: Path) -> None:
    inline = shoal.fit(mixed, engine="inline", **MIXED)
    try:
        kept = shoal.fit(mixed, engine="processes", workers=2, **MIXED)
    finally:
        shoal.close_pools()
    assert kept.coefficients == pytest.approx(inline.coefficients, rel=1e-12)


def test_a_frame_is_fitted_as_its_file_is(mixed: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(mixed, parse_dates=["day"], dtype={"code": "Int64"})
    frame["kind"] = frame["kind"].astype("category")
    of_frame = shoal.fit(frame, model="ridge", alpha=1.0, test_every=5, **MIXED)
    of_file = shoal.fit(mixed, model="ridge", alpha=1.0, test_every=5, **MIXED)
    assert of_frame.coefficients == pytest.approx(of_file.coefficients, rel=1e-9)
    assert of_frame.refit(alpha=7).coefficients == pytest.approx(of_file.refit(alpha=7).coefficients, rel=1e-9)
    assert len(list((tmp_path / "home").rglob("manifest.json"))) == 1  # the file's; a frame leaves none behind
    with pytest.raises(shoal.TrainingError, match="cannot be written as a table"):
        shoal.fit(pd.DataFrame({"a": [1, "x", None], "y": [1, 2, 3]}), target="y")


# ------------------------------------------------------------------ another penalty


@pytest.mark.parametrize("intercept", [True, False])
def test_refit_equals_a_fit(mixed: Path, intercept: bool) -> None:
    first = shoal.fit(mixed, model="ridge", alpha=1.0, test_every=5, intercept=intercept, **MIXED)
    for change in (
        {"alpha": 3.0},
        {"model": "lasso", "alpha": 0.2},
        {"model": "elasticnet", "alpha": 0.2, "l1_ratio": 0.9},
    ):
        knobs = {"model": "ridge", **change}
        fitted = shoal.fit(mixed, test_every=5, intercept=intercept, **knobs, **MIXED)
        again = first.refit(**change)
        assert again.coefficients == pytest.approx(fitted.coefficients, rel=1e-9, abs=1e-12)
        assert again.intercept == pytest.approx(fitted.intercept, rel=1e-9)
        for part in ("train", "test"):
            for name, value in fitted.scores[part].items():
                expected = None if value is None or name == "mae" else pytest.approx(value, rel=1e-8)
                assert again.scores[part][name] == expected
        assert again.report["rows_dropped"] == fitted.report["rows_dropped"]
    assert first.refit(model="linear").inference is not None


def test_further_penalties_open_no_block_and_judge_the_columns_once(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shoal.fit(mixed, model="ridge", alpha=1.0, **MIXED)
    model = model.refit(alpha=2.0)
    opened, judged = [], []
    numbers, svd = Dataset.numbers, np.linalg.svd
    monkeypatch.setattr(Dataset, "numbers", lambda *args: opened.append(args) or numbers(*args))
    monkeypatch.setattr(np.linalg, "svd", lambda *args, **kwargs: judged.append(args) or svd(*args, **kwargs))
    model = model.refit(alpha=3.0)
    assert model.refit(alpha=4.0).coefficients != model.coefficients
    assert not opened
    assert not judged


def test_refit_takes_r_from_the_rows_when_moments_are_too_coarse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.fitting.exact.SMALL", 0)
    x = np.linspace(0, 1, 300)
    columns = {f"x{k}": x**k for k in range(1, 9)}
    path = tmp_path / "powers.csv"
    pd.DataFrame({**columns, "y": sum(columns.values())}).to_csv(path, index=False)
    ridge = shoal.fit(path, target="y", model="ridge", alpha=1.0)
    assert ridge.refit(alpha=2.0).certificate["rests_on"] == "moments"
    linear = ridge.refit(model="linear")
    assert linear.certificate["rests_on"] == "data"
    np.testing.assert_allclose(list(linear.coefficients.values()), 1, rtol=1e-6)


def test_a_loaded_model_can_be_refitted_while_its_file_is_the_same(mixed: Path, tmp_path: Path) -> None:
    model = shoal.fit(mixed, model="ridge", alpha=1.0, **MIXED)
    model.save(tmp_path / "model.json")
    loaded = shoal.load(tmp_path / "model.json")
    assert loaded.refit(alpha=9.0).coefficients == model.refit(alpha=9.0).coefficients
    mixed.write_text(mixed.read_text().replace("true", "false"))
    with pytest.raises(shoal.TrainingError, match="not what it was"):
        shoal.load(tmp_path / "model.json").refit(alpha=9.0)


# ------------------------------------------------------------------ predict, save, load


def test_save_load_and_predict_agree_with_the_command_line(mixed: Path, tmp_path: Path) -> None:
    model = shoal.fit(mixed, **MIXED)
    model.save(tmp_path / "model.json")
    loaded = shoal.load(tmp_path / "model.json")
    assert loaded.coefficients == model.coefficients
    assert repr(loaded) == repr(model)
    out = tmp_path / "out.csv"
    assert cli.main(["predict", str(tmp_path / "model.json"), str(mixed), "--out", str(out), "--json"]) == 0
    printed = np.array([float(line.split(",")[1]) for line in out.read_text().splitlines()[1:]])
    np.testing.assert_array_equal(model.predict(mixed), printed)
    np.testing.assert_array_equal(loaded.predict(str(mixed)), printed)


READINGS = {
    "plain": {},
    "nullable": {"dtype_backend": "numpy_nullable"},
    "texts": {"dtype": str, "keep_default_na": False},
    "dates": {"parse_dates": ["day"]},
    "category": {"dtype": {"kind": "category", "code": "category"}},
}


@pytest.mark.parametrize("reading", READINGS)
def test_a_frame_is_predicted_as_its_file_is(mixed: Path, reading: str, tmp_path: Path) -> None:
    model = shoal.fit(mixed, **MIXED)
    new = pd.read_csv(mixed, dtype=str, keep_default_na=False)
    new.loc[[20, 30], "kind"] = "never seen"
    new.loc[40, ["x", "count", "day", "kind", "code", "good"]] = ""
    path = tmp_path / "new.csv"
    new.drop(columns="y").to_csv(path, index=False)
    with pytest.warns(UserWarning, match=r"Column 'kind': 2 rows have .*: 'never seen' \(2\)\."):
        of_file = model.predict(path)
    with pytest.warns(UserWarning, match=r"Column 'kind': 2 rows have .*: 'never seen' \(2\)\."):
        of_frame = model.predict(pd.read_csv(path, **READINGS[reading]))
    np.testing.assert_allclose(of_frame, of_file, rtol=1e-12)
    assert not np.isnan(of_file).any()


@needs_shared
def test_penguins_are_predicted_alike_from_file_and_frame() -> None:
    model = shoal.fit(PENGUINS, target="body_mass_g", coding="full", model="ridge", alpha=1.0)
    np.testing.assert_allclose(model.predict(pd.read_csv(PENGUINS)), model.predict(PENGUINS), rtol=1e-12)


def test_a_frame_without_a_needed_column_or_with_other_things_is_refused(mixed: Path) -> None:
    model = shoal.fit(mixed, **MIXED)
    frame = pd.read_csv(mixed)
    with pytest.raises(shoal.TrainingError, match=r"does not have: kind\. It has: x"):
        model.predict(frame.drop(columns="kind"))
    with pytest.raises(shoal.TrainingError, match="Expected numbers or dates in column 'x'"):
        model.predict(frame.assign(x="much"))
    assert model.predict(frame[:0]).shape == (0,)


# ------------------------------------------------------------------ the module


def test_importing_shoal_imports_no_library() -> None:
    heavy = "{'numpy', 'pandas', 'sklearn', 'scipy', 'pyarrow', 'streamlit'}"
    script = f"import sys, shoal; shoal.fit; assert not {heavy} & sys.modules.keys(); assert 'Ridge' in dir(shoal)"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])
    with pytest.raises(AttributeError, match="no attribute 'Rigde'"):
        shoal.Rigde  # noqa: B018


def test_the_examples_of_the_documentation_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.api import cv_estimators, estimators

    monkeypatch.chdir(tmp_path)
    Path("houses.csv").write_text("rooms,garden,price\n1,no,100\n3,no,120\n1,yes,110\n3,yes,130\n")
    for module in (shoal, estimators, cv_estimators):
        found = doctest.testmod(module, extraglobs={"shoal": shoal})
        assert found.attempted > 0
        assert not found.failed
