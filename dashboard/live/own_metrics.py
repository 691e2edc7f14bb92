"""What metrics of plug-ins came to in the course of a run, as columns of its stream; what is built in is in `feed`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.metrics import Event

PLACE = ("round", "epoch", "seconds")


def field_of(name: str) -> str:
    """The column of a metric: a plug-in may call it `round` too."""
    return f"own:{name}"


def own_columns(before: dict[str, list[Any]], events: Sequence[Event], points: int) -> dict[str, list[Any]]:
    """With what these events add; one of a round that was made again takes the place of those from there on."""
    rows = [dict(zip(before, row, strict=True)) for row in zip(*before.values(), strict=True)]
    for event in events:
        while rows and rows[-1]["round"] >= event.round:
            rows.pop()
        at = dict(zip(PLACE, (event.round, event.data.get("epoch"), round(event.seconds, 3)), strict=True))
        rows.append(at | {field_of(name): value for name, value in (event.data.get("values") or {}).items()})
    names = dict.fromkeys(name for row in rows for name in row)
    thin = -(-len(rows) // points)
    kept = [*rows[:-1:thin], rows[-1]] if thin > 1 else rows
    return {name: [row.get(name) for row in kept] for name in names}
