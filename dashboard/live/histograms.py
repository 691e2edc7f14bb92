"""Histograms of weights and gradients in the stream of a run: a few of all that are on record, and the newest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.metrics import Event

SHOWN = 4  # lines that can be told apart in one picture


def looks(before: Sequence[dict[str, Any]], events: Sequence[Event]) -> list[dict[str, Any]]:
    """All that are known with these; one of a round that was made again takes the place of those from there on."""
    found = list(before)
    for event in events:
        while found and found[-1]["round"] >= event.round:
            found.pop()
        found.append({"round": event.round, "epoch": event.data.get("epoch"), "parts": event.data.get("parts") or []})
    return found


def shown(found: Sequence[dict[str, Any]], most: int = SHOWN) -> list[dict[str, Any]]:
    """The first, the newest, and those between them that halve what is left: early ones differ the most."""
    if not found:
        return []
    places, place = {0, len(found) - 1}, len(found) - 1
    while len(places) < most and place > 1:
        place //= 2
        places.add(place)
    return [found[place] for place in sorted(places)]
