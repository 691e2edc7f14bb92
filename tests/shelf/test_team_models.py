"""Saved models of a team as the library sees them: rights, names, notes and aliases from several homes, and backups."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.dashboard.api.models import predict
from shoal.dashboard.api.operations import ApiRequest
from shoal.database.address import VARIABLE
from shoal.database.connections import close_all
from shoal.errors import NotAllowed, ResourceError, StateError
from shoal.library import aliases
from shoal.library.saved_models import (
    Version,
    copy_version,
    delete_model,
    delete_version,
    find_model,
    list_models,
    rename_model,
    save_run,
    write_note,
)
from shoal.people import deeds
from shoal.people.acting import as_person
from shoal.people.person import Person
from shoal.shelf import postgres_shelf
from shoal.shelf.base import ModelShelf
from shoal.shelf.place import shelf
from support.library import freed, run_with_model
from support.tables import shoal
from support.team.postgres import Postgres

ADA, BOB, ROOT = (Person("ada", "editor", private=True), Person("bob", "editor"), Person("root", "admin"))


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Be at a machine of this name from now on."""

    def be(name: str) -> Path:
        monkeypatch.setenv("SHOAL_HOME", str(tmp_path / name))
        (tmp_path / name).mkdir(exist_ok=True, mode=0o700)
        return tmp_path / name

    return be


def saved(number: int = 1, name: str = "wages", intercept: float = 1.0) -> Version:
    return save_run(run_with_model(f"20260101-000000-{number:07d}", intercept=intercept), {}, name)


def model_names() -> list[str]:
    return sorted(model.name for model in list_models())


def test_names_notes_copies_and_deletions_are_the_same_for_all(team_database: str, at: Callable[[str], Path]) -> None:
    at("here")
    first, _ = saved(1), saved(2, intercept=2.0)
    aliases.give(first, "champion", "ada", "the first")
    at("there")
    write_note(Version("wages", 1), "checked there")
    copy_version(Version("wages", 2), "copied")
    model = find_model("wages")
    assert model is not None
    assert rename_model(model, "pay").numbers == (2, 1)
    at("here")
    assert model_names() == ["copied", "pay"]
    assert Version("pay", 1).card.note == "checked there"
    assert Version("copied", 1).card.copied_from == "wages:2"
    assert Version("copied", 1).contents["intercept"] == 2.0
    assert aliases.resolve("pay@champion") == Version("pay", 1)
    with pytest.raises(StateError, match="is or was another model's"):
        rename_model(find_model("copied"), "wages")  # type: ignore[arg-type]
    copy = Version("pay", 2).model_path
    assert copy.exists()
    at("there")
    delete_version(Version("pay", 2))
    at("here")
    with pytest.raises(StateError, match="the version pay:2, but it is gone"):
        _ = Version("pay", 2).model_path
    assert not copy.exists()
    assert not Version("pay", 2).exists
    assert saved(3, "pay").number == 3
    delete_model(find_model("pay"))  # type: ignore[arg-type]
    at("there")
    assert (model_names(), saved(4, "pay").number, saved(5, "wages").number) == (["copied"], 4, 3)


def test_whoever_may_not_see_or_touch_a_model_may_not_from_any_machine(
    team_database: str, at: Callable[[str], Path]
) -> None:
    at("here")
    with as_person(ADA):
        secret = saved(1, "hers")
        path = secret.model_path
    with as_person(BOB):
        saved(2, "his")
    at("there")
    with as_person(BOB):
        assert model_names() == ["his"]
        assert find_model("hers") is None
        with pytest.raises(NotAllowed):
            saved(3, "hers")
        for deed in (
            lambda: write_note(secret, "mine"), lambda: delete_version(secret), lambda: aliases.give(secret, "champion"),
        ):  # fmt: skip
            with pytest.raises(NotAllowed):
                deed()
        at("here")
        from shoal.people.belongings import sees

        assert not sees(path)
        at("there")
    with as_person(ADA):
        assert model_names() == ["hers", "his"]
        with pytest.raises(NotAllowed, match="bob's"):
            delete_version(Version("his", 1))
        model = find_model("hers")
        assert model is not None
        renamed = rename_model(model, "still-hers").latest
    with as_person(BOB):
        assert model_names() == ["his"]
    with as_person(ADA):
        deeds.share(renamed.directory, private=False)
    at("here")
    with as_person(BOB):
        assert model_names() == ["his", "still-hers"]
        with pytest.raises(NotAllowed, match="ada's"):
            delete_version(Version("still-hers", 1))
    with as_person(ROOT):
        delete_version(Version("still-hers", 1))
    assert model_names() == ["his"]


