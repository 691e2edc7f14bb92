"""Which version of a model a person means: NAME, NAME:3 or NAME@3, or NAME@champion, where the word is an alias.

Aliases are in the document aliases.json of a model, each a word and a number, with the checksums of the models
that are meant: the aliases of another model in their place are told. A version that is deleted takes no alias along:
whoever names it is told. What versions are is in `saved_models`.
"""

from __future__ import annotations

import re
from pathlib import Path

from shoal.errors import DamagedFile, StateError
from shoal.files import sealed
from shoal.home import by_beginning, models_directory
from shoal.library import alias_history
from shoal.library.saved_models import Model, Version, find_model, list_models
from shoal.people.belongings import sees_everything
from shoal.people.deeds import allow
from shoal.people.rights import Verb
from shoal.runs.made_files import prove_model
from shoal.shelf.base import ALIASES, KeptModel
from shoal.shelf.place import not_moved, shelf
from shoal.utils import disk_errors
from shoal.words import listed

CHAMPION = "champion"
MEANT = ":models"  # in the file, which no word can be: the checksum of the model that each number means
WORD = re.compile(r"[^\W\d_][\w.-]{0,39}")  # not a number: that is a version


def resolve(text: str) -> Version:
    """NAME, its latest version, NAME:N or NAME@ALIAS; a beginning of a name that only one model has will do."""
    name, mark, which = text.partition("@") if "@" in text else text.partition(":")
    model = find_model(name) or _beginning_with(name)
    if not mark:
        return model.latest
    is_word = mark == "@" and not which.removeprefix("v").isdecimal()  # no alias is a number
    return version_at(model, which) if is_word else _numbered(model, which)


def model_path(named: str | Path) -> Path:
    """A file of that name, or else the model file of a saved model."""
    path = Path(named)
    if (path.exists() and not path.is_dir()) or path.suffix == ".json" or len(path.parts) > 1:
        return prove_model(path)
    return resolve(str(named)).own_model


def _numbered(model: Model, number: str) -> Version:
    version = model.named(number) if number else model.latest
    if version is None:
        have = listed([str(n) for n in model.numbers])
        raise StateError(f"Expected a version of {model.name}, got '{number}'. It has: {have}.")
    return version


def _beginning_with(name: str) -> Model:
    models = {model.name: model for model in list_models()}
    if found := by_beginning(name, models, "model"):
        return found
    known = f"The models are: {listed(list(models))}." if models else "There are none yet."
    left = f" {not_moved()}".rstrip() if sees_everything() else ""
    raise StateError(f"Expected a model file or the name of a saved model, got '{name}'. {known}{left}")


def version_at(model: Model, alias: str) -> Version:
    known = aliases(model)
    if alias not in known:
        have = listed(list(known)) if known else "none"
        raise StateError(f"Expected an alias of {model.name}, got '{alias}'. It has: {have}.")
    version = model.version(known[alias])
    if version is None:
        raise StateError(
            f"The alias '{alias}' of {model.name} is that of version {known[alias]}, which was deleted. "
            "Give it to another version."
        )
    return version


def aliases(model: Model) -> dict[str, int]:
    """Words and the numbers of their versions, in the order of the words."""
    kept = model.seen
    return _aliases_in(kept) if kept else {}


def _aliases_in(model: KeptModel) -> dict[str, int]:
    where = shelf().said(model.name, ALIASES)
    try:
        said = sealed.proven(model.read(ALIASES), where, ALIASES, sealed.never_sealed)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StateError(f"The aliases of {model.name} cannot be read: {error.strerror} ('{where}').") from None
    except DamagedFile as error:
        raise StateError(f"The aliases of {model.name} cannot be read. {error.message} Give them anew.") from None
    found = {word: number for word, number in sorted(said.items()) if isinstance(number, int) and WORD.fullmatch(word)}
    meant = said.get(MEANT, {})  # older versions did not say
    for number in found.values():
        mark = alias_history.mark_of(model, number)
        if mark and meant.get(str(number), mark) != mark:
            raise StateError(
                f"The aliases of {model.name} are not what was written: version {number} is another model than the one "
                f"that they mean ('{where}'). Give them anew."
            )
    return found


def known_aliases(model: Model) -> dict[str, int]:
    """The same for a list, which one damaged file must not take away."""
    kept = model.seen
    return _known(kept) if kept else {}


def _known(model: KeptModel) -> dict[str, int]:
    try:
        return _aliases_in(model)
    except StateError:
        return {}


def words_of(model: Model, version: Version) -> list[str]:
    """The aliases of one version."""
    return [word for word, number in known_aliases(model).items() if number == version.number]


def chosen_version(model: Model) -> Version:
    """The champion, where one was named; else the latest."""
    number = known_aliases(model).get(CHAMPION)
    return (model.version(number) if number else None) or model.latest


def give(version: Version, alias: str, who: str = "", why: str = "") -> None:
    """Let a word mean this version, and no longer another one of its model; `who` is the user here, if not said."""
    check_word(alias)
    if not version.exists:
        raise StateError(f"Expected the version {version.label}, but it is gone. Choose another.")
    _change(version.name, alias, version.number, who, why)


def roll_back(model: Model, alias: str = CHAMPION, who: str = "", why: str = "") -> Version:
    """Let a word mean again what it meant before, as far as that is still there."""
    now = aliases(model).get(alias)
    for number in alias_history.earlier(model.name, alias):
        version = model.version(number)
        if version is not None and number != now:
            _change(model.name, alias, number, who, why or "rolled back", back=True)
            return version
    raise StateError(
        f"Expected a version that {model.name}@{alias} meant before, but there is none any more. "
        f"Give it to one with: shoal models alias {model.name}:VERSION {alias}."
    )


def check_word(alias: str) -> None:
    if not WORD.fullmatch(alias):
        raise StateError(
            f"Expected an alias to be a word of at most 40 characters that begins with a letter, got '{alias[:60]}'. "
            f"For example: {CHAMPION}."
        )


def take_away(model: Model, alias: str, who: str = "", why: str = "") -> None:
    if alias not in aliases(model):
        have = listed(list(aliases(model))) or "none"
        raise StateError(f"Expected an alias of {model.name}, got '{alias}'. It has: {have}.")
    _change(model.name, alias, None, who, why)


def _change(name: str, alias: str, number: int | None, who: str, why: str, back: bool = False) -> None:
    allow(Verb.CHANGE, models_directory() / name, f"alias {alias} {'taken away' if number is None else number}")
    with shelf().changing(name) as change, disk_errors("the model"):
        before = _known(change)
        if before.get(alias) == number and number is not None:
            return
        now = {**before, alias: number}
        kept = {word: own for word, own in now.items() if own is not None}
        marks = {str(own): alias_history.mark_of(change, own) for own in kept.values()}
        said = {**kept, MEANT: {own: mark for own, mark in marks.items() if mark}}
        change.write(ALIASES, sealed.sealed(said, ALIASES))
        alias_history.add(change, [alias_history.move(change, alias, number, before.get(alias), who, why, back)])
