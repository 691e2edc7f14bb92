"""Levels of texts, which columns a model gets, and what is said about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from shoal.data import block_reader
from shoal.errors import BadRowsError, ConfigError, DataError
from shoal.settings import limits
from support.data.encoding import saved
from support.tables import fitted, opened, shoal, written

# ------------------------------------------------------------------ levels


def test_level_of_test_rows_only_is_all_zeros_and_said(tmp_path: Path) -> None:
    lines = [f"{'new' if i % 5 == 0 else 'xyz'[i % 3]},{i},{i % 7}" for i in range(100)]
    found = fitted(written(tmp_path, "t,a,y\n" + "\n".join(lines) + "\n"), "y", test_every=5)
    assert [n for n in found["coefficients"] if n.startswith("t=")] == ["t=y", "t=z"]
    said = next(w for w in found["warnings"] if "20 test rows have a level that no training row has" in w)
    assert said.endswith("the score on test rows may suffer. Such levels: 'new' in 't'.")


CITIES = "city,size,y\n" + "".join(
    f"{'' if i % 7 == 0 else ('oslo', 'bergen', 'narvik')[i % 3]},{i % 11},{i % 3 * 4 + i % 11 + i % 5}\n"
    for i in range(90)
)


def test_levels_are_compared_with_the_first_text_or_the_chosen_one_never_with_no_value(tmp_path: Path) -> None:
    path = written(tmp_path, CITIES)
    usual, chosen = fitted(path, "y"), fitted(path, "y", reference=["city=oslo"])
    assert list(usual["coefficients"]) == ["size", "city=__missing__", "city=narvik", "city=oslo"]
    assert list(chosen["coefficients"]) == ["size", "city=__missing__", "city=bergen", "city=narvik"]
    assert (usual["references"], chosen["references"]) == ({"city": "bergen"}, {"city": "oslo"})
    assert usual["train"]["rmse"] == pytest.approx(chosen["train"]["rmse"], rel=1e-12)  # the same model in other words
    difference = usual["coefficients"]["city=oslo"]
    assert chosen["coefficients"]["city=bergen"] == pytest.approx(-difference, rel=1e-9)
    assert chosen["intercept"] == pytest.approx(usual["intercept"] + difference, rel=1e-9)
    assert list(fitted(path, "y", coding="drop_first")["coefficients"])[1:] == [
        "city=bergen",
        "city=narvik",
        "city=oslo",
    ]
    assert "city" not in fitted(path, "y", coding="full").get("references", {})
    assert chosen["contents"]["design"]["usual"] == {"city": "bergen"}  # which most rows have


def test_no_value_is_compared_with_only_if_it_is_asked_for_or_all_there_is(tmp_path: Path) -> None:
    path = written(tmp_path, CITIES)
    assert fitted(path, "y", reference=["city=__missing__"])["references"] == {"city": "__missing__"}
    only = written(tmp_path, "t,a,y\n" + "".join(f"{'x' if i % 5 == 0 else ''},{i % 7},{i % 3}\n" for i in range(60)))
    found = fitted(only, "y", test_every=5)  # no training row has the text
    assert found["references"] == {"t": "__missing__"}


MARKS = "garage,kind,y\n" + "".join(
    f"{'X' if i % 3 == 0 else ''},{'' if i % 5 == 0 else 'ab'[i % 2]},{(i % 3 == 0) * 40 + i % 2 * 5 + i % 7}\n"
    for i in range(90)
)


def test_a_mark_for_yes_is_compared_with_its_blanks_and_other_gaps_stay_gaps(tmp_path: Path) -> None:
    path = written(tmp_path, MARKS)
    found = fitted(path, "y")
    assert list(found["coefficients"]) == ["garage=X", "kind=__missing__", "kind=b"]
    assert found["coefficients"]["garage=X"] == pytest.approx(40, abs=1)
    assert found["references"] == {"garage": "__missing__", "kind": "a"}
    assert fitted(path, "y", reference=["garage=X"])["references"]["garage"] == "X"
    assert flags(path) == {"garage": ["mark"], "kind": [], "y": []}
    answer = shoal("train", path, "--target", "y")
    assert "garage (X up)" in answer.out
    assert "compared with garage: no value, kind: a." in answer.out
    refused = shoal("train", path, "--target", "garage", "--model", "logistic").err
    assert "got 'X' or none: a blank is no value to predict" in refused
    assert "the 60 rows without one" in refused


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("city=olso", "got 'olso'. Did you mean 'oslo'?"),
        ("town=oslo", "Expected a column of the file, got 'town'"),
        ("size=3", "It holds numbers."),
        ("oslo", "Expected a column and one of its texts, city=Oslo, got 'oslo'"),
    ],
)
def test_a_level_that_is_not_there_is_refused(tmp_path: Path, reference: str, said: str) -> None:
    answer = shoal("train", written(tmp_path, CITIES), "--target", "y", "--reference", reference)
    assert (answer.code, said in answer.err) == (1, True), answer.err


def test_what_levels_are_compared_with_is_said_with_the_coefficients(tmp_path: Path) -> None:
    path = written(tmp_path, CITIES)
    answer = shoal("train", path, "--target", "y", "--reference", "city=narvik", "--out", tmp_path / "model.json")
    said = "Levels of text columns are compared with city: narvik."
    assert said in answer.out
    import shoal as package

    assert said in str(package.load(tmp_path / "model.json").summary())
    assert shoal("export", tmp_path / "model.json", "--to", "report", "--out", tmp_path / "report.html").code == 0
    assert said in (tmp_path / "report.html").read_text()


def test_text_with_many_levels_is_left_out_and_said(tmp_path: Path) -> None:
    lines = [f"name {i % 101},{i % 7},{i % 5 + 0.5 * (i % 3)}" for i in range(400)]
    path = written(tmp_path, "t,a,y\n" + "\n".join(lines) + "\n")
    found = fitted(path, "y")
    assert list(found["coefficients"]) == ["a"]
    assert any("'t' has 101 different values and is left out" in w for w in found["warnings"])
    assert len(fitted(path, "y", max_levels=101)["coefficients"]) == 101
    assert len(fitted(path, "y", max_levels=100)["coefficients"]) == 1


def test_more_levels_than_are_told_apart_are_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has raised max_levels as far as it goes is not told to look at it."""
    monkeypatch.setattr(block_reader, "BLOCK_LEVELS", 50)
    path = written(tmp_path, "t,a,y\n" + "".join(f"name {i},{i % 7},{i % 5}\n" for i in range(400)))
    said = "'t' has more than 50 different values and is left out (limit: 5,000 in 8 MB of the file and 20,000 in all"
    (told,) = (w for w in fitted(path, "y", max_levels=20_000)["warnings"] if said in w)
    assert "whatever max_levels = 20000 says; set it to unlimited to have all of them, kept sparse" in told
    assert any("(limit: max_levels = 40)" in w for w in fitted(path, "y", max_levels=40)["warnings"])


