"""`shoal serve` as programs see it: a real process, asked over HTTP while versions come, go and break."""

from __future__ import annotations

import csv
import io
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal as python
from shoal.errors import ConfigError, ResourceError
from shoal.library import aliases, tokens
from shoal.library.saved_models import Version, save_run
from shoal.people import accounts, belongings, deeds
from shoal.people.acting import as_person
from shoal.people.person import Person
from shoal.runs.launch import Run, launch
from shoal.serving.door import PredictionDoor
from shoal.serving.server import listening
from shoal.settings.values import config_from
from support.dashboard.prediction_server import LONG, PredictionServer, serving
from support.runs import ended
from support.tables import shoal

CITIES = ("ayr", "bonn", "cork")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Prices by size and city: version 1 is twice the size, version 2 five times; `won` is yes or no of the same."""
    folder = tmp_path_factory.mktemp("serving")
    before = os.environ.get("SHOAL_HOME")
    os.environ["SHOAL_HOME"] = str(folder / "home")
    try:
        for number, slope in enumerate((2, 5), 1):
            table = folder / f"prices{number}.csv"
            rows = [(i % 50, CITIES[i % 3], slope * (i % 50) + i % 3 + (i * 7 % 11) / 10) for i in range(300)]
            table.write_text("size,city,price\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
            _saved(table, "price", "prices", test_every=5)
        won = [(i % 50, "yes" if (i * 13) % 50 < i % 50 else "no") for i in range(300)]
        (folder / "won.csv").write_text("size,won\n" + "".join(f"{a},{b}\n" for a, b in won))
        _saved(folder / "won.csv", "won", "won", model="logistic", test_every=5)
        aliases.give(Version("prices", 1), "champion")
        yield folder / "home"
    finally:
        os.environ.pop("SHOAL_HOME") if before is None else os.environ.update(SHOAL_HOME=before)


def _saved(table: Path, target: str, name: str, **settings: object) -> Run:
    run = launch(config_from({"file": str(table), "target": target, **settings}))
    assert ended(run) == "finished"
    save_run(run, run.result or {}, name)
    return run


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[PredictionServer]:
    with serving(home, "prices@champion") as found:
        yield found


ROW = {"size": 10, "city": "bonn"}


def test_rows_come_back_as_the_python_api_predicts_them(server: PredictionServer, tmp_path: Path) -> None:
    model = python.load("prices:1")
    rows = [{"size": float(i), "city": CITIES[i % 3]} for i in range(200)]
    table = tmp_path / "rows.csv"
    table.write_text("size,city\n" + "".join(f"{row['size']},{row['city']}\n" for row in rows))
    model.predict_to(str(table), str(tmp_path / "out.csv"), interval=0.8)
    with (tmp_path / "out.csv").open() as file:
        expected = [{name: float(cell) for name, cell in line.items()} for line in csv.DictReader(file)]
    found = server.got("/predict", {"rows": rows, "interval": 0.8})
    assert (found["model"], found["version"]) == ("prices", 1)
    for name in ("predictions", "lower", "upper"):
        wanted = [line["prediction" if name == "predictions" else name] for line in expected]
        assert found[name] == pytest.approx(wanted, rel=1e-12)
    assert found["notes"] == []
    status, headers, body = server.ask("/predict?interval=0.8", table.read_bytes(), "text/csv")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/csv")
    lines = list(csv.DictReader(io.StringIO(body.decode())))
    assert list(lines[0]) == ["row", "prediction", "lower", "upper"]
    assert [float(line["upper"]) for line in lines] == pytest.approx(found["upper"], rel=1e-12)


def test_what_is_wrong_with_rows_is_named(server: PredictionServer) -> None:
    def detail(body: object, status: int = 422, kind: str = "application/json") -> str:
        found = server.got("/predict", body, status, kind=kind)
        assert found["status"] == status
        return str(found["detail"])

    assert "row 1 does not have: city" in detail({"rows": [ROW, {"size": 1}]})
    assert "Row 0: Expected a number or null in 'size', got 'many'" in detail({"row": {**ROW, "size": "many"}})
    assert "JSON" in detail(b"{", 400)
    assert "no number of JSON" in detail(b'{"row": {"size": NaN, "city": "ayr"}}', 400)
    assert "JSON" in detail(b"[" * 100_000, 400)
    assert "'rows' to be a list of objects" in detail({"rows": [1]})
    assert "/model for an example" in detail({"rows": [ROW], "row": ROW})
    assert "interval of 0.5" in detail({"row": ROW, "interval": 0.77})
    assert "a column of text" in detail({"row": {**ROW, "city": ["ayr"]}})
    assert "application/json or text/csv" in detail(b"x", 415, "text/plain")
    assert "expected 2 fields" in detail(b"size,city\n1\n", kind="text/csv")
    assert "UTF-8" in detail(b"size,city\n1,\xff\n", 400, "text/csv")
    assert "'size' twice" in detail(b"size,size\n1,2\n", kind="text/csv")
    found = server.got("/predict", {"rows": [{**ROW, "city": "\x1b[31mrome"}, {**ROW, "size": None}]})
    assert "Column 'city': 1 row has a level that the model was not trained with" in found["notes"][0]
    assert None not in found["predictions"]
    long = server.got("/predict", {"row": {**ROW, "city": "é" * 100_000}})
    assert len(long["notes"][0]) < 500
    assert "at most 20,000 rows" in detail({"rows": [ROW] * 20_001}, 413)
    status, _, body = server.ask("/predict", {"row": {**ROW, "city": "\x1b[31mrome"}})
    assert status == 200
    assert b"\x1b" not in body, "whoever prints an answer has no commands in it"


def test_the_card_has_a_row_that_can_be_asked(server: PredictionServer) -> None:
    card = server.got("/model")
    assert (card["name"], card["version"], card["target"]) == ("prices", 1, "price")
    kinds = {one["name"]: one["kind"] for one in card["inputs"]}
    assert kinds == {"size": "number", "city": "text"}
    assert next(one for one in card["inputs"] if one["name"] == "city")["levels"] == list(CITIES)
    assert 0.9 in card["intervals"]
    assert len(server.got("/predict", {"row": card["example"]})["predictions"]) == 1


def test_only_those_with_a_token_are_answered(server: PredictionServer, home: Path) -> None:
    for path in ("/model", "/metrics", "/nothing"):
        status, headers, _ = server.ask(path, token="")
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert headers["content-type"] == "application/problem+json"
    assert server.ask("/predict", {"row": ROW}, token="shoal_guess")[0] == 401
    assert server.ask("/health", token="")[0] == 200
    text, made = tokens.create("scoring")
    assert server.ask("/predict", {"row": ROW}, token=text)[0] == 200
    tokens.revoke(made.id)
    assert server.ask("/predict", {"row": ROW}, token=text)[0] == 401
    assert server.ask("/model", Host="evil.example")[0] == 400
    assert server.ask("/predict", {"row": ROW}, Origin="http://evil.example")[0] == 403
    assert server.ask("/predict")[0] == 405
    assert server.ask("/nothing")[0] == 404
    headers = server.ask("/health", token="")[1]
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_a_body_that_is_too_long_is_refused_before_it_is_read(server: PredictionServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as connection:
        head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        connection.sendall(f"{head}Content-Type: text/csv\r\nContent-Length: 99999999999\r\n\r\n".encode())
        assert b" 413 " in connection.recv(100)


def test_figures_are_for_prometheus(server: PredictionServer) -> None:
    server.got("/predict", {"rows": [ROW, ROW]})
    status, headers, body = server.ask("/metrics")
    lines = body.decode().splitlines()
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'shoal_served_model{name="prices",version="1"} 1' in lines
    assert any(line.startswith('shoal_http_requests_total{route="predict",status="2xx"}') for line in lines)
    assert int(next(line for line in lines if line.startswith("shoal_predicted_rows_total")).split()[1]) >= 2


def test_yes_and_no_come_with_probabilities_and_sets(home: Path) -> None:
    with serving(home, "won", "--no-token") as server:
        found = server.got("/predict", {"rows": [{"size": 0}, {"size": 49}], "interval": 0.9, "threshold": 0.9})
        assert found["predictions"][0] == "no"
        low, high = found["probabilities"]
        assert found["probabilities_of"] == "yes"
        assert 0 < low < 0.5 < high < 1
        assert (found["predictions"][1] == "yes") == (high >= 0.9)
        assert all(set(one) <= {"no", "yes"} and one for one in found["sets"])
        _, _, body = server.ask("/predict?interval=0.9", b"size\n0\nNA\n", "text/csv")
        assert body.splitlines()[0] == b"row,prediction,probability_yes,set"
        assert len(body.splitlines()) == 3


def test_another_champion_answers_and_no_request_is_dropped(home: Path) -> None:
    """Asked without a pause while the alias goes to and fro: every answer is good, and the last is of the new one."""
    with serving(home, "prices@champion") as server:
        stop, answers = threading.Event(), []

        def ask() -> None:
            while not stop.is_set():
                status, _, body = server.ask("/predict", {"row": ROW})
                answers.append((status, body))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            aliases.give(Version("prices", 2), "champion")
            assert "prices@champion is prices:2 now; it was prices:1." in server.heard("is prices:2 now")
            before = len(answers)
            while len(answers) < before + 3:
                time.sleep(0.01)
        finally:
            stop.set()
            asking.join()
            aliases.give(Version("prices", 1), "champion")
        assert {status for status, _ in answers} == {200}
        assert b'"version":2' in answers[-1][1]
        server.heard("is prices:1 now")
        assert server.got("/predict", {"row": ROW})["version"] == 1
        assert server.end() == 0


def test_a_damaged_version_does_not_take_the_place_of_a_good_one(home: Path) -> None:
    path = Version("prices", 2).model_path
    whole = path.read_bytes()
    with serving(home, "prices@champion") as server:
        path.write_bytes(whole.replace(b'"intercept": ', b'"intercept": 1', 1))
        aliases.give(Version("prices", 2), "champion")
        try:
            assert "prices:1 stays" in server.heard("cannot be served")
            found = server.got("/predict", {"row": ROW})
            assert found["version"] == 1
            assert server.got("/health")["model"] == "behind"
            assert "checksum" in server.got("/model")["problem"]
            assert b"shoal_served_behind 1" in server.ask("/metrics")[2]
            path.write_bytes(whole)
            server.heard("is prices:2 now")
            assert server.got("/health")["model"] == "current"
        finally:
            path.write_bytes(whole)
            aliases.give(Version("prices", 1), "champion")


def test_it_ends_by_ctrl_c_and_a_port_that_is_taken_is_said(home: Path) -> None:
    with serving(home, "prices") as server:
        with pytest.raises(ResourceError, match="Choose another with --port"):
            listening("127.0.0.1", server.port).close()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(LONG) == 0
    with pytest.raises(ConfigError, match="where other machines can reach it"):
        PredictionDoor("0.0.0.0", needs_token=False).check()
    PredictionDoor("0.0.0.0").check()
    PredictionDoor("::1", needs_token=False).check()


def test_people_are_known_and_what_is_private_answers_them_alone(server: PredictionServer, home: Path) -> None:
    """Root, Ada and Bob have a token each; the model is Ada's."""
    roles = {"root": "admin", "ada": "editor", "bob": "editor"}
    for name, role in roles.items():
        accounts.add(name, "correct horse", role)
    given = {name: tokens.create(f"of {name}", "admin" if name == "root" else "read", person=name)[0] for name in roles}
    folder = home / "models" / "prices"

    def answers() -> dict[str, set[int]]:
        return {
            name: {server.ask("/predict", {"row": ROW}, token=text)[0], server.ask("/model", token=text)[0]}
            for name, text in given.items()
        }

    assert answers() == {"root": {200}, "ada": {200}, "bob": {200}}
    with as_person(Person("ada", "editor", private=True)):
        belongings.claim(folder)
    assert answers() == {"root": {200}, "ada": {200}, "bob": {404}}
    assert b"prices" not in server.ask("/metrics", token=given["bob"])[2]
    with as_person(Person("ada", "editor")):
        deeds.share(folder, private=False)
    assert answers() == {"root": {200}, "ada": {200}, "bob": {200}}
    accounts.disable("bob")
    accounts.remove("ada")
    assert answers() == {"root": {200}, "ada": {401}, "bob": {401}}
    listed = shoal("token", "list").out
    assert ["cannot log in" in line for line in listed.splitlines() if " of " in line] == [False, True, True]
    assert [one["good"] for one in shoal("token", "list", "--json").json["tokens"]][-3:] == [True, False, False]
    accounts.remove("bob")
    accounts.remove("root")  # the last account: tokens of people stay ended
    assert answers() == {"root": {401}, "ada": {401}, "bob": {401}}
