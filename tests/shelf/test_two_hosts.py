"""Two machines with homes of their own and one real PostgreSQL: what one saves, the other finds, uses and changes."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.database.address import VARIABLE
from shoal.library import aliases
from shoal.library.saved_models import Version, find_model, save_run
from shoal.runs.launch import Run, launch
from shoal.settings.values import config_from
from support.dashboard.prediction_server import serving
from support.dashboard.team import shoal_command
from support.library import run_with_model
from support.runs import ended, until
from support.team.postgres import Outage, Postgres

SLOPES = (2, 5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with two runs: the target is twice the size, and five times; the tables are beside it."""
    folder, before = tmp_path_factory.mktemp("trained"), os.environ.get("SHOAL_HOME")
    os.environ["SHOAL_HOME"] = str(folder / "home")
    try:
        for slope in SLOPES:
            table = folder / f"prices{slope}.csv"
            rows = [(i % 50, slope * (i % 50) + (i * 7 % 11) / 10) for i in range(300)]
            table.write_text("size,price\n" + "".join(f"{a},{b}\n" for a, b in rows))
            run = launch(config_from({"file": str(table), "target": "price", "test_every": 5}))
            assert ended(run) == "finished"
        yield folder
    finally:
        os.environ.pop("SHOAL_HOME") if before is None else os.environ.update(SHOAL_HOME=before)


