"""Several files as one table on the command line: names, patterns, folders and lists, and what is written beside them."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import pytest
import yaml

from shoal.files.parts import joined, natural, title
from shoal.settings.text import as_yaml, command_line, from_yaml
from shoal.settings.values import config_from
from support.cli import refused, shoal, trained


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    folder = tmp_path / "here"
    (folder / "p").mkdir(parents=True)
    monkeypatch.chdir(folder)
    for number in range(11):
        rows = (f"{number}-{i},{i + number},{2 * (i + number) + i % 2}\n" for i in range(6))
        (folder / "p" / f"part-{number}.csv").write_text("id,a,y\n" + "".join(rows))
    (folder / "p" / "part-3.csv").write_text("y,id,a\n7,3-0,3\n9,3-1,4\n")
    return folder


def test_all_ways_to_name_them_are_one_table(here: Path) -> None:
    names = [f"p/part-{number}.csv" for number in (0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9)]  # as a shell puts them
    (here / "run.yaml").write_text(yaml.safe_dump({"file": sorted(names, key=natural), "target": "y"}))
    found = [trained(*ways, "--target", "y", "--exclude", "id", "--out", "model.json") for ways in
             (names, ["p/part-*.csv"], ["p"], ["--config", "run.yaml"])]  # fmt: skip
    assert all(one["coefficients"] == found[0]["coefficients"] and one["rows_read"] == 62 for one in found)
    data = json.loads((here / "model.json").read_text())["data"]
    assert data["file"] == "part-0.csv and 10 more"
    assert [part["file"] for part in data["parts"]] == [f"part-{number}.csv" for number in range(11)]
    assert data["parts"][3]["rows"] == 2


def test_predictions_stand_beside_the_rows_of_their_part(here: Path) -> None:
    trained("p", "--target", "y", "--exclude", "id", "--out", "model.json")
    answer = shoal("predict", "model.json", "p", "--out", "out.csv", "--keep", "id,y", "--json")
    assert (answer.code, answer.json["rows"]) == (0, 62)
    with (here / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows[18:22]] == ["3-0", "3-1", "4-0", "4-1"]
    assert all(abs(float(row["prediction"]) - float(row["y"])) < 2 for row in rows)
    (here / "p" / "part-5.csv").write_text("id,y\n5-0,7\n")
    assert "'part-5.csv' does not have: a" in refused("predict", "model.json", "p", "--out", "out.csv")


def test_what_is_written_never_becomes_a_part(here: Path) -> None:
    trained("p", "--target", "y", "--exclude", "id", "--out", "p/model.json")  # is none by its name
    for out in ("p/predictions.csv", "p/part-new.csv"):
        said = refused("predict", "p/model.json", "p", "--out", out)
        assert "would be one of the files of 'p' the next time" in said
    assert "would be one of" in refused("predict", "p/model.json", "p/part-*.csv", "--out", "p/part-new.csv")
    assert "writing there would destroy it" in refused("predict", "p/model.json", "p", "--out", "p/part-2.csv")
    assert shoal("predict", "p/model.json", "p/part-*.csv", "--out", "p/other.csv").code == 0


def test_other_commands_take_them_too(here: Path) -> None:
    assert "62 rows, 3 columns" in shoal("inspect", "p/part-*.csv").out
    tuned = shoal("tune", *(f"p/part-{n}.csv" for n in range(11)), "--target", "y", "--model", "ridge",
                  "--exclude", "id", "--folds", "3", "--out", "tuned.json", "--json")  # fmt: skip
    assert tuned.code == 0, tuned.err
    explained = shoal("explain", "tuned.json", "--resamples", "20", "--json")
    assert explained.code == 0, explained.err
    exported = shoal("export", "tuned.json", "--to", "report", "--out", "report.html")
    assert exported.code == 0, exported.err
    assert "part-0.csv and 10 more" in (here / "report.html").read_text()


def test_settings_name_them_as_people_do() -> None:
    config = config_from({"file": ["a-2.csv", "a-10.csv"], "target": "y"})
    assert config.file == joined(["a-2.csv", "a-10.csv"])
    text = as_yaml(config)
    assert yaml.safe_load(text)["file"] == ["a-2.csv", "a-10.csv"]
    assert config_from(from_yaml(text)) == config
    assert shlex.split(command_line(config) or "")[:4] == ["shoal", "train", "a-2.csv", "a-10.csv"]
    assert command_line(config_from({"file": ["b.csv", "a.csv"], "target": "y"})) is None  # in another order
    assert title("/x/part-*.csv") == "part-*.csv"
    assert title(joined(["/x/a.csv", "/x/b.csv"])) == "a.csv and 1 more"
