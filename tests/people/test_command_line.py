"""Deeds that are typed: in the log where it can be written, and done, with a word, where it cannot."""

from __future__ import annotations

import getpass
import logging
from pathlib import Path

import pytest

from shoal.cli.app import main
from shoal.home import people_file
from shoal.people import accounts
from shoal.people.acting import as_person, said
from shoal.people.deeds import allow
from shoal.people.person import Person, at_command_line
from shoal.people.rights import SERVICE, Verb


@pytest.mark.usefixtures("cheap")
def test_what_is_typed_is_in_the_log_by_the_user_of_the_system(capsys: pytest.CaptureFixture[str]) -> None:
    accounts.add("root", "correct horse", "admin")
    assert main(["tokens", "create", "nightly"]) == 0
    (deed,) = accounts.audit(1)
    assert (deed.who, deed.deed) == (f"command line of {getpass.getuser()}", "token made")


def test_without_accounts_nothing_is_written(home: Path) -> None:
    with as_person(at_command_line("ann")):
        allow(Verb.ADMINISTER, SERVICE, "cleaned up")
        assert said("ann") == "ann"
    assert not people_file().exists()


def test_a_log_that_cannot_be_written_keeps_nobody_from_mending_it(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home.mkdir()
    people_file().write_bytes(b"damaged " * 1000)
    with as_person(at_command_line("ann")), caplog.at_level(logging.WARNING, "shoal"):
        allow(Verb.ADMINISTER, SERVICE, "cleaned up")
    assert "not in the log of deeds" in caplog.text
    with as_person(Person("root", "admin")), pytest.raises(Exception, match="damaged"):
        allow(Verb.ADMINISTER, SERVICE, "cleaned up")
