"""The words of the stored reference results in ours."""

from __future__ import annotations

from typing import Any

CODINGS = {"drop_first": "drop_first", "full_one_hot": "full"}


def our_names(reference: dict[str, Any], columns: list[str]) -> list[str]:
    """`species_Chinstrap` there is `species=Chinstrap` here; numeric names may have `_` as well."""
    named = []
    for column in columns:
        owner = next((c for c in reference["categorical"] if column.startswith(f"{c}_")), None)
        named.append(column if owner is None else f"{owner}={column[len(owner) + 1 :]}")
    return named
