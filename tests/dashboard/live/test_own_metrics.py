"""Metrics of plug-ins in the stream of a run: columns that grow, go back with a resumed run, and stay few."""

from __future__ import annotations

from typing import Any

from shoal.dashboard.live.own_metrics import field_of, own_columns
from shoal.dashboard.live.panels import own
from shoal.metrics import OWN_METRICS, Event


def event(round: int, /, **values: Any) -> Event:
    return Event(round / 2, OWN_METRICS, round, "", None, {"epoch": round / 4, "values": values})


def test_columns_grow_and_a_round_that_is_made_again_replaces_those_after_it() -> None:
    found = own_columns({}, [event(4, mape=0.5), event(8, mape=0.25)], 100)
    assert found == {"round": [4, 8], "epoch": [1.0, 2.0], "seconds": [2.0, 4.0], "own:mape": [0.5, 0.25]}
    found = own_columns(found, [event(12, mape=None), event(8, mape=0.125)], 100)
    assert found["round"] == [4, 8]
    assert found["own:mape"] == [0.5, 0.125]


def test_a_metric_of_any_name_has_a_column_of_its_own() -> None:
    found = own_columns({}, [event(4, round=7.0), event(8, seconds=1.0)], 100)
    assert found["round"] == [4, 8]
    assert (found[field_of("round")], found[field_of("seconds")]) == ([7.0, None], [None, 1.0])
    (panel,) = own({"metrics": ["round"]})
    assert (panel["series"][0]["field"], panel["by_rounds"]) == (field_of("round"), True)


def test_a_long_run_has_few_points_and_the_newest() -> None:
    found = own_columns({}, [event(number, m=float(number)) for number in range(5000)], 1500)
    assert len(found["round"]) <= 1501
    assert (found["round"][0], found["round"][-1]) == (0, 4999)
