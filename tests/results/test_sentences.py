"""A fit in three sentences: the figures in them are those of the rows, and the gravest caveat is said."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal as package
from shoal.results.findings import Finding, FindingKind
from shoal.results.fit import BandLine, Bands, FitReport, FitScores, PredictionInterval
from shoal.results.sentences import bands_told, baseline, left_out, three_sentences, usual_range
from support.data.encoding import saved
from support.tables import shoal


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(5)
    a, b = random.normal(size=(2, 300))
    return saved(
        tmp_path_factory.mktemp("table"), pd.DataFrame({"a": a, "b": b, "y": 9 * a - b + random.normal(size=300)})
    )


def test_the_error_of_knowing_nothing_is_that_of_the_mean(path: Path) -> None:
    y = pd.read_csv(path)["y"][::5]
    answer = shoal("train", path, "--target", "y", "--test-every", "5", "--json").json
    found = baseline(FitScores(**answer["test"]))
    assert found == pytest.approx(float(np.sqrt(((y - y.mean()) ** 2).mean())), rel=1e-9)


def test_the_same_sentences_everywhere(path: Path, tmp_path: Path) -> None:
    model = package.fit(str(path), "y", test_every=5)
    first, second, third = three_sentences(model._report)
    assert re.fullmatch(
        r"A linear model predicts 'y' from 2 columns; its typical error \(RMSE\) on 60 test rows is [\d.]+, in the unit "
        r"of 'y'\.", first
    )  # fmt: skip
    assert re.fullmatch(
        r"Always predicting the mean would be off by [\d.]+: the model removes \d\d % of that error \(R² 0.9\d\d\)\.",
        second,
    )
    assert third == "What moves it most: a (up), b (down)."
    printed = shoal("train", path, "--target", "y", "--test-every", "5").out.splitlines()
    assert printed[1:4] == [first, second, third]
    assert str(model.summary()).splitlines()[:3] == [first, second, third]
    assert "What moves it most: a (up)" in model.summary()._repr_html_()


def test_no_value_is_called_so_wherever_people_read(tmp_path: Path) -> None:
    """Files and answers for programs keep the name that the level has there."""
    random = np.random.default_rng(2)
    city, a = random.choice(["Bonn", "Ulm", ""], 300), random.normal(size=300)
    y = 2 * a + 3 * (city == "") + random.normal(size=300)
    path = saved(tmp_path, pd.DataFrame({"city": city, "a": a, "y": y}))
    model = package.fit(str(path), "y")
    assert "city=__missing__" in model.coefficients
    model.save(tmp_path / "model.json")
    for printed in (
        shoal("train", path, "--target", "y").out, shoal("tune", path, "--target", "y", "--model", "ridge").out,
        shoal("explain", tmp_path / "model.json").out, str(model.summary()),
        shoal("export", tmp_path / "model.json", "--to", "report", "--out", "-").out,
    ):  # fmt: skip
        assert "city=(no value)" in printed
        assert "__missing__" not in printed


def test_a_text_column_is_named_once() -> None:
    weights = {"a": 2.0, "city=Bonn": -1.5, "city=Köln": 1.6, "b": 0.1, "c": 0.2}
    report = replace(REPORT, coefficients=weights, coefficients_standardized=weights, references={"city": "Ulm"})
    assert three_sentences(report)[2].startswith("What moves it most: a (up), city (Köln up), c (up);")


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        ("even", "90 % of new rows like the test rows lie within ± 196,243 of the prediction."),
        ("share", "90 % of new rows like the test rows lie within the prediction ± 1.962e+07 % of it."),
    ],
)
def test_how_far_off_new_rows_lie(spread: str, said: str) -> None:
    interval = PredictionInterval("split", 100, {"0.9": 196_243.2}, "", None, spread)
    assert usual_range(replace(REPORT, prediction_interval=interval)) == said
    assert usual_range(replace(REPORT, prediction_interval=replace(interval, half_widths={"0.9": None}))) == ""
    assert usual_range(REPORT) == ""


def test_how_wide_intervals_are_that_follow_the_rows() -> None:
    interval = PredictionInterval("split", 100, {"0.9": 5.5}, "", None)
    bands = Bands(0.9, 100, 0.2, BandLine(1.0, {}), BandLine(2.0, {}), 9.58, 2.7, 14.4)
    said = (
        "Intervals of 90 % follow the rows: 9.58 wide on average in 100 test rows, for a tenth of them below 2.7, for a "
        "tenth above 14.4; one width for all rows would be 11."
    )
    report = replace(REPORT, prediction_interval=interval, bands=bands)
    assert bands_told(report) == said
    assert bands_told(REPORT) == ""
    assert bands_told(replace(report, prediction_interval=None)) == said.replace(
        "; one width for all rows would be 11", ""
    )
    often = bands_told(replace(report, bands=replace(bands, crossed=0.25)))
    assert often.startswith(f"{said} The two lines change places in 25 % of the test rows: ")


REPORT = FitReport(model="elasticnet", target="y", intercept=1.0, coefficients={"a": 2.0, "b": 0.0},
                   train=FitScores(100, 0.75, 0.74, 5.0, 4.0))  # fmt: skip
LEAK = Finding(FindingKind.LEAK, ("a",), "said.", "advice")


@pytest.mark.parametrize(
    ("report", "place", "said"),
    [
        (REPORT, 0, "An elastic net model predicts 'y' from 1 column; its typical error (RMSE) on 100 training rows"),
        (REPORT, 1, "would be off by 10: the model removes 50 % of that error"),
        (REPORT, 2, "a (up); no rows were kept for testing, so on new rows it may do worse."),
        (replace(REPORT, findings=(LEAK,)), 2, "a (up); but it may know the answer already"),
        (replace(REPORT, coefficients={"a": 0.0}), 2, "All weights are 0"),
        (replace(REPORT, train=FitScores(100, 0.0, -0.1, 5.0, 4.0)), 1, "the model does no better"),
        (
            replace(REPORT, train=FitScores(100, -0.5, -0.6, 5.0, 4.0)),
            1,
            "the model does worse (R² -0.500)",
        ),
        (
            replace(REPORT, train=FitScores(100, 1.0, 1.0, 1e-14, 1e-14)),
            0,
            "leaves nothing but rounding on 100 training",
        ),
        (replace(REPORT, train=FitScores(1, None, None, 0.0, 0.0)), 1, "is not known"),
    ],
)
def test_each_case_has_its_words(report: FitReport, place: int, said: str) -> None:
    assert said in three_sentences(report)[place]


def test_levels_of_one_column_are_one_column() -> None:
    coefficients = {"a": 2.0, "city=Oslo": 1.0, "city=Rome": -1.0, "city=Bonn": 0.0, "b=c": 0.5}
    report = replace(REPORT, coefficients=coefficients, references={"city": "Aachen"})
    assert "from 3 columns" in three_sentences(report)[0]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with texts of several levels, and a target for every kind of model."""
    random = np.random.default_rng(8)
    region, plan = random.choice(["Lazio", "Veneto", "Sicilia"], 300), random.choice(["S", "M", "L"], 300)
    a = random.normal(size=300)
    found = pd.DataFrame({"a": a, "region": region, "spare": random.normal(size=300), "plan": plan})
    found["count"] = random.poisson(np.exp(0.3 * a + 0.4 * (region == "Sicilia")))
    found["left"] = np.where(random.random(300) < 1 / (1 + np.exp(-a)), "yes", "no")
    found["amount"] = random.gamma(2.0, np.exp(0.2 * a))
    return saved(tmp_path_factory.mktemp("calls"), found)


