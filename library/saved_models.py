"""Saved models: each has a name and numbered versions, and does not need the run that it came from.

Where they are kept is known to `shelf`: a version has a model file, as `shoal predict` reads it, and a card with what
is said about it: run, time, scores, data, config, note. How a model is fitted or predicts is elsewhere. Imports are
light: pages and the command line live on this.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from shoal.errors import DamagedFile, StateError
from shoal.files import sealed
from shoal.files.model_names import LONGEST, checked_name, digest, is_name, safe_name
from shoal.files.parts import title
from shoal.home import models_directory
from shoal.lazy.classes import dataclass
from shoal.library.model_cards import AnotherModel, card_anew, card_in, card_of
from shoal.people.acting import person
from shoal.people.belongings import belong, claim, sees, thing_at, visible, wishes
from shoal.people.deeds import allow, check_saving, for_owner
from shoal.people.rights import Verb, may
from shoal.results.card import ModelCard
from shoal.results.model import ModelFile, checksum_at_end, read_model
from shoal.results.plain import Malformed
from shoal.runs.documents import read_json
from shoal.runs.folder import Run, find_run, write_json
from shoal.runs.made_files import prove_model
from shoal.shelf.base import CARD, VERSION, KeptModel, Saver
from shoal.shelf.place import patiently, shelf
from shoal.utils import disk_errors

AWAY = 120.0  # seconds that the process of a run waits for the team's database before it ends without a saved version
POINTER = "saved.json"  # in a run's folder: the version that was made from it


def usual_name(file: str, target: str) -> str:
    """What a model of this column of this file is called, unless that name is another's."""
    stem = title(file).partition(".")[0]
    name = safe_name(f"{stem}-{target}")
    found, mine = _existing(name), may(person(), Verb.CHANGE, thing_at(models_directory() / name))
    latest = found.latest if found else None
    same = latest is None or latest.known is None
    if mine and (same or (latest and latest.target == target and latest.file.partition(".")[0] == stem)):
        return name
    whose = "" if mine else f"/{person().name}"
    return f"{name.encode()[: LONGEST - 9].decode(errors='ignore')}-{digest(f'{stem}/{target}{whose}')}"


# ------------------------------------------------------------------ what is there


@dataclass(frozen=True)
class Version:
    """One saved version."""

    name: str
    number: int
    kept: KeptModel | None = dataclasses.field(default=None, compare=False, repr=False)  # the model as it was seen

    @property
    def directory(self) -> Path:
        """Among what belongs to somebody, see `people.belongings`; its files are where the shelf has them."""
        return models_directory() / self.name / f"v{self.number}"

    @property
    def model_path(self) -> Path:
        """Its model file on this machine, to which it may have to be fetched."""
        try:
            return shelf().path(self.name, self.number)
        except FileNotFoundError:
            raise self._gone() from None

    @property
    def place(self) -> Path:
        """Where that is, or will be: nothing is fetched."""
        return shelf().place(self.name, self.number)

    def _gone(self) -> StateError:
        return StateError(f"Expected the version {self.label}, but it is gone. Choose another.")

    @property
    def own_model(self) -> Path:
        """The model file, to be read: StateError where its card is about another one."""
        if isinstance(self._card, AnotherModel):
            raise AnotherModel(*self._card.args)
        return self.model_path

    @property
    def label(self) -> str:
        return f"{self.name}:{self.number}"

    @property
    def card(self) -> ModelCard:
        """What is said about it; StateError if that cannot be read."""
        if isinstance(self._card, StateError):
            raise StateError(*self._card.args)
        return self._card

    @property
    def known(self) -> ModelCard | None:
        """The card, if it can be read."""
        return None if isinstance(self._card, StateError) else self._card

    @property
    def damage(self) -> StateError | None:
        """Why the card cannot be read."""
        return self._card if isinstance(self._card, StateError) else None

    @cached_property
    def _card(self) -> ModelCard | StateError:
        document, kept = f"v{self.number}/{CARD}", self.kept or shelf().find(self.name)
        try:
            if kept is None:
                raise self._gone()
            return card_in(kept.read, document, shelf().said(self.name, document), kept.mark(self.number), self.label)
        except StateError as error:
            return error

    @property
    def exists(self) -> bool:
        """As of now."""
        found = shelf().find(self.name)
        return found is not None and self.number in found.numbers

    @property
    def contents(self) -> dict[str, Any]:
        """The whole model file."""
        try:
            return read_model(self.own_model)
        except OSError as error:
            raise StateError(
                f"Expected the model file of {self.label} at '{self.place}', got: {error.strerror}. "
                "Train it again, or delete it."
            ) from None

    @property
    def model(self) -> ModelFile:
        """The whole model file, checked."""
        try:
            return ModelFile.from_dict(self.contents)
        except Malformed as error:
            raise StateError(
                f"The model file of {self.label} is damaged ({error}): '{self.place}'. Train it again, or delete it."
            ) from None

    @property
    def target(self) -> str:
        return self.known.target if self.known else ""

    @property
    def file(self) -> str:
        """The name of the file that it was trained on."""
        return self.known.data.file if self.known else ""

    @property
    def created(self) -> float:
        if self.known:
            return self.known.created
        kept = self.kept or shelf().find(self.name)
        return kept.saved(self.number) if kept else 0.0

    @property
    def run(self) -> Run | None:
        """The run that made it, while that is there."""
        return find_run(self.known.run) if self.known and self.known.run else None


