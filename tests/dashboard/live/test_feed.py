"""The feed of a run: a snapshot and updates that add up to the store."""

from __future__ import annotations

import math
import random
import shutil

import pytest

from shoal.dashboard.live.feed import EVENTS, POINTS
from shoal.metrics import Event, LinkSample
from shoal.runs.folder import write_json
from shoal.runs.launch import Run
from shoal.storage import Storage
from shoal.utils import RunLog
from support.dashboard.live import Tab, a_host, a_round, a_worker


def test_updates_add_up_to_the_store(store: Storage, tab: Tab) -> None:
    chance = random.Random(4)
    number = 0
    for _ in range(40):
        batch = [a_round(number := number + chance.randint(1, 3)) for _ in range(chance.randint(0, 30))]
        store.add(batch)
        tab.look()
        tab.shows_all_of(store)
    assert tab.kinds[0] == "snapshot"
    assert set(tab.kinds[1:]) == {"update"}
    before = len(tab.kinds)
    assert tab.look() == ""
    assert len(tab.kinds) == before


@pytest.mark.parametrize("further", [5, 40, 41, 200])
def test_a_resumed_run_goes_back(store: Storage, tab: Tab, further: int) -> None:
    """It makes rounds again, perhaps beyond where it was, between two looks; only the new ones count."""
    store.add([a_round(n) for n in range(1, 101)])
    tab.look()
    store.forget_after(60)
    store.add([a_round(n, seconds=50 + n, loss=7.0) for n in range(61, 61 + further)])
    assert tab.look() == "snapshot"
    tab.shows_all_of(store)
    store.add([a_round(n, seconds=50 + n) for n in range(61 + further, 70 + further)])
    assert tab.look() == "update"
    tab.shows_all_of(store)


def test_the_last_round_recorded_again_with_other_weights(store: Storage, tab: Tab) -> None:
    store.add([a_round(n) for n in range(1, 11)])
    tab.look()
    store.add([a_round(10, loss=0.25)])
    assert tab.look() == "snapshot"
    tab.shows_all_of(store)


def test_a_long_run_is_thinned(store: Storage, tab: Tab) -> None:
    store.add([a_round(n) for n in range(1, 5001)])
    tab.look()
    assert len(tab.rounds) <= POINTS
    assert tab.rounds[0] == 1
    assert tab.rounds[-1] == 5000
    store.add([a_round(n) for n in range(5001, 9001)])  # more than is worth adding
    assert tab.look() == "snapshot"
    assert len(tab.rounds) <= POINTS
    assert tab.rounds[-1] == 9000


def test_what_was_added_is_thinned_in_time(store: Storage, tab: Tab) -> None:
    tab.look()
    for start in range(0, 6000, 100):
        store.add([a_round(n) for n in range(start + 1, start + 101)])
        tab.look()
        assert len(tab.rounds) <= 2 * POINTS
        assert tab.rounds == sorted(set(tab.rounds))
        assert tab.rounds[-1] == start + 100
    assert 2 <= tab.kinds.count("snapshot") <= 6


def test_nothing_is_not_a_number(store: Storage, tab: Tab) -> None:
    store.add([a_round(1, loss=math.nan, validation=math.nan, gradient_norm=math.inf, distance=-1e-17)])
    store.add([Event(math.nan, "warning", 1, "odd"), a_worker(1.0, cpu=math.nan), a_host(1.0)])
    tab.look()
    table = tab.data["rounds"]
    assert [table[name] for name in ("loss", "validation", "gradient_norm", "distance")] == [[None]] * 4
    assert tab.data["events"][0]["seconds"] is None
    assert tab.look() == ""  # NaN is not taken for news


def test_samples_of_host_and_workers(store: Storage, tab: Tab) -> None:
    for second in range(1, 4):
        store.add([a_host(float(second)), a_worker(float(second), 0, rows=second), a_worker(float(second), 1)])
        tab.look()
    store.add([a_host(float(second)) for second in range(4, 9)])  # some that nobody looked at
    tab.look()
    assert tab.data["hosts"]["seconds"] == [float(second) for second in range(1, 9)]
    assert tab.data["hosts"]["memory"][0] == 0.25
    first, second = tab.data["workers"]
    assert (first["rank"], first["rows"], first["history"]) == (0, 3, [0.5, 0.5, 0.5])
    assert second["rank"] == 1
    assert set(tab.kinds[1:]) == {"update"}


def test_how_workers_on_other_machines_are_reached(store: Storage, tab: Tab) -> None:
    link = LinkSample(1.0, 1, "10.0.0.2", 0.0123456, 2.0, 5_000_000, 7_000_000)
    store.add([a_host(1.0), a_worker(1.0, 0), a_worker(1.0, 1), link])
    tab.look()
    here, there = tab.data["workers"]
    assert here["link"] is None
    assert there["link"] == {
        "node": "10.0.0.2",
        "took": 0.0123,
        "silent": 2.0,
        "received": 5_000_000,
        "sent": 7_000_000,
    }


