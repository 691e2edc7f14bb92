"""Columns that rows further down show to be of another kind than the first ones: read in another way, which is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shoal.data.files import Source
from shoal.data.notation.numbers import Notation, notation_notes
from shoal.kernels.csv_kernel import FieldKind


def otherwise(source: Source, columns: Sequence[int]) -> Source:
    """The same with these columns read in another way, and that said of numbers that became texts."""
    layout = source.layout.reconsidered(columns)
    old, new = (
        notation_notes({one.names[i]: notation for i, notation in one.notations.items()})
        for one in (source.layout, layout)
    )
    kept = [note for note in source.notes if note not in old]
    texts = [
        _nearly_numbers(layout.names[i], source.layout.notations.get(i)) for i in columns
        if layout.kinds[i] == FieldKind.LEVEL and source.layout.kinds[i] in (FieldKind.NUMBER, FieldKind.MARKED)
    ]  # fmt: skip
    return replace(source, layout=layout, notes=(*kept, *new, *texts))


def _nearly_numbers(name: str, notation: Notation | None) -> str:
    how = f" written like {notation.example.rstrip('.')}" if notation else ""
    return (
        f"Column '{name}' is read as text: its first values are numbers{how}, but further down are others. If it is "
        f"one of numbers, say so (numeric: {name}), and rows with others are left out."
    )
