"""One value in several spellings (Ja, ja, `JA `): told, and read as one where somebody said so, in training and after."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal as api
from shoal.data.notation.spelling import in_one_spelling, spelled_alike
from shoal.errors import ConfigError
from shoal.fitting.model_file import load_model
from shoal.results.findings import FindingKind
from shoal.tasks.predict_rows import RowPredictor
from support.data.encoding import saved
from support.tables import column, fitted, opened, shoal, small_pieces, written

ROWS = 240
SPELLED = {"ja": ["Ja", "ja", "JA ", " jA"], "nej": ["Nej", "nej", "NEJ"], "ved ikke": ["Ved  ikke", "ved ikke"]}
CITIES = {"são paulo": ["São Paulo", "Sa\u0303o Paulo", "SÃO\u00a0PAULO"], "oslo": ["OSLO", "oslo"]}


def frame(tidy: bool = False) -> pd.DataFrame:
    """Answers and cities, as people type them or as they mean them, a number, and what follows from them."""
    random = np.random.default_rng(8)
    answer, city = random.choice(list(SPELLED), ROWS), random.choice(list(CITIES), ROWS)
    x = random.normal(size=ROWS).round(3)
    y = (2 * x + 3 * (answer == "ja") - (city == "oslo") + random.normal(size=ROWS)).round(3)
    typed = [random.choice(SPELLED[one]) for one in answer], [random.choice(CITIES[one]) for one in city]
    meant = pd.DataFrame({"answer": answer, "city": city, "x": x, "y": y})
    return meant if tidy else meant.assign(answer=typed[0], city=typed[1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(tmp_path, frame())


def test_what_one_spelling_is() -> None:
    texts = ["Ja", " jA\t", "SÃO\u00a0 PAULO", "Sa\u0303o Paulo", "İzmir", "", " "]
    assert [in_one_spelling(text) for text in texts[:4]] == ["ja", "ja", "são paulo", "são paulo"]
    assert [in_one_spelling(text) for text in texts[5:]] == ["", " "]
    assert spelled_alike(["b", "A", "a ", "c", "B"]) == [["b", "B"], ["A", "a "]]
    for alike in (["İzmir", "izmir", "IZMIR", "İZMİR", "I\u0307zmir"], ["Kalıcı", "KALICI"], ["Straße", "STRASSE"]):
        assert len({in_one_spelling(text) for text in alike}) == 1
    assert all(in_one_spelling(in_one_spelling(text)) == in_one_spelling(text) for text in texts)


def test_several_spellings_are_told_with_examples_before_a_fit_and_beside_it(path: Path) -> None:
    said = "If they are one, read them so with --one-spelling answer,city."
    for flags in ([], ["--target", "y"]):
        (found,) = (
            one for one in shoal("inspect", path, "--json", *flags).json["findings"]
            if one["kind"] == FindingKind.SPELLINGS
        )  # fmt: skip
        assert found["columns"] == ["answer", "city"]
        assert said in shoal("inspect", path, *flags).out
    assert said in shoal("train", path, "--target", "y").out
    told = shoal("train", path, "--target", "y", "--one-spelling", "answer,city")
    assert "Only capitals" not in told.out


@pytest.mark.parametrize("name", ["table.csv", "table.parquet", "table.xlsx"])
def test_levels_are_those_that_were_meant(name: str, tmp_path: Path) -> None:
    path, data = tmp_path / name, frame()
    {"csv": data.to_csv, "parquet": data.to_parquet, "xlsx": data.to_excel}[name.split(".")[1]](path, index=False)
    dataset = opened(path, one_spelling=["answer", "city"])
    assert column(dataset, "answer") == frame(tidy=True)["answer"].tolist()
    assert column(dataset, "city") == frame(tidy=True)["city"].tolist()
    assert [one.levels for one in dataset.manifest.columns[:2]] == [("ja", "nej", "ved ikke"), ("oslo", "são paulo")]
    assert len(opened(path).manifest.columns[0].levels) > 3  # a reading of its own in the cache


def test_ranges_of_the_file_make_no_difference(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_pieces(monkeypatch, 700):
        dataset = opened(path, one_spelling=["answer"])
        assert len(dataset.manifest.blocks) > 5
        assert column(dataset, "answer") == frame(tidy=True)["answer"].tolist()


def test_a_text_that_means_none_is_found_in_all_its_spellings(path: Path) -> None:
    dataset = opened(path, one_spelling=["answer"], also_missing=["answer=Ved Ikke"])
    meant = frame(tidy=True)["answer"]
    assert dataset.manifest.columns[0].levels == ("ja", "nej")
    assert dataset.manifest.columns[0].missing == int((meant == "ved ikke").sum())


def test_a_model_of_them_is_that_of_a_tidy_table_and_reads_new_rows_so(path: Path, tmp_path: Path) -> None:
    model, new = tmp_path / "m.json", tmp_path / "new.csv"
    shoal("train", path, "--target", "y", "--one-spelling", "answer,city", "--out", model)
    tidy = fitted(saved(tmp_path, frame(tidy=True), "tidy.csv"), "y")
    assert json.loads(model.read_text())["coefficients"] == pytest.approx(tidy["coefficients"], rel=1e-12)
    rows = pd.DataFrame({"answer": ["jA", "NEJ ", "VED IKKE"], "city": ["Oslo", "são  paulo", "OSLO "], "x": [0, 1, 2]})
    names = ["city=são paulo", "answer=nej", "answer=ved ikke"]
    city, no, unsure = (tidy["coefficients"].get(name, 0.0) for name in names)
    expected = tidy["intercept"] + tidy["coefficients"]["x"] * np.arange(3) + [0, no + city, unsure]
    rows.to_csv(new, index=False)
    told = shoal("predict", model, new, "--out", tmp_path / "p.csv")
    assert (told.code, "not known" in told.out + told.err) == (0, False)
    by_file = pd.read_csv(tmp_path / "p.csv")["prediction"]
    by_row = RowPredictor(load_model(model)).predict(rows.to_dict("records"))
    by_frame = api.load(model).predict(rows)
    assert by_row.notes == ()
    for predicted in (by_file, by_row.predictions, by_frame):
        np.testing.assert_allclose(np.array(predicted, float), expected, rtol=1e-12)


def test_a_target_of_two_values_in_many_spellings(tmp_path: Path) -> None:
    data = frame()
    data = data[frame(tidy=True)["answer"] != "ved ikke"]
    path = saved(tmp_path, data)
    with pytest.raises(ConfigError, match="'JA' and 'Ja'") as caught:
        fitted(path, "answer", model="logistic")
    remedy = caught.value.remedies[0]
    assert (remedy.name, remedy.arguments) == ("one_spelling", ("answer",))
    model = api.fit(path, target="answer", model="logistic", one_spelling=["answer", "city"])
    meant = frame(tidy=True)["answer"][data.index]
    assert model.score(data) == pytest.approx(float(np.mean(np.asarray(model.predict(data)) == meant)))
    assert model.score(data) > 0.7


def test_a_column_that_is_not_there_is_refused_and_new_rows_may_lack_it(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ansver"):
        opened(path, one_spelling=["ansver"])
    model = tmp_path / "m.json"
    shoal("train", path, "--target", "y", "--one-spelling", "answer,city", "--features", "city,x", "--out", model)
    new = written(tmp_path, "x,city\n1,Oslo\n", "new.csv")
    told = shoal("predict", model, new, "--out", tmp_path / "p.csv")
    assert told.code == 0, told.err


def test_an_export_says_that_it_does_not_read_so(path: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m.json", tmp_path / "m.py"
    shoal("train", path, "--target", "y", "--one-spelling", "answer", "--out", model)
    assert "It expects texts of 'answer' in small letters" in shoal("export", model, "--to", "python", "--out", out).out
    shoal("train", path, "--target", "y", "--out", model)
    assert "It expects texts" not in shoal("export", model, "--to", "python", "--out", out).out


def test_the_yes_is_found_and_may_be_named_in_any_spelling(tmp_path: Path) -> None:
    """Evet is a word for yes, and HAYIR one for no, however it is written; İADE is asked for as iade."""
    random = np.random.default_rng(3)
    x = random.normal(size=200)
    yes = x + random.normal(size=200) > 0
    said = np.where(yes, random.choice(["Evet", "EVET"], 200), random.choice(["Hayır", "HAYIR", "hayır "], 200))
    kept = np.where(yes, random.choice(["İade", "IADE"], 200), random.choice(["Kalıcı", "KALICI"], 200))
    path = saved(tmp_path, pd.DataFrame({"x": x, "said": said, "kept": kept}))
    for target, more, expected in (
        ("said", [], "evet"),
        ("kept", [], "kalici"),
        ("kept", ["--positive", "İADE"], "iade"),
    ):
        flags = ["--target", target, "--model", "logistic", "--one-spelling", "said,kept", "--features", "x", *more]
        assert shoal("train", path, "--json", *flags).json["outcome"]["classes"][1] == expected


def test_what_levels_are_compared_with_may_be_said_in_any_spelling(path: Path) -> None:
    flags = ["--target", "y", "--one-spelling", "answer,city", "--json"]
    for said in ("NEJ", "nej ", "nej"):
        found = shoal("train", path, *flags, "--reference", f"answer={said}").json
        assert found["references"]["answer"] == "nej"
    told = shoal("train", path, *flags, "--reference", "answer=maybe")
    assert told.code == 1
    assert "Expected one of the texts of 'answer' to compare with, got 'maybe'" in told.err
