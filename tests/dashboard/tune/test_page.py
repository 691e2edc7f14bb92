"""The Tune page without a browser: its states, its address, and the route behind the sliders on a real study."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import random
import threading
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.dashboard.tables.samples import SAMPLES
from shoal.dashboard.tune import route as tune_route
from shoal.dashboard.tune import studies
from shoal.dashboard.tune.form import StudyChoice
from shoal.dashboard.tune.state import TuneState, run_config
from shoal.errors import ConfigError
from shoal.home import jobs_directory
from shoal.runs.launch import Run, launch, launch_job
from shoal.settings.values import config_from
from shoal.whatif.answers import WhatIf
from support.harm.damage import flip
from support.pages import open_page, said, settle, widget
from support.runs import ended

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def study(home: Path) -> Run:
    frame = table()
    frame.to_csv(home / "table.csv", index=False)
    config = config_from({"file": str(home / "table.csv"), "target": "y", "test_every": 6})
    run = launch_job("study", config, {"folds": 5, "fold_by": "row"})
    assert ended(run) == "finished", run.error
    return run


def table(rows: int = 180) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal([0, 5, 100], [1, 2, 9], size=(rows, 3)), columns=["a", HOSTILE, "c"])
    frame["y"] = 3 * frame.a - 2 * frame[HOSTILE] + rng.normal(size=rows)
    return frame


def get(path: str, **asked: Any) -> tuple[int, dict[str, Any]]:
    """An answer of the route, through the server's own interface."""
    app = Starlette(routes=tune_route.routes())
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": urlencode(asked).encode(),
        "headers": [], "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert dict(sent[0]["headers"])[b"cache-control"] == b"no-store"
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


def tune(study: Run, part: str = "", **asked: Any) -> dict[str, Any]:
    status, found = get(f"/api/tune/{study.directory.name}{part}", **asked)
    assert (status, found.get("problem")) == (200, None)
    return found


# ------------------------------------------------------------------ the route


