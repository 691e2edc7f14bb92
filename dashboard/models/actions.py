"""What can be done with a saved version: note, another name, deletion; it asks before what cannot be undone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import streamlit as st

from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.errors import TrainingError
from shoal.library import aliases, saved_models
from shoal.library.saved_models import Model, Version
from shoal.people.deeds import why_not
from shoal.people.rights import SERVICE, Verb

T = TypeVar("T")
LONGEST_NOTE = 2_000
ACTIONS = {
    "note": "Write a note",
    "rename": "Rename the model",
    "copy": "Save under another name",
    "alias": "Give it an alias",
    "version": "Delete this version",
    "model": "Delete the model",
}


def menu(model: Model, version: Version) -> None:
    held, new = why_not(Verb.CHANGE, version.directory), why_not(Verb.START, SERVICE)
    offered = [name for name in ACTIONS if not held or (name == "copy" and not new)]  # a copy is a model of one's own
    chosen = st.menu_button(
        "Manage", offered or list(ACTIONS), format_func=ACTIONS.__getitem__, icon=":material/more_horiz:", key="manage",
        disabled=not offered, help=held or None,
    )  # fmt: skip
    dialogs: dict[str, Callable[[Model, Version], None]] = {
        "note": _note, "rename": _rename, "copy": _copy, "alias": _alias, "version": _delete_version,
        "model": _delete_model,
    }  # fmt: skip
    if chosen:
        dialogs[chosen](model, version)


def note(version: Version) -> None:
    """What a person wrote about this version."""
    if version.damage:
        notice("warning", wording.told(version.damage))
    elif text := version.card.note:
        notice("info", text, "Note")


@st.dialog("Note on this version", icon=":material/edit_note:")
def _note(model: Model, version: Version) -> None:
    line(f"{version.name}, version {version.number}")
    text = st.text_area(
        "Note", version.known.note if version.known else "", max_chars=LONGEST_NOTE, key="note:text",
        help="What this version is for, or what was tried. It is kept with the version.",
    )  # fmt: skip
    if st.button("Save note", type="primary", key="note:save"):
        _tried(lambda: saved_models.write_note(version, text.strip()), lambda _: st.rerun())


@st.dialog("Rename the model", icon=":material/drive_file_rename_outline:")
def _rename(model: Model, version: Version) -> None:
    line(f"{model.name} with all its versions gets another name. Addresses with the old name no longer lead here.")
    name = st.text_input("New name", model.name, key="rename:name", help=_name_help())
    if st.button("Rename", type="primary", key="rename:do"):
        _tried(
            lambda: saved_models.rename_model(model, name.strip()),
            lambda renamed: places.go("models", model=renamed.name, version=str(version.number)),
        )


@st.dialog("Save under another name", icon=":material/content_copy:")
def _copy(model: Model, version: Version) -> None:
    line(f"Version {version.number} of {model.name} becomes the next version of the model with that name.")
    name = st.text_input("Name", f"{model.name}-copy", key="copy:name", help=_name_help())
    if st.button("Save", type="primary", key="copy:do"):
        _tried(
            lambda: saved_models.copy_version(version, name.strip()),
            lambda made: places.go("models", model=made.name, version=str(made.number)),
        )


@st.dialog("Aliases of this version", icon=":material/label:")
def _alias(model: Model, version: Version) -> None:
    line(
        f"A word that means version {version.number} of {model.name} until you give it to another one: "
        f"{model.name}@{aliases.CHAMPION} on the command line, in Python and in addresses."
    )
    word = st.text_input("Alias", aliases.CHAMPION, key="alias:word", max_chars=40)
    if st.button("Give it", type="primary", key="alias:give"):
        _tried(lambda: aliases.give(version, word.strip()), lambda _: st.rerun())
    for known in aliases.words_of(model, version):
        if st.button(f"Take away {known}", key=f"alias:{known}", icon=":material/label_off:"):
            _tried(partial(aliases.take_away, model, known), lambda _: st.rerun())


def _name_help() -> str:
    return "Letters, digits, dots, dashes and underscores."


@st.dialog("Delete this version?", icon=":material/delete:")
def _delete_version(model: Model, version: Version) -> None:
    line(f"Version {version.number} of {model.name} is removed. Its run stays; its number is not used again.")
    if st.button("Delete version", type="primary", key="delete:version"):
        rest = [number for number in model.numbers if number != version.number]
        _tried(
            lambda: saved_models.delete_version(version),
            lambda _: places.go("models", **({"model": model.name} if rest else {})),
        )


@st.dialog("Delete the model?", icon=":material/delete:")
def _delete_model(model: Model, version: Version) -> None:
    count = len(model.numbers)
    versions = "its only version" if count == 1 else f"all {count:,} versions"
    line(f"{model.name} with {versions} is removed. The runs stay.")
    if st.button("Delete model", type="primary", key="delete:model"):
        _tried(lambda: saved_models.delete_model(model), lambda _: places.go("models"))


def _tried(what: Callable[[], T], then: Callable[[T], None]) -> None:
    """Do it, or say in the dialog why not."""
    try:
        done = what()
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error))
        return
    then(done)
