"""A program's way through the API on a real server: a file, a run, its model, predictions, and what it is told then."""

from __future__ import annotations

import http.client
import json

import numpy as np
import pytest

from support.dashboard.service import Service


def test_the_model_of_a_run_is_that_of_the_normal_equations_and_predicts_rows_and_tables(service: Service) -> None:
    """Compared with NumPy on the rows of the file, every fifth left out."""
    found = service.got("GET", f"/runs/{service.run}")
    assert found["summary"]["state"] == "finished", found
    assert (found["summary"]["file"], "file" in found["settings"]) == ("small.csv", False)
    table = np.loadtxt(service.server.home / "table.csv", delimiter=",", skiprows=1)
    train = table[np.arange(len(table)) % 5 != 0]
    X, y = train[:, :3] - train[:, :3].mean(0), train[:, 3] - train[:, 3].mean()
    spread = X.std(0)
    w = np.linalg.solve(X.T @ X / np.outer(spread, spread) + np.eye(3), X.T @ y / spread) / spread
    np.testing.assert_allclose([found["result"]["coefficients"][name] for name in "abc"], w, rtol=1e-9)
    rows = [{"a": 0.5, "b": "-1.25", "c": 2, "not": "used"}, {"a": None, "b": 0, "c": 0}]
    answer = service.got("POST", "/models/small/versions/1/predict", {"rows": rows})
    mean = train[:, 3].mean() - train[:, :3].mean(0) @ w
    np.testing.assert_allclose(answer["predictions"][0], np.array([0.5, -1.25, 2]) @ w + mean, rtol=1e-9)
    np.testing.assert_allclose(answer["predictions"][1], np.median(train[:, 0]) * w[0] + mean, rtol=1e-9)
    job = service.got("POST", "/models/small/versions/latest/predictions?wait=30", {"dataset": service.dataset})
    assert (job["state"], job["files"]) == ("finished", ["predictions.csv"]), job["detail"]
    assert not any("home" in str(value) or "/" in str(value) for name, value in job["result"].items() if name == "file")
    file = service.ask("GET", f"/jobs/predict/{job['id']}/files/predictions.csv")
    predicted = [float(line.split(",")[1]) for line in file.body.decode().splitlines()[1:]]
    np.testing.assert_allclose(predicted, table[:, :3] @ w + mean, rtol=1e-9)


def test_a_run_is_followed_steered_and_stopped(service: Service) -> None:
    knobs = {"solver": "gradient", "engine": "inline", "epochs": 1_000_000, "tolerance": 0}
    run = service.got("POST", "/runs", {"dataset": service.dataset, "target": "y", "settings": knobs}, 201)["summary"][
        "id"
    ]
    link = http.client.HTTPConnection("127.0.0.1", service.server.port, timeout=60)
    link.request("GET", f"/api/v1/runs/{run}/events", headers={"Authorization": f"Bearer {service.reader}"})
    stream = link.getresponse()
    assert stream.headers["content-type"].startswith("text/event-stream")
    while b'"running"' not in stream.readline():
        pass
    done = service.got("POST", f"/runs/{run}/commands", {"name": "set", "arguments": {"learning_rate": 0.01}})
    assert (done["outcome"], done["round"] > 0) == ("done", True)
    service.got("POST", f"/runs/{run}/commands", {"name": "stop"})
    assert any(b"event: end" in line for line in stream)
    link.close()
    assert service.got("GET", f"/runs/{run}")["summary"]["state"] == "stopped"
    assert service.got("GET", f"/runs/{run}/rounds?points=10")["rounds"][0]["loss"] > 0
    late = service.ask("POST", f"/runs/{run}/commands", {"name": "pause"})
    assert (late.status, "takes no commands" in late.json()["detail"]) == (409, True)
    assert late.json()["remedies"] == [f"Resume it first: shoal resume {run}."]


def test_a_request_that_comes_twice_is_done_once(service: Service) -> None:
    asked = {"dataset": service.dataset, "target": "y", "name": "once"}
    first = service.ask("POST", "/runs", asked, Idempotency_Key="a-key")
    again = service.ask("POST", "/runs", asked, Idempotency_Key="a-key")
    assert (first.status, again.status) == (201, 200)
    assert first.json()["summary"]["id"] == again.json()["summary"]["id"]
    assert first.headers["location"] == again.headers["location"]
    other = service.ask("POST", "/runs", {**asked, "name": "twice"}, Idempotency_Key="a-key")
    assert (other.status, "another request" in other.json()["detail"]) == (422, True)
    service.ended(first.json()["summary"]["id"])


def test_lists_come_in_pages_and_answers_have_tags(service: Service) -> None:
    seen, after = [], ""
    while True:
        answer = service.ask("GET", f"/runs?limit=1{after}")
        seen += [one["id"] for one in answer.json()["items"]]
        if (following := answer.json()["next"]) is None:
            break
        assert f"after={following}" in answer.headers["link"]
        after = f"&after={following}"
    assert seen == [one["id"] for one in service.got("GET", "/runs")["items"]]
    assert seen == sorted(seen, reverse=True)
    first = service.ask("GET", f"/runs/{service.run}")
    same = service.ask("GET", f"/runs/{service.run}", If_None_Match=first.headers["etag"])
    assert (same.status, same.body) == (304, b"")


