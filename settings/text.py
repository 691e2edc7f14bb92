"""A run's settings as text: YAML with the knobs of the config, read back with the line of what is wrong, and the same
as one line of the command line. No files and no pages."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from shoal.errors import ConfigError
from shoal.files.parts import joined, named, natural
from shoal.settings import plain_yaml
from shoal.settings.config import AUTO, RunConfig
from shoal.settings.meaning import FOR_NETWORK, differing, effective, for_network, left_out, understood, usual_values
from shoal.settings.values import config_from, flattened
from shoal.settings.when import NETWORK
from shoal.words import list_text


def changed(config: RunConfig) -> dict[str, Any]:
    """The knobs that differ from their defaults, as plain values."""
    usual, mine = usual_values(config), config.as_dict()
    return {name: value for name, value in mine.items() if value != usual[name]}


def as_yaml(config: RunConfig, everything: bool = False) -> str:
    """What has an effect and differs from the defaults, or every knob; `auto` where that is what a value means."""
    import yaml

    config = effective(config)
    values = config.as_dict() if everything else changed(config)
    knobs = RunConfig.knobs()
    plain = {
        name: AUTO if "auto" in knobs[name].metadata and value == knobs[name].metadata["auto"] else value
        for name, value in values.items()
    }
    if len(names := named(str(plain.get("file", "")))) > 1:
        plain["file"] = names  # several files are a list
    text = _dumped(plain, readable=True)
    # Some characters that count as line ends are written so that they come back as spaces.
    return text if not plain or yaml.safe_load(text) == plain else _dumped(plain, readable=False)


def _dumped(values: dict[str, Any], readable: bool) -> str:
    import yaml

    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=readable, width=100)) if values else ""


def from_yaml(text: str) -> dict[str, Any]:
    """The knobs that a text names, flat and checked one by one; what is wrong is said with its line."""
    flat, config, meant = _understood(text)
    if meant.model == NETWORK:
        return {**flat, **{name: getattr(meant, name) for name in FOR_NETWORK}}
    return flat if meant.solver == config.solver else {**flat, "solver": meant.solver}


def idle_in(text: str) -> str:
    """A sentence on what a text names and what will have no effect beside the rest of it; empty for nothing."""
    flat, config, meant = _understood(text)
    return left_out(differing(flat, config), meant)


def _understood(text: str) -> tuple[dict[str, Any], RunConfig, RunConfig]:
    """The knobs of a text, the config that they are, and what is meant by it."""
    values, lines = plain_yaml.load(text) or {}, _lines_of(text)
    if not isinstance(values, dict):
        raise ConfigError("Expected lines such as 'target: price', got something else. Write one knob a line.")
    try:
        flat = flattened({str(name): value for name, value in values.items()})
        config = config_from(flat)
        return flat, config, understood(config, differing(flat, config))
    except ConfigError as error:
        raise ConfigError(_with_line(error, lines), *error.remedies, knobs=error.knobs) from None


def _lines_of(text: str) -> dict[str, int]:
    """The line of each name; names that stand twice are refused: nobody means them here."""
    import yaml

    lines: dict[str, int] = {}
    _collect(yaml.compose(text, yaml.SafeLoader), lines)
    return lines


def _collect(node: Any, lines: dict[str, int]) -> None:
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return
    here: set[str] = set()
    for name, value in node.value:
        line = name.start_mark.line + 1
        if name.value in here:
            raise ConfigError(f"Line {line}: '{name.value}' is given twice. Keep one of them.")
        here.add(name.value)
        lines.setdefault(str(name.value), line)
        _collect(value, lines)


def _with_line(error: ConfigError, lines: Mapping[str, int]) -> str:
    found = next((lines[knob] for knob in error.knobs if knob in lines), None)
    return f"Line {found}: {error.message}" if found else error.message


# ------------------------------------------------------------------ the command line


def command_line(config: RunConfig) -> str | None:
    """`shoal train` with the flags that mean this config; None if flags cannot say it."""
    config = effective(config)
    files = named(config.file)
    arguments = ["shoal", "train", *files]
    understood: dict[str, Any] = {"file": joined(sorted(files, key=natural))}  # as the command line takes them
    for name, value in changed(config).items():
        if name == "file":
            continue
        flag, text = f"--{name.replace('_', '-')}", _as_text(value)
        understood[name] = value if isinstance(value, bool) else text
        if isinstance(value, bool):
            arguments.append(flag if value else f"--no-{flag[2:]}")
        else:
            arguments += [f"{flag}={text}"] if text.startswith("-") else [flag, text]
    meant = config_from(understood)
    meant = for_network(meant, understood) if meant.model == NETWORK else meant
    return shlex.join(arguments) if meant == config else None


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return list_text(value)
    return repr(value) if isinstance(value, float) else str(value)
