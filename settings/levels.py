"""Levels of text columns as text: `city=Oslo`. Which levels there are is in the data."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shoal.errors import ConfigError

SIGN = "="


def check_level(text: str) -> None:
    """As far as that can be told without the columns of a file."""
    if not text.partition(SIGN)[0].strip() or SIGN not in text:
        raise ConfigError(
            f"Expected a column and one of its texts, city=Oslo, got '{text}'. Correct it.", knobs=["reference"]
        )


def split_level(text: str, columns: Collection[str]) -> tuple[str, str] | None:
    """The column and the level that a text names; a name may have the sign in it. None without such a column."""
    cuts = [i for i, character in enumerate(text) if character == SIGN]
    sides = ((text[:i], text[i + 1 :]) for i in reversed(cuts))
    return next(((column, level) for column, level in sides if column in columns), None)


def levels_by_column(texts: Iterable[str], columns: Collection[str]) -> dict[str, str]:
    """Of several texts, the last for each column; those of other columns are left out."""
    return dict(found for text in texts if (found := split_level(text, columns)))
