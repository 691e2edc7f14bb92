"""Scripts by which shells complete our commands, flags and their values; made from the parser itself."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator

from shoal.cli.flags import Add, Parser

HOW = """\
  bash   echo 'source <(shoal completion bash)' >> ~/.bashrc
  zsh    echo 'source <(shoal completion zsh)' >> ~/.zshrc      (after compinit)
  fish   shoal completion fish > ~/.config/fish/completions/shoal.fish
"""
_Values = dict[tuple[str, str], list[str]]


def add_commands(add: Add, parser: Parser) -> None:
    completion = add(
        "completion",
        help="a script that completes commands and flags in your shell",
        description="Print a script by which a shell completes commands, flags and their values.",
        epilog=HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=list(SCRIPTS))
    completion.set_defaults(command=lambda chosen: print(SCRIPTS[chosen.shell](parser), end=""))


def _flags(parser: Parser) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser.actions():
        for flag in action.option_strings:
            if flag.startswith("--"):
                yield flag, action


def _values(parser: Parser) -> _Values:
    """The values that may follow: by command and flag, or by command alone for its first argument."""
    found: _Values = {}
    for name, command in parser.commands.items():
        arguments = [action for action in command.actions() if not action.option_strings]
        if arguments and arguments[0].choices:
            found[name, name] = [*map(str, arguments[0].choices)]
        found |= {(name, flag): [*map(str, action.choices)] for flag, action in _flags(command) if action.choices}
    return found


def _about(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%").replace("%(default)s", str(action.default))


def bash(parser: Parser) -> str:
    cases = "".join(
        f'        "{command} {before}") words={shlex.quote(" ".join(values))} ;;\n'
        for (command, before), values in _values(parser).items()
    )
    flags = "".join(
        f"            {name}) words={shlex.quote(' '.join(flag for flag, _ in _flags(command)))} ;;\n"
        for name, command in parser.commands.items()
    )
    first = " ".join([*parser.commands, "--help", "--version"])
    return f"""\
_shoal() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if ((COMP_CWORD == 1)); then
        words={shlex.quote(first)}
    else case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD - 1]}}" in
{cases}        *) if [[ $current == -* ]]; then case "${{COMP_WORDS[1]}}" in
{flags}        esac; fi ;;
    esac; fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _shoal shoal
"""


def zsh(parser: Parser) -> str:
    def described(pairs: Iterator[tuple[str, str]]) -> str:
        return " ".join(shlex.quote(f"{name}:{about}") for name, about in pairs)

    cases = "".join(
        f"        {shlex.quote(f'{command} {before}')}) compadd -- {shlex.join(values)}; return ;;\n"
        for (command, before), values in _values(parser).items()
    )
    flags = "".join(
        f"        {name}) found=({described((flag, _about(action)) for flag, action in _flags(command))}) ;;\n"
        for name, command in parser.commands.items()
    )
    return f"""\
#compdef shoal
_shoal() {{
    local -a found
    if ((CURRENT == 2)); then
        found=({described((name, command.summary) for name, command in parser.commands.items())})
        _describe command found
        return
    fi
    case "$words[2] $words[CURRENT - 1]" in
{cases}    esac
    if [[ $words[CURRENT] != -* ]]; then
        _files
        return
    fi
    case $words[2] in
{flags}    esac
    _describe flag found
}}
compdef _shoal shoal
"""


def fish(parser: Parser) -> str:
    lines = [
        f"complete -c shoal -n __fish_use_subcommand -f -a {name} -d {_fish(command.summary)}"
        for name, command in parser.commands.items()
    ]
    values = _values(parser)
    for name, command in parser.commands.items():
        within = f"complete -c shoal -n '__fish_seen_subcommand_from {name}'"
        if (name, name) in values:
            lines.append(f"{within} -f -a {_fish(' '.join(values[name, name]))}")
        for flag, action in _flags(command):
            chosen = values.get((name, flag))
            takes = f" -x -a {_fish(' '.join(chosen))}" if chosen else "" if action.nargs == 0 else " -r"
            lines.append(f"{within} -l {flag.removeprefix('--')}{takes} -d {_fish(_about(action))}")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    """Between single quotes, where fish takes a backslash for an escape."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SCRIPTS: dict[str, Callable[[Parser], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