@dataclass(frozen=True)
class Model:
    """A name and its versions, the newest first."""

    name: str
    numbers: tuple[int, ...]
    kept: KeptModel | None = dataclasses.field(default=None, compare=False, repr=False)  # in lists: as it was seen then

    @property
    def versions(self) -> list[Version]:
        kept = self.seen
        return [Version(self.name, number, kept) for number in self.numbers]

    @cached_property
    def latest(self) -> Version:
        return Version(self.name, self.numbers[0], self.kept)

    def version(self, number: int) -> Version | None:
        return Version(self.name, number, self.kept) if number in self.numbers else None

    @property
    def seen(self) -> KeptModel | None:
        """What is kept of it: as it was in a list, or else now."""
        return self.kept or shelf().find(self.name)

    def named(self, text: str) -> Version | None:
        """The version that an address or a person names: 3 or v3."""
        match = VERSION.fullmatch(f"v{text.removeprefix('v')}")
        return self.version(int(match[1])) if match else None


def _pointer(run: Run) -> dict[str, Any]:
    """Which version a run says was made from it; where that cannot be read, the cards of all versions tell it."""
    try:
        return read_json(run.directory / POINTER) or {}
    except DamagedFile:
        every = [version for model in list_models() for version in model.versions]
        made = [v for v in every if v.known and v.known.run == run.id and not v.known.copied_from]
        latest = max(made, key=lambda version: version.created, default=None)
        return {"model": latest.name, "version": latest.number} if latest else {}


def list_models() -> list[Model]:
    """All models with a version, the one saved last first; only the card of each latest version is read."""
    kept = {one.name: one for one in shelf().look()}
    found = [Model(name, kept[name].numbers, kept[name]) for name in visible(models_directory(), kept)]
    return sorted(found, key=lambda model: (-model.latest.created, model.name))


def find_model(name: str, as_seen: bool = False) -> Model | None:
    """The model of this name, if whoever acts may see it. Names come from addresses: only names get through.

    `as_seen`: for one answer, all of it as it is at this moment; else what is asked of it later is looked at anew.
    """
    if not (is_name(name) and sees(models_directory() / name)):
        return None
    found = shelf().find(name)
    return Model(name, found.numbers, found if as_seen else None) if found else None


def _existing(name: str) -> Model | None:
    found = shelf().find(name)
    return Model(name, found.numbers) if found else None


def version_of(run: Run) -> Version | None:
    """The version that was saved from a run, if it is still there."""
    found = _pointer(run)
    name, number = str(found.get("model", "")), found.get("version")
    if not is_name(name) or not isinstance(number, int):
        return None
    version = Version(name, number)
    return version if version.known and version.known.run == run.id and sees(version.directory) else None


# ------------------------------------------------------------------ save


def save_run(run: Run, result: Mapping[str, Any], name: str | None = None, fence: int | None = None) -> Version:
    """A version from the model file in a run's folder; the same model of the same run is saved once.

    `fence` is what a run host holds the run with, whose process this is.
    """
    try:
        contents = read_model(prove_model(run.model_path))
    except OSError:
        raise StateError(f"The run {run.id} has no model file to save. Let it finish, or resume it.") from None
    earlier = version_of(run)
    if earlier and name in (None, earlier.name) and _same_bytes(earlier.model_path, run.model_path):
        return earlier
    file = str((contents.get("config") or {}).get("file", ""))
    chosen = checked_name(name) if name else usual_name(file, str(contents.get("target", "")))
    try:
        card = card_of(contents, run.id, result)
    except Malformed as error:
        raise StateError(f"What is said of the model of {run.id} is damaged ({error}). Resume the run.") from None
    version = _save(chosen, run.model_path.read_bytes(), card, run.directory, Saver(run.id, fence))
    with contextlib.suppress(OSError):  # the folder may be gone by now; the model does not need it
        write_json(run.directory / POINTER, {"model": version.name, "version": version.number})
    return version


