"""Deeds: what somebody wants to do is allowed or refused here, and written down; how it is done is known elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path

from shoal.errors import NotAllowed, ResourceError, StateError, TrainingError
from shoal.home import models_directory
from shoal.people import accounts, belongings
from shoal.people.acting import as_person, person
from shoal.people.belongings import thing_at
from shoal.people.person import ADMIN, EDITOR, MACHINE, ROLES, STRANGER
from shoal.people.rights import SERVICE, Thing, Verb, may
from shoal.words import listed

log = logging.getLogger("shoal")

DEEDS = {  # what a button is for, in the words of a refusal
    Verb.SEE: "a look", Verb.START: "something new", Verb.CHANGE: "a change", Verb.ADMINISTER: "what admins do",
}  # fmt: skip


def check(verb: Verb, thing: Thing | Path | str, deed: str) -> None:
    """NotAllowed, in a plain sentence, if whoever acts may not."""
    now, what = person(), thing if isinstance(thing, Thing) else thing_at(thing)
    if now == MACHINE or may(now, verb, what):
        return
    needed = ADMIN if verb == Verb.ADMINISTER else EDITOR
    if now.rank < ROLES.index(needed):
        raise NotAllowed(
            f"Expected somebody with the role {needed} for this ({deed}), got {now.role or 'a stranger'}. "
            "Ask an admin of this dashboard."
        )
    whose = listed(sorted(what.owners)) if what.owners else "somebody else"
    raise NotAllowed(f"Expected something of your own for this ({deed}), but it is {whose}'s. Ask them, or an admin.")


def why_not(verb: Verb, *things: Thing | Path | str) -> str:
    """Why whoever acts may not do this to one of these, for a page that offers it; empty if they may."""
    try:
        for thing in things:
            check(verb, thing, DEEDS[verb])
    except NotAllowed as error:
        return error.message
    return ""


@contextlib.contextmanager
def for_owner(path: Path) -> Iterator[None]:
    """In a detached process: what is done here is done by whoever has this, with the rights they have now."""
    owners = sorted(thing_at(path).owners)
    if not owners:
        yield
        return
    try:
        owner = accounts.named(owners[0])
        who = owner.person if owner.is_active else STRANGER
    except StateError:
        who = STRANGER
    with as_person(dataclasses.replace(who, by=f"run {path.name}")):
        yield


def check_saving(name: str) -> None:
    """NotAllowed where a model may not be saved under this name; of one that is private, no more is told than that."""
    folder = models_directory() / name
    if not belongings.sees(folder):
        raise NotAllowed(f"Expected a name under which you may save a model, got '{name}'. Choose another name.")
    check(Verb.CHANGE, folder, "model saved")


def share(path: Path, private: bool) -> None:
    """Let others see what is one's own, or not any more."""
    allow(Verb.CHANGE, path, "made private" if private else "shared")
    if not thing_at(path).owners:
        raise NotAllowed("Expected something that belongs to somebody, but this is nobody's, and so everybody's.")
    belongings.share(path, private, person())


def allow(verb: Verb, thing: Thing | Path | str, deed: str, always: bool = False) -> None:
    """As `check`, and the deed is in the log before it is done: what cannot be written down is not done.

    `always` is for what must be possible on a full disk as well, such as a stop. Whoever has the machine can do all
    without the log, and may have to, to make room or to mend it: they are told.
    """
    now, what = person(), thing if isinstance(thing, Thing) else thing_at(thing)
    check(verb, what, deed)
    if now == MACHINE:
        return
    try:
        accounts.note(deed, "" if what == SERVICE else what.said)
    except TrainingError as error:
        if now.types_commands:
            log.warning("note: this is not in the log of deeds. %s", error)
        elif not always or not isinstance(error, ResourceError):
            raise
