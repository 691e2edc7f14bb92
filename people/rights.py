"""Who may do what: one function decides, and everything that is done or shown asks it.

    viewers    see what is shared, and ask questions about it
    editors    start runs, send files, keep models, and change what is theirs
    admins     see and change everything, clean up, and say who is who

What is private is seen by those it belongs to and by admins. What belongs to nobody (from before there were accounts,
from the command line) is everybody's: all see it, editors may change it.
"""

from __future__ import annotations

from enum import StrEnum

from shoal.lazy.classes import dataclass
from shoal.people.person import ADMIN, EDITOR, ROLES, Person


class Verb(StrEnum):
    SEE = "see"
    START = "start"  # something new, from what one sees
    CHANGE = "change"
    ADMINISTER = "administer"


@dataclass(frozen=True)
class Thing:
    """What something is done to: its kind and name, whose it is, and whether only they see it."""

    kind: str
    name: str = ""
    owners: frozenset[str] = frozenset()
    private: bool = False

    @property
    def said(self) -> str:
        return " ".join(part for part in (self.kind, self.name) if part)


SERVICE = Thing("service")  # the dashboard as a whole


def may(person: Person, verb: Verb, thing: Thing) -> bool:
    if person.rank < 0:
        return False
    if person.role == ADMIN:
        return True
    mine = bool(person.name) and person.name in thing.owners
    sees = mine or not thing.private
    edits = person.rank >= ROLES.index(EDITOR)
    match verb:
        case Verb.SEE:
            return sees
        case Verb.START:
            return edits and sees
        case Verb.CHANGE:
            return edits and (mine or (sees and not thing.owners))
        case _:
            return False
