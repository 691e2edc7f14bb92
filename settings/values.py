"""Knobs from flags, YAML and JSON: names, groups and types put right; what the knobs mean is in `config`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError
from shoal.files.parts import joined, named
from shoal.files.remote import check_address, is_address
from shoal.settings import plain_yaml
from shoal.settings.config import AUTO, RunConfig
from shoal.settings.formula import expanded
from shoal.settings.pairs import is_pair, pair_text
from shoal.words import did_you_mean, list_items

DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
LONGEST_FILE = 1_000_000  # characters of a file of settings: it may name thousands of columns
# The names that a nested YAML file may use; `training.optimization.*` are the knobs under their own names.
GROUPS: dict[str, dict[str, str]] = {
    "training.pipeline": {"batch_size": "batch_size", "prefetch": "prefetch", "max_memory": "max_memory"},
    "training.resources": {
        "cpu_workers": "workers", "io_queue_size": "io_queue_size", "gpu_memory_fraction": "gpu_memory_fraction",
        "device": "device",
    },
    "training.optimization": {},
}  # fmt: skip


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """The knobs of a mapping in which those of training may stand in groups (`training: pipeline: batch_size: 64`), and
    a formula in place of those that it says."""
    values = expanded(values)
    flat = {name: value for name, value in values.items() if name != "training"}
    groups = values.get("training") or {}
    if not isinstance(groups, Mapping):
        raise ConfigError(
            f"Expected groups of knobs under 'training', got {groups!r}. For example: pipeline, resources.",
            knobs=["training"],
        )
    for group, knobs in groups.items():
        names = GROUPS.get(f"training.{group}")
        if names is None or not isinstance(knobs, Mapping):
            known = ", ".join(name.removeprefix("training.") for name in GROUPS)
            raise ConfigError(
                f"Expected one of the groups {known} with knobs under 'training', got '{group}'.", knobs=[str(group)]
            )
        for name, value in knobs.items():
            if names and name not in names:
                raise ConfigError(
                    f"Expected one of {', '.join(names)} under 'training.{group}', got '{name}'.", knobs=[str(name)]
                )
            place = str(names.get(name) or name)
            if flat.setdefault(place, value) != value:
                raise ConfigError(
                    f"'{place}' is given twice, as {flat[place]!r} and as {value!r}. Keep one of them.", knobs=[place]
                )
    return flat


def config_from(values: Mapping[str, Any]) -> RunConfig:
    """A config from plain values, with the types that flags and YAML give them put right."""
    values = flattened(values)
    knobs = {f.name: f for f in dataclasses.fields(RunConfig)}
    unknown = [name for name in values if name not in knobs]
    if unknown:
        raise ConfigError(
            f"Expected the names of knobs, got '{unknown[0]}'.{did_you_mean(unknown[0], knobs)} "
            f"The knobs are: {', '.join(sorted(knobs))}.",
            knobs=[unknown[0]],
        )
    return RunConfig(**{name: _typed(knobs[name], value) for name, value in values.items()})


# ------------------------------------------------------------------ what a page may set


def set_by_pages(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of stored values, such as those of an earlier run, all but the knobs that no page may set."""
    return {name: value for name, value in values.items() if name not in _not_for_pages()}


def _not_for_pages() -> dict[str, Any]:
    """The knobs that no page may set, with their defaults."""
    return {name: knob_.default for name, knob_ in RunConfig.knobs().items() if not knob_.metadata.get("pages", True)}


def said_on_page(values: Mapping[str, Any], file: str) -> dict[str, Any]:
    """What a person said on a page about `file`, which the page offers; ConfigError for any other path.

    Whoever may open the dashboard may not thereby read, or write, whatever its account may.
    """
    flat = flattened(values)
    for name, usual in _not_for_pages().items():
        given, right = flat.pop(name, None), file if name == "file" else usual
        if given is not None and given != right:
            what = f"the file of this form, '{file}'" if name == "file" else f"no '{name}' here"
            raise ConfigError(
                f"Expected {what}, got {name}: '{given}'. A page sets no paths: choose tables on the Data page, and "
                "save models with their button. Leave the line out.",
                knobs=[name],
            )
    return flat


def page_config(file: str | Path, values: Mapping[str, Any] | None = None) -> RunConfig:
    """What a page asks for: all configs of pages are made here. `file` is one that the dashboard itself has found."""
    return config_from({**said_on_page(values or {}, str(file)), "file": str(file)})


# ------------------------------------------------------------------ types


def _typed(knob_: dataclasses.Field[Any], value: Any) -> Any:
    kind = str(knob_.type)
    if value is None:
        return knob_.default
    if knob_.name == "file":
        value = joined(value) if isinstance(value, (list, tuple)) else str(value)
        for name in filter(is_address, named(value)):
            check_address(name)
        return value
    if kind.startswith("tuple"):
        items = list_items(value) if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
        if knob_.metadata.get("of") == "pairs":
            items = [pair_text(*item) if is_pair(item) else item for item in items]
        return tuple(str(item).strip() for item in items if str(item).strip() or knob_.name == "missing")
    if isinstance(value, str) and value in (words := knob_.metadata.get("words", {})):
        return words[value]
    if value == AUTO and "auto" in knob_.metadata:
        return knob_.metadata["auto"]
    if kind.removesuffix(" | None") in ("int", "float") and not isinstance(value, bool):
        try:
            if kind.startswith("float") or float(value) == int(value):
                return float(value) if kind.startswith("float") else int(value)
        except (TypeError, ValueError, OverflowError):
            pass
    elif (kind.startswith("bool") and isinstance(value, bool)) or (kind.startswith("str") and isinstance(value, str)):
        return value
    elif kind.startswith("str"):
        return str(value)  # a column or mark that YAML read as a number
    wanted = {"int": "a whole number", "float": "a number"}.get(kind.removesuffix(" | None"), "true or false")
    way = f"Write it with a point: {point}." if (point := _with_point(value)) else "Correct it and try again."
    raise ConfigError(f"Expected {knob_.name} to be {wanted}, got {value!r}. {way}", knobs=[knob_.name])


def _with_point(value: Any) -> str:
    """A number with a decimal comma as it has to be written, else nothing; not taken so: 1,500 may be either."""
    return value.replace(",", ".") if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value) else ""


def read_yaml(path: Path) -> dict[str, Any]:
    """The knobs in a YAML file."""
    try:
        with path.open(encoding="utf-8") as file:
            values = plain_yaml.load(file.read(LONGEST_FILE + 1), LONGEST_FILE)
    except OSError as error:
        raise ConfigError(f"Expected a YAML file at '{path}', got: {error.strerror}. Check the path.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"'{path}' is not valid YAML: {error}. Correct the file.") from None
    except ConfigError as error:
        raise ConfigError(f"'{path}' is not valid YAML: {error.message}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"Expected lines such as 'target: price' in '{path}', got something else.")
    return flattened(values)


def moved(config: RunConfig, elsewhere: Mapping[str, Any]) -> RunConfig:
    """The same with another engine or cluster; one that is named is Ray's, and other engines have none."""
    if not elsewhere:
        return config
    engine = elsewhere.get("engine") or ("ray" if elsewhere.get("cluster") else config.engine)
    nowhere = {} if engine == "ray" else {"cluster": "", "open_cluster": False}
    return config_from({**config.as_dict(), **nowhere, **elsewhere, "engine": engine})
