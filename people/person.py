"""Somebody who does something, and the roles there are; how one proves who one is is in `passwords` and the gate."""

from __future__ import annotations

from dataclasses import dataclass

VIEWER, EDITOR, ADMIN = "viewer", "editor", "admin"
ROLES = (VIEWER, EDITOR, ADMIN)  # each may do what those before it may


@dataclass(frozen=True)
class Person:
    """Whoever acts. `private` says how what they make begins; `by` is what acts for them, such as a token."""

    name: str
    role: str
    private: bool = False
    by: str = ""

    @property
    def rank(self) -> int:
        return ROLES.index(self.role) if self.role in ROLES else -1

    @property
    def said(self) -> str:
        """For the log of deeds."""
        return " by ".join(part for part in (self.name, self.by) if part) or "the machine"


# Whoever has the machine: the command line, detached processes, and all who are in where there are no accounts.
MACHINE = Person("", ADMIN)
# Whoever is not known, or not any more. Nothing is allowed to them.
STRANGER = Person("", "")


def lesser(one: str, other: str) -> str:
    """The role that may do less."""
    return min(one, other, key=ROLES.index)
