"""The route behind the sliders of the Tune page, asked for a real study."""

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

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.dashboard.tune import route as tune_route
from shoal.dashboard.tune import studies
from shoal.dashboard.tune.state import TuneState, run_config
from shoal.errors import ConfigError
from shoal.home import jobs_directory
from shoal.runs.launch import Run, launch_job
from shoal.settings.values import config_from
from shoal.whatif.answers import WhatIf
from support.dashboard.studies import HOSTILE, get, made_study, table, tune
from support.harm.damage import flip
from support.runs import ended


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def own_study(home: Path) -> Run:
    return made_study(home)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A home with a study in it, and the name of that."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_HOME", str(folder))
        return folder, made_study(folder).directory.name


@pytest.fixture
def study(made_once: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """For tests that only ask it."""
    folder, name = made_once
    monkeypatch.setenv("SHOAL_HOME", str(folder))
    studies.forget(name)  # each opens it anew
    return Run(jobs_directory() / "study" / name)


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


def test_a_study_that_is_damaged_while_it_is_open_gives_no_answer(own_study: Run) -> None:
    tune(own_study)
    flip(own_study.directory / "row_Z.npy", random.Random(1))
    for _ in range(2):  # also when it is opened anew
        status, found = get(f"/api/tune/{own_study.directory.name}/doubt", alpha="0.05")
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


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ["0" * 24, "..", "x", "%2e%2e", "result.json"])
def test_no_other_folder_is_opened(name: str) -> None:
    for folder in (jobs_directory(), jobs_directory() / "study" / "x"):
        folder.mkdir(parents=True, exist_ok=True)
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
    assert studies.close_idle(found.asked[0] + studies.IDLE + 1) >= 1
    del found
    gc.collect()
    assert held() is None  # nothing else keeps its answers
    assert studies.opened(study.directory.name).whatif.targets  # the next question opens it again


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
