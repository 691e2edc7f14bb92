"""Exports from the command line and from Python."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import shoal
from shoal.exports.base import LinearForm
from shoal.exports.names import FORMATS
from shoal.exports.sql import select
from support.exports import ALL, RUN, generated
from support.tables import Answer
from support.tables import shoal as command


def exported(*arguments: str | Path) -> Answer:
    answer = command("export", *arguments)
    assert (answer.code, answer.err) == (0, ""), answer.err
    return answer


@pytest.mark.parametrize("to", ALL)
def test_command_line(to: str, places: Callable[[str], Path], tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_bytes((places("penguins") / "model.json").read_bytes())
    answer = exported(model, "--to", to)
    out = tmp_path / f"model{FORMATS[to][1]}"
    assert answer.out.splitlines()[0] == f"written to {out}"
    assert "Proven on 1,000 rows" in answer.out
    assert "the largest difference is" in answer.out
    assert out.exists()
    found = exported(model, "--to", to, "--out", tmp_path / "new" / "file", "--json").json
    assert found.keys() == {"format", "out", "proof", "use"}
    assert found["proof"].keys() == {
        "rows", "largest_difference", "largest_relative", "what_was_compared", "rows_with_gaps", "rows_with_unseen",
        "expects",
    }  # fmt: skip
    assert (found["format"], found["out"], found["proof"]["rows"]) == (to, str(tmp_path / "new" / "file"), 1000)
    assert found["proof"]["largest_relative"] < 1e-14
    assert (tmp_path / "new" / "file").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (["MODEL"], "--to"), (["MODEL", "--to", "cobol"], "cobol"), (["--to", "sql"], "MODEL"),
    (["absent.json", "--to", "sql"], "absent.json"), (["MODEL", "--to", "onnx", "--table", "t"], "format sql only"),
    (["MODEL", "--to", "sql", "--out", "MODEL"], "model's own"), (["MODEL", "--to", "sql", "--out", "."], "got the folder"),
    (["no-such-model", "--to", "sql"], "no-such-model"), (["MODEL", "--to", "report", "--table", "t"], "format sql only"),
    (["MODEL", "--to", "report", "--out", "MODEL"], "model's own"), (["MODEL", "--to", "report", "--out", "/proc/x/m.html"], "/proc"),
    (["MODEL", "--to", "sql", "--out", "/proc/x/m.sql"], "/proc"),
])  # fmt: skip
def test_command_line_errors(
    arguments: list[str], words: str, places: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = places("penguins") / "model.json"
    answer = command("export", *[str(path) if a == "MODEL" else a for a in arguments])
    assert (answer.code, answer.out, answer.is_plain()) == (1, "", True), answer.err
    assert words in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("impute", ["mean", "median"])
def test_of_a_fitted_model(impute: str, tmp_path: Path) -> None:
    """One that was never written to a file, so that its numbers may be NumPy's."""
    model = shoal.fit(generated(), "y", model="ridge", alpha=3.0, impute=impute)
    for to in ALL:
        table = {"table": "things"} if to == "sql" else {}
        assert model.export(to, str(tmp_path / f"m.{to}"), **table).largest_relative < 1e-14
        found = RUN[to](tmp_path / f"m.{to}", generated().drop(columns="y"), "things")
        assert np.allclose(found, model.predict(generated()), rtol=0, atol=1e-8)


def test_every_format_has_its_module() -> None:
    for module, _ in FORMATS.values():
        found = importlib.import_module(module).FORMAT
        assert found.use.endswith(".")
        assert found.runtime


def test_a_model_file_cannot_end_the_comment_of_the_sql() -> None:
    form = LinearForm("y\nSELECT 1", "lasso\nWITH q AS (SELECT 1) --", "t.csv", 1.0, (), ())
    head, _, rest = select(form, "t").partition("\nSELECT\n")
    assert all(line.startswith("--") for line in head.splitlines())
    assert "WITH" not in rest


def test_nothing_is_written_over_the_data(tmp_path: Path) -> None:
    data, model = tmp_path / "data.csv", tmp_path / "model.json"
    data.write_text("a,y\n1,2\n2,3\n3,5\n4,6\n")
    assert command("train", data, "--target", "y", "--out", model).code == 0
    before = data.read_bytes()
    for words in (["export", model, "--to", "sql", "--out", data], ["predict", model, data, "--out", data]):
        answer = command(*words)
        assert answer.code == 1
        assert "would destroy it" in answer.err
        assert data.read_bytes() == before


def test_python_takes_names_of_files_as_documented(places: Callable[[str], Path], tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_bytes((places("penguins") / "model.json").read_bytes())
    shoal_exports = importlib.import_module("shoal.exports")
    shoal_exports.report(str(model), str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert shoal_exports.export(str(model), "python", str(tmp_path / "model.py")).rows == 1000
