"""The Export tab with real processes behind it, without a browser: proofs, downloads, refusals, the report."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import psutil
import pytest
import skops.io
from streamlit.testing.v1 import AppTest

import shoal.exports.names
from shoal.dashboard.http.download_route import export_of
from shoal.dashboard.models import export as export_view
from shoal.dashboard.models import export_words
from shoal.dashboard.tables.samples import SAMPLES
from shoal.files import model_names
from shoal.fitting.model_file import load_model, model_from
from shoal.home import jobs_directory
from shoal.library import saved_models
from shoal.library.saved_models import Version
from shoal.runs.launch import Run, launch
from shoal.settings.values import config_from
from shoal.tasks.explain_row import explain, typical_row
from support.pages import checked, open_page, said, scrolled, settle
from support.processes import command_of
from support.runs import ended, run_home

NAME = "penguins-body_mass_g"
TITLES = [title for title, _ in export_words.FORMATS.values()]


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with a model; a test that changes it takes a copy of the model."""
    with pytest.MonkeyPatch.context() as patch, run_home(tmp_path_factory.mktemp("home"), patch) as found:
        file = str(SAMPLES["penguins"].ensure())
        knobs = {"model": "ridge", "alpha": 5.0, "test_every": 5, "register": NAME}
        run = launch(config_from({"file": file, "target": "body_mass_g", **knobs}))
        assert ended(run) == "finished"
        yield found


@pytest.fixture
def copy(request: pytest.FixtureRequest) -> Version:
    name = model_names.safe_name(request.node.name)[:60]
    return saved_models.copy_version(Version(NAME, 1), name)


def exported(name: str = NAME) -> AppTest:
    return done(open_page("models", model=name, view="Export"))


def done(page: AppTest) -> AppTest:
    """Drawn with the answers of its processes, which take a while to end with all that they have imported."""
    page = settle(page, 60)
    jobs = [child for child in psutil.Process().children() if "shoal.processes.run" in command_of(child)]
    psutil.wait_procs(jobs, timeout=30)
    return page


def downloads(page: AppTest) -> list[str]:
    return [button.proto.label for button in page.get("download_button")]


def job(task: str, name: str = NAME) -> Run:
    """The newest job of a model."""
    model = str(Version(name, 1).model_path)
    runs = [run for run in map(Run, (jobs_directory() / task).iterdir()) if run.job["model"] == model]
    return max(runs, key=lambda run: run.directory.stat().st_ctime)


def changed(version: Version, columns: list[str], **more: Any) -> None:
    """The version becomes another model: a sum of these columns."""
    contents = version.contents
    contents["design"] = {"terms": [{"type": "number", "column": n, "fill": 1.5} for n in columns], "known_levels": {}}
    weights = {name: float(i + 1) for i, name in enumerate(columns)}
    contents |= {"coefficients": weights, "coefficients_standardized": weights, "inference": None, **more}
    version.model_path.write_text(json.dumps(contents))


def test_every_format_is_proven_and_offered() -> None:
    page = exported()
    assert downloads(page) == [*(f"Download {title}" for title in TITLES), "Download report"]
    result = job("export").result
    assert result is not None
    text = said(page)
    for to, found in result["formats"].items():
        proof = found["proof"]
        assert (proof["rows"], found["bytes"]) == (1000, (job("export").directory / found["file"]).stat().st_size)
        assert 0 < proof["largest_relative"] < 1e-14, to
        assert 500 < proof["rows_with_gaps"] < 1000
        assert 200 < proof["rows_with_unseen"] < 1000
        assert export_words.proven(proof) in text
    assert "Not offered" not in text
    sql, python = scrolled(page)
    assert sql == (job("export").directory / "export.sql").read_text()
    assert python == (job("export").directory / "export.py").read_text()
    assert [w.label for w in page.button if "again" in (w.key or "")] == []


def test_counts_of_the_proof_are_those_of_its_rows() -> None:
    from shoal.exports.proof import prove
    from shoal.exports.python_function import FORMAT
    from shoal.exports.trial_rows import trial_rows

    model = load_model(Version(NAME, 1).model_path)
    frame = pd.DataFrame(trial_rows(model)[0])
    unseen = np.zeros(len(frame), bool)
    for column, known in model.encoding.known.items():
        unseen |= (frame[column].notna() & ~frame[column].isin(known)).to_numpy()
    out = Version(NAME, 1).directory / "m.py"
    FORMAT.write(model, out)
    proof = prove(FORMAT, out, model)
    assert proof.rows_with_gaps == frame.isna().any(axis=1).sum()
    assert proof.rows_with_unseen == unseen.sum()


