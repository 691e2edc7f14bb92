"""What tests of run hosts have before the first of them."""

from __future__ import annotations

import contextlib

import pytest


@pytest.fixture(scope="session", autouse=True)
def _server_first(request: pytest.FixtureRequest) -> None:
    """Before the first test, which would be blamed for its processes; where there is none, tests of hosts are skipped."""
    with contextlib.suppress(pytest.skip.Exception):
        request.getfixturevalue("postgres")