def test_a_point_of_the_route_is_scikit_learns_lasso(study: Run) -> None:
    found = tune(study, model="lasso", wait=1)
    curve, point = found["curve"], found["point"]
    assert point["alpha"] == curve["alphas"][curve["best"]]
    frame = table()
    train = frame[np.arange(len(frame)) % 6 != 0]
    for alpha in (point["alpha"], curve["alphas"][30], 0.0123):
        shown = tune(study, model="lasso", alpha=repr(alpha))
        columns = shown["terms"]
        scaler = StandardScaler().fit(train[columns])
        theirs = Lasso(alpha=alpha, tol=1e-14, max_iter=1_000_000).fit(scaler.transform(train[columns]), train["y"])
        np.testing.assert_allclose(shown["point"]["weights"], theirs.coef_, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(shown["point"]["coefficients"], theirs.coef_ / scaler.scale_, rtol=1e-7, atol=1e-9)
        error = ((train["y"] - theirs.predict(scaler.transform(train[columns]))) ** 2).mean()
        assert shown["point"]["train"]["rmse"] == pytest.approx(float(np.sqrt(error)), rel=1e-8)
    path = np.frombuffer(base64.b64decode(curve["path"]), "<f4").reshape(len(curve["alphas"]), -1)
    np.testing.assert_allclose(path[curve["best"]], point["weights"], rtol=1e-6, atol=1e-6)


def test_a_curve_that_the_page_has_is_not_sent_again(study: Run) -> None:
    first = tune(study, wait=1)
    again = tune(study, have=first["key"], alpha="one_se")
    assert "curve" not in again
    assert "terms" not in again
    assert again["point"]["alpha"] == first["curve"]["alphas"][first["curve"]["one_se"]]
    assert again["place"] == first["curve"]["one_se"]
    other = tune(study, have=first["key"], out=json.dumps([HOSTILE]), wait=1)
    assert other["terms"] == ["a", "c"]
    assert "curve" in other


def test_another_target_another_place(study: Run) -> None:
    found = tune(study, predict="a", model="ridge", alpha="place:3")
    assert set(found["terms"]) == {HOSTILE, "c", "y"}
    assert found["place"] == 3
    assert tune(study, predict="a", model="linear")["point"]["alpha"] == 0


def test_importance_and_doubt(study: Run) -> None:
    rises = tune(study, "/worth", alpha="0.05")["rises"]
    assert set(rises) == {"a", HOSTILE, "c"}
    assert rises[HOSTILE] > rises["a"] > abs(rises["c"])
    found = tune(study, "/doubt", alpha="0.05")
    assert found["terms"] == tune(study)["terms"]
    assert len(found["ways"]) == 2
    assert all(way["meaning"] for way in found["ways"])
    for way in found["ways"]:
        assert way["low"][found["terms"].index("a")] < 3 < way["high"][found["terms"].index("a")]
    assert found["selection"]["shares"][found["terms"].index("a")] == 1


def test_a_study_that_is_damaged_while_it_is_open_gives_no_answer(study: Run) -> None:
    tune(study)
    flip(study.directory / "row_Z.npy", random.Random(1))
    for _ in range(2):  # also when it is opened anew
        status, found = get(f"/api/tune/{study.directory.name}/doubt", alpha="0.05")
        assert status == 410
        assert "damaged" in found["problem"]


def test_the_command_means_the_same_model(study: Run) -> None:
    asked = {"model": "elasticnet", "ratio": "0.25", "alpha": "0.0625", "out": '["c"]'}
    train, curve = tune(study, "/command", **asked)["lines"]
    assert train.startswith("shoal train ")
    assert "--alpha 0.0625" in train
    assert "--exclude c" in train
    assert curve.startswith("shoal tune ")
    assert "--folds 5 --fold-by row" in curve
    assert "--alpha" not in curve


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"model": "forest"}, "model"), ({"alpha": "-1"}, "alpha"), ({"alpha": "nan"}, "alpha"), ({"ratio": "2"}, "ratio"),
        ({"out": "{"}, "columns"), ({"out": '["a"'}, "columns"), ({"predict": "nowhere"}, "target"), ({"alpha": "place:x"}, "alpha"),
        ({"out": json.dumps(["a", "c", HOSTILE])}, "at least one column"), ({"alpha": "1e999"}, "alpha"),
        ({"near": "far"}, "alpha"), ({"near": "nan"}, "alpha"), ({"near": "place:x"}, "alpha"),
    ],
)  # fmt: skip
def test_what_cannot_be_gets_one_sentence(
    study: Run, asked: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "near" in asked:
        monkeypatch.setattr(WhatIf, "course", lambda *_: None)  # then the model comes before its curve
    status, found = get(f"/api/tune/{study.directory.name}", **asked)
    assert status == 200
    assert words in found["problem"]
    assert list(found) == ["problem"]


@pytest.mark.parametrize("name", ["0" * 24, "..", "x", "%2e%2e", "result.json"])
def test_no_other_folder_is_opened(study: Run, name: str) -> None:
    for folder in (jobs_directory(), jobs_directory() / "study" / "x"):
        folder.mkdir(exist_ok=True)
        (folder / "result.json").write_text("{}")
    status, found = get(f"/api/tune/{name}")
    assert status == 410
    assert "gone" in found["problem"]


def test_pages_that_wait_for_curves_leave_threads_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser that gives up a wait cannot end its thread, and the server has forty."""
    lock, inside, most, ended_, quick = threading.Lock(), [0], [0], threading.Event(), threading.Event()

    def slowly(part: Any, job: str, asked: Any) -> Response:
        if not asked:
            quick.set()
            return Response("{}")
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        assert ended_.wait(20)
        with lock:
            inside[0] -= 1
        return Response("{}")

    monkeypatch.setattr(tune_route, "_safely", slowly)
    endpoint = next(route for route in tune_route.routes() if isinstance(route, Route)).endpoint

    async def many() -> None:
        scope = {"type": "http", "method": "GET", "path_params": {"job": "x"}, "headers": []}
        waiting = [asyncio.create_task(endpoint(Request({**scope, "query_string": b"wait=1"}))) for _ in range(60)]
        while inside[0] < tune_route.WAITING:
            await asyncio.sleep(0.001)
        await endpoint(Request({**scope, "query_string": b""}))
        ended_.set()
        await asyncio.gather(*waiting)

    asyncio.run(many())
    assert quick.is_set()
    assert most == [tune_route.WAITING]


def test_only_so_many_studies_stay_open(study: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "MOST", 1)
    first = studies.opened(study.directory.name)
    assert studies.opened(study.directory.name) is first
    config = config_from({"file": study.config["file"], "target": "a"})
    other = launch_job("study", config, {"folds": 3, "fold_by": "row"})
    assert ended(other) == "finished"
    studies.opened(other.directory.name)
    assert studies.opened(study.directory.name) is not first


def test_a_study_that_nobody_asks_is_given_back(study: Run) -> None:
    found = studies.opened(study.directory.name)
    held = weakref.ref(found.whatif)
    studies.close_idle(found.asked[0] + studies.IDLE - 1)  # of other tests' studies, perhaps
    assert studies.opened(study.directory.name) is found
    assert studies.close_idle(found.asked[0] + studies.IDLE) >= 1
    del found
    gc.collect()
    assert held() is None  # nothing else keeps its answers
    assert studies.opened(study.directory.name).whatif.targets  # the next question opens it again


# ------------------------------------------------------------------ addresses and settings


def test_a_state_as_settings_of_a_run(study: Run) -> None:
    whatif = studies.opened(study.directory.name).whatif
    state = TuneState.parse({"model": "lasso", "alpha": "0.5", "out": '["c"]', "predict": "a"})
    config = run_config(study, state.settings(state.question(whatif), 0.5))
    assert (config.target, config.model, config.alpha, config.exclude, config.test_every) == (
        "a",
        "lasso",
        0.5,
        ("c",),
        6,
    )
    with pytest.raises(ConfigError):
        TuneState.parse({"alpha": "much"})


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
    assert "10 folds by chance" in said(page)
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


def test_another_way_of_testing_is_another_study(home: Path) -> None:
    page = settle(open_page("tune", data="penguins"))
    widget(page, "number_input", "Folds").set_value(4)
    page = page.run()
    assert not page.button(key="tune:apply").disabled
    page = settle(page.button(key="tune:apply").click().run())
    assert json.loads(page.query_params["study"]) == {"folds": 4}
    assert "4 folds by chance" in said(page)
    assert {Run(path).job["folds"] for path in (jobs_directory() / "study").iterdir()} == {4, 10}


def test_a_study_that_fails_says_why_and_keeps_the_form(home: Path) -> None:
    page = settle(open_page("tune", data="penguins", study=json.dumps({"fold_by": "group:sex", "folds": 9})))
    assert "Expected at least 9 groups in column" in said(page)
    assert page.button(key="tune:apply")


def test_a_study_that_failed_can_be_made_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = {"data": "penguins", "study": json.dumps({"fold_by": "group:sex", "folds": 9})}
    page = settle(open_page("tune", **address))
    (failed,) = (jobs_directory() / "study").iterdir()
    before = (failed / "error.json").stat().st_mtime_ns
    page = settle(page.button(key="tune:again").click().run())
    assert "Expected at least 9 groups in column" in said(page)
    assert (failed / "error.json").stat().st_mtime_ns != before


@pytest.mark.parametrize(
    ("asked", "word"),
    [('{"folds":1}', "at least 2 folds"), ("nonsense", "cannot be understood"), ('{"impute":"moon"}', "impute")],
)
def test_an_address_that_cannot_be_followed_is_said(home: Path, asked: str, word: str) -> None:
    page = settle(open_page("tune", data="penguins", study=asked))
    assert word in said(page)
    assert "The usual preparation is shown." in said(page)


def test_a_product_that_cannot_be_is_said_and_not_applied(home: Path) -> None:
    page = settle(open_page("tune", data="penguins", study=json.dumps({"interactions": ["year:moon"]})))
    assert "year:moon" in said(page)
    assert page.button(key="tune:apply").disabled
