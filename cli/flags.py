"""The parser of the command line and a flag for every knob; what the commands do is in modules of theirs."""

from __future__ import annotations

import argparse
import dataclasses
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from shoal.errors import ConfigError
from shoal.files.output import Output
from shoal.files.parts import joined, natural
from shoal.settings.checks import KNOB_GROUPS, not_one_of
from shoal.settings.config import RunConfig
from shoal.settings.formula import NAME as FORMULA
from shoal.settings.formula import expanded
from shoal.settings.meaning import differing, implied, left_out, understood
from shoal.settings.values import config_from, read_yaml
from shoal.settings.when import MODELS
from shoal.words import did_you_mean, list_items, list_text, short

Add = Callable[..., "Parser"]  # makes the parser of a command from its name and a `help` that sums it up
STANDARD_INPUT = "-"
OF_OTHERS = ("shrink", "positive", "class_weight", "offset", "offset_as")  # knobs of models that are not linear
# Which commands stand together in `shoal --help`, in the order in which people meet them.
SECTIONS = {
    "a table and its models": ("inspect", "train", "tune", "explain", "predict", "export", "models", "serve"),
    "runs": (
        "runs", "show", "logs", "profile", "name", "pause", "resume", "stop", "send", "fork", "archive", "restore",
        "delete",
    ),
    "planning gradient runs": ("search", "plan"),
    "this machine": ("dashboard", "password", "people", "tokens", "disk", "clean", "backup", "completion"),
    "a team with a database": ("db", "run-host", "queue"),
}  # fmt: skip
OTHER_NAMES = ("token",)  # of commands that have a section by their first one
NEGATIVE = re.compile(r"-\.?\d[\d.,eE+-]*")  # `-1` or `-1,2`: a number or a list of them, and no flag


class Parser(argparse.ArgumentParser):
    """Wrong flags are a plain sentence as well, with a guess of what was meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})  # `--alpha` of one command is not `--alphas`
        self.commands: dict[str, Parser] = {}
        self.sections: Mapping[str, Sequence[str]] = {}  # of commands in the help, by their titles
        self.summary = ""

    def format_help(self) -> str:
        """Commands stand under the titles of their sections: argparse has one list of all."""
        if not self.sections:
            return super().format_help()
        page = self._get_formatter()
        page.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        page.add_text(self.description)
        for title, names in self.sections.items():
            page.start_section(title)
            page.add_arguments(
                argparse.Action([], "", nargs=0, metavar=name, help=self.commands[name].summary) for name in names
            )
            page.end_section()
        page.start_section("options")
        page.add_arguments(action for action in self._actions if action.option_strings)
        page.end_section()
        page.add_text(self.epilog)
        return page.format_help()

    def add_commands(self, asked: str | None = None) -> Add:
        """What makes the parsers of commands: whole for the one that is asked for, None for all, outlines of others."""
        whole = self.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)

        def add(name: str, *, help: str, **more: Any) -> Parser:
            whole._parser_class = Parser if asked in (None, name) else Outline
            self.commands[name] = whole.add_parser(name, help=help, **more)
            self.commands[name].summary = help
            return self.commands[name]

        return add

    def parse(self, given: Sequence[str] | None = None) -> argparse.Namespace:
        words = _with_negatives(sys.argv[1:] if given is None else given)
        if words and not words[0].startswith("-") and words[0] not in self.commands:
            meant = did_you_mean(words[0], self.commands)
            raise ConfigError(f"Expected a command, got '{words[0]}'.{meant} See 'shoal --help'.")
        chosen, unknown = self.parse_known_args(words)
        if unknown:
            self.commands.get(words[0], self).refuse(unknown)
        return chosen

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        if not flags:
            self.error(f"expected nothing more, got '{unknown[0]}'")
        meant = did_you_mean(flags[0], [flag for action in self.actions() for flag in action.option_strings])
        raise ConfigError(f"Expected a flag of '{self.prog}', got '{flags[0]}'.{meant} See '{self.prog} --help'.")

    def actions(self) -> list[argparse.Action]:
        """Flags and arguments in their order; argparse has no other name for them."""
        return self._actions

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Of argparse, which says so in words of its own."""
        if action.choices is not None and value not in action.choices:
            raise not_one_of(
                "/".join(action.option_strings) or str(action.metavar or action.dest), value, action.choices
            )

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[:1].upper()}{message[1:]}. See '{self.prog} --help'.")


