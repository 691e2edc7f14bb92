"""The parser of the command that is asked for, beside the one of all."""

from __future__ import annotations

import pytest

from shoal.cli.app import _parser
from shoal.cli.flags import Outline

ALL = _parser(None)


@pytest.mark.parametrize("name", list(ALL.commands))
def test_a_command_that_is_asked_for_is_whole(name: str) -> None:
    asked = _parser(name).commands[name]
    assert not isinstance(asked, Outline)
    assert asked.format_help() == ALL.commands[name].format_help()


def test_the_help_has_all_commands() -> None:
    assert _parser("").format_help() == ALL.format_help()
    assert {name: command.summary for name, command in _parser("").commands.items()} == {
        name: command.summary for name, command in ALL.commands.items()
    }
