"""The Tune page without a browser: its states, its address, and what is trained from it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from shoal.dashboard.tables.samples import SAMPLES
from shoal.dashboard.tune import studies
from shoal.dashboard.tune.form import StudyChoice
from shoal.dashboard.tune.state import TuneState, run_config
from shoal.errors import ConfigError
from shoal.home import jobs_directory
from shoal.runs.launch import Run, launch, launch_job
from shoal.settings.values import config_from
from support.dashboard.studies import HOSTILE, table, tune
from support.harm.damage import flip
from support.pages import open_page, said, settle, widget
from support.runs import ended


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture
def tuned(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of several tests, none of which damages what is in it: the usual study of the penguins is made once."""
    monkeypatch.setenv("SHOAL_HOME", str(place))


# ------------------------------------------------------------------ addresses and settings


def test_squares_and_interactions_go_with_their_columns(home: Path) -> None:
    frame = table().rename(columns={HOSTILE: "b:d"})
    frame.assign(y2=frame.y**2).to_csv(home / "table.csv", index=False)
    products = {"squares": ["a", "c"], "interactions": ["a:c", "c:y2", '"b:d":y2']}
    config = config_from({"file": str(home / "table.csv"), "target": "y", **products})
    study = launch_job("study", config, {"folds": 5, "fold_by": "row"})
    assert ended(study) == "finished", study.error
    whatif = studies.opened(study.directory.name).whatif
    for state, squares, interactions in (
        (TuneState(out=("c",)), ("a",), ('"b:d":y2',)),
        (TuneState(predict="a"), ("c",), ("c:y2", '"b:d":y2')),
        (TuneState(predict="c", out=("y", "y2")), ("a",), ()),
    ):
        question = state.question(whatif)
        made = run_config(study, state.settings(question, 0.5))
        assert (made.squares, made.interactions) == (squares, interactions)
        run = launch(made)
        assert ended(run) == "finished", run.error
        terms = whatif.setting(question).encoding.terms
        assert set((run.result or {})["coefficients"]) == {term.name for term in terms}


def test_the_choice_of_folds_survives_the_address() -> None:
    choice = StudyChoice(4, "group:a:b", {"impute": "mean", "squares": ["a"]})
    assert StudyChoice.parse(choice.text() or "") == choice
    assert StudyChoice(10, "row", {"impute": "median"}).text() is None
    usual = StudyChoice.usual(500)  # with rows to test on, as Train has them
    assert (usual.fold_by, usual.knobs, usual.text(500)) == ("hash", {"test_every": 5}, None)
    assert StudyChoice.parse("{}", 500) == usual
    without = StudyChoice(10, "hash", {"test_every": 0})
    assert without.text(500) == '{"test_every":0}'
    assert StudyChoice.parse('{"test_every":0}', 500) == without
    for text in ("", "[]", "{", '{"folds": 1}', '{"fold_by": "moon"}', '{"impute": "magic"}', '{"folds": "x"}'):
        with pytest.raises(ConfigError):
            StudyChoice.parse(text)
    assert StudyChoice.parse('{"file": "/etc/passwd", "folds": 3}') == StudyChoice(3, "row", {})


# ------------------------------------------------------------------ the page


def test_without_a_table_it_offers_some(home: Path) -> None:
    page = open_page("tune")
    assert page.title[0].value == "Tune a model"
    assert "No table yet" in [found.value for found in page.header]
    assert {sample.title for sample in SAMPLES.values()} <= {button.label for button in page.button}
    assert "Choose data" in {link.proto.label for link in page.get("page_link")}


def test_a_table_that_is_gone_is_said(home: Path) -> None:
    page = open_page("tune", data="0" * 12)
    assert "not on this machine" in said(page)


def test_a_sample_is_tuned_at_once(home: Path) -> None:
    page = settle(open_page("tune", data="penguins"))
    assert "Tune on Palmer penguins" in said(page)
    assert "10 folds by hash" in said(page)
    assert "one row in 5 kept for testing" in said(page)
    jobs = [Run(path) for path in (jobs_directory() / "study").iterdir()]
    assert [job.job["folds"] for job in jobs] == [10]
    assert jobs[0].config["file"] == str(SAMPLES["penguins"].ensure())
    assert studies.opened(jobs[0].directory.name).whatif.cells.base.target == "body_mass_g"
    said_of_levels = "Levels of text columns are compared with species: Adelie, island: Biscoe, sex: female."
    assert tune(jobs[0])["compared"] == said_of_levels


def test_damaged_sums_are_made_again_and_it_is_said_once(home: Path) -> None:
    settle(open_page("tune", data="penguins"))
    (job,) = (jobs_directory() / "study").iterdir()
    kept = (job / "cell_scatters.npy").read_bytes()
    flip(job / "cell_scatters.npy", random.Random(1))
    studies.forget(job.name)  # as another server would
    page = settle(open_page("tune", data="penguins"))
    assert "damaged on the disk and have been made again" in said(page)
    assert (job / "cell_scatters.npy").read_bytes() == kept
    assert "made again" not in said(settle(open_page("tune", data="penguins")))  # only where it happened


@pytest.mark.usefixtures("tuned")
def test_another_way_of_testing_is_another_study() -> None:
    page = settle(open_page("tune", data="penguins"))
    widget(page, "number_input", "Folds").set_value(4)
    page = page.run()
    assert not page.button(key="tune:apply").disabled
    page = settle(page.button(key="tune:apply").click().run())
    assert json.loads(page.query_params["study"]) == {"folds": 4}
    assert "4 folds by hash" in said(page)
    assert {Run(path).job["folds"] for path in (jobs_directory() / "study").iterdir()} >= {4, 10}


def test_a_study_that_fails_says_why_keeps_the_form_and_can_be_made_again(home: Path) -> None:
    address = {"data": "penguins", "study": json.dumps({"fold_by": "group:sex", "folds": 9})}
    page = settle(open_page("tune", **address))
    assert "Expected at least 9 groups in column" in said(page)
    assert page.button(key="tune:apply")
    (failed,) = (jobs_directory() / "study").iterdir()
    before = (failed / "error.json").stat().st_mtime_ns
    page = settle(page.button(key="tune:again").click().run())
    assert "Expected at least 9 groups in column" in said(page)
    assert (failed / "error.json").stat().st_mtime_ns != before


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize(
    ("asked", "word"),
    [('{"folds":1}', "at least 2 folds"), ("nonsense", "cannot be understood"), ('{"impute":"moon"}', "impute")],
)
def test_an_address_that_cannot_be_followed_is_said(asked: str, word: str) -> None:
    page = settle(open_page("tune", data="penguins", study=asked))
    assert word in said(page)
    assert "The usual preparation is shown." in said(page)


@pytest.mark.usefixtures("tuned")
def test_a_product_that_cannot_be_is_said_and_not_applied() -> None:
    page = settle(open_page("tune", data="penguins", study=json.dumps({"interactions": ["year:moon"]})))
    assert "year:moon" in said(page)
    assert page.button(key="tune:apply").disabled
