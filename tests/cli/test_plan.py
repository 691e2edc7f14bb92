"""`shoal plan` in the terminal: tables, JSON and CSV of one plan."""

from __future__ import annotations

import csv
import io
import json

import pytest

from shoal.cli.app import main

FEW = ["--nodes", "1,2", "--modes", "sync", "--compressions", "none"]


def test_a_shape_is_planned_for_as_a_table_with_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "50000x3", *FEW]) == 0
    said = capsys.readouterr().out
    assert "50,000 x 3: 50,000 rows, 3 weights to fit" in said
    assert "Where more nodes do not help any more" in said
    assert "exact" in said
    assert "sync" in said


def test_json_and_csv_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "50000x3", *FEW, "--json", "--out", "-"]) == 0
    out, beside = capsys.readouterr()
    found = json.loads(beside)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["way"], int(row["nodes"])) for row in rows] == [("exact", 1), ("sync", 1), ("exact", 2), ("sync", 2)]
    assert [float(row["total"]) for row in rows] == [way["total"] for way in found["ways"]]
    assert {one["way"] for one in found["best"]} == {"exact", "sync"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--modes", "quick"], "Expected modes out of sync, ssp, async, local"),
        (["--network", "fast"], "10Gbit,0.5ms"),
        (["--nodes", "many"], "1,2,4"),
    ],
)
def test_what_cannot_be_planned_is_told(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "50000x3", *flags]) == 1
    assert said in capsys.readouterr().err
