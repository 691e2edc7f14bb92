"""Several homes of one team, each as a machine of its own has it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.database.connections import database
from support.team.hosts import HostProcess, started


class Homes:
    """Folders of homes, hosts in them, and this process in one of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, up: list[HostProcess]) -> None:
        self._folder, self._monkeypatch, self._up = folder, monkeypatch, up

    def path(self, name: str) -> Path:
        return self._folder / name

    @contextlib.contextmanager
    def inside(self, name: str) -> Iterator[Path]:
        with self._monkeypatch.context() as there:
            there.setenv("SHOAL_HOME", str(self.path(name)))
            yield self.path(name)

    def execute(self, statement: str) -> None:
        """In the team's database, past all of ours."""
        with database().single() as connection:
            connection.execute(statement.encode())

    def asked(self, query: str) -> tuple[object, ...]:
        with database().single() as connection:
            return connection.execute(query.encode()).fetchone() or ()

    def host(self, home: str, name: str, slots: int = 2) -> HostProcess:
        return started(self._up, name, slots, self._folder, self.path(home))