def test_who_it_belongs_to_is_believed_only_as_it_was_written(
    team_database: str, postgres: Postgres, at: Callable[[str], Path]
) -> None:
    at("here")
    with as_person(ADA):
        saved(1, "hers")
    with as_person(BOB):
        saved(2, "his")
    postgres.execute(
        "UPDATE shoal.models SET owner = (SELECT owner FROM shoal.models WHERE name = 'his') WHERE name = 'hers'",
        team_database,
    )
    with as_person(BOB):
        assert model_names() == ["his"]  # what is said of another thing says nothing of this one
    with as_person(ROOT):
        assert model_names() == ["hers", "his"]


def test_a_harmed_or_removed_copy_is_fetched_again_and_cleaned_up(
    team_database: str, at: Callable[[str], Path]
) -> None:
    home = at("here")
    version = saved()
    path = version.model_path
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"1", b"2"))
    assert version.model_path.read_bytes() == whole
    assert freed("fetched").count == 1
    assert not path.exists()
    assert version.model_path.read_bytes() == whole
    assert [entry.name for entry in (home / "fetched").rglob("*") if entry.is_file()] == ["model.json"]


def test_a_change_that_fails_half_way_has_not_begun(team_database: str) -> None:
    kept: ModelShelf = shelf()
    saved()

    def fail() -> None:
        with kept.changing("wages") as change:
            change.write("aliases.json", b"{}")
            change.remove(1)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half"):
        fail()
    assert Version("wages", 1).exists
    assert aliases.aliases(find_model("wages")) == {}  # type: ignore[arg-type]
    assert saved(2).number == 2  # and nobody holds it any more


def test_versions_saved_while_the_model_gets_other_names_are_all_there_with_a_number_of_their_own(
    team_database: str,
) -> None:
    kept, given = shelf(), list[int]()
    whole, said = saved(1, "a").model_path.read_bytes(), b"{}"
    half, done = threading.Barrier(3), threading.Event()

    def save() -> None:
        for number in range(12):
            given.append(kept.add("a", whole, said))
            if number == 3:
                half.wait()

    def rename() -> None:
        half.wait()
        for number in range(50):
            if done.is_set():
                break
            if kept.find("a"):
                kept.rename("a", f"was-a-{number}")

    saving = [threading.Thread(target=save) for _ in range(2)]
    renaming = threading.Thread(target=rename)
    for thread in (*saving, renaming):
        thread.start()
    for thread in saving:
        thread.join()
    done.set()
    renaming.join()
    assert sorted(given) == list(range(2, 26))
    assert sorted(number for model in kept.look() for number in model.numbers) == list(range(1, 26))
    assert any(model.name.startswith("was-a-") for model in kept.look())


def test_a_model_that_is_too_large_is_refused_in_words(team_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_shelf, "LARGEST", 100)
    with pytest.raises(ResourceError, match=r"at most 100 B for the team's database, got [\d,.]+ \w+\. Use it from"):
        saved()
    assert list_models() == []


@pytest.fixture
def another_database(postgres: Postgres) -> Iterator[str]:
    """The address of one without tables."""
    name = postgres.new_database()
    yield postgres.address(name)
    close_all()
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_backup_restores_models_into_an_empty_database_and_home(
    team_database: str,
    another_database: str,
    at: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at("here")
    with as_person(ADA):
        first = saved(1)
        saved(2, intercept=2.0)
        aliases.give(first, "champion", why="because")
    whole = [Version("wages", number).model_path.read_bytes() for number in (1, 2)]
    assert shoal("backup", "create", tmp_path / "all.tar.gz").code == 0
    monkeypatch.setenv(VARIABLE, another_database)
    at("new")
    answer = shoal("backup", "restore", tmp_path / "all.tar.gz")
    assert answer.code == 0, answer.err
    with as_person(BOB):
        assert model_names() == []
    with as_person(ADA):
        assert aliases.resolve("wages@champion") == first
        assert [Version("wages", number).model_path.read_bytes() for number in (1, 2)] == whole
        assert saved(3).number == 3
    history = json.loads(shoal("models", "history", "wages", "--json").out)
    assert [(one["version"], one["who"], one["why"]) for one in history["moves"]] == [(1, "ada", "because")]


def test_an_answer_by_an_alias_looks_at_the_model_once(
    team_database: str, at: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    at("one")
    aliases.give(saved(), "champion", "ada")
    find, asked = postgres_shelf.PostgresShelf.find, list[str]()
    monkeypatch.setattr(postgres_shelf.PostgresShelf, "find", lambda self, name: asked.append(name) or find(self, name))
    request = ApiRequest({"model": "wages", "version": "champion"}, {}, {"rows": [{"a": 1.0}]}, {})
    assert predict(request).values["predictions"] == (3.0,)
    assert asked == ["wages"]
    asked.clear()
    saved(2, intercept=2.0)
    aliases.give(find_model("wages").latest, "champion", "ada")  # type: ignore[union-attr]
    assert predict(request).values["predictions"] == (4.0,), "at once"