@pytest.fixture
def hosts(trained: Path, tmp_path: Path, team_database: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The one has the runs and has saved both as versions of `prices`, of which the first is the champion."""
    here, there = tmp_path / "here", tmp_path / "there"
    shutil.copytree(trained / "home", here)
    there.mkdir(mode=0o700)
    with monkeypatch.context() as at:
        at.setenv("SHOAL_HOME", str(here))
        for run in map(Run, sorted((here / "runs").iterdir())):
            save_run(run, run.result or {}, "prices")
        aliases.give(Version("prices", 1), "champion")
    return here, there


def on(home: Path, *words: str, code: int = 0) -> str:
    """A command on a machine, which ends with this code; what it said."""
    done = shoal_command(home, *words)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stderr if code else done.stdout


def predicted(home: Path, model: str, folder: Path) -> list[float]:
    (folder / "new.csv").write_text("size\n10\n20\n")
    on(home, "predict", model, str(folder / "new.csv"), "--out", str(folder / "out.csv"))
    with (folder / "out.csv").open() as file:
        return [float(row[-1]) for row in list(csv.reader(file))[1:]]


def copies(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home / "fetched")) for path in (home / "fetched").rglob("*.json"))


def test_a_model_is_listed_without_its_file_and_predicts_with_a_proven_copy(
    hosts: tuple[Path, Path], tmp_path: Path
) -> None:
    here, there = hosts
    for home in hosts:
        (model,) = json.loads(on(home, "models", "--json"))["models"]
        assert (model["name"], model["versions"], model["aliases"]) == ("prices", [2, 1], {"champion": 1})
        assert copies(home) == []
        assert not (home / "models").exists()
    assert predicted(there, "prices@champion", tmp_path) == pytest.approx([20.5, 40.5], abs=0.2)
    assert copies(there) == ["prices/v1/model.json"]
    first = sorted((here / "runs").iterdir())[0] / "model.json"
    copy = there / "fetched" / "prices" / "v1" / "model.json"
    assert copy.read_bytes() == first.read_bytes()
    copy.write_bytes(first.read_bytes().replace(b"2", b"3", 1))
    assert predicted(there, "prices@champion", tmp_path) == pytest.approx([20.5, 40.5], abs=0.2)
    assert copy.read_bytes() == first.read_bytes()
    drift = json.loads(on(here, "models", "drift", "prices:1", "--json"))
    assert drift["rows"] == 4  # that the other machine has predicted


def test_the_other_machine_exports_compares_promotes_and_rolls_back(
    hosts: tuple[Path, Path], trained: Path, tmp_path: Path
) -> None:
    here, there = hosts
    data = str(trained / "prices5.csv")
    on(there, "export", "prices:2", "--to", "sql", "--out", str(tmp_path / "two.sql"))
    assert "size" in (tmp_path / "two.sql").read_text()
    on(there, "export", "prices:2", "--to", "report", "--out", str(tmp_path / "two.html"))
    run = sorted((here / "runs").iterdir())[1].name
    assert run in (tmp_path / "two.html").read_text()  # from the card
    assert "prices:2" in on(there, "models", "compare", "prices:1", "prices:2", "--data", data)
    assert "is version 2 now" in on(there, "models", "promote", "prices:2", "--data", data)
    refused = shoal_command(here, "models", "promote", "prices:1", "--data", data)
    assert refused.returncode == 3
    assert "stays version 2" in refused.stdout
    assert "is version 1 again" in on(here, "models", "rollback", "prices")
    moves = json.loads(on(there, "models", "history", "prices", "--json"))["moves"]
    assert [(one["version"], one["before"], one["back"]) for one in moves] == [
        (1, 2, True),
        (2, 1, False),
        (1, None, False),
    ]
    assert all(one["who"] and one["at"] > 1e9 for one in moves)


def test_a_served_alias_follows_the_other_machine_and_answers_while_the_database_is_away(
    hosts: tuple[Path, Path], outage: Outage
) -> None:
    here, there = hosts
    with serving(there, "prices@champion") as server:
        assert server.got("/predict", {"rows": [{"size": 10}]})["predictions"] == pytest.approx([20.5], abs=0.2)
        on(here, "models", "alias", "prices:2", "champion")
        server.heard("prices@champion is prices:2 now; it was prices:1")
        assert server.got("/predict", {"rows": [{"size": 10}]})["predictions"] == pytest.approx([50.5], abs=0.2)
        outage.begin()
        server.heard("cannot be served, so prices:2 stays.*cannot be reached")
        assert server.got("/predict", {"rows": [{"size": 10}]})["predictions"] == pytest.approx([50.5], abs=0.2)
        said = on(there, "models", code=1)
        assert "cannot be reached" in said
        assert "Traceback" not in said
        outage.end()
        on(here, "models", "alias", "prices:1", "champion")
        server.heard("prices@champion is prices:1 now")
        assert server.end() == 0
    drift = json.loads(on(here, "models", "drift", "prices:2", "--json"))
    assert drift["rows"] == 2  # what could not be kept at first was kept later


SAVING = """
import sys
from shoal.home import runs_directory
from shoal.library.saved_models import save_run
from shoal.runs.folder import Run
print("go", flush=True)
sys.stdin.readline()
for name in sys.argv[1:]:
    print(save_run(Run(runs_directory() / name), {}, "shared").number, flush=True)
"""


def test_two_machines_that_save_under_one_name_at_once_get_each_number_once(
    tmp_path: Path, team_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = []
    for machine in range(3):
        monkeypatch.setenv("SHOAL_HOME", str(tmp_path / f"machine{machine}"))
        names = [f"2026010{machine + 1}-000000-{number:07d}" for number in range(10)]
        for name in names:
            run_with_model(name, padding="x" * 200_000)
        command = [sys.executable, "-P", "-c", SAVING, *names]
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
    given = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        given += [int(line) for line in process.communicate(timeout=120)[0].split()]
        assert process.returncode == 0
    assert sorted(given) == list(range(1, 31))
    model = find_model("shared")
    assert model is not None
    assert model.numbers == tuple(range(30, 0, -1))
    assert len({version.card.run for version in model.versions}) == 30
    assert all(len(version.contents["padding"]) == 200_000 for version in model.versions[:3])


def test_a_machine_that_is_killed_while_it_saves_leaves_no_half_version(
    tmp_path: Path, team_database: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "killed"))
    run_with_model("20260101-000000-0000001", padding="x" * 9_000_000)
    # the first of three pieces is there, and the process waits: then it is killed
    code = SAVING.replace(
        'print("go"',
        "from shoal.shelf import postgres_shelf\n"
        "whole = postgres_shelf.send_pieces\n"
        "def half(connection, model):\n"
        "    whole(connection, model)\n"
        "    print('sent', flush=True)\n"
        "    sys.stdin.readline()\n"
        'postgres_shelf.send_pieces = half\nprint("go"',
    )
    command = [sys.executable, "-P", "-c", code, "20260101-000000-0000001"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == ["go\n", "sent\n"]
        process.kill()
    count = "SELECT (SELECT count(*) FROM shoal.model_pieces), (SELECT count(*) FROM shoal.model_versions)"
    until(lambda: postgres.execute(count, team_database) == [(0, 0)])
    version = save_run(Run(tmp_path / "killed" / "runs" / "20260101-000000-0000001"), {}, "shared")
    assert version.number == 1
    assert len(version.contents["padding"]) == 9_000_000


def test_damage_in_the_database_is_told_and_never_used(
    hosts: tuple[Path, Path], postgres: Postgres, team_database: str, tmp_path: Path
) -> None:
    _, there = hosts
    assert predicted(there, "prices:2", tmp_path)
    postgres.execute(
        "UPDATE shoal.model_pieces SET bytes = set_byte(bytes, 100, get_byte(bytes, 100) # 1)", team_database
    )
    said = on(there, "predict", "prices:1", str(tmp_path / "new.csv"), "--out", str(tmp_path / "no.csv"), code=1)
    assert "prices:1 in the team's database is damaged: expected" in said
    assert not (tmp_path / "no.csv").exists()
    assert copies(there) == ["prices/v2/model.json"]
    assert predicted(there, "prices:2", tmp_path)  # a proven copy
    postgres.execute(
        "UPDATE shoal.model_documents SET contents = replace(contents, 'price', 'prize') WHERE file = 'card.json'",
        team_database,
    )
    assert "The card of prices:2 cannot be read" in on(there, "models")


def test_without_the_steps_of_this_version_everybody_is_told_what_to_do(
    hosts: tuple[Path, Path], postgres: Postgres, team_database: str
) -> None:
    _, there = hosts
    postgres.execute("INSERT INTO shoal.versions VALUES (999, 'of the future')", team_database)
    assert "made ready by a later version of Shoal" in on(there, "models", code=1)
    assert "made ready by a later version of Shoal" in on(there, "db", "upgrade", code=1)


def test_models_of_a_home_are_moved_once_with_all_they_have(
    hosts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = hosts
    third = tmp_path / "third"
    shutil.copytree(here / "runs", third / "runs")
    team = os.environ[VARIABLE]
    monkeypatch.delenv(VARIABLE)
    first, second = sorted(path.name for path in (third / "runs").iterdir())
    for run, name in ((first, "mine"), (second, "mine"), (first, "prices")):
        on(third, "models", "add", run, name)
    on(third, "models", "alias", "mine:1", "steady")
    (third / "models" / "gone").mkdir()
    (third / "models" / "gone" / "last").write_text("7")
    before = (third / "models" / "mine" / "v2" / "model.json").read_bytes()
    monkeypatch.setenv(VARIABLE, team)
    assert "2 models of this home are not in the team's database (mine, prices)" in on(third, "models")
    refused = on(third, "export", "mine", "--to", "sql", code=1)
    assert "got 'mine'. The models are: prices. 2 models of this home are not in the team's database" in refused
    said = on(third, "models", "move")
    assert "1 model moved to the team's database: mine" in said
    assert "so they stay in this home: prices" in said
    assert (third / "models.moved" / "mine").is_dir()
    models = {one["name"]: one for one in json.loads(on(there, "models", "--json"))["models"]}
    assert models["mine"]["versions"] == [2, 1]
    assert models["mine"]["aliases"] == {"steady": 1}
    assert predicted(there, "mine:2", tmp_path) == pytest.approx([50.5, 100.5], abs=0.2)
    assert (there / "fetched" / "mine" / "v2" / "model.json").read_bytes() == before
    assert on(there, "models", "add", "nothing", code=1)
    on(here, "models", "add", first, "mine")
    assert "0 models moved" in on(third, "models", "move")
    assert "saved as gone, version 8" in on(here, "models", "add", first, "gone")
    assert json.loads(on(third, "models", "history", "mine", "--json"))["moves"][0]["alias"] == "steady"
