"""Somebody who does something, and the roles there are; how one proves who one is is in `passwords` and the gate."""

from __future__ import annotations

from shoal.lazy.classes import dataclass

VIEWER, EDITOR, ADMIN = "viewer", "editor", "admin"
ROLES = (VIEWER, EDITOR, ADMIN)  # each may do what those before it may


COMMAND_LINE = "command line of "  # in front of a user of the machine


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
    def types_commands(self) -> bool:
        """Whether they have the machine, and sit at it."""
        return not self.name and self.by.startswith(COMMAND_LINE)

    @property
    def said(self) -> str:
        """For the log of deeds."""
        return " by ".join(part for part in (self.name, self.by) if part) or "the machine"


# Whoever has the machine: detached processes, Python, and all who are in where there are no accounts.
MACHINE = Person("", ADMIN)
# Whoever is not known, or not any more. Nothing is allowed to them.
STRANGER = Person("", "")


def at_command_line(user: str) -> Person:
    """Somebody who may do what the machine may, and whom the log of deeds knows by the user of the system."""
    return Person("", ADMIN, by=f"{COMMAND_LINE}{user}")


def lesser(one: str, other: str) -> str:
    """The role that may do less."""
    return min(one, other, key=ROLES.index)
