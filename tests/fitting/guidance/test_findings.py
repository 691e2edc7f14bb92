"""What is worth knowing before a fit: each finding where it is true, none where it is not, and the same beside a fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import shoal as api
from shoal.data.encoding import Encoding
from shoal.data.terms import Indicator
from shoal.fitting.guidance.leaks import AgainstTarget, telling_gaps
from shoal.results.findings import Finding, FindingKind
from shoal.results.plain import read
from shoal.solve.moments import Moments
from support.data.encoding import saved
from support.tables import fitted, shoal

ROWS = 400


def table(**columns: Any) -> pd.DataFrame:
    """Two honest columns and a target with noise, and what a test adds."""
    random = np.random.default_rng(7)
    a, b = random.normal(size=(2, ROWS))
    plain = {"a": a, "b": b, "y": 3 * a - b + random.normal(size=ROWS)}
    return pd.DataFrame({**plain, **{name: value(plain) for name, value in columns.items()}})


def inspected(folder: Path, data: pd.DataFrame, target: str = "y") -> list[Finding]:
    answer = shoal("inspect", saved(folder, data), "--json", "--target", target)
    assert answer.code == 0, answer.err
    return [read(Finding, finding) for finding in answer.json["findings"]]


def trained(folder: Path, data: pd.DataFrame, **knobs: Any) -> list[Finding]:
    return [read(Finding, finding) for finding in fitted(saved(folder, data), "y", **knobs).get("findings", [])]


noise = np.random.default_rng(8).normal(size=(9, ROWS))

CASES: dict[str, tuple[dict[str, Any], FindingKind | None, tuple[str, ...]]] = {
    "nothing": ({}, None, ()),
    "line": ({"late": lambda t: 5 + 2 * t["y"]}, FindingKind.LEAK, ("late",)),
    "nearly a line": ({"late": lambda t: t["y"] + 0.3 * noise[0]}, FindingKind.LEAK, ("late",)),
    "good but no leak": ({"near": lambda t: t["y"] + 0.7 * noise[0]}, None, ()),
    "levels": ({"late": lambda t: [f"b{int(v > 0)}{int(v > 2)}" for v in t["y"]], "y": lambda t: [
        {"b00": 1.0, "b10": 5.0, "b11": 9.0}[f"b{int(v > 0)}{int(v > 2)}"] for v in t["y"]
    ]}, FindingKind.LEAK, ("late",)),
    "sum": ({"net": lambda t: noise[1], "tax": lambda t: noise[2], "other": lambda t: noise[3],
             "y": lambda t: 2 * noise[1] + 3 * noise[2] + 1}, FindingKind.SUM_LEAK, ("net", "tax")),
    "lifts": ({"late": lambda t: t["y"] - 0.9 * (3 * t["a"] - t["b"]) + 0.2 * noise[4]}, FindingKind.LEAK, ("late",)),
    "product": ({"units": lambda t: 1 + np.floor(4 * np.abs(noise[1])), "price": lambda t: 9 + np.round(noise[2], 2),
                 "y": lambda t: np.round((1 + np.floor(4 * np.abs(noise[1]))) * (9 + np.round(noise[2], 2)), 2)},
                FindingKind.PRODUCT_LEAK, ("units", "price")),
    "quotient": ({"paid": lambda t: 50 + 9 * noise[1], "area": lambda t: 9 + 2 * noise[2],
                  "y": lambda t: np.round((50 + 9 * noise[1]) / (9 + 2 * noise[2]), 3)},
                 FindingKind.PRODUCT_LEAK, ("paid", "area")),
    "product with noise": ({"units": lambda t: 5 + noise[1], "price": lambda t: 9 + noise[2],
                            "y": lambda t: (5 + noise[1]) * (9 + noise[2]) + 3 * noise[3]}, None, ()),
    "code": ({"age": lambda t: np.where(noise[1] > 1.5, 99, np.round(40 + 4 * noise[2]))}, FindingKind.MISSING_CODE,
             ("age",)),
    "code below all": ({"paid": lambda t: np.where(noise[1] > 1.5, -999, np.round(90000 * noise[2] ** 2))},
                       FindingKind.MISSING_CODE, ("paid",)),
    "two values": ({"y": lambda t: (t["y"] > 1) * 3.5 - 1}, FindingKind.TWO_VALUES, ("y",)),
    "three values": ({"y": lambda t: np.digitize(t["y"], [0, 2])}, None, ()),
    "rows counted": ({"id": lambda t: np.random.default_rng(1).permutation(ROWS) + 1000}, FindingKind.ID, ("id",)),
    "copies": ({"metres": lambda t: 1000 * t["a"], "back": lambda t: -t["b"]}, FindingKind.DUPLICATE, ("metres", "back")),
    "dates": ({"when": lambda t: pd.date_range("2020-01-01", periods=ROWS).astype(str)}, FindingKind.DATES, ("when",)),
    "gaps": ({"x": lambda t: np.where(t["y"] + noise[6] > 4, np.nan, noise[5]),
              "z": lambda t: np.where(noise[7] > 1, np.nan, noise[6])}, FindingKind.GAPS, ("x",)),
    "gaps by chance": ({"x": lambda t: np.where(noise[7] > 1, np.nan, noise[5])}, None, ()),
    "few gaps": ({"x": lambda t: np.where(t["y"] > np.sort(t["y"])[-6], np.nan, noise[5])}, None, ()),
    "marks": ({"garage": lambda t: np.where(noise[7] > 0.5, 1, np.nan)}, FindingKind.MARK, ("garage",)),
    "marks that tell": ({"garage": lambda t: np.where(t["y"] > 1, 1, np.nan)}, FindingKind.MARK, ("garage",)),
    "constants": ({"same": lambda t: 4, "word": lambda t: "x"}, FindingKind.CONSTANT, ("same", "word")),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_finding_is_told_before_the_fit_and_beside_it(tmp_path: Path, case: str) -> None:
    columns, kind, names = CASES[case]
    data = table(**columns)
    found = trained(tmp_path, data)  # cold: no pass was made for it
    told = [(finding.kind, finding.columns) for finding in found if finding.kind != FindingKind.SKEWED_TARGET]
    assert told == ([(kind, names)] if kind else [])  # products have long tails, which is told as well
    assert inspected(tmp_path, data) == found


def test_gaps_that_tell_of_the_target_are_tested_on_training_rows_and_go_with_their_remedy(tmp_path: Path) -> None:
    data = table(x=lambda t: np.where(t["y"] + 2 * noise[6] > 4, np.nan, noise[5]))
    train = data[np.arange(ROWS) % 5 != 0]
    gone = train["x"].isna()
    report = fitted(saved(tmp_path, data), "y", test_every=5)
    (found,) = (read(Finding, finding) for finding in report["findings"])
    apart = train["y"][gone].mean() - train["y"][~gone].mean()
    p = stats.ttest_ind(train["y"][gone], train["y"][~gone]).pvalue
    assert f"the mean of 'y' is {apart:.3g} higher in the {gone.sum()} rows without 'x'" in found.said
    assert p < 0.001
    assert "(p < 0.001)" in found.said
    sums = AgainstTarget.of(Moments.of(np.column_stack([gone, train["y"]]).astype(float)))
    (gap,) = telling_gaps(sums, Encoding((Indicator("x"),), {}, "y"))
    assert gap.p_value == pytest.approx(p, rel=1e-9)
    assert (
        str(found.remedy)
        == "To let the model see which rows these are, mark them in 0/1 columns of their own with --indicators."
    )
    assert "findings" not in fitted(saved(tmp_path, data), "y", test_every=5, indicators=True)


def test_what_fills_gaps_is_said_in_the_terminal_and_the_summary(tmp_path: Path) -> None:
    data = table(x=lambda t: np.where(noise[7] > 1, np.nan, np.round(noise[5], 3)))
    said = f"Missing numbers were filled: 'x' with {data['x'].median():.4g} in {data['x'].isna().sum()} rows."
    assert said in shoal("train", saved(tmp_path, data), "--target", "y").out
    assert said in str(api.fit(saved(tmp_path, data), target="y").summary())
    data.loc[:4, "y"] = np.nan  # whose gaps are counted all the same, since they are the table's
    said = said[:-1] + " (counted in all rows, those that were left out included)."
    assert said.split(" in ")[1] in shoal("train", saved(tmp_path, data), "--target", "y").out


def test_of_a_quotient_what_was_divided_is_left_out(tmp_path: Path) -> None:
    found = inspected(tmp_path, table(**CASES["quotient"][0]))[0]
    assert found.values == ("paid",)
    found = inspected(tmp_path, table(**CASES["product"][0]))[0]
    assert found.values == ("units", "price")
    assert str(found.remedy) == (
        "If they are not both known when predicting, leave out the one that is not ('units' or 'price') with --exclude."
    )


def test_a_target_of_few_large_values_is_skewed(tmp_path: Path) -> None:
    data = table(y=lambda t: np.exp(2.5 * t["y"] / t["y"].std()) - 1)
    (found,) = inspected(tmp_path, data)
    assert (found.kind, found.columns) == (FindingKind.SKEWED_TARGET, ("y",))
    bound = float(re.search(r"at least half of its rows lie below ([\d,.]+), ", found.said)[1].replace(",", ""))  # type: ignore[index]
    assert data["y"].median() <= bound < data["y"].max() / 10
    assert trained(tmp_path, data) == [found]  # from the pass that inspect made


def test_a_positive_target_with_a_long_tail_is_told_of_models_that_multiply(tmp_path: Path) -> None:
    data = table(y=lambda t: np.exp(t["y"] / t["y"].std() / 2))
    (found,) = trained(tmp_path, data)  # cold, and the same after a look
    assert inspected(tmp_path, data) == [found]
    assert (found.kind, found.columns) == (FindingKind.SKEWED_TARGET, ("y",))
    assert f"at most {data['y'].max():.4g}" in found.said
    assert "Gamma and lognormal models multiply." in found.said
    assert str(found.remedy).endswith("fit it with --model gamma.")
    assert trained(tmp_path, data, model="gamma") == trained(tmp_path, data, model="lognormal") == []
    assert inspected(tmp_path, table(y=lambda t: 30 + t["y"])) == []
    counts = np.random.default_rng(5).geometric(0.3, ROWS)
    assert not [one for one in inspected(tmp_path, table(y=lambda t: counts)) if one.kind == FindingKind.SKEWED_TARGET]


def test_few_rows_for_the_weights_are_said_with_what_the_model_can_do(tmp_path: Path) -> None:
    data = pd.DataFrame(np.random.default_rng(2).normal(size=(40, 12)), columns=[*"abcdefghijk", "y"])
    (linear,) = trained(tmp_path, data)
    (ridge,) = trained(tmp_path, data, model="ridge", alpha=1.0)
    assert linear.kind == ridge.kind == FindingKind.FEW_ROWS
    assert "There are 40 rows for 11 weights" in linear.said
    assert str(linear.remedy) == "Let a penalty help with --model ridge."
    assert not ridge.knob
    assert trained(tmp_path, data[["a", "b", "y"]]) == []


def test_copies_with_a_few_gaps_each_are_told_and_columns_that_differ_are_not(tmp_path: Path) -> None:
    rows = np.arange(ROWS)
    data = table(
        copy=lambda t: np.where(rows == 7, np.nan, 1000 * t["a"]),
        near=lambda t: np.where(rows == 9, np.nan, t["b"] + 0.3 * noise[5]),
    )
    assert data["a"].corr(data["copy"]) == pytest.approx(1)  # of the rows that have both
    assert data["b"].corr(data["near"]) < 0.98
    (found,) = inspected(tmp_path, data)
    assert (found.kind, found.leaves_out) == (FindingKind.DUPLICATE, ("copy",))
    assert "say nearly the same: 'copy' as 'a'." in found.said
    assert trained(tmp_path, data) == [found]


def test_left_out_columns_are_not_told_of(tmp_path: Path) -> None:
    data = table(late=lambda t: 2 * t["y"])
    (found,) = trained(tmp_path, data)
    assert found.leaves_out == ("late",)
    assert str(found.remedy) == "If it is not known when predicting, leave it out with --exclude late."
    assert trained(tmp_path, data, exclude=found.leaves_out) == []


def test_a_text_or_empty_target_is_looked_at_and_told_what_can_be_done(tmp_path: Path) -> None:
    data = table(sold=lambda t: np.where(t["y"] > 0, "yes", "no"), none=lambda t: None)
    path = saved(tmp_path, data)
    said = {name: shoal("inspect", path, "--target", name) for name in ("sold", "none")}
    assert said["sold"].code == said["none"].code == 0
    assert "note: 'sold' holds two texts, 'no', 'yes': yes or no, not a number." in said["sold"].out
    assert "fit it with --model logistic." in said["sold"].out
    assert "note: 'none' has no value in any row. Choose another column to predict." in said["none"].out


def test_train_prints_findings_as_notes_and_the_model_file_keeps_them(tmp_path: Path) -> None:
    path = saved(tmp_path, table(late=lambda t: 2 * t["y"]))
    answer = shoal("train", path, "--target", "y", "--out", tmp_path / "model.json")
    assert "warning: 'late' alone predicts 'y' almost exactly (leak?)." in answer.out
    assert "leave it out with --exclude late." in answer.out
    import shoal as package

    (found,) = package.load(tmp_path / "model.json").findings
    assert found.columns == ("late",)


def test_a_yes_or_no_of_texts_is_looked_at_as_numbers_are(tmp_path: Path) -> None:
    """The reason why somebody left is known only of those who left."""
    data = table(left=lambda t: np.where(t["y"] > 0, "Ja", "Nee"), code=lambda t: np.arange(ROWS) + 1000)
    data["reason"] = np.where(data["left"] == "Ja", np.where(data["a"] > 0, "price", "service"), "none")
    found = {finding.kind: finding.columns for finding in inspected(tmp_path, data.drop(columns="y"), "left")}
    assert found[FindingKind.LEAK] == ("reason",)
    assert found[FindingKind.ID] == ("code",)
    assert FindingKind.TEXT_TARGET in found
    honest = inspected(tmp_path, data.drop(columns=["y", "reason"]), "left")
    assert FindingKind.LEAK not in {finding.kind for finding in honest}


def test_two_values_told_apart_too_well_are_doubted_beside_the_fit(tmp_path: Path) -> None:
    """Where no line gives the column away: the score is known to be 1 from a bound on."""
    data = table(y=lambda t: np.where(t["y"] + 3 * noise[5] > 0, "Ja", "Nee"))
    knobs = {"model": "logistic", "shrink": "ridge", "alpha": 0.01, "test_every": 4}
    score = np.abs(noise[6]) * np.where(data["y"] == "Ja", 9, -1)
    (found,) = trained(tmp_path, data.assign(score=score), **knobs)
    assert (found.kind, found.leaves_out) == (FindingKind.LEAK, ("score",))
    assert "almost without an error (AUC 1.0000)" in found.said
    (found,) = trained(tmp_path, data.assign(reason=np.where(data["y"] == "Ja", "price", "none")), **knobs)
    assert found.said == "'reason' alone predicts 'y' almost exactly (leak?)."  # once, not by its score again
    assert trained(tmp_path, data, **knobs) == []


ODD: dict[str, Any] = {
    "late": lambda t: t["y"] + 0.01 * noise[0],
    "age": lambda t: np.where(noise[1] > 1.5, 99, np.round(40 + 4 * noise[2])),
    "x": lambda t: np.where(t["y"] + noise[6] > 4, np.nan, noise[5]),
    "when": lambda t: pd.date_range("2020-01-01", periods=ROWS).astype(str),
}


@pytest.mark.parametrize("model", ["huber", "quantile", "gamma", "lognormal", "poisson", "auto"])
def test_models_of_other_losses_are_warned_as_linear_ones_are(tmp_path: Path, model: str) -> None:
    data = table(**ODD)
    data["y"] += 50 - data["y"].min()
    linear = trained(tmp_path, data)
    assert [found.kind for found in linear] == [
        FindingKind.LEAK, FindingKind.MISSING_CODE, FindingKind.GAPS, FindingKind.DATES,
    ]  # fmt: skip
    assert trained(tmp_path, data, model=model) == linear


@pytest.mark.parametrize("numbers", [True, False])
def test_a_yes_or_no_is_warned_by_its_training_rows(tmp_path: Path, numbers: bool) -> None:
    data = table(**ODD)
    yes = data["y"] > 2
    data["y"] = yes.astype(int) if numbers else np.where(yes, "sim", "nao")
    data["late"] = yes + 0.01 * noise[0]
    data.loc[np.arange(ROWS) % 5 == 0, "late"] = 0.0  # a test row says nothing of what was learnt
    knobs = {"model": "logistic", "shrink": "ridge", "alpha": 1.0, "test_every": 5}
    found = trained(tmp_path, data, **knobs)
    assert [one.kind for one in found] == [
        FindingKind.LEAK, FindingKind.MISSING_CODE, FindingKind.GAPS, FindingKind.DATES,
    ]  # fmt: skip
    assert found[0].columns == ("late",)
    train = data[np.arange(ROWS) % 5 != 0].assign(yes=yes)
    gone = train["x"].isna()
    apart = train["yes"][gone].mean() - train["yes"][~gone].mean()
    assert f"is {apart:.3g} higher in the {gone.sum()} rows without 'x'" in found[2].said


def test_several_classes_are_warned_of_what_knows_them(tmp_path: Path) -> None:
    data = table(**ODD)
    places = np.digitize(data["y"], [0, 2])
    data["y"] = np.array(["low", "mid", "top"])[places]
    data["late"] = [f"c{place}" for place in places]
    found = trained(tmp_path, data, model="multinomial", shrink="ridge", alpha=1.0)
    assert [one.kind for one in found] == [FindingKind.LEAK, FindingKind.MISSING_CODE, FindingKind.DATES]
    assert found[0].columns == ("late",)