def test_levels_are_sorted_as_strings_and_quotes_do_not_make_other_levels(tmp_path: Path) -> None:
    text = 't,y\n10,1\n9,2\n"9",3\nb,4\n"b",5\nB,6\né,7\n__missing__,8\n,9\n'
    path = written(tmp_path, text)
    assert opened(path).columns["t"].levels == ("10", "9", "B", "__missing__", "b", "é")
    found = fitted(path, "y", coding="full")
    assert list(found["coefficients"]) == ["t=10", "t=9", "t=B", "t=__missing__", "t=b", "t=é"]
    assert found["train"]["rows"] == 9


def test_levels_agree_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BLOCK_BYTES", 64)
    data = pd.DataFrame({"t": [f"k{(i * 7) % 23}" for i in range(300)], "y": [float(i % 11) for i in range(300)]})
    found = fitted(saved(tmp_path, data), "y", coding="full", model="ridge", alpha=1e-3, standardize=False)
    X = pd.get_dummies(data["t"]).sort_index(axis=1).astype(float)
    theirs = Ridge(alpha=1e-3).fit(X, data["y"])
    ours = {name.removeprefix("t="): value for name, value in found["coefficients"].items()}
    assert ours == pytest.approx(dict(zip(X.columns, theirs.coef_, strict=True)), rel=1e-6, abs=1e-9)


# ------------------------------------------------------------------ which columns


CHOICE = "a,b,t,y\n" + "".join(f"{i % 13},{i % 7},{'uvw'[i % 3]},{i % 5}\n" for i in range(60))


