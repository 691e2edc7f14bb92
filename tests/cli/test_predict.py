"""Model files and predictions of the command line."""

from __future__ import annotations

import csv
import json
import math
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shoal import load as shoal_model
from support.cli import frame, refused, trained
from support.tables import Answer, shoal, written


@pytest.fixture
def model(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    trained(data, "--target", "y", "--out", path)
    return path


def by_hand(model: Path, row: dict[str, Any]) -> float:
    """A prediction from nothing but what is written in the file."""
    contents = json.loads(model.read_text())
    total = contents["intercept"]
    for term in contents["design"]["terms"]:
        value = row.get(term["column"])
        if term["type"] == "number":
            x = term["fill"] if value is None else value
        else:
            x = float((value or "__missing__") == term.get("level", "__missing__"))
        name = f"{term['column']}={term['level']}" if "level" in term else term["column"]
        total += contents["coefficients"][name] * x
    return float(total)


def predicted(model: Path, file: Path, out: Path, *flags: str) -> tuple[list[float | None], Answer]:
    answer = shoal("predict", model, file, "--out", out, "--json", *flags)
    assert (answer.code, answer.err) == (0, ""), answer.err
    with out.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [int(row["row"]) for row in rows] == list(range(len(rows)))
    return [float(row["prediction"]) if row["prediction"] else None for row in rows], answer


def test_model_file_is_json_that_stands_alone(model: Path, data: Path, tmp_path: Path) -> None:
    contents = json.loads(model.read_text())
    assert contents["format"] == "shoal-model"
    assert contents["version"] == 1
    assert model.read_text().count("\n") > 20  # readable by eye
    with pytest.raises(ValueError, match=r"opcode|pickle"):
        list(pickletools.genops(model.read_bytes()))
    found, answer = predicted(model, data, tmp_path / "p.csv")
    rows = frame().to_dict("records")
    assert found == pytest.approx([by_hand(model, row) for row in rows], rel=1e-12)
    rmse = math.sqrt(np.mean([(p - r["y"]) ** 2 for p, r in zip(found, rows, strict=True)]))  # type: ignore[operator]
    assert contents["train"]["rmse"] == pytest.approx(rmse, rel=1e-9)
    assert answer.json["rows"] == 120


def test_predict_with_other_column_order_and_dialect_and_without_target(model: Path, tmp_path: Path) -> None:
    rows = [{"a": 1.5, "b": -2.0, "t": "v"}, {"a": 0.25, "b": 7.0, "t": "u"}, {"a": -3.0, "b": 0.5, "t": "w"}]
    expected = [by_hand(model, row) for row in rows]
    text = "t;extra;b;a\n" + "".join(f"{r['t']};9;{r['b']};{r['a']}\n".replace(".", ",") for r in rows)
    found, _ = predicted(model, written(tmp_path, text, "new.csv"), tmp_path / "p.csv")
    assert found == pytest.approx(expected, rel=1e-12)


def test_predict_unseen_levels_missing_values_and_bad_rows(model: Path, tmp_path: Path) -> None:
    text = "a,b,t\n1,2,u\n1,2,new\n1,2,\n,2,u\n1,2\n1,x,u\n1,,v\n"
    found, answer = predicted(model, written(tmp_path, text, "new.csv"), tmp_path / "p.csv")
    rows: list[Any] = [{"a": 1, "b": 2, "t": "u"}, {"a": 1, "b": 2, "t": "new"}, {"a": 1, "b": 2}, {"b": 2, "t": "u"}, None, None,
                       {"a": 1, "t": "v"}]  # fmt: skip
    expected = [None if row is None else by_hand(model, row) for row in rows]
    assert [f is None for f in found] == [e is None for e in expected]
    assert [f for f in found if f is not None] == pytest.approx([e for e in expected if e is not None], rel=1e-12)
    assert answer.json["unseen_levels"] == 2  # `new`, and no value where training had none missing
    assert answer.json["unknown_levels"] == {"t": {"new": 1, "__missing__": 1}}
    assert answer.json["bad_rows"] == 2
    said = " ".join(answer.json["warnings"])
    assert "Column 't': 2 rows have a level that the model was not trained with: 'new' (1), no value (1)." in said
    assert "0/1 columns are all 0 there, as if it was 'u'." in said
    assert "level that the model was not trained with" in said
    assert "could not be read" in said


def test_predict_with_dates(tmp_path: Path) -> None:
    days = pd.date_range("2021-01-01 12:30:00", periods=40, freq="D")
    y = np.arange(40) * 2.0 + 1
    path = tmp_path / "dates.csv"
    pd.DataFrame({"day": days.strftime("%Y-%m-%d %H:%M:%S"), "y": y}).to_csv(path, index=False)
    trained(path, "--target", "y", "--out", tmp_path / "m.json")
    found, _ = predicted(tmp_path / "m.json", path, tmp_path / "p.csv")
    assert found == pytest.approx(y.tolist(), rel=1e-6)


def test_values_beyond_those_of_training_are_told(tmp_path: Path) -> None:
    rows = "".join(f"2023-{i % 12 + 1:02d}-{i % 28 + 1:02d},{i % 7},{i % 5},{i + i % 7}\n" for i in range(60))
    model = tmp_path / "model.json"
    trained(written(tmp_path, "day,x,z,y\n" + rows), "--target", "y", "--out", model)

    def warned(*rows: str) -> str:
        file = written(tmp_path, "day,x,z\n" + "".join(f"{row}\n" for row in rows), "new.csv")
        return " ".join(predicted(model, file, tmp_path / "p.csv")[1].json["warnings"])

    assert warned("2023-03-04,6,4", "2023-05-01,8,-1") == ""  # a little beyond is no news
    said = warned("2024-06-30,6,4", "2023-05-01,40,0")
    assert "'day' goes to 2024-06-30; the model has seen 2023-01-01 to 2023-12-24." in said
    assert "'x' goes to 40; the model has seen 0 to 6." in said
    assert "'z'" not in said
    contents = json.loads(model.read_text())
    contents["design"].pop("seen")  # files from before have none
    contents["checksum"] = "none"
    model.write_text(json.dumps(contents))
    assert warned("2024-06-30,6,4") == ""


def test_a_file_may_have_any_number_of_levels_that_the_model_does_not_know(model: Path, tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,t\n" + "".join(f"1,2,n{i}\n" for i in range(6_000)) + "1,2,v\n")
    found, answer = predicted(model, path, tmp_path / "p.csv")
    assert answer.json["unseen_levels"] == 6_000
    assert len(set(found[:-1])) == 1  # none of them has a column of its own
    assert found[-1] == pytest.approx(by_hand(model, {"a": 1.0, "b": 2.0, "t": "v"}), rel=1e-12)


@pytest.mark.parametrize(("text", "words"), [
    ("a,t\n1,u\n", "does not have: b"), ("", "empty"), ("a,b,t\nx,y,z\np,q,r\n", None),
])  # fmt: skip
def test_predict_on_files_that_do_not_fit(text: str, words: str | None, model: Path, tmp_path: Path) -> None:
    answer = shoal("predict", model, written(tmp_path, text, "new.csv"), "--out", tmp_path / "p.csv", "--json")
    assert answer.is_plain(), answer.err
    if words is None:
        assert answer.json["bad_rows"] == answer.json["rows"]
    else:
        assert answer.code == 1
        assert words in answer.err
        assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(("change", "words"), [
    (lambda c: c.update(version=99), "version 99"), (lambda c: c.update(format="x"), "another kind"),
    (lambda c: c.pop("design"), "damaged"), (lambda c: c["coefficients"].pop("a"), "damaged"),
    (lambda c: c["coefficients"].update(a="much"), "damaged"), (lambda c: c["design"]["terms"][0].update(type="x"), "damaged"),
])  # fmt: skip
def test_model_files_that_are_damaged(change: Any, words: str, model: Path, data: Path, tmp_path: Path) -> None:
    contents = json.loads(model.read_text())
    change(contents)
    model.write_text(json.dumps(contents))
    assert words in refused("predict", model, data, "--out", tmp_path / "p.csv")


def test_predictions_appear_whole_or_not_at_all(model: Path, data: Path, tmp_path: Path) -> None:
    assert "Expected to write" in refused("predict", model, data, "--out", model / "p.csv")
    (tmp_path / "dir").mkdir()
    refused("predict", model, data, "--out", tmp_path / "dir")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_threshold_of_our_own_calls_rows_yes_and_odds_ratios_have_intervals(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=200).round(4)
    y = np.where(rng.random(200) < 1 / (1 + np.exp(-x)), "ja", "nein")
    data, model, out = tmp_path / "t.csv", tmp_path / "m.json", tmp_path / "p.csv"
    pd.DataFrame({"x": x, "y": y}).to_csv(data, index=False)
    told = shoal("train", data, "--target", "y", "--model", "logistic", "--out", model)
    own = json.loads(model.read_text())["inference"]["coefficients"]["x"]
    line = next(line for line in told.out.splitlines() if line.startswith("x "))
    assert [float(cell) for cell in line.split()[-3:]] == pytest.approx(
        [math.exp(own[end]) for end in ("estimate", "low", "high")], rel=1e-3
    )
    assert "odds ratio, low" in told.out
    found = shoal("predict", model, data, "--out", out, "--threshold", "0.3", "--json")
    assert json.loads(found.out)["threshold"] == 0.3
    table = pd.read_csv(out)
    assert ((table["probability_ja"] >= 0.3) == (table["prediction"] == "ja")).all()
    assert ((table["probability_ja"] >= 0.5) != (table["prediction"] == "ja")).any()
    assert "from a probability of 0.3 on" in shoal("predict", model, data, "--out", out, "--threshold", "0.3").out
    assert "from 0 to 1" in refused("predict", model, data, "--out", out, "--threshold", "30")
    fitted = shoal_model(model)
    assert list(fitted.predict(str(data), threshold=0.3)) == table["prediction"].tolist()
    assert list(fitted.predict(pd.read_csv(data), threshold=1.0)) == ["nein"] * 200
    assert fitted.predict_to(data, tmp_path / "q.csv", threshold=0.3)["threshold"] == 0.3
    assert (tmp_path / "q.csv").read_text() == out.read_text()


def test_sets_of_values_hold_as_many_new_rows_as_they_say(tmp_path: Path) -> None:
    rng = np.random.default_rng(21)
    x = rng.normal(size=6000).round(4)
    y = np.where(rng.random(6000) < 1 / (1 + np.exp(-2 * x)), "ja", "nein")
    data, new, model, out = (tmp_path / name for name in ("t.csv", "new.csv", "m.json", "p.csv"))
    pd.DataFrame({"x": x[:3000], "y": y[:3000]}).to_csv(data, index=False)
    pd.DataFrame({"x": x[3000:]}).to_csv(new, index=False)
    trained(data, "--target", "y", "--model", "logistic", "--test-every", "3", "--out", model)
    told = shoal("predict", model, new, "--out", out, "--interval", "0.9")
    assert "with sets that hold 90 %" in told.out
    found = pd.read_csv(out)
    assert set(found["set"]) == {"ja", "nein", "nein|ja"}
    inside = [true in own.split("|") for true, own in zip(y[3000:], found["set"], strict=True)]
    assert 0.87 < np.mean(inside) < 0.93
    calls, sets = shoal_model(model).predict(new, interval=0.9)
    assert ["|".join(own) for own in sets] == found["set"].tolist()
    assert list(calls) == found["prediction"].tolist()
    assert "both values where the likelier has" in shoal("explain", model).out
    trained(data, "--target", "y", "--model", "logistic", "--out", model)
    assert "Train the model again with some rows kept" in refused(
        "predict", model, new, "--out", out, "--interval", "0.9"
    )


def test_a_file_is_read_in_the_encoding_that_was_said_for_training(tmp_path: Path) -> None:
    """Windows-1252, of which a few rows look as well like the letters of Central Europe."""
    random = np.random.default_rng(3)
    table = pd.DataFrame({"Gas (m³)": random.integers(1, 99, 40), "Größe": random.integers(1, 9, 40)})
    table["y"] = 2 * table["Gas (m³)"] - table["Größe"]
    paths = [tmp_path / name for name in ("table.csv", "new.csv", "utf8.csv")]
    for path, encoding in zip(paths, ("cp1252", "cp1252", "utf-8"), strict=True):
        path.write_bytes(table.to_csv(index=False).encode(encoding))
    model, out = tmp_path / "model.json", tmp_path / "out.csv"
    trained(paths[0], "--target", "y", "--encoding", "cp1252", "--out", model)
    for path in paths[1:]:
        assert shoal("predict", model, path, "--out", out).code == 0
        np.testing.assert_allclose(pd.read_csv(out)["prediction"], table["y"], atol=1e-9)


@pytest.mark.parametrize("flags", [(), ("--like-file",)])
def test_cells_that_are_kept_are_read_in_that_encoding_too(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Words that look like Western ones, so that nothing but what was said in training tells better."""
    lines = ["Šifra;x;y", *(f"Jonas è {i};{i % 7};{2 * (i % 7) + 1}" for i in range(40))]
    file, model, out = tmp_path / "in.csv", tmp_path / "m.json", tmp_path / "p.csv"
    file.write_bytes("\n".join(lines).replace("è", "č").encode("cp1257"))
    trained(file, "--target", "y", "--exclude", "Šifra", "--encoding", "cp1257", "--out", model)
    answer = shoal("predict", model, file, "--keep", "all", *flags, "--out", out)
    assert (answer.code, answer.err) == (0, "")
    found = pd.read_csv(out, sep=";" if flags else ",", encoding="cp1257" if flags else "utf-8")
    assert (found.columns[0], found["Šifra"][3]) == ("Šifra", "Jonas č 3")


def test_predictions_are_written_like_the_file_if_that_is_asked_for(tmp_path: Path) -> None:
    rows = [f"{i};{i},5;{'Köln' if i % 3 else 'Bonn'};{2 * i},25" for i in range(40)]
    file = tmp_path / "in.csv"
    file.write_bytes("\n".join(["id;x;Straße;y", *rows]).encode("cp1252"))
    model, out = tmp_path / "m.json", tmp_path / "p.csv"
    trained(file, "--target", "y", "--exclude", "id", "--out", model)
    answer = shoal("predict", model, file, "--keep", "all", "--like-file", "--out", out)
    assert (answer.code, answer.err) == (0, "")
    found = pd.read_csv(out, sep=";", decimal=",", encoding="cp1252")
    assert list(found.columns) == ["id", "x", "Straße", "y", "prediction"]
    np.testing.assert_allclose(found["prediction"], found["y"], rtol=1e-9, atol=1e-9)
    assert list(found["Straße"].unique()) == ["Bonn", "Köln"]


def test_a_decimal_mark_that_only_numbers_with_units_have_is_the_files(tmp_path: Path) -> None:
    lines = [f"{i};{i % 7},{i % 10} kg;{3 * (i % 7)},5" for i in range(60)]
    (tmp_path / "old.csv").write_text("\n".join(["no;mass;y", *lines]))
    (tmp_path / "new.csv").write_text("\n".join(["no;mass;y", *(f"{line.rpartition(';')[0]};" for line in lines)]))
    model, out = tmp_path / "m.json", tmp_path / "p.csv"
    trained(tmp_path / "old.csv", "--target", "y", "--exclude", "no", "--out", model)
    assert shoal("predict", model, tmp_path / "new.csv", "--keep", "no", "--like-file", "--out", out).code == 0
    found, usual = pd.read_csv(out, sep=";", decimal=","), tmp_path / "usual.csv"
    shoal("predict", model, tmp_path / "new.csv", "--keep", "no", "--out", usual)
    np.testing.assert_array_equal(found["prediction"], pd.read_csv(usual)["prediction"])


def test_a_file_without_the_models_dates_is_told_so(tmp_path: Path) -> None:
    lines = [f"{1 + i % 28:02d}.{1 + i % 12:02d}.2021;{i};{2 * i}" for i in range(60)]
    (tmp_path / "old.csv").write_text("\n".join(["Datum;x;y", *lines]))
    (tmp_path / "new.csv").write_text("\n".join(["x;y", *(line.partition(";")[2] for line in lines)]))
    trained(tmp_path / "old.csv", "--target", "y", "--out", tmp_path / "m.json")
    said = refused("predict", tmp_path / "m.json", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert "The model needs columns that the file does not have: Datum" in said


def test_percent_for_a_level_is_told(model: Path, data: Path, tmp_path: Path) -> None:
    assert "Did you mean 0.9?" in refused("predict", model, data, "--interval", "90", "--out", tmp_path / "p.csv")