@pytest.mark.parametrize(("path", "body", "status", "words"), [
    ("/runs", {"dataset": "DATASET", "target": "y", "settings": {"out": "/tmp/model.json"}}, 422, "names no paths"),
    ("/runs", {"dataset": "DATASET", "target": "y", "settings": {"file": "/etc/passwd"}}, 422, "names no paths"),
    ("/runs", {"dataset": "DATASET", "target": "y", "settings": {"cluster": "h:1"}}, 422, "names no paths"),
    ("/runs", {"dataset": "DATASET", "target": "y", "settings": {"modle": "ridge"}}, 422, "Did you mean"),
    ("/runs", {"dataset": "../../etc/passwd", "target": "y"}, 404, "no such dataset"),
    ("/runs", {"dataset": "DATASET"}, 422, "'target' is a required property"),
    ("/runs", "no object", 422, "is not of type 'object'"),
    ("/models/small/versions/1/predict", {"rows": [{"a": 1}]}, 422, "needs columns that row 0 does not have: b, c"),
    ("/models/small/versions/1/predict", {"rows": [{"a": "x", "b": 1, "c": 1}]}, 422, "Row 0: Expected a number"),
    ("/models/small/versions/7/predict", {"rows": [{}]}, 404, "no such version"),
    ("/tune", {"dataset": "DATASET", "target": "y", "settings": {"alpha": -1}}, 422, "alpha"),
])  # fmt: skip
def test_what_cannot_be_done_is_a_problem_with_a_sentence(
    service: Service, path: str, body: object, status: int, words: str
) -> None:
    said = json.loads(json.dumps(body).replace("DATASET", service.dataset))
    answer = service.ask("POST", path, said)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert words in answer.json()["detail"], answer.body
    assert str(service.server.home) not in answer.body.decode()


def test_other_bodies_methods_and_addresses(service: Service) -> None:
    assert service.ask("POST", "/runs", b"{", Content_Type="application/json").status == 400
    assert service.ask("POST", "/runs", b'{"a": NaN}', Content_Type="application/json").status == 400
    assert service.ask("POST", "/runs", b'"\\ud800"', Content_Type="application/json").status == 400
    assert service.ask("POST", "/runs", b"a=1", Content_Type="application/x-www-form-urlencoded").status == 415
    assert service.ask("GET", "/runs?limit=0").status == 422
    assert service.ask("GET", "/runs?limit=1&limit=2").status == 422
    assert service.ask("GET", "/runs?sort=name").status == 422
    assert service.ask("DELETE", "/runs").status == 405
    assert service.ask("GET", "/nothing").status == 404
    broken = service.ask("GET", "/jobs/tune/a%0Ab")
    assert (broken.status, broken.headers["content-type"]) == (404, "application/problem+json")
    assert service.got("GET", "/version")["api"] == "v1"
    assert service.got("GET", "/queue")["waiting"] == []
    assert service.got("GET", "/health")["status"] == "ok"


def test_names_may_be_in_any_script(service: Service) -> None:
    made = service.ask("POST", "/datasets?name=%E8%A1%A8.csv", b"a,y\n1,2\n2,4\n3,7\n")
    assert made.status == 201, made.body
    assert made.headers["location"].isascii()
    there = service.ask("GET", made.headers["location"].removeprefix("/api/v1"))
    assert there.json()["name"] == "\u8868.csv"
    run = service.got("POST", "/runs", {"dataset": made.json()["id"], "target": "y"}, 201)["summary"]["id"]
    assert service.ended(run)["summary"]["state"] == "finished"
    kept = service.ask("POST", f"/runs/{run}/model", {"name": "\u6a21\u578b"})
    assert kept.status == 201, kept.body
    assert service.ask("GET", kept.headers["location"].removeprefix("/api/v1")).json()["version"] == 1


def test_aliases_and_tuning_and_inspection(service: Service) -> None:
    assert service.got("PUT", "/models/small/aliases/champion", {"version": 1})["aliases"] == {"champion": 1}
    assert service.got("GET", "/models/small/versions/champion")["inputs"][0] == {"name": "a", "kind": "number"}
    assert service.got("DELETE", "/models/small/aliases/champion")["aliases"] == {}
    assert service.ask("DELETE", "/models/small/aliases/champion").status == 404
    seen = service.got("POST", f"/datasets/{service.dataset}/inspect?wait=30", {})
    assert [column["name"] for column in seen["result"]["columns"]] == ["a", "b", "c", "y"]
    tuned = service.got("POST", "/tune?wait=30", {"dataset": service.dataset, "target": "y", "folds": 4})
    assert tuned["state"] == "finished", tuned["detail"]
    assert tuned["result"]["best"] > 0
