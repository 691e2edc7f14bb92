"""Histograms in the stream of a run: few of all that are on record, and those of a resumed run in place of the old."""

from __future__ import annotations

from typing import Any

from shoal.dashboard.live.histograms import SHOWN, looks, shown
from shoal.metrics import HISTOGRAMS, Event
from shoal.storage import Storage
from support.dashboard.live import Tab, a_round


def event(round: int, name: str = "coefficients") -> Event:
    part = {"name": name, "size": 3, "weights": {"low": 0.0, "high": 1.0, "counts": [1, 2]}, "gradient": None}
    return Event(round / 2, HISTOGRAMS, round, "", None, {"epoch": round / 4, "parts": [part]})


def rounds(found: list[dict[str, Any]]) -> list[int]:
    return [look["round"] for look in found]


def test_a_round_that_is_made_again_replaces_those_after_it() -> None:
    found = looks([], [event(4), event(8), event(12), event(8, "again")])
    assert rounds(found) == [4, 8]
    assert found[-1]["parts"][0]["name"] == "again"
    assert rounds(looks(found, [event(9)])) == [4, 8, 9]


def test_the_first_and_the_newest_are_shown_whatever_there_are() -> None:
    for count in range(1, 200):
        found = shown(looks([], [event(number) for number in range(count)]))
        assert min(count, SHOWN - 1) <= len(found) <= min(count, SHOWN)
        assert (found[0]["round"], found[-1]["round"]) == (0, count - 1)
        assert rounds(found) == sorted(set(rounds(found)))
    assert shown([]) == []


def test_a_tab_has_them_whether_it_comes_early_or_late(store: Storage, tab: Tab) -> None:
    store.add([a_round(1), event(1)])
    tab.look()
    assert rounds(tab.data["spread"]) == [1]
    store.add([a_round(2), event(2)])
    assert tab.look() == "update"
    assert rounds(tab.data["spread"]) == [1, 2]
    assert rounds(tab.feed.snapshot()["spread"]) == [1, 2]
    assert tab.data["events"] == []  # nothing happened