def test_lines_of_the_log(run: Run, tab: Tab) -> None:
    with RunLog(run.directory) as log:
        log.info("first")
        tab.look()
        log.warning("second")
    with (run.directory / "log.jsonl").open("a") as file:
        file.write('{"at": 1, "level": "info", "te')
        file.flush()
        tab.look()
        assert [line["text"] for line in tab.data["log"]] == ["first", "second"]
        file.write('xt": "<b>third</b>"}\nnot json\n')
    tab.look()
    assert [(line["number"], line["text"]) for line in tab.data["log"]][2:] == [(3, "<b>third</b>")]


def test_a_store_that_cannot_be_read_is_told(run: Run, tab: Tab) -> None:
    run.metrics_path.write_bytes(b"this is no store" * 100)
    tab.look()
    assert "damaged" in tab.data["head"]["problem"]


def test_ended_and_gone(run: Run, tab: Tab) -> None:
    write_json(run.directory / "result.json", {"state": "stopped", "cause": "stopped by a command"})
    tab.look()
    assert tab.feed.ended
    assert tab.data["head"]["state"] == "stopped"
    shutil.rmtree(run.directory)
    assert tab.look() == "update"
    assert tab.data["head"]["state"] == "gone"
    assert tab.feed.ended


def test_tiles_before_the_first_round(run: Run, tab: Tab) -> None:
    (run.directory / "started").unlink()  # its process is starting
    write_json(run.directory / "progress.json", {"stage": "reading", "fraction": 0.25})
    tab.look()
    assert tab.data["head"]["state"] == "preparing"
    assert tab.data["head"]["tiles"]["progress"] == ["Reading", "25%", 0.25]


def test_rows_a_second_of_each_worker(store: Storage, tab: Tab) -> None:
    for second in (1, 2, 3):
        store.add([a_host(second), *(a_worker(second, rank, rows=second * 100 * (rank + 1)) for rank in (0, 1))])
    tab.look()
    assert tab.data["rates"] == {"seconds": [2, 3], "gpu": [None, None], "0": [100, 100], "1": [200, 200]}
    store.add([a_host(4), a_worker(4, 0, rows=450), a_worker(4, 1, rows=5, pid=999)])  # the other is a new process
    assert tab.look() == "update"
    assert tab.data["rates"]["seconds"] == [2, 3, 4]
    assert tab.data["rates"]["0"] == [100, 100, 150]
    assert tab.data["rates"]["1"] == [200, 200, None]
    store.add([a_host(5), *(a_worker(5, rank, rows=2000) for rank in (0, 1, 2))])
    assert tab.look() == "snapshot"  # with a line more
    assert "2" in tab.data["rates"]


def test_thousands_of_checkpoints_hide_no_worker(store: Storage, tab: Tab) -> None:
    """Lanes and the list of what happened are made from the events that are kept."""
    store.add([Event(1.0, "joined", 0, "Worker 3 is here.", 3)])
    for since in (0, 1500):  # read at once, and while it goes on
        store.add([Event(2.0 + n, "checkpoint", n, f"Checkpoint of round {n}.") for n in range(since, since + 1500)])
        tab.look()
        events = tab.feed.snapshot()["events"]
        assert len(events) == EVENTS
        assert events[0]["text"] == "Worker 3 is here."
        assert events[-1]["round"] == since + 1499
        assert [(lane["rank"], lane["to"]) for lane in tab.data["lanes"]] == [(3, None)]


def test_the_newest_table_of_parameter_shards_is_shown_and_those_of_a_process_before_are_not(
    store: Storage, tab: Tab
) -> None:
    line = {"shard": 0, "pid": 71, "parameters": 600, "pieces": 2, "state": "here"}
    two = [line, {**line, "shard": 1, "parameters": 400}]
    store.add([a_round(1), Event(1.0, "shards", 1, "Shard 0 is here.", None, {"shards": [line]})])
    tab.look()
    assert tab.feed.snapshot()["shards"] == [line]
    store.add([Event(2.0, "shards", 1, "Shard 1 is here.", None, {"shards": two})])
    assert tab.look() == "update"
    assert tab.feed.snapshot()["shards"] == two
    store.add([Event(3.0, "shards", 1, "Shard 1 is gone.", None, {"shards": [line], "lost": 1})])
    tab.look()
    assert [event["tone"] for event in tab.feed.snapshot()["events"]] == ["good", "good", "bad"]
    store.add([Event(4.0, "started", 1, "Resuming.")])
    tab.look()
    assert tab.feed.snapshot()["shards"] == []