@pytest.mark.parametrize(
    ("model", "target"),
    [("linear", "amount"), ("poisson", "count"), ("logistic", "left"), ("gamma", "amount"), ("multinomial", "plan")],
)
def test_columns_are_those_of_the_table_and_levels_are_compared_whatever_the_model(
    calls: Path, model: str, target: str
) -> None:
    gone = ",".join(name for name in ("spare", "plan", "count", "left", "amount") if name != target)
    ask = ("train", calls, "--target", target, "--model", model, "--exclude", gone)
    told = shoal(*ask).out
    assert f"predicts '{target}' from 2 columns" in told  # a and region, which has two weights
    assert "Levels of text columns are compared with region: Lazio." in told
    assert f"Left out of the model: {', '.join(gone.split(','))}." in told
    said = shoal(*ask, "--json").json
    assert said["references"] == {"region": "Lazio"}
    assert said["columns_used"] == 2
    assert said["columns_left_out"] == gone.split(",")


def test_a_column_without_a_weight_does_not_count(calls: Path) -> None:
    ask = ("train", calls, "--target", "amount", "--model", "lasso", "--alpha", "1e6", "--exclude", "left")
    assert "predicts 'amount' from 0 columns" in shoal(*ask).out


def test_nothing_is_said_of_columns_where_none_was_left_out() -> None:
    assert left_out(REPORT) == ""
    many = replace(REPORT, columns_left_out=tuple(f"c{i}" for i in range(30)))
    assert left_out(many).endswith("c19 and 10 more.")
    assert FitReport.from_dict(many.as_dict()).columns_left_out == many.columns_left_out


def test_warnings_come_first_and_what_is_routine_last(tmp_path: Path) -> None:
    """Rows that are told apart, but for those that are kept for testing; a column of keys is left out."""
    apart = np.arange(150) % 5 == 0
    y = np.where((np.arange(150) % 2 == 0) ^ apart, "yes", "no")
    frame = pd.DataFrame({"x": np.arange(150) % 2, "key": [f"k{i}" for i in range(150)], "y": y})
    ask = ("train", saved(tmp_path, frame), "--target", "y", "--model", "logistic", "--test-every", "5")
    told, said = shoal(*ask).out, shoal(*ask, "--json").json
    lines = told.splitlines()
    assert "Its probabilities are worse than the baseline: a log loss of" in lines[2]
    warned = [i for i, text in enumerate(lines) if text.startswith("warning: ")]
    routine = [i for i, text in enumerate(lines) if text.startswith("note: ")]
    table = next(i for i, text in enumerate(lines) if text.startswith("(intercept)"))
    assert warned
    assert routine
    assert max(warned) < table < min(routine)
    assert "To hold the coefficients, fit it with --shrink ridge." in told
    assert {FindingKind.LEAK, FindingKind.SEPARATED} <= {finding["kind"] for finding in said["findings"]}
    assert set(said["routine"]) < set(said["warnings"])
    assert {lines[i].removeprefix("note: ") for i in routine} == set(said["routine"])
    assert all("no finite optimum" not in text for text in said["routine"])
    held = shoal(*ask, "--shrink", "ridge").out
    assert "--shrink" not in held
    assert "no finite optimum" not in held


def test_a_column_that_another_says_nearly_the_same_as_is_not_named_as_sure() -> None:
    random = np.random.default_rng(4)
    a, c = random.normal(size=(2, 300))
    twin = a + 0.01 * random.normal(size=300)  # either takes the place of the other
    y = random.random(300) < 1 / (1 + np.exp(-a - 0.6 * c))
    fitted = package.fit(pd.DataFrame({"a": a, "twin": twin, "c": c, "y": y.astype(int)}), "y", "logistic")
    told = str(fitted.summary()).splitlines()[2]
    assert "(a, twin not surely: their intervals have 0 in them)" in told.replace("(twin, a", "(a, twin")
