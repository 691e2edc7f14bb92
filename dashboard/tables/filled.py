"""What a person filled in on the form of a page, kept with the table that it is about: SHOAL_HOME/tables.

The session has it first; this is what a reload, another tab and tomorrow begin with. What belongs to the table whatever
page it is on, as how it is read, is in `choices`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import streamlit as st

from shoal.dashboard.parts.literal import notice
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.home import table_choices_file
from shoal.people import acting

TRAIN, TUNE, SEARCH = "train", "tune", "search"  # the forms
DRAFT = "draft"  # what was filled in, knob by knob
VALUES = "filled"  # in the file


def kept(key: str, form: str) -> dict[str, Any]:
    """What was filled in there last; nothing where nothing was, or where it cannot be read, see `damage`."""
    try:
        return _read(_own(key, form))
    except (OSError, DamagedFile):
        return {}


def damage(key: str, form: str) -> str:
    """Why what was filled in there cannot be read; empty if it can, or nothing was."""
    try:
        _read(_own(key, form))
    except FileNotFoundError:
        return ""
    except DamagedFile as error:
        return error.message
    except OSError as error:
        return f"'{error.filename}' cannot be read: {error.strerror}."
    return ""


def say_lost(key: str, form: str) -> None:
    """Nobody takes the usual values for those that they filled in."""
    if why := damage(key, form):
        text = f"{why} The form begins as for a new table. Fill it in again; what you change is kept."
        notice("warning", text, "What was filled in here cannot be read")


def keep(key: str, form: str, values: Mapping[str, Any]) -> None:
    """Make this what is filled in there; for every drawing: it is written where this session made it another one."""
    own, now = _own(key, form), dict(values)
    place = f"filled:{own}"
    if st.session_state.setdefault(place, kept(key, form)) == now:
        return
    st.session_state[place] = now
    path = table_choices_file(own)
    with contextlib.suppress(OSError):  # a full disk: the session still has it
        if now:
            path.parent.mkdir(parents=True, exist_ok=True)
            sealed.write(path, {"table": own, VALUES: now}, path.parent.name)
        else:
            path.unlink(missing_ok=True)


def _own(key: str, form: str) -> str:
    """A name that no table has: a person's form about a table is that person's."""
    return f"{key}\n{form}\n{acting.person().name}"


def _read(own: str) -> dict[str, Any]:
    path = table_choices_file(own)
    known = sealed.read(path, path.parent.name)
    if known.get("table") != own:
        raise DamagedFile(f"'{path}' is damaged: it is about another form or table.", path=str(path))
    return dict(known.get(VALUES, {}))
