"""Words among numbers and codes for missing: named with their counts, offered, and treated as missing when asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.data.notation.words import is_code, per_column, without_words
from shoal.errors import BadRowsError
from support.tables import column, fitted, opened, shoal, written


def table(words: dict[int, str], rows: int = 400, number: str = "{:.2f}") -> str:
    """Rows of x, y with y = 3 x + 1, where some rows have a word in place of x."""
    lines = [f"{words.get(i, number.format(i / 7))};{3 * (i / 7) + 1:.4f};{'ab'[i % 2]}" for i in range(rows)]
    return "\n".join(["x;y;t", *lines]) + "\n"


def inspected(path: Path, *flags: str) -> dict[str, dict[str, Any]]:
    answer = shoal("inspect", path, "--json", *flags)
    assert answer.code == 0, answer.err
    return {found["name"]: found for found in answer.json["columns"]}


FEW = {i: "k.A." if i % 4 else "auf Anfrage" for i in range(0, 400, 30)}
MANY = {i: ["---", "n.c.", "#NV"][i % 3] for i in range(0, 400, 4)}


@pytest.mark.parametrize("words", [FEW, MANY], ids=["few", "many"])
def test_words_are_named_with_their_counts_and_offered(words: dict[int, str], tmp_path: Path) -> None:
    path = written(tmp_path, table(words))
    found = inspected(path)["x"]
    counts = {word: list(words.values()).count(word) for word in words.values()}
    assert (found["type"], dict(found["words"])) == ("numeric", counts)
    said = shoal("inspect", path).out
    for word, count in counts.items():
        assert f"'{word}' ({count} rows)" in said
    assert "--also-missing" in said


@pytest.mark.parametrize("words", [FEW, MANY], ids=["few", "many"])
def test_a_failed_fit_suggests_what_helps_and_that_helps(words: dict[int, str], tmp_path: Path) -> None:
    path = written(tmp_path, table(words))
    with pytest.raises(BadRowsError) as caught:
        fitted(path, "y", features=["x"])
    assert "delimiter" not in str(caught.value)
    knob = caught.value.remedies[0]
    assert knob.name == "also_missing"
    dataset = opened(path, also_missing=knob.arguments[0])
    assert dataset.manifest.bad_count == 0
    values = column(dataset, "x")
    assert [i for i, value in enumerate(values) if value is None] == sorted(words)
    report = fitted(path, "y", features=["x"], also_missing=knob.arguments[0])
    assert report["train"]["rows"] == 400


def test_rows_of_totals_are_no_rows_with_a_value_missing(tmp_path: Path) -> None:
    """Parts of a file with a total below each: to read these as missing would make them data."""
    totals = {99: "Summe", 199: "Summe", 299: "Gesamt"}
    path = written(tmp_path, table({**FEW, **totals}))
    found = inspected(path)["x"]
    assert dict(found["totals"]) == {"Summe": 2, "Gesamt": 1}
    assert "Summe" not in dict(found["words"])
    said = shoal("inspect", path).out
    assert "'x' has words for totals among its numbers: 'Summe' (2 rows), 'Gesamt' (1 row)." in said
    assert not [line for line in said.splitlines() if "--also-missing" in line and "Summe" in line]
    with pytest.raises(BadRowsError) as caught:
        fitted(path, "y", features=["x"])
    offered = [remedy.arguments[0] for remedy in caught.value.remedies if remedy.name == "also_missing"]
    assert [sorted(text.split(",")) for text in offered] == [["auf Anfrage", "k.A."]]
    assert opened(path, also_missing=offered[0]).manifest.bad_count == 3
    with pytest.raises(BadRowsError) as caught:
        fitted(written(tmp_path, table(dict.fromkeys(range(0, 400, 20), "Summe"))), "y", features=["x"])
    assert [remedy.name for remedy in caught.value.remedies] == ["on_bad_rows"]


def test_few_enough_words_are_said_in_the_fit(tmp_path: Path) -> None:
    report = fitted(written(tmp_path, table({7: "VB"})), "y", features=["x"])
    assert any("'VB' (1 row)" in note for note in report["warnings"])


def test_money_and_dates_may_have_words_too(tmp_path: Path) -> None:
    lines = [
        f"{'VB' if i % 10 == 0 else f'€ {i}.{i:03d},50'};{'---' if i % 9 == 0 else f'{i % 28 + 1:02d}.03.2021'}"
        for i in range(10, 100)
    ]
    found = inspected(written(tmp_path, "price;day\n" + "\n".join(lines) + "\n"))
    assert (found["price"]["type"], found["price"]["words"]) == ("numeric", [["VB", 9]])
    assert (found["day"]["type"], found["day"]["words"]) == ("datetime", [["---", 10]])


def test_names_and_few_numbers_stay_names(tmp_path: Path) -> None:
    dataset = opened(written(tmp_path, "g,y\n" + "".join(f"{i % 3 if i % 4 else 'other'},{i}\n" for i in range(100))))
    assert dataset.columns["g"].type == "categorical"


def test_a_word_for_one_column_alone(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n" + "".join(f"{i},{'n.c.' if i % 2 else 'b'}\n" for i in range(50)) + "n.c.,b\n")
    dataset = opened(path, also_missing=["a=n.c."])
    assert column(dataset, "a")[-1] is None
    assert dataset.manifest.bad_count == 0
    assert set(column(dataset, "b")) == {"n.c.", "b"}
    assert column(opened(path, also_missing=["b=n.c."]), "b")[1] is None


def test_a_column_that_is_misspelt_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, table({7: "VB"}).replace("x;y;t", "Menge;y;t"))
    for knobs in (("inspect", path), ("train", path, "--target", "y")):
        answer = shoal(*knobs, "--also-missing", "Mengee=VB")
        assert answer.code != 0
        assert "got 'Mengee'. Did you mean 'Menge'?" in answer.err
    assert inspected(path, "--also-missing", "Menge=VB")["Menge"]["missing"] == 1
    assert shoal("inspect", path, "--also-missing", "#=leer").code == 0  # no column is like it: a text with that mark


CODED = {
    "survey": ([1, 2, 3, 4, 5], 9, True),
    "temperatures": ([-4.5, 3.0, 18.5, 25.25], -999, True),
    "ages": (list(range(18, 90)), 99, False),
    "ages up to nine": ([1, 2, 3, 4, 5, 6, 7, 8], 9, False),
    "marks": (list(range(1, 11)), 99, True),
}


@pytest.mark.parametrize("name", CODED)
def test_codes_are_named_and_never_assumed(name: str, tmp_path: Path) -> None:
    values, code, named = CODED[name]
    cells = [code if i % 10 == 0 else values[i % len(values)] for i in range(200)]
    path = written(tmp_path, "x,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)))
    found = inspected(path)["x"]
    assert found["codes"] == ([[code, 20]] if named else [])
    assert found["missing"] == 0
    if named:
        assert f"--also-missing x={code}" in shoal("inspect", path).out
        assert inspected(path, "--also-missing", f"x={code}")["x"]["missing"] == 20
        assert inspected(path, "--also-missing", f"x={code}")["y"]["missing"] == 0


def test_a_model_knows_what_means_missing(tmp_path: Path) -> None:
    path, model = written(tmp_path, table(FEW)), tmp_path / "m.json"
    fit = shoal("train", path, "--target", "y", "--features", "x", "--also-missing", "k.A.,auf Anfrage", "--out", model)
    assert fit.code == 0, fit.err
    new = written(tmp_path, "x;y\n2,5;0\nk.A.;0\n", "new.csv")
    found = shoal("predict", model, new, "--out", tmp_path / "p.csv", "--json").json
    assert (found["rows"], found["bad_rows"]) == (2, 0)
    assert json.loads(model.read_text())["config"]["also_missing"] == ["k.A.", "auf Anfrage"]


def test_what_the_rules_are_made_of() -> None:
    assert without_words(["1", "2", "x"]) is None  # too few to tell
    assert without_words([*map(str, range(12)), "VB"]) == [*map(str, range(12))]
    assert per_column(["a=b=1", "c", "x=2"], ["a=b", "a"]) == ({"a=b": ("1",)}, ("c", "x=2"))
    assert not is_code(9.0, 1, 5.0, 1.0)
