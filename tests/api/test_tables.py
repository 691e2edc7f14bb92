"""Tables of other libraries, X and y apart, and what a fitted model says of itself, against scikit-learn and SciPy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

import shoal
from shoal.cli import app as cli
from shoal.errors import DataError

N = 80


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    made = pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(5, 2, N), "kind": rng.choice(["u", "v"], N)})
    made["c"] = made["a"] + 0.3 * rng.normal(size=N)
    made["y"] = 3 * made["a"] - made["b"] + (made["kind"] == "v") + rng.normal(size=N)
    return made


class SpeaksArrow:
    """A table of a library that is not known here, such as one of polars or DuckDB."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.table = pa.Table.from_pandas(frame, preserve_index=False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


KINDS = {
    "arrow": lambda f: pa.Table.from_pandas(f, preserve_index=False),
    "any": SpeaksArrow,
    "columns": lambda f: f.to_dict("list"),
    "rows": lambda f: f.to_dict("records"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_other_libraries_are_taken_as_data_frames_are(frame: pd.DataFrame, kind: str) -> None:
    expected = shoal.fit(frame, "y")
    found = shoal.fit(KINDS[kind](frame), "y")
    assert found.coefficients == expected.coefficients
    assert found.predict(KINDS[kind](frame)).tolist() == expected.predict(frame).tolist()
    whole = shoal.tune(KINDS[kind](frame), "y", folds=4)
    assert whole.best == shoal.path(frame, "y", folds=4).best


def test_one_row_is_a_dictionary_or_a_series(frame: pd.DataFrame) -> None:
    model = shoal.fit(frame, "y")
    first = model.predict(frame)[:1].tolist()
    assert model.predict(frame.iloc[0].to_dict()).tolist() == first
    assert model.predict(frame.iloc[0]).tolist() == first
    with pytest.raises(DataError, match="does not have: b"):
        model.predict({"a": 1.0, "kind": "u", "c": 2.0})


def test_x_and_y_apart(frame: pd.DataFrame) -> None:
    X, y = frame[["a", "b", "c"]].to_numpy(), frame["y"].to_numpy()
    theirs = LinearRegression().fit(X, y)
    ours = shoal.fit(X, y)
    assert list(ours.coefficients) == ["x0", "x1", "x2"]
    np.testing.assert_allclose(list(ours.coefficients.values()), theirs.coef_, rtol=1e-10)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-10)
    assert ours.score(X, y) == pytest.approx(r2_score(y, theirs.predict(X)), rel=1e-10)
    named = shoal.fit(frame.drop(columns="y"), frame["y"])
    assert named.target == "y"
    assert named.coefficients == shoal.fit(frame, "y").coefficients
    assert named.score(frame) == pytest.approx(named.scores["train"]["r2"])
    assert shoal.fit(frame[["a", "y"]].rename(columns={"a": "y", "y": "b"}), frame["y"]).target == "y_"


def test_what_is_no_table_is_said(frame: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="path of a file or a table"):
        shoal.fit(17, "y")
    with pytest.raises(DataError, match="two dimensions"):
        shoal.fit(np.ones(5), np.ones(5))
    with pytest.raises(DataError, match="as many values of the target as there are rows, 80"):
        shoal.fit(frame, np.ones(5))
    with pytest.raises(TypeError, match="no column's name"):
        shoal.fit(str(tmp_path / "a.csv"), np.ones(5))
    with pytest.raises(DataError, match="same length"):
        shoal.fit({"a": [1, 2], "y": [1]}, "y")
    with pytest.raises(DataError, match="column 'y'"):
        shoal.fit(frame, "y").score(frame[["a", "b", "c", "kind"]])


def test_a_summary_has_the_figures_of_the_field(frame: pd.DataFrame) -> None:
    X, y = frame[["a", "b", "c"]], frame["y"]
    model = shoal.fit(X, y)
    summary = model.summary()
    theirs = LinearRegression().fit(X, y)
    residuals = y - theirs.predict(X)
    likelihood = stats.norm(scale=np.sqrt((residuals**2).mean())).logpdf(residuals).sum()
    assert summary.log_likelihood == pytest.approx(likelihood, rel=1e-12)
    assert summary.aic == pytest.approx(2 * 4 - 2 * likelihood, rel=1e-12)
    assert summary.bic == pytest.approx(4 * np.log(N) - 2 * likelihood, rel=1e-12)
    assert summary.residuals == pytest.approx(np.quantile(residuals, [0, 0.25, 0.5, 0.75, 1]), rel=1e-9)
    for name in X:
        others = X.drop(columns=name)
        inflation = 1 / (1 - LinearRegression().fit(others, X[name]).score(others, X[name]))
        assert summary.vif[name] == pytest.approx(inflation, rel=1e-9)
    text = str(summary)
    for word in ("linear of y", "80, R2", "degrees of freedom", "AIC", "VIF", "(intercept)", "median"):
        assert word in text


def test_summaries_of_penalised_and_loaded_models(frame: pd.DataFrame, tmp_path: Path) -> None:
    lasso = shoal.fit(frame, "y", model="lasso", alpha=0.1).summary()
    assert lasso.aic is None
    assert "estimate" in str(lasso)
    assert "std. error" not in str(lasso)
    file = tmp_path / "table.csv"
    frame.to_csv(file, index=False)
    shoal.fit(file, "y").save(tmp_path / "model.json")
    assert shoal.load(tmp_path / "model.json").summary().vif["a"] > 1
    file.unlink()
    assert shoal.load(tmp_path / "model.json").summary().vif == {}


def test_notebooks_show_text_and_no_markup_of_the_data(frame: pd.DataFrame) -> None:
    hostile = frame.rename(columns={"a": "<script>alert(1)</script>"})
    model = shoal.fit(hostile, "y")
    for shown in (model._repr_html_(), model.summary()._repr_html_()):
        assert "<script>" not in shown
        assert "&lt;script&gt;" in shown
        assert "<table>" in shown


def test_explain_is_what_the_command_prints(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame.to_csv(tmp_path / "table.csv", index=False)
    model = shoal.fit(tmp_path / "table.csv", "y")
    model.save(tmp_path / "model.json")
    cli.main(["explain", str(tmp_path / "model.json"), "--resamples", "20", "--folds", "4", "--json"])
    printed = json.loads(capsys.readouterr().out)
    found = model.explain(resamples=20, folds=4)
    assert found["importance"] == printed["importance"]
    assert found.as_dict() == printed


def test_times_and_dates_of_eight_digits_mean_what_they_meant_in_training(tmp_path: Path) -> None:
    rows = "".join(
        f"{8 + i % 10}:{i * 7 % 60:02d},{20210101 + i % 28},{i % 10 + i * 7 % 60 / 60 + i % 28}\n" for i in range(99)
    )
    (tmp_path / "t.csv").write_text(f"t,d,y\n{rows}")
    model = shoal.fit(tmp_path / "t.csv", target="y")
    for row in ({"t": "9:30", "d": "20210103"}, {"t": 9.5, "d": "2021-01-03"}):
        assert model.predict(row) == pytest.approx([3.5])
    with pytest.raises(shoal.TrainingError, match="Expected dates in column 'd'"):
        model.predict({"t": 9.5, "d": 20210103})


def test_texts_of_a_row_are_read_as_those_of_the_file_were(tmp_path: Path) -> None:
    text = "tag;preis;anteil;y\n" + "".join(
        f"{i % 28 + 1:02d}.03.2022;{f'{1000 + 250 * i:,}'.replace(',', '.')},50 €;{i % 7},5 %;{3 * i + i % 7}\n"
        for i in range(40)
    )
    (tmp_path / "t.csv").write_text(text, "utf-8")
    model = shoal.fit(tmp_path / "t.csv", target="y")
    values = {"tag": pd.Timestamp("2022-03-05"), "preis": 2000.5, "anteil": 4.5}
    texts = {"tag": "05.03.2022", "preis": "2.000,50 €", "anteil": "4,5 %"}
    assert model.predict(texts) == pytest.approx(model.predict(values), rel=1e-12)
    with pytest.raises(shoal.TrainingError, match=r"Expected numbers or dates in column 'preis', got 'two thousand'\."):
        model.predict({**texts, "preis": "two thousand"})