def test_the_examples_work_as_they_are_written(tmp_path: Path) -> None:
    """Each is run by a fresh interpreter or shell in a folder with nothing but the download."""
    exported()
    version, found = Version(NAME, 1), job("export").result
    assert found is not None
    model, folder = load_model(version.model_path), tmp_path / "downloads"
    folder.mkdir()
    examples = {}
    for to, entry in found["formats"].items():
        name = export_words.file_name(version.name, 1, to, entry["file"])
        shutil.copy(job("export").directory / entry["file"], folder / name)
        examples[to] = export_words.example(to, name, model)
    row = typical_row(model.encoding)
    wanted = explain(model, row).prediction
    frame = pd.DataFrame([row])
    frame.to_csv(folder / "data.csv", index=False)

    code = examples["python"].replace("\npredict(", "\nprint(predict(") + ")"
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.')\n{code}"], cwd=folder,
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert float(done.stdout) == pytest.approx(wanted, rel=1e-12)

    columns = list(row)
    here = os.getcwd()
    os.chdir(folder)
    try:
        text = {n: frame[n].astype(object if isinstance(row[n], str) else float) for n in columns}
        space: dict[str, Any] = {"skops": skops, "onnxruntime": onnxruntime, "frame": pd.DataFrame(text)}
        first, second = examples["sklearn"].splitlines()
        exec(f"{first}\nfound = {second}", space)
        assert space["found"] == pytest.approx([wanted], rel=1e-12)
        *lines, last = examples["onnx"].splitlines()
        exec("\n".join([*lines, f"found = {last}"]), space)
        assert space["found"][0].ravel() == pytest.approx([wanted], rel=1e-12)
    finally:
        os.chdir(here)

    command = examples["json"].replace("shoal ", f"{sys.executable} -m shoal.cli.app ", 1)
    subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True)
    assert float((folder / "predictions.csv").read_text().split(",")[-1]) == pytest.approx(wanted, rel=1e-12)
    assert examples["sql"] == "sqlite3 data.db '.read penguins-body_mass_g-v1.sql'"


def test_names_of_downloads() -> None:
    assert export_words.file_name("a-b", 2, "python", "export.py") == "a_b_v2.py"
    assert export_words.file_name("3x", 1, "python", "export.py") == "_3x_v1.py"
    assert export_words.file_name("größe", 1, "python", "export.py").isascii()
    assert export_words.file_name("a-b", 2, "json", "export.export.json") == "a-b-v2.json"
    assert export_words.file_name("a.b", 2, "sklearn", "export.skops") == "a.b-v2.skops"
    assert list(export_words.FORMATS) == list(shoal.exports.names.FORMATS) == list(export_words.MIME)


def test_a_difference_of_zero_is_said_as_such() -> None:
    proof = {"rows": 1, "largest_difference": 0.0, "largest_relative": 0.0, "rows_with_gaps": 1, "rows_with_unseen": 0}
    assert export_words.proven(proof) == (
        "Proven on 1 row, 1 of them with missing values. Every prediction is the same to the last bit."
    )
    assert "0, relative 2 × 10⁻¹⁶" in export_words.difference(
        {"largest_difference": 0.0, "largest_relative": 2e-16}
    ).replace("\N{NO-BREAK SPACE}", " ")


def test_what_is_refused_has_a_sentence_and_no_download(copy: Version) -> None:
    """Columns that differ in case only: SQLite cannot tell them apart; the other formats can."""
    first = export_view.identity(copy)
    changed(copy, ["a", "A"])
    assert export_view.identity(copy) != first, "another model under the same name"
    page = exported(copy.name)
    assert downloads(page) == [f"Download {title}" for title in TITLES if title != "SQL"] + ["Download report"]
    assert "Not offered" in said(page)
    assert "SQLite cannot run the SELECT of this model" in said(page)
    assert [w.key for w in page.button if w.key == "export:again"]