class Outline(Parser):
    """A command that nobody asked for: its name and summary. Making the parsers of all takes a tenth of a start."""

    def __init__(self, **kwargs: Any) -> None:
        self.summary = ""

    def set_defaults(self, **kwargs: Any) -> None:
        pass

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """After a flag that no command has: all words are left over, and the first of them is refused."""
        return argparse.Namespace(), list(args)

    def add_argument(self, *args: Any, **kwargs: Any) -> Any:
        return None

    def add_argument_group(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def add_mutually_exclusive_group(self, **kwargs: Any) -> Any:
        return self


def server_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """The server that stands before the command, if one does, and the words without it."""
    first = words[0] if words else ""
    if first.startswith("--server="):
        return first.removeprefix("--server="), list(words[1:])
    if first == "--server":
        if len(words) < 2:
            raise ConfigError("Expected the address of a dashboard after --server, such as http://host:5000.")
        return words[1], list(words[2:])
    return "", list(words)


def asked_for(words: Sequence[str]) -> str | None:
    """The command whose flags have to be known, "" for none; None for all, of which completion tells a shell."""
    first = words[0] if words and not words[0].startswith("-") else ""
    return None if first == "completion" else first


def _with_negatives(words: Sequence[str]) -> list[str]:
    """`--alphas -1,2` as `--alphas=-1,2`, which argparse would take for two flags."""
    found: list[str] = []
    for word in words:
        if NEGATIVE.fullmatch(word) and found and found[-1].startswith("--") and "=" not in found[-1]:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def add_knobs(
    parser: argparse.ArgumentParser, wanted: set[str] | None, linear: bool = False,
    models: Sequence[str] = (), **defaults: str,
) -> None:  # fmt: skip
    """A flag for every knob of the config (or those wanted); what is not given stays out of the namespace.

    `defaults` are those that the command itself has in place of the config's, for the help. `linear` is for commands
    that have no other models, `models` for those that have some of them.
    """
    if isinstance(parser, Outline):
        return
    groups = _Groups(parser, wanted)
    if wanted is None or "transform" in wanted:
        parser.add_argument(
            f"--{FORMULA}", metavar="'y ~ a * C(b) + log(c)'",
            help="target, columns, their shapes and products in one line, in place of the flags that say so",
        )  # fmt: skip
    for knob in dataclasses.fields(RunConfig):
        if knob.name == "file" or (wanted is not None and knob.name not in wanted):
            continue
        if linear and knob.name in OF_OTHERS:
            continue
        place = groups.of(knob)
        flag = "--" + knob.name.replace("_", "-")
        only = tuple(models or (MODELS if linear else ())) if knob.name == "model" else ()
        told = (" or ".join([", ".join(only[:-1]), only[-1]]) if only else knob.metadata["help"]) + _default(
            knob, defaults.get(knob.name, knob.default)
        )
        common: dict[str, Any] = {"dest": knob.name, "default": argparse.SUPPRESS, "help": told.replace("%", "%%")}
        if str(knob.type).startswith("bool"):
            place.add_argument(flag, action=argparse.BooleanOptionalAction, **common)
        else:
            several: dict[str, Any] = {"action": _Joined} if str(knob.type).startswith("tuple") else {}
            place.add_argument(
                flag,
                choices=only or _offered(knob),
                metavar=knob.metadata.get("metavar"),
                **common,
                **several,
            )


class _Groups:
    """The parts of a command's help that its knobs stand in; few knobs stand among the other flags."""

    FEW = 12

    def __init__(self, parser: argparse.ArgumentParser, wanted: set[str] | None) -> None:
        self._parser = parser
        self._few = wanted is not None and len(wanted) <= self.FEW
        self._trials = wanted is not None and "solver" not in wanted
        self._made: dict[str, Any] = {}

    def of(self, knob: dataclasses.Field[Any]) -> Any:
        group = knob.metadata["group"]
        title = KNOB_GROUPS[group].lower()
        if not knob.metadata.get("training"):
            return self._parser if self._few else self._titled(title)
        self._titled(
            "gradient runs",
            "of every trial; each is a run of its own, see 'shoal runs'" if self._trials
            else "any of these means --solver gradient; each run is a process of its own, see 'shoal runs'",
        )  # fmt: skip
        return self._titled("gradient runs" if group == "solver" else f"gradient runs, {title}")

    def _titled(self, title: str, about: str | None = None) -> Any:
        if title not in self._made:
            self._made[title] = self._parser.add_argument_group(title, about)
        return self._made[title]


def _offered(knob: dataclasses.Field[Any]) -> tuple[str, ...] | None:
    choices = knob.metadata.get("choices")
    return choices and tuple(choice for choice in choices if choice not in knob.metadata.get("unlisted", ()))


class _Joined(argparse.Action):
    """A flag that may be repeated, or has several values with commas between."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        before = getattr(namespace, self.dest, None)
        both = values if before is None else list_text([*list_items(before), *list_items(values)])
        setattr(namespace, self.dest, both)


def _default(knob: dataclasses.Field[Any], value: Any) -> str:
    if value is None or value in ("", ()):
        return ""
    if "auto" in knob.metadata and value == knob.metadata["auto"]:
        value = "auto"
    shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else short(value)
    return f" (default: {shown})"


class Files(argparse.Action):
    """Several names on the command line are one table, in natural order: a shell's own puts part-10 before part-2."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        if values:
            setattr(namespace, self.dest, joined(sorted(values, key=natural)))


def add_files(parser: argparse.ArgumentParser, needed: bool = True) -> None:
    """FILE: one file, or several that are one table."""
    told = "the file; several, a folder or a pattern such as 'part-*.csv' are one table"
    parser.add_argument("file", metavar="FILE", nargs="+" if needed else "*", action=Files, default=None, help=told)


def add_detach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--detach", action="store_true", help="print the run's name and return at once")


def config_of(chosen: argparse.Namespace, knobs: Mapping[str, Any] | None = None) -> RunConfig:
    """The config of a command: knobs of its YAML file (or these), of --set and of flags, the later over the earlier."""
    values = dict(knobs) if knobs is not None else knobs_of_file(chosen)
    names = RunConfig.knobs()
    if getattr(chosen, "file", None) == STANDARD_INPUT:
        chosen.file = _spooled()
    flags = {name: value for name, value in vars(chosen).items() if name in names and value is not None}
    flags = settings(getattr(chosen, "settings", None) or ()) | flags
    flags = expanded({**flags, FORMULA: getattr(chosen, FORMULA, None)})
    config = config_from(values | flags)
    said = {*differing(values, config), *flags}
    config = understood(config, said)
    for note in filter(None, (implied(said, config), left_out(said, config))):
        print(f"note: {note}", file=sys.stderr)
    if config.out and getattr(chosen, "config", None):
        Output(config.out, {"the file with the settings": chosen.config}).check()
    return config


def knobs_of_file(chosen: argparse.Namespace) -> dict[str, Any]:
    """Those of the YAML file that --config names, if it does."""
    return read_yaml(Path(chosen.config)) if getattr(chosen, "config", None) else {}


# ------------------------------------------------------------------ standard input

_pipes: list[Path] = []  # folders with what came through a pipe; gone when the command ends


def _spooled() -> str:
    """What comes through the pipe as a file, which can be read at any place and more than once."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-"))
    _pipes.append(folder)
    path = folder / "standard-input.csv"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
    return str(path)


def forget_pipes() -> None:
    while _pipes:
        shutil.rmtree(_pipes.pop(), ignore_errors=True)


# ------------------------------------------------------------------ knobs by --set


def add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", dest="settings", action="append", metavar="KNOB=VALUE", help="any knob by its name; may be repeated"
    )


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE texts as a dictionary."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(
                f"Expected a name and a value such as learning_rate=0.1, got '{text}'. Write it like that."
            )
        found[key.strip().replace("-", "_")] = value
    return found


def settings(texts: Sequence[str]) -> dict[str, Any]:
    """Knobs of --set; types are put right with those of flags, but for truth values: flags have no words for them."""
    found: dict[str, Any] = pairs(texts)
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    for knob in dataclasses.fields(RunConfig):
        if knob.name in found and str(knob.type).startswith("bool"):
            found[knob.name] = words.get(found[knob.name].lower(), found[knob.name])
    return found
