"""Shoal on another machine: the same answers as at home, over a real server; and the same words where it cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shoal
from shoal.client.service import RemoteShoal
from shoal.errors import ConfigError, DataError, ResourceError, StateError
from support.dashboard.service import Service
from support.tables import shoal as command


@pytest.fixture
def there(service: Service) -> RemoteShoal:
    return shoal.connect(service.server.url, service.token)


@pytest.fixture
def table(service: Service) -> Path:
    return service.server.home / "table.csv"


def test_a_fit_there_is_a_fit_at_home(there: RemoteShoal, table: Path, tmp_path: Path) -> None:
    remote = there.fit(table, "y", "lasso", alpha=0.05, test_every=5)
    local = shoal.fit(table, "y", "lasso", alpha=0.05, test_every=5)
    assert remote.coefficients == local.coefficients
    assert remote.scores == local.scores
    assert remote.predict(table).tolist() == local.predict(table).tolist()
    remote.save(tmp_path / "model.json")
    assert "home" not in (tmp_path / "model.json").read_text()
    assert there.inspect(table)["rows"] == shoal.inspect(table)["rows"] == 400
    tuned = there.tune(table, "y", folds=4)
    assert tuned["best"] == pytest.approx(shoal.tune(table, "y", folds=4).best, rel=1e-12)


def test_saved_models_predict_rows_and_tables(there: RemoteShoal, table: Path, tmp_path: Path) -> None:
    model = there.load("small:1")
    rows = [{"a": 0.1, "b": 2.0, "c": -1.0}, {"a": None, "b": 0.0, "c": 0.0}]
    assert there.predict("small", rows) == pytest.approx(model.predict(rows).tolist(), rel=1e-12)
    assert there.predict("small", rows[0]) == there.predict("small:1", rows[:1])
    found = there.predict("small", table, out=tmp_path / "out.csv", keep="a")
    assert found["rows"] == 400
    written = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(written[:, 1], model.predict(table), rtol=1e-12)
    comma = tmp_path / "comma.csv"
    comma.write_text(Path(table).read_text().replace(",", ";").replace(".", ","))
    there.predict("small", comma, out=tmp_path / "like.csv", keep="a", like_file=True)
    like = pd.read_csv(tmp_path / "like.csv", sep=";", decimal=",")
    np.testing.assert_allclose(like["prediction"], model.predict(table), rtol=1e-12)
    assert there.give_alias("small", "challenger", 1)["challenger"] == 1
    assert there.load("small@challenger").coefficients == model.coefficients


def test_a_run_is_followed_and_stopped(there: RemoteShoal, service: Service) -> None:
    knobs = {"solver": "gradient", "engine": "inline", "epochs": 1_000_000, "tolerance": 0}
    run = there.start(service.dataset, "y", name="long", **knobs)
    told = []
    for _, news in run.follow():
        if not told and news.get("head", {}).get("state") == "running":
            told = [run.send("set", learning_rate=0.01), run.stop()]
    assert told == ["done", "done"]
    assert (run.state, run.result is not None) == ("stopped", True)
    assert run.id in [one["id"] for one in there.runs(words="long")]


def test_what_cannot_be_is_told_as_at_home(there: RemoteShoal, service: Service, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'alpha'"):
        there.start(service.dataset, "y", alpa=1)
    with pytest.raises(DataError, match="Expected a file at"):
        there.fit(tmp_path / "nothing.csv", "y")
    with pytest.raises(StateError, match=r"no column|not among|'nothing'"):
        there.fit(service.dataset, "nothing")
    with pytest.raises(StateError, match="token"):
        shoal.connect(service.server.url, "shoal_wrong").models()
    with pytest.raises(StateError, match="may only read"):
        shoal.connect(service.server.url, service.reader).start(service.dataset, "y")
    with pytest.raises(ConfigError, match="address of a dashboard"):
        shoal.connect("ftp://x", "t")


def test_nobody_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.client.transport.PAUSE", 0.0)
    with pytest.raises(ResourceError, match=r"Expected an answer of the server at http://127.0.0.1:1, got"):
        shoal.connect("127.0.0.1:1", "t").version()


def test_the_command_line_with_a_server(
    service: Service, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_TOKEN", service.token)
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "own"))
    far = ["--server", service.server.url]
    trained = command(
        *far, "train", table, "--target", "y", "--name", "from afar", "--out", tmp_path / "m.json", "--json"
    )
    assert trained.code == 0, trained.err
    assert shoal.load(tmp_path / "m.json").coefficients == trained.json["coefficients"]
    assert "from afar" in command(*far, "runs").out
    said = command(*far, "predict", "small", table, "--out", tmp_path / "p.csv")
    assert "400 predictions of y" in said.out, said.err
    assert "for train, predict and runs" in command(*far, "plan", "10x10").err


def test_versions_are_compared_promoted_and_rolled_back(there: RemoteShoal, service: Service, table: Path) -> None:
    """A second version that knows one column of three: the first stays the champion, unless much is allowed."""
    settings = {"model": "ridge", "alpha": 1.0, "features": ["a"]}
    for name in ("two", "two"):
        asked = {"dataset": service.dataset, "target": "y", "settings": settings}
        run = service.got("POST", "/runs", asked, 201)["summary"]["id"]
        service.ended(run)
        service.got("POST", f"/runs/{run}/model", {"name": name}, 201)
        settings = {"model": "ridge", "alpha": 1.0}
    compared = there.compare("two:1", "two:2", table)
    assert compared["verdict"] == "better"
    assert compared["trained_on"] == ["two:1", "two:2"]
    assert there.promote("two:2", table)["promoted"]
    refused = there.promote("two:1", table)
    assert not refused["promoted"]
    assert "two@champion stays version 2: two:1 is worse" in refused["why"]
    assert there.promote("two:1", table, not_worse_by=1e6)["promoted"]
    assert there.rollback("two") == {"champion": 2}
    moves = service.got("GET", "/models/two/history")["moves"]
    assert [(move["version"], move["who"]) for move in moves] == [
        (2, "token tests"),
        (1, "token tests"),
        (2, "token tests"),
    ]
    assert service.ask("POST", "/models/two/aliases/other/rollback").status == 409
    asked = {"dataset": service.dataset, "alias": "1st"}
    assert service.ask("POST", "/models/two/versions/1/promotions", asked).status == 409
    assert (
        service.ask("POST", "/models/two/versions/1/comparisons", {"dataset": service.dataset, "with": 9}).status == 404
    )
    assert service.ask("POST", "/models/two/versions/1/promotions", asked, token=service.reader).status == 403


def test_rows_that_are_predicted_there_tell_how_far_they_are_from_training(
    there: RemoteShoal, service: Service, table: Path, tmp_path: Path
) -> None:
    there.predict("small:1", table, out=tmp_path / "out.csv")
    found = there.drift("small:1", days=1)
    assert found["rows"] >= 400
    assert {column["size"] for column in found["columns"]} == {"small"}
    assert service.ask("GET", "/models/small/versions/1/drift?days=0").status == 422