def test_a_package_that_is_missing_is_named_and_looked_for_again(
    copy: Version, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that the page starts cannot import skops."""
    (tmp_path / "skops").mkdir()
    (tmp_path / "skops" / "__init__.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    changed(copy, ["a"])
    page = exported(copy.name)
    assert "Download scikit-learn" not in downloads(page)
    assert len(downloads(page)) == len(TITLES)
    assert "Expected the package skops" in said(page)
    assert f"{sys.executable} -m pip install skops" in said(page)
    # By its time: the inode of a file that was removed is soon given to another one.
    before = (job("export", copy.name).directory / "result.json").stat().st_mtime_ns
    next(w for w in page.button if w.key == "export:again").click()
    done(checked(page.run()))
    assert (job("export", copy.name).directory / "result.json").stat().st_mtime_ns > before


def test_what_is_not_proven_is_not_offered() -> None:
    """The proof is what decides: a result without one has no button, whatever else it says."""
    exported()
    path = job("export").directory / "result.json"
    whole = path.read_text()
    result = json.loads(whole)
    del result["formats"]["onnx"]["proof"], result["checksum"]
    path.write_text(json.dumps(result))
    try:
        page = exported()
        assert "Download ONNX" not in downloads(page)
        assert "Not offered" in said(page)
    finally:
        path.write_text(whole)


def test_the_report_is_made_and_says_what_is_missing() -> None:
    exported()
    result = job("report").result
    assert result is not None
    assert result["notes"] == []
    text = (job("report").directory / "report.html").read_text()
    assert "Ridge model of body_mass_g" in text
    assert Version(NAME, 1).card.run in text
    file = Path(Version(NAME, 1).contents["config"]["file"])
    away = file.rename(file.with_suffix(".away"))
    try:
        page = exported()
        assert "Download report" in downloads(page)
        assert "is not where it was" in said(page)
    finally:
        away.rename(file)


def test_a_large_file_is_read_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    saved_models.write_note(Version(NAME, 1), "a report is made anew for it")
    monkeypatch.setattr(export_view, "SMALL_FILE", 1000)
    page = exported()
    assert "It goes over all rows of penguins.csv" in said(page)
    assert downloads(page) == [f"Download {title}" for title in TITLES]
    next(w for w in page.button if w.label == "Make the report").click()
    assert "Download report" in downloads(done(checked(page.run())))


def test_large_downloads_come_from_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    exported()
    monkeypatch.setattr(export_view, "SMALL_DOWNLOAD", 10)
    page = checked(open_page("models", model=NAME, view="Export"))
    assert downloads(page) == []
    links = [link.proto.url for link in page.get("link_button")]
    assert len(links) == len(TITLES) + 1
    for link in links:
        task, id_, file = link.split("/")[1:]
        assert export_of(id_, file) == jobs_directory() / task / id_ / file
    for wrong in (
        ("x", "export.sql"),
        ("0" * 24, "export.sql"),
        (id_, "result.json"),
        ("../" * 8, "export.sql"),
        (id_, "../job.json"),
    ):
        assert export_of(*wrong) is None


def test_hostile_columns_are_literal(copy: Version) -> None:
    name = "<img src=x onerror=alert(1)> $x$ **b** :smile:"
    changed(copy, [name], target="<b>")
    page = exported(copy.name)
    assert "<img" not in said(page)
    assert any(name in text for text in scrolled(page))
    assert len(downloads(page)) == len(TITLES) + 1


def test_a_damaged_model_says_so(copy: Version) -> None:
    path = copy.model_path
    contents = json.loads(path.read_text())
    del contents["design"]
    contents["checksum"] = "none"  # by a hand that meant it
    path.write_text(json.dumps(contents))
    page = open_page("models", model=copy.name, view="Export")
    assert "This version cannot be read" in said(page)
    assert "'design' should be an object" in said(page).replace("&#x27;", "'")


def test_proofs_hold_for_the_numbers_of_this_model() -> None:
    """The SQL that the page offers, run here, against the model's own sum."""
    import sqlite3

    exported()
    model = model_from(saved_models.find_model(NAME).latest.contents)  # type: ignore[union-attr]
    rows = pd.read_csv(Path(model.file.config["file"]))
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        rows.to_sql("penguins", connection, index=False)
        found = [row[-1] for row in connection.execute((job("export").directory / "export.sql").read_text())]
    names = [*model.numbers, *model.texts]
    for row, value in zip(rows[names].to_dict("records"), found, strict=True):
        given = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
        assert value == pytest.approx(explain(model, given).prediction, rel=1e-11)