def save_for_owner(
    run: Run, result: Mapping[str, Any], name: str, say: Callable[[str], None], fence: int | None = None
) -> Version:
    """As `save_run`, by the process of the run for whoever has it; waits for a database that is away for a while."""

    def save() -> Version:
        with for_owner(run.directory):
            return save_run(run, result, name, fence)

    return patiently(save, AWAY, lambda error: say(f"The model waits to be saved. {error.message}"))


def _same_bytes(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return one.read_bytes() == other.read_bytes()
    return False


def _save(name: str, model: bytes, card: ModelCard, source: Path, saver: Saver | None = None) -> Version:
    """`source` is the folder of the run or version that it comes from, which tells whose it is."""
    folder, kept = models_directory() / name, shelf()
    card = dataclasses.replace(card, file_checksum=checksum_at_end(model))
    check_saving(name)
    with disk_errors("the model"):
        if not kept.highest(name):
            claim(folder, source)
        allow(Verb.CHANGE, folder, "model saved")
        return Version(name, kept.add(name, model, sealed.sealed(card.as_dict(), CARD), saver))


# ------------------------------------------------------------------ change


def write_note(version: Version, text: str) -> Version:
    """Keep what a person says about a version; a card that cannot be read is made anew from the model file."""
    allow(Verb.CHANGE, version.directory, "model noted")
    with contextlib.suppress(FileNotFoundError), shelf().changing(version.name) as change:
        current = Version(version.name, version.number, change)
        if version.number in change.numbers:
            card = current.known or card_anew(current.model_path, read_model(current.model_path), current.created)
            with disk_errors("the model"):
                noted = dataclasses.replace(card, note=text).as_dict()
                change.write(f"v{version.number}/{CARD}", sealed.sealed(noted, CARD))
            return Version(version.name, version.number)
    raise StateError(f"Expected the version {version.label}, but it is gone. Somebody may have deleted it.")


def delete_version(version: Version) -> None:
    """Its number is not given again; the run it came from is not touched."""
    allow(Verb.CHANGE, version.directory, f"version {version.number} deleted")
    with contextlib.suppress(FileNotFoundError), shelf().changing(version.name) as change:
        change.remove(version.number)


def delete_model(model: Model) -> None:
    """All versions; the last number stays on record, so that an old address never leads to a new model."""
    found = shelf().find(model.name)
    for number in found.numbers if found else ():
        delete_version(Version(model.name, number))


def copy_version(version: Version, name: str) -> Version:
    """The same under another name, as its next version."""
    if not version.exists:
        raise StateError(f"Expected the version {version.label}, but it is gone. Choose another.")
    card = dataclasses.replace(version.card, copied_from=version.label, created=time.time())
    try:
        return _save(checked_name(name), version.model_path.read_bytes(), card, version.directory)
    except FileNotFoundError:
        raise StateError(f"Expected the version {version.label}, but it is gone. Choose another.") from None


def rename_model(model: Model, name: str) -> Model:
    """Give a model another name, which no other has or had."""
    folder = models_directory() / model.name
    allow(Verb.CHANGE, folder, "model renamed")
    if checked_name(name) == model.name:
        return model
    wished = wishes(folder)
    try:
        shelf().rename(model.name, name)
    except FileExistsError:
        raise StateError(
            f"Expected a name that is free, but '{name}' is or was another model's. Choose another, or save this "
            "version under that name to make it the next one there."
        ) from None
    except FileNotFoundError:
        raise StateError(f"Expected the model '{model.name}', but it is gone. Choose another.") from None
    belong(models_directory() / name, wished)  # what says so names the model
    renamed = _existing(name)
    if renamed is None:
        raise StateError(f"Expected the model '{name}', but it is gone again. Choose another.")
    for version in renamed.versions:
        _point_back(version)
    return renamed


def _point_back(version: Version) -> None:
    """Tell the run of a renamed version where that is now."""
    run = version.run
    if run is not None and _pointer(run).get("version") == version.number:
        with contextlib.suppress(OSError):
            write_json(run.directory / POINTER, {"model": version.name, "version": version.number})
