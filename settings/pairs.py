"""Pairs of columns as text: `a:b`, with a name in double quotes where it could be cut in two ways. No data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeGuard

from shoal.errors import ConfigError
from shoal.words import listed

SIGN = ":"


def pair_text(left: str, right: str) -> str:
    """A text that is read as these two columns, whatever others there are."""
    return f"{_quoted(left)}{SIGN}{_quoted(right)}"


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"' if SIGN in name or name != name.strip() else name


def is_pair(value: Any) -> TypeGuard[tuple[str, str]]:
    """Whether these are two names and not a text, as Python and YAML may give a pair."""
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(name, str) for name in value)


def check_pair(text: str) -> None:
    """As far as that can be told without the columns of a file."""
    if SIGN not in text.strip(SIGN + " "):
        raise ConfigError(
            f"Expected an interaction as two columns with a colon between, a:b, got '{text}'. Correct it.",
            knobs=["interactions"],
        )


def split_pair(text: str, columns: Collection[str]) -> tuple[str, str]:
    """The two columns that a text names: it is cut at the sign that leaves a column on either side."""
    check_pair(text)
    cuts = [i for i, character in enumerate(text) if character == SIGN]
    sides = [(_column(text[:i], columns), _column(text[i + 1 :], columns)) for i in cuts]
    found = list(dict.fromkeys((a, b) for a, b in sides if a is not None and b is not None))
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(
            f"'{text}' can be cut into two columns in more than one way. Put the names in double quotes: "
            f"{' or '.join(pair_text(a, b) for a, b in found)}."
        )
    known = next((a if a is not None else b for a, b in sides if a is not None or b is not None), None)
    beside = f" beside '{known}'" if known is not None else ""
    raise ConfigError(
        f"Expected two columns of the file with a colon between, got '{text}', where there is no such column{beside}. "
        f"The columns are: {listed(list(columns))}."
    )


def _column(text: str, columns: Collection[str]) -> str | None:
    """The column that a side of a pair names, as it stands or in quotes."""
    bare = text.strip()
    inside = bare[1:-1].replace('""', '"') if len(bare) > 1 and bare[0] == bare[-1] == '"' else bare
    return next((name for name in (text, bare, inside) if name in columns), None)
