"""`shoal db`, as a person types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from shoal.database.address import VARIABLE
from shoal.database.connections import close_all
from shoal.database.migrations import steps
from support.cli import refused
from support.team.postgres import PASSWORD, Postgres


def test_status_and_upgrade(
    postgres: Postgres, empty_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from shoal.cli.app import main

    monkeypatch.setenv(VARIABLE, postgres.address(empty_database))
    assert main(["db", "status"]) == 1
    assert f"has 0 of {len(steps())} steps. Make it ready: shoal db upgrade" in capsys.readouterr().out
    assert main(["db", "upgrade"]) == 0
    assert "step 1: foundation" in capsys.readouterr().out
    assert main(["db", "upgrade"]) == 0
    assert "was ready already" in capsys.readouterr().out
    assert main(["db", "status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["step"] == found["steps"] == len(steps())
    postgres.execute("INSERT INTO shoal.versions VALUES (999, 'later')", empty_database)
    assert main(["db", "status"]) == 1
    said = capsys.readouterr()
    assert "later version" in said.err
    assert PASSWORD not in said.out + said.err


def test_without_a_database_a_server_or_a_driver_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert "SHOAL_DATABASE to name a database, but it is not set" in refused("db", "status")
    monkeypatch.setenv(VARIABLE, f"postgresql://ann:{PASSWORD}@/shoal?host={tmp_path}")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'shoal[postgres]'")
    for deed in ("status", "upgrade"):
        said = refused("db", deed)
        assert "cannot be reached" in said
        assert PASSWORD not in said
    close_all()  # and what it knows of a server that is away
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as where it is not installed
    assert "pip install 'shoal[postgres]'" in refused("db", "upgrade")
