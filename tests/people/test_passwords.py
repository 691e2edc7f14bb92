"""Passwords: argon2id at the costs that RFC 9106 names; nothing tells who is known."""

from __future__ import annotations

import pytest
from argon2 import Type, extract_parameters

from shoal.errors import ConfigError
from shoal.people import passwords


def test_they_are_argon2id_at_the_costs_of_rfc_9106() -> None:
    kept = passwords.hashed("correct horse")
    found = extract_parameters(kept)
    assert (found.type, found.time_cost, found.memory_cost, found.parallelism) == (Type.ID, 3, 65_536, 4)
    assert found.salt_len >= 16
    assert passwords.hashed("correct horse") != kept
    assert passwords.matches("correct horse", kept)
    assert not passwords.matches("correct horsf", kept)
    assert not passwords.is_outdated(kept)


@pytest.mark.usefixtures("cheap")
def test_nobody_and_a_damaged_hash_match_nothing() -> None:
    assert not passwords.matches("nobody has this password", "")
    assert not passwords.matches("x", "$argon2id$v=19$broken")
    for password in ("short", "x" * 1025):
        with pytest.raises(ConfigError, match="8 to 1,024 characters"):
            passwords.hashed(password)
    assert passwords.matches("\ud800 half a sign", passwords.hashed("\ud800 half a sign"))
