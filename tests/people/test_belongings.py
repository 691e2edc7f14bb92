"""Whose a thing is stays with the thing: through another name, an archive and back, and never for another one."""

from __future__ import annotations

from pathlib import Path

from shoal.files import sealed
from shoal.home import models_directory, runs_directory
from shoal.library import archives
from shoal.library.saved_models import find_model, rename_model, save_run
from shoal.people.acting import as_person
from shoal.people.belongings import OWNER, claim, share, thing_at
from shoal.people.person import Person
from support.library import a_copy, finished_run

ADA, BOB = Person("ada", "editor", private=True), Person("bob", "editor")


def claimed(name: str, who: Person) -> Path:
    folder = runs_directory() / name
    folder.mkdir(parents=True)
    with as_person(who):
        claim(folder)
    return folder


def test_what_says_so_of_another_run_is_not_believed(home: Path) -> None:
    one, other = claimed("one", ADA), claimed("two", BOB)
    (other / OWNER).replace(one / OWNER)
    thing = thing_at(one)
    assert thing.private
    assert not thing.owners


def test_what_an_older_version_wrote_is(home: Path) -> None:
    folder = claimed("one", BOB)
    sealed.write(folder / OWNER, {"people": {"ada": "private", "bob": "shared"}}, OWNER)
    assert thing_at(folder).owners == {"ada", "bob"}
    share(folder, private=True)
    assert thing_at(folder).private


def test_a_model_of_another_name_and_an_archived_run_belong_to_whom_they_did(tmp_path: Path, home: Path) -> None:
    (tmp_path / "finished").mkdir()
    run = a_copy(finished_run(tmp_path / "finished"))
    with as_person(ADA):
        claim(run.directory)
        save_run(run, run.result or {}, "wages")
        model = find_model("wages")
        assert model is not None
        rename_model(model, "incomes")
    assert thing_at(models_directory() / "incomes").owners == {"ada"}
    assert thing_at(models_directory() / "incomes").private
    with as_person(ADA):
        path = archives.archive(run)
        assert thing_at(path).owners == {"ada"}
        back = archives.restore(run.id)
    assert thing_at(back.directory) == thing_at(run.directory)
    assert thing_at(back.directory).owners == {"ada"}
