"""Words for versions of a model, and names of runs: in the library, on the command line and in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal as python
from shoal.errors import ConfigError, StateError
from shoal.library import accounts, aliases, archives, notes
from shoal.library.saved_models import Version, delete_version, find_model, rename_model, save_run
from shoal.runs.launch import Run, launch
from shoal.settings.values import config_from
from shoal.shelf.base import ALIASES
from support.library import with_another_model
from support.pages import open_page, said
from support.runs import ended, small_table
from support.tables import shoal


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    found = launch(config_from({"file": str(small_table(tmp_path)), "target": "y"}))
    assert ended(found) == "finished"
    return found


def saved(run: Run, name: str = "prices") -> Version:
    """Another version of the same run: its file is another by a space."""
    with_another_model(run)
    return save_run(run, run.result or {}, name)


def test_an_alias_names_a_version_until_it_is_given_to_another(run: Run, tmp_path: Path) -> None:
    first, second = saved(run), saved(run)
    assert aliases.resolve("prices") == second
    assert shoal("models", "alias", "prices:1", "champion").out == "prices@champion is version 1\n"
    assert aliases.resolve("prices@champion") == first
    model = find_model("prices")
    assert model is not None
    assert aliases.chosen_version(model) == first
    assert aliases.words_of(model, first) == ["champion"]
    out = tmp_path / "p.csv"
    assert shoal("predict", "prices@champion", str(run.config["file"]), "--out", out).code == 0
    assert python.load("prices@champion").coefficients == python.load("prices:1").coefficients
    page = open_page("models")
    assert "version 1 (champion) of 2" in "".join(html.body for html in page.get("html"))
    renamed = rename_model(model, "costs")
    assert aliases.resolve("costs@champion").label == "costs:1"
    aliases.give(Version("costs", 2), "champion")
    assert aliases.aliases(renamed) == {"champion": 2}
    delete_version(Version("costs", 2))
    with pytest.raises(StateError, match="version 2, which was deleted"):
        aliases.resolve("costs@champion")
    gone = find_model("costs")
    assert gone is not None
    assert aliases.chosen_version(gone).number == 1  # a list goes on with what there is
    assert "no alias 'champion'" in shoal("models", "unalias", "costs", "champion").out
    assert "Expected an alias of costs" in shoal("predict", "costs@champion", "x.csv", "--out", out).err


@pytest.mark.parametrize("word", ["", "3", "a b", "../x", "x" * 41])
def test_what_is_no_word_is_no_alias(run: Run, word: str) -> None:
    with pytest.raises(StateError, match="Expected an alias to be a word"):
        aliases.give(saved(run), word)


def test_damaged_aliases_are_told_and_hide_no_model(run: Run) -> None:
    version = saved(run)
    aliases.give(version, "champion")
    path = version.directory.parent / ALIASES
    path.write_bytes(path.read_bytes().replace(b"champion", b"chompion"))
    with pytest.raises(StateError, match="The aliases of prices cannot be read"):
        aliases.resolve("prices@champion")
    assert aliases.resolve("prices") == version
    assert "prices" in shoal("models").out


def test_a_run_goes_by_the_name_that_a_person_gave_it(run: Run, tmp_path: Path) -> None:
    name = "the long one " * 9  # 117 letters
    assert shoal("name", run.id, name).code == 0
    assert accounts.summary_of(run).name == name.strip()
    assert "the long one" in shoal("runs").out
    assert shoal("show", name.strip()).code == 0
    assert run.id in shoal("runs", "LONG", "table").out
    assert "No run has 'moon' in its name" in shoal("runs", "moon").out
    notes.write(run, ("baseline",), "a note")  # tags leave it alone
    assert notes.read(run).name == name.strip()
    with pytest.raises(ConfigError, match="at most 120 characters"):
        notes.give_name(run, "x" * 121)
    table = str(run.config["file"])
    made = shoal("train", table, "--target", "y", "--name", "second try", "--json")
    assert made.code == 0
    assert accounts.summary_of(Run(run.directory.parent / made.json["run_id"])).name == "second try"
    assert "second try" in said(open_page("train", run=made.json["run_id"]))


def test_the_lineage_of_an_archived_run_is_kept(run: Run) -> None:
    notes.give_name(run, "first try")
    version = saved(run)
    archives.archive(run)
    page = open_page("models", model=version.name, view="Lineage")
    assert "The run “first try” is in the archive" in said(page)


def test_aliases_of_another_model_in_their_place_are_told(run: Run) -> None:
    version = saved(run)
    ridge = launch(config_from({"file": str(run.config["file"]), "target": "y", "model": "ridge", "alpha": 3.0}))
    assert ended(ridge) == "finished"
    other = saved(ridge, "costs")
    for one in (version, other):
        aliases.give(one, "champion")
    mine, theirs = (one.directory.parent / ALIASES for one in (version, other))
    mine.write_bytes(theirs.read_bytes())
    with pytest.raises(StateError, match="version 1 is another model than the one that they mean"):
        aliases.resolve("prices@champion")
    assert aliases.resolve("costs@champion") == other
