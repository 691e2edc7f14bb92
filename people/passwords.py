"""Passwords of people as they are kept: argon2id, by argon2-cffi; who may try how often is decided at the gate.

The password of a dashboard without accounts is scrypt's, from Python itself (`dashboard.http.access`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from shoal.errors import ConfigError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST, LONGEST = 8, 1024  # characters
TIME, MEMORY, LANES = 3, 64 << 10, 4  # RFC 9106, second choice: three passes over 64 MB


@functools.cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=TIME, memory_cost=MEMORY, parallelism=LANES)


@functools.cache
def _nobodys() -> str:
    """To compare with where there is no such person: the time must not tell who is known."""
    return _hasher().hash("nobody has this password")


def check_length(password: str) -> None:
    if not SHORTEST <= len(password) <= LONGEST:
        raise ConfigError(
            f"Expected a password of {SHORTEST} to {LONGEST:,} characters, got {len(password):,}. Choose another."
        )


def hashed(password: str) -> str:
    """With what it was made with in front, so that it can be checked when that is another."""
    check_length(password)
    return _hasher().hash(_bytes(password))


def matches(password: str, kept: str) -> bool:
    """Slow on purpose, so call it in a thread; an empty `kept` takes as long and never matches."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        right = _hasher().verify(kept or _nobodys(), _bytes(password[: LONGEST + 1]))
    except (VerificationError, InvalidHashError):
        return False
    return right and bool(kept)


def is_outdated(kept: str) -> bool:
    """Whether it was made with other costs than today's."""
    return _hasher().check_needs_rehash(kept)


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