@pytest.mark.parametrize(("knobs", "names"), [
    ({}, ["a", "b", "t=v", "t=w"]),
    ({"features": ["b", "a"]}, ["b", "a"]),
    ({"features": ["a", "a"]}, ["a"]),
    ({"exclude": ["a", "t"]}, ["b"]),
    ({"features": ["a", "t"], "exclude": ["t"]}, ["a"]),
    ({"categorical": ["b"], "features": ["b"]}, ["b=1", "b=2", "b=3", "b=4", "b=5", "b=6"]),
    ({"coding": "full", "features": ["t"]}, ["t=u", "t=v", "t=w"]),
])  # fmt: skip
def test_chosen_columns(knobs: dict[str, Any], names: list[str], tmp_path: Path) -> None:
    assert list(fitted(written(tmp_path, CHOICE), "y", **knobs)["coefficients"]) == names


@pytest.mark.parametrize(("knobs", "error", "words"), [
    ({"target": "nope"}, ConfigError, "got 'nope'. The columns are: a, b, t, y"),
    ({"features": ["nope"]}, ConfigError, "got 'nope'"),
    ({"exclude": ["nope"]}, ConfigError, "got 'nope'"),
    ({"categorical": ["nope"]}, ConfigError, "got 'nope'"),
    ({"numeric": ["nope"]}, ConfigError, "got 'nope'"),
    ({"target": "t"}, ConfigError, "Expected a column of numbers as target"),
    ({"target": "y", "features": ["a", "y"]}, ConfigError, "also among the features"),
    ({"exclude": ["a", "b", "t"]}, DataError, "No column is left"),
    ({"numeric": ["t"]}, BadRowsError, "column 't': expected a number, got 'u'"),
])  # fmt: skip
def test_choices_that_cannot_be(knobs: dict[str, Any], error: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(error) as caught:
        fitted(written(tmp_path, CHOICE), **{"target": "y", **knobs})
    assert words in str(caught.value)


def test_columns_without_values_are_left_out_and_said(tmp_path: Path) -> None:
    lines = [f"{i % 9},,,{i if i % 4 == 0 else ''},{i % 5}" for i in range(80)]
    found = fitted(written(tmp_path, "a,empty,blank,tests,y\n" + "\n".join(lines) + "\n"), "y", test_every=4)
    assert list(found["coefficients"]) == ["a"]
    for name in ("empty", "blank"):
        assert any(f"'{name}' has no value in any row" in w for w in found["warnings"])
    assert any("'tests' has no value in the training rows" in w for w in found["warnings"])


@pytest.mark.parametrize(("text", "words"), [
    ("a,y\n1,\n2,\n", "no value in any row"),
    ("a,y\n", "no value in any row"),
    ("a,y\n,1\n,2\n", "No column is left"),
    ("y\n1\n2\n", "No column is left"),
])  # fmt: skip
def test_files_that_leave_nothing_to_fit(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        fitted(written(tmp_path, text), "y", header=True)


def test_values_that_cannot_be_squared(tmp_path: Path) -> None:
    path = written(tmp_path, "a,big,y\n" + "".join(f"{i % 7},{i}e300,{i % 5}\n" for i in range(1, 40)))
    found = fitted(path, "y")
    assert list(found["coefficients"]) == ["a"]
    assert any("'big' has values beyond" in w for w in found["warnings"])
    with pytest.raises(DataError, match="cannot be squared"):
        fitted(path, "big")


def test_dates_are_numbers(tmp_path: Path) -> None:
    days = pd.date_range("2021-01-01", periods=50, freq="D")
    data = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "y": 5 + 2.0 * np.arange(50)})
    found = fitted(saved(tmp_path, data), "y")
    assert found["coefficients"]["day"] == pytest.approx(2.0, rel=1e-9)
    assert found["train"]["r2"] == pytest.approx(1.0)


# ------------------------------------------------------------------ what is said about columns


def flags(path: Path, **knobs: Any) -> dict[str, list[str]]:
    arguments = [part for name, value in knobs.items() for part in (f"--{name}", value)]
    answer = shoal("inspect", path, "--json", *arguments)
    assert answer.code == 0, answer.err
    return {c["name"]: c["flags"] for c in answer.json["columns"]}


