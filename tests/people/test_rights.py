"""The one function that decides: all roles, verbs and kinds of belonging, as a table."""

from __future__ import annotations

import itertools

import pytest

from shoal.people.person import MACHINE, ROLES, STRANGER, Person, lesser
from shoal.people.rights import SERVICE, Thing, Verb, may

THINGS = {
    "mine": Thing("run", "r", frozenset({"ada"})),
    "mine, private": Thing("run", "r", frozenset({"ada"}), private=True),
    "another's": Thing("run", "r", frozenset({"bob"})),
    "another's, private": Thing("run", "r", frozenset({"bob"}), private=True),
    "both's, private": Thing("upload", "u", frozenset({"ada", "bob"}), private=True),
    "nobody's": Thing("run", "r"),
    "damaged": Thing("run", "r", frozenset(), private=True),
    "service": SERVICE,
}
SEEN = {"mine", "mine, private", "another's", "both's, private", "nobody's", "service"}
CHANGED = {"mine", "mine, private", "both's, private", "nobody's", "service"}
ALLOWED: dict[tuple[str, Verb], set[str]] = {
    ("viewer", Verb.SEE): SEEN, ("viewer", Verb.START): set(), ("viewer", Verb.CHANGE): set(),
    ("viewer", Verb.ADMINISTER): set(),
    ("editor", Verb.SEE): SEEN, ("editor", Verb.START): SEEN, ("editor", Verb.CHANGE): CHANGED,
    ("editor", Verb.ADMINISTER): set(),
    **{("admin", verb): set(THINGS) for verb in Verb},
    **{("", verb): set() for verb in Verb},
}  # fmt: skip


@pytest.mark.parametrize(("role", "verb"), list(itertools.product([*ROLES, ""], Verb)))
def test_everybody_and_everything(role: str, verb: Verb) -> None:
    ada = Person("ada", role)
    assert {name for name, thing in THINGS.items() if may(ada, verb, thing)} == ALLOWED[role, verb]


def test_a_person_without_a_name_owns_nothing() -> None:
    token = Person("", "editor", by="token ci")
    nameless = Thing("run", "r", frozenset({""}), private=True)
    assert not may(token, Verb.SEE, nameless)
    assert may(token, Verb.CHANGE, Thing("run", "r"))
    assert may(MACHINE, Verb.ADMINISTER, SERVICE)
    assert not may(STRANGER, Verb.SEE, SERVICE)


def test_the_lesser_role() -> None:
    assert [lesser(one, "editor") for one in ROLES] == ["viewer", "editor", "editor"]
