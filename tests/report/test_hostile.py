"""Reports of hostile names and files, without data, of too much data, and on a full disk."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from shoal.exports import report
from shoal.fitting.model_file import model_from
from shoal.report.evidence import gathered
from shoal.report.page import html
from shoal.results.card import ModelCard
from shoal.results.model import ModelFile
from support.report import Made, harmless, plain
from support.tables import mounted
from support.tables import shoal as command

# ------------------------------------------------------------------ what may be wrong


HOSTILE = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;b&gt;", "' onload='x", '" onload="x', "</title><b>",
           "</style><i>", "--><script>x</script>", "]]>", "a\x00b\x07", "ünï 🐟", "javascript:alert(1)", "x" * 300]  # fmt: skip


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    names = [name for name in HOSTILE if "\x00" not in name]
    frame = pd.DataFrame(random.normal(size=(120, len(names))), columns=names)
    frame["<u>level</u>"] = random.choice(names, 120)
    frame["</h1><script>y"] = frame[names[0]] + random.normal(size=120)
    made = Made(tmp_path, frame, "</h1><script>y", {"model": "ridge", "alpha": 1.0})
    page = made.report()
    for name in names:
        assert name in page.rows("Coefficients")
        assert f"<u>level</u>={name}" in made.contents["coefficients"] or name == min(names)
    assert page.text.strip().startswith("Ridge model of </h1><script>y\n")


def test_hostile_model_files_stay_text(tmp_path: Path) -> None:
    """Texts that no table could hold, and a file that says little."""
    terms = [{"type": "number", "column": name, "fill": 0.0} for name in HOSTILE]
    contents = {
        "format": "shoal-model", "version": 1, "model": "<b>kind</b>", "target": "</title><script>x</script>",
        "intercept": 1.0, "coefficients": dict.fromkeys(HOSTILE, 2.0), "alpha": None,
        "coefficients_standardized": dict.fromkeys(HOSTILE, 2.0),
        "design": {"terms": terms, "known_levels": {}}, "train": {"rows": 3}, "warnings": ["<i>note</i>"],
        "rows_dropped": {"<u>": 2}, "config": {"file": "<a href=x>.csv", "<knob>": "<value>"},
        "data": {"file": "<p>", "rows": 3, "content": "<q>"}, "certificate": None, "inference": None,
    }  # fmt: skip
    notes = report(ModelFile.from_dict(contents), tmp_path / "m.html")
    page = harmless((tmp_path / "m.html").read_text("utf-8"))
    assert page.notes[:1] == list(notes)
    assert page.notes[1:] == ["<i>note</i>"]
    for word in ("<p>", "<q>", "</title><script>x</script>", "as they <u>"):
        assert word in page.text
    surrogate = {**contents, "target": "bad \udcff name"}
    report(ModelFile.from_dict(surrogate), tmp_path / "s.html")
    assert "bad \\udcff name" in harmless((tmp_path / "s.html").read_text("utf-8")).text


def test_without_its_data_a_report_says_so(make: Callable[..., Made], tmp_path: Path) -> None:
    frame = plain()
    made = Made(tmp_path, frame, "y", {"model": "lasso", "alpha": 0.1})
    whole = made.report()
    made.data.unlink()
    answer = command("export", made.path, "--to", "report", "--out", made.out)
    assert answer.code == 0
    wanted = "This report is without what the rows would say. The file that the model was trained on, table.csv, is not where it was."
    assert answer.out == f"written to {made.out}\nnote: {wanted}\n"
    page = harmless(made.out.read_text())
    assert page.notes == [wanted]
    assert not {"Residuals", "The penalty and cross-validation"} & set(page.headings)
    assert page.tables["Coefficients"] == whole.tables["Coefficients"]
    assert page.rows("Data")["a"]["holds"] == "numbers"
    frame.assign(a=frame["a"] + 1).to_csv(made.data, index=False)
    found = command("export", made.path, "--to", "report", "--out", made.out, "--json").json
    assert found["format"] == "report"
    assert found["notes"] == [
        "This report is without what the rows would say. table.csv is not what it was when the model was trained."
    ]
    made.data.write_bytes(b"\x00\x01\x02")
    assert len(command("export", made.path, "--to", "report", "--out", made.out, "--json").json["notes"]) == 1


def test_what_cannot_be_had_is_left_out_and_said(tmp_path: Path) -> None:
    """Too few rows for folds: all else is there."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [1.0, 3.0]})
    page = Made(tmp_path, frame, "y", {"model": "ridge", "alpha": 1.0}).report()
    assert {"Residuals", "Data"} <= set(page.headings)
    constant = pd.DataFrame({"a": np.arange(30.0), "y": 4.0})
    (tmp_path / "c").mkdir()
    page = Made(tmp_path / "c", constant, "y", {"model": "lasso", "alpha": 1.0}).report()
    assert any("no path" in note for note in page.notes)
    assert "Residuals" in page.headings


def test_many_rows_are_sampled_and_many_columns_are_thinned(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    names = [f"x{i}" for i in range(90)]
    frame = pd.DataFrame(random.normal(size=(4000, 90)), columns=names)
    frame["y"] = frame[names] @ random.normal(size=90) + random.normal(size=4000)
    made = Made(tmp_path, frame, "y", {"model": "lasso", "alpha": 0.01})
    page = made.report()
    assert "2,000 of 4,000 rows, a fair sample" in page.text
    assert "The 40 largest of 90; the table has all." in page.text
    assert "The 60 largest are drawn." in page.text
    assert len(page.rows("Coefficients")) == 91
    assert made.out.stat().st_size < 400_000


def test_a_full_disk_is_one_sentence(make: Callable[..., Made], tmp_path: Path) -> None:
    made = make(plain, "y", model="linear")
    with mounted(tmp_path / "disk", 1) as disk:
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass
        for to in ("report", "json"):
            answer = command("export", made.path, "--to", to, "--out", disk / "out")
            assert (answer.code, answer.is_plain()) == (1, True), answer.err
            assert "disk is full" in answer.err
        assert [entry.name for entry in disk.iterdir()] == ["filler"]


# ------------------------------------------------------------------ the drawing itself


def test_numbers_that_are_no_numbers_do_not_stop_a_report(make: Callable[..., Made]) -> None:
    """Where a coefficient is not determined, its interval is unknown."""
    made = make(plain, "y", model="linear")
    contents = json.loads(json.dumps(made.contents))
    contents["inference"]["coefficients"]["a"] |= {
        "std_error": None,
        "t": None,
        "p_value": None,
        "low": None,
        "high": None,
    }
    page = harmless(html(model_from(contents), gathered(model_from(contents)), ModelCard()))
    assert page.rows("Coefficients")["a"]["low"] == ""