def test_flags(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = random.normal(size=300)
    rows = range(300)
    data = pd.DataFrame({
        "row": rows, "key": [f"k{i}" for i in rows], "zip": [f"{i % 90:05d}" for i in rows], "same": 4,
        "word": "x", "sparse": [1.5 + i % 4 if i % 3 == 0 else None for i in rows], "many": [f"m{i % 120}" for i in rows],
        "leak": 2 * y + 1, "plain": random.normal(size=300), "group": [f"g{i % 3}" for i in rows], "y": y,
        "way": [f"{4000 + 37 * i} km" for i in rows],
    })  # fmt: skip
    found = flags(saved(tmp_path, data), target="y")
    assert found["row"] == ["id_like"]
    assert found["way"] == []
    assert set(found["key"]) == {"high_cardinality", "id_like"}
    assert found["zip"] == ["leading_zeros"]
    assert found["same"] == found["word"] == ["constant"]
    assert found["sparse"] == ["mostly_missing"]
    assert found["many"] == ["high_cardinality"]
    assert found["leak"] == ["leak"]
    assert found["plain"] == found["group"] == []


def test_leak_by_levels_and_in_the_fit(tmp_path: Path) -> None:
    data = pd.DataFrame({"code": [f"c{i % 4}" for i in range(200)], "a": np.random.default_rng(1).normal(size=200)})
    data["y"] = [3.5 * (i % 4) ** 2 for i in range(200)]
    path = saved(tmp_path, data)
    assert flags(path, target="y")["code"] == ["leak"]
    (found,) = fitted(path, "y")["findings"]
    assert (found["kind"], found["values"]) == ("leak", ["code"])


def test_a_leak_is_told_while_rows_cannot_be_read(tmp_path: Path) -> None:
    lines = [f"{i % 11},{'k.A.' if i % 15 == 0 else 3 * (i * 7 % 53) + 1},{i * 7 % 53}" for i in range(200)]
    found = shoal("inspect", written(tmp_path, "a,sales,y\n" + "\n".join(lines) + "\n"), "--target", "y").out
    assert "14 rows could not be read" in found
    assert "'sales' alone predicts 'y' almost exactly (leak?)" in found


def test_distinct_values_are_counted_over_all_rows(tmp_path: Path) -> None:
    """More values than the sketch holds hashes for, each of them often: the count is exact below its size."""
    rows = 160_000
    random = np.random.default_rng(4)
    data = pd.DataFrame({"few": np.arange(rows) // 20, "many": np.arange(rows) % 40_000,
                         "late": np.where(np.arange(rows) < 1_000, 5, random.integers(0, 20_000, rows)),
                         "all": random.permutation(rows) * 0.5})  # fmt: skip
    columns = {c["name"]: c for c in shoal("inspect", saved(tmp_path, data), "--json").json["columns"]}
    assert (columns["few"]["distinct"], columns["few"]["distinct_exact"]) == (8_000, True)
    for name in ("many", "late", "all"):
        assert columns[name]["distinct_exact"] is False
        assert columns[name]["distinct"] == pytest.approx(data[name].nunique(), rel=0.05)


def test_the_usual_number_of_a_large_complete_table_is_about_its_median(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are sampled from all blocks, however many there are: the first ones alone would be far off."""
    monkeypatch.setattr("shoal.fitting.exact.POLISHED_CELLS", 10)
    monkeypatch.setattr("shoal.data.files.block_bytes", lambda columns: 4096)
    monkeypatch.setattr("shoal.passes.ingest.SAMPLED", 900)
    values = np.sort(np.exp(np.random.default_rng(3).normal(0, 2, 5000)))
    path = written(tmp_path, "x,y\n" + "".join(f"{v:.6f},{i % 7}\n" for i, v in enumerate(values)))
    dataset = opened(path)
    assert len(dataset.blocks) > 10
    report = fitted(path, "y")
    (term,) = (term for term in report["contents"]["design"]["terms"] if term["column"] == "x")
    assert np.quantile(values, 0.45) < term["fill"] < np.quantile(values, 0.55)
    assert values.mean() > np.quantile(values, 0.75)


@pytest.mark.parametrize("model", ["linear", "lasso", "logistic", "multinomial", "quantile", "gamma", "auto"])
def test_a_misspelt_target_is_told_before_rows_that_cannot_be_read(tmp_path: Path, model: str) -> None:
    lines = [f"{i},{'sob consulta' if i % 4 == 0 else 3 * i + i % 5}" for i in range(80)]
    path = written(tmp_path, "a,Preço\n" + "\n".join(lines) + "\n")
    answer = shoal("train", path, "--target", "Preco", "--model", model)
    assert answer.code != 0
    assert "Did you mean 'Preço'?" in answer.err
    assert "could not be read" not in answer.err
    assert "20 of 80 rows could not be read" in shoal("train", path, "--target", "Preço").err
