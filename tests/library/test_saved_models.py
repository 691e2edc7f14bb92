"""Saved models: versions, names, several processes at once, deletion; and that every finished run leaves one."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import StateError
from shoal.files import sealed
from shoal.files.model_names import is_name, safe_name
from shoal.home import models_directory, runs_directory
from shoal.library.aliases import model_path, resolve
from shoal.library.model_cards import card_of
from shoal.library.saved_models import (
    Version,
    copy_version,
    delete_model,
    delete_version,
    find_model,
    list_models,
    rename_model,
    save_run,
    version_of,
    write_note,
)
from shoal.results.card import TrainedOn
from shoal.runs.commands import post
from shoal.runs.launch import Run, launch
from shoal.settings.values import config_from
from support.harm.damage import swap
from support.library import run_with_model as finished_run
from support.records import read_log
from support.runs import ended, endless_run, short_run, small_table, training
from support.tables import shoal

ROOT = Path(__file__).parents[2]


def saved(count: int = 1, target: str = "y") -> list[Version]:
    found = []
    for i in range(count):
        run = finished_run(f"20260101-000000-{target}{i:06d}", target, intercept=float(i))
        found.append(save_run(run, {}))
    return found


# ------------------------------------------------------------------ versions


def test_versions_are_numbered_and_know_where_they_come_from() -> None:
    first, second = saved(2)
    assert [first.label, second.label] == ["t-y:1", "t-y:2"]
    model = find_model("t-y")
    assert model is not None
    assert model.numbers == (2, 1)
    card = second.card
    assert card.run == "20260101-000000-y000001"
    assert card.data == TrainedOn("t.csv", "abc", 10, "/nowhere/t.csv")
    assert card.train.r2 == 0.5
    assert card.config["target"] == "y"
    assert card.certificate.rests_on == "data"
    assert second.contents["intercept"] == 1.0
    assert second.run is not None


def test_a_model_does_not_need_its_run() -> None:
    version = saved()[0]
    before = version.model_path.read_bytes()
    assert version.run is not None
    shutil.rmtree(version.run.directory)
    assert version.model_path.read_bytes() == before
    assert Version(version.name, 1).run is None
    assert [m.name for m in list_models()] == ["t-y"]


def test_the_same_model_of_a_run_is_saved_once_and_another_one_again() -> None:
    run = finished_run()
    assert save_run(run, {}) == save_run(run, {})
    assert version_of(run) == Version("t-y", 1)
    contents = json.loads(run.model_path.read_text())
    run.model_path.write_text(json.dumps({**contents, "intercept": 7.0}))
    assert save_run(run, {}).number == 2


def test_numbers_are_never_given_again() -> None:
    versions = saved(3)
    delete_version(versions[2])
    assert find_model("t-y").numbers == (2, 1)  # type: ignore[union-attr]
    assert save_run(finished_run("20260101-000000-again"), {}).number == 4
    delete_model(find_model("t-y"))  # type: ignore[arg-type]
    assert find_model("t-y") is None
    assert list_models() == []
    assert save_run(finished_run("20260101-000000-later"), {}).number == 5


def test_a_deleted_version_is_gone_from_the_disk_and_its_run_says_so() -> None:
    run = finished_run()
    version = save_run(run, {})
    delete_version(version)
    assert not version.directory.exists()
    assert not list(models_directory().rglob("model.json"))
    assert version_of(run) is None
    assert run.model_path.exists()
    delete_version(version)  # a second time, from another tab


def test_a_note_is_kept_with_the_version() -> None:
    version = write_note(saved()[0], "for **the** report")
    assert Version("t-y", 1).card.note == "for **the** report"
    delete_version(version)
    with pytest.raises(StateError, match="gone"):
        write_note(version, "too late")


def test_another_name() -> None:
    first, second = saved(2)
    run = second.run
    assert run is not None
    renamed = rename_model(find_model("t-y"), "prices")  # type: ignore[arg-type]
    assert renamed.numbers == (2, 1)
    assert find_model("t-y") is None
    assert version_of(run) == Version("prices", 2)
    assert save_run(finished_run("20260101-000000-next"), {}).label == "t-y:3"  # 1 and 2 meant something else before
    copied = copy_version(Version("prices", 1), "prices-copy")
    assert copied.label == "prices-copy:1"
    assert copied.model_path.read_bytes() == Version("prices", 1).model_path.read_bytes()
    assert copied.card.copied_from == "prices:1"
    assert first.number == 1


def test_a_name_that_another_model_has_is_refused() -> None:
    saved(1, "y")
    saved(1, "z")
    with pytest.raises(StateError, match="free"):
        rename_model(find_model("t-y"), "t-z")  # type: ignore[arg-type]
    assert {m.name for m in list_models()} == {"t-y", "t-z"}


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "text",
    ["../../etc/passwd", "a/b", "..", ".", "", "-rf", ".hidden", "a\0b", "a\nb", "x" * 500, "цена €", "名前",
     "CON", "a:b", "<img src=x>", "%2e%2e", "💥", "__", "a b", "\ud800"],
)  # fmt: skip
def test_names_are_harmless(text: str) -> None:
    name = safe_name(text)
    assert is_name(name)
    assert len(name.encode()) <= 80
    assert (models_directory() / name).parent == models_directory()
    assert not name.startswith((".", "-"))


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a b", "a\0", "x" * 81, ".x", "-x", "v1/../..", "a:1"])
def test_an_address_gets_no_further_than_a_name(name: str) -> None:
    saved()
    assert find_model(name) is None
    with pytest.raises(StateError):
        copy_version(Version("t-y", 1), name)
    with pytest.raises(StateError):
        rename_model(find_model("t-y"), name)  # type: ignore[arg-type]


def test_letters_of_all_languages_tell_models_apart() -> None:
    assert len({safe_name(f"файл-{target}") for target in ("цена", "вес", "рост")}) == 3
    assert len({safe_name("x" * 100 + end) for end in "abc"}) == 3


def test_targets_that_give_the_same_name_are_different_models() -> None:
    one = save_run(finished_run("20260101-000000-1", "a b"), {})
    two = save_run(finished_run("20260101-000000-2", "a-b"), {})
    again = save_run(finished_run("20260101-000000-3", "a-b", intercept=5.0), {})
    assert one.name == "t-a-b"
    assert two.name != one.name
    assert again.label == f"{two.name}:2"


@pytest.mark.parametrize(("text", "label"), [("t-y", "t-y:2"), ("t-y:1", "t-y:1"), ("t-y:v1", "t-y:1"), ("t", "t-y:2")])
def test_a_version_by_name(text: str, label: str) -> None:
    saved(2)
    assert resolve(text).label == label


@pytest.mark.parametrize("text", ["t-y:3", "t-y:x", "t-y:" + "9" * 5000, "other", "", ":1", "../t-y"])
def test_what_is_no_version_gets_a_plain_sentence(text: str) -> None:
    saved(2)
    with pytest.raises(StateError) as error:
        resolve(text)
    assert str(error.value).endswith(".")


# ------------------------------------------------------------------ several at once, and sudden ends


def _save_many(runs: list[str], gate: Any) -> None:
    gate.wait()
    for name in runs:
        save_run(Run(runs_directory() / name), {})


def test_processes_that_save_at_once_all_succeed() -> None:
    names = [[f"20260101-000000-{worker}{i:03d}" for i in range(8)] for worker in range(4)]
    for group in names:
        for name in group:
            finished_run(name)
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(4)
    workers = [context.Process(target=_save_many, args=(group, gate)) for group in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    model = find_model("t-y")
    assert model is not None
    assert sorted(model.numbers) == list(range(1, 33))
    assert {v.card.run for v in model.versions} == {name for group in names for name in group}


def test_a_process_killed_while_it_saves_leaves_no_half_version() -> None:
    """Killed again and again at another moment: what is listed is whole, and the next save succeeds."""
    finished_run(padding="x" * 3_000_000)
    code = (
        "from shoal.library import model_cards, saved_models; from shoal.home import runs_directory; from shoal.runs.folder import Run\n"
        "run = Run(runs_directory() / '20260101-000000-0000001'); print('go', flush=True)\n"
        "card = model_cards.card_of(saved_models.read_model(run.model_path), 'x', {})\n"
        "while True: saved_models._save('t-y', run.model_path.read_bytes(), card, run.directory)\n"
    )
    for attempt in range(4):
        process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.02 + 0.013 * attempt)
            process.send_signal(signal.SIGKILL)
        model = find_model("t-y")
        for version in model.versions if model else ():
            assert version.card.run == "x"
            assert len(version.contents["padding"]) == 3_000_000
    before = find_model("t-y")
    made = save_run(Run(runs_directory() / "20260101-000000-0000001"), {})
    assert made.number > (before.latest.number if before else 0)
    for left in models_directory().glob("*/.unfinished-*"):
        os.utime(left, (0, 0))
    save_run(finished_run("20260101-000000-sweep", intercept=3.0), {})
    assert not list(models_directory().glob("*/.unfinished-*"))


def test_a_damaged_version_does_not_hide_the_others() -> None:
    first, second = saved(2)
    (second.directory / "card.json").write_text("{")
    (first.directory / "model.json").write_text("not json")
    assert [m.name for m in list_models()] == ["t-y"]
    with pytest.raises(StateError, match="damaged"):
        Version("t-y", 1).contents  # noqa: B018


@pytest.mark.parametrize("exchanged", ["card.json", "model.json"])
def test_a_card_or_model_file_in_the_place_of_another_is_not_believed(exchanged: str) -> None:
    runs = [finished_run(f"20260101-000000-000000{i}", intercept=float(i)) for i in range(2)]
    for run in runs:
        run.model_path.write_bytes(sealed.sealed(json.loads(run.model_path.read_bytes()), "shoal-model", lines=True))
    first, second = (save_run(run, {}) for run in runs)
    swap(first.directory / exchanged, second.directory / exchanged)
    for label in (first.label, second.label):
        for ask in (lambda it: it.card, lambda it: it.contents, lambda it: model_path(it.label)):
            with pytest.raises(StateError, match=f"The card of {label} and its model file do not belong together"):
                ask(resolve(label))
    assert write_note(resolve(first.label), "made anew").card.note == "made anew"
    assert model_path(first.label) == first.model_path


def test_a_model_file_of_another_run_is_not_saved_as_this_ones() -> None:
    runs = [finished_run(f"20260101-000000-000000{i}", coefficients={"a": float(i)}) for i in range(2)]
    result = json.loads(runs[0].model_path.read_bytes())
    shutil.copy(runs[1].model_path, runs[0].model_path)
    with pytest.raises(StateError, match="its model file is of another fit than its result"):
        save_run(runs[0], result)
    assert list_models() == []


def test_a_run_whose_way_to_its_model_is_damaged_finds_it_by_the_cards() -> None:
    run = finished_run()
    version = save_run(run, run.result or {})
    copy_version(version, "another")
    (run.directory / "saved.json").write_text("{")
    assert version_of(run) == version
    assert save_run(run, run.result or {}) == version  # and not once more


def test_a_thousand_versions_are_listed_without_a_look_at_their_models() -> None:
    run = finished_run()
    card = card_of(json.loads(run.model_path.read_text()), run.id, {})
    for i in range(1000):
        folder = models_directory() / f"model{i % 50}" / f"v{i // 50 + 1}"
        folder.mkdir(parents=True)
        (folder / "model.json").mkdir()  # what nobody can read
        (folder / "card.json").write_text(json.dumps(card.as_dict()))
    models = list_models()
    assert len(models) == 50
    assert sum(len(m.numbers) for m in models) == 1000


# ------------------------------------------------------------------ runs leave models


def test_a_finished_run_saves_its_model_where_its_settings_say_so_and_others_when_asked(tmp_path: Path) -> None:
    data = small_table(tmp_path)
    plain = launch(config_from({"file": str(data), "target": "y"}))
    assert ended(plain) == "finished"
    assert version_of(plain) is None
    assert list_models() == []
    exact = launch(config_from({"file": str(data), "target": "y", "test_every": 4, "register": "table y"}))
    assert ended(exact) == "finished"
    version = version_of(exact)
    assert version is not None
    assert version.label == "table-y:1"
    assert exact.report is not None
    assert version.card.test == exact.report.test
    assert version.contents["data"]["content"] == version.card.data.content
    assert version.model_path.read_bytes() == exact.model_path.read_bytes()
    assert any("saved as table-y, version 1" in entry["text"] for entry in read_log(exact.directory))

    gradient = launch(short_run(data, epochs=3, register="table-y"))
    assert ended(gradient) == "finished"
    found = version_of(gradient)
    assert found is not None
    assert found.number == 2
    assert found.card.solver == "gradient"
    assert found.card.distance_to_optimum is not None
    assert found.card.rounds > 0

    stopped = training(launch(endless_run(data)))
    post(stopped, "stop")
    assert ended(stopped) == "stopped"
    assert version_of(stopped) is None
    kept = save_run(stopped, stopped.result or {})
    assert kept.number == 3
    assert kept.card.state == "stopped"


def test_a_run_does_not_fail_because_its_model_cannot_be_saved(tmp_path: Path, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "models").write_text("a file where the folder should be")
    run = launch(config_from({"file": str(small_table(tmp_path)), "target": "y", "register": "m"}))
    assert ended(run) == "finished"
    assert run.model_path.exists()
    assert any("could not be saved" in entry["text"] for entry in read_log(run.directory))


def test_the_command_line_lists_models_and_predicts_by_name(tmp_path: Path) -> None:
    assert "no saved models yet" in shoal("models").out
    data = small_table(tmp_path)
    run = launch(config_from({"file": str(data), "target": "y"}))
    assert ended(run) == "finished"
    assert "saved as table-y, version 1" in shoal("models", "add", run.id, "table-y").out
    answer = shoal("models")
    assert "table-y" in answer.out
    assert shoal("models", "--json").json["models"][0]["versions"] == [1]
    by_name, by_file = tmp_path / "by_name.csv", tmp_path / "by_file.csv"
    assert shoal("predict", "table-y:1", data, "--out", by_name).code == 0
    assert shoal("predict", resolve("table-y").model_path, data, "--out", by_file).code == 0
    assert by_name.read_text() == by_file.read_text()
    wrong = shoal("predict", "nothing", data, "--out", by_name)
    assert wrong.is_plain()
    assert "The models are: table-y" in wrong.err
