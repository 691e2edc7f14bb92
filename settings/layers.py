"""Sizes of hidden layers as a person writes them: `64,32`, or `auto`; which sizes suit a table is in `networks`."""

from __future__ import annotations

from shoal.errors import ConfigError

AUTO = "auto"
MOST_LAYERS, MOST_UNITS = 8, 4096  # the weights of a model file are text: a few million of them at most


def hidden_sizes(text: str) -> tuple[int, ...] | None:
    """The sizes in the order of the layers; None for `auto`."""
    if text.strip() == AUTO:
        return None
    parts = [part.strip() for part in text.strip("[]() ").split(",")]
    if not all(part.isdecimal() for part in parts) or len(parts) > MOST_LAYERS:
        raise _wrong(text)
    sizes = tuple(map(int, parts))
    if not all(1 <= size <= MOST_UNITS for size in sizes):
        raise _wrong(text)
    return sizes


def check_hidden(text: str) -> None:
    hidden_sizes(text)


def _wrong(text: str) -> ConfigError:
    return ConfigError(
        f"Expected hidden to be auto or up to {MOST_LAYERS} sizes of layers from 1 to {MOST_UNITS:,}, such as 64,32; "
        f"got '{text}'. Correct it and try again.",
        knobs=["hidden"],
    )
