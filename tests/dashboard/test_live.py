"""The live view without a browser: the feed against real stores, hubs, the stream over HTTP, and the buttons."""

from __future__ import annotations

import asyncio
import dataclasses
import http.client
import json
import math
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.live import controls
from shoal.dashboard.live import story as live_story
from shoal.dashboard.live import tiles as live_words
from shoal.dashboard.live.feed import POINTS, ROUND_COLUMNS, RunFeed, columns
from shoal.dashboard.live.hub import BEHIND, Hubs, Listener, message
from shoal.dashboard.parts import wording
from shoal.metrics import Event, HostSample, Round, WorkerSample
from shoal.runs import launch as run_store
from shoal.runs.folder import write_json
from shoal.runs.launch import Run, launch, metrics_of
from shoal.runs.log import RunLog
from shoal.storage import Storage, open_storage
from support.browser import free_port
from support.pages import checked, open_page, said, settle
from support.runs import ended, endless_run, made, rounds, run_home, short_run, small_table, training, until

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as path:
        yield path


def a_round(number: int, seconds: float | None = None, **more: Any) -> Round:
    begun = Round(
        round=number, epoch=number / 10, phase="steps", seconds=number / 100 if seconds is None else seconds,
        loss=1 / (1 + number), validation=None, distance=1 / (2 + number), gradient_norm=1.0, learning_rate=0.5,
        alpha=1.0, nonzeros=3, rows_per_second=1000.0, bytes_raw=80, bytes_sent=40, read=0.1, compute=0.5, wait=0.4,
        apply=0.1, staleness=0.0, workers=2,
    )  # fmt: skip
    return dataclasses.replace(begun, **more)


def a_host(seconds: float) -> HostSample:
    return HostSample(seconds, 0.5, 10, 40, 1.0, 2.0, 3.0, 4.0)


def a_worker(seconds: float, rank: int = 0, **more: Any) -> WorkerSample:
    return dataclasses.replace(WorkerSample(seconds, rank, 100 + rank, "working", 0.5, 1, 2, 0.0, 0.1, None), **more)


@pytest.fixture
def run(home: Path) -> Run:
    return made()


@pytest.fixture
def store(run: Run) -> Iterator[Storage]:
    with open_storage(run.metrics_url) as storage:
        yield storage


class Tab:
    """What a browser holds after the messages of a feed, as live_plot.js does it."""

    def __init__(self, run: Run) -> None:
        self.feed = RunFeed(run)
        self.data: dict[str, Any] = {}
        self.kinds: list[str] = []

    def look(self) -> str:
        found = self.feed.look()
        if found is None:
            return ""
        self.take(found.kind, json.loads(message(*found).partition(b"data: ")[2]))
        return found.kind

    def take(self, kind: str, body: dict[str, Any]) -> None:
        self.kinds.append(kind)
        if kind == "snapshot":
            self.data = body
            return
        for part, value in body.items():
            if part in ("rounds", "hosts"):
                for name, more in value.items():
                    self.data[part][name] += more
            elif part in ("events", "log"):
                self.data[part] += value
            else:
                self.data[part] = value

    @property
    def rounds(self) -> list[int]:
        return self.data["rounds"]["round"]

    def shows_all_of(self, storage: Storage) -> None:
        """No gap, no duplicate, no older version of a round."""
        whole = json.loads(json.dumps(columns(storage.rounds(10**9), ROUND_COLUMNS)))
        assert self.data["rounds"] == whole


@pytest.fixture
def tab(run: Run) -> Iterator[Tab]:
    found = Tab(run)
    yield found
    found.feed.close()


# ------------------------------------------------------------------ the feed


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


# ------------------------------------------------------------------ words and stories


def told(*events: Event) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, event in enumerate(events, 1):
        found.append(live_story.told(number, event, found))
    return found


def test_a_loss_is_told_from_its_cause_to_its_end() -> None:
    killed = {"command": "kill_worker", "outcome": "done"}
    events = told(
        Event(0.0, "joined", 0, "Worker 1 is here (process 7).", 1),
        Event(4.0, "command", 9, "Command kill_worker rank=1: done", None, killed),
        Event(4.5, "lost", 9, "Worker 1 is gone.", 1, {"tasks_redone": 8}),
        Event(6.0, "restarted", 12, "Worker 1 is here (process 8).", 1),
        Event(9.0, "lost", 20, "Worker 1 is gone.", 1, {"tasks_redone": 1}),
    )
    assert events[1]["rank"] == 1
    assert events[1]["text"] == "Worker 1 is killed, on request."
    assert events[2]["note"] == "Noticed after 500 ms. Its work (8 batches) is handed over."
    assert events[3]["note"] == "Back after 1.5 s."
    assert events[3]["tone"] == "good"
    assert events[4]["note"] == "Its work (1 batch) is handed over."  # nobody asked for this one
    lanes = live_story.lanes(events)
    assert [(lane["from"], lane["to"], lane["state"]) for lane in lanes] == [
        (0.0, 4.5, "here"), (4.5, 6.0, "lost"), (6.0, 9.0, "here"), (9.0, None, "lost"),
    ]  # fmt: skip


def test_workers_go_with_their_run() -> None:
    events = told(
        Event(0.0, "started", 0, "Training begins."), Event(1.0, "joined", 0, "Worker 0 is here.", 0),
        Event(5.0, "checkpoint", 9, "Checkpoint of round 9."), Event(5.0, "started", 9, "Training begins."),
        Event(6.0, "joined", 9, "Worker 0 is here.", 0),
    )  # fmt: skip
    assert [(lane["from"], lane["to"]) for lane in live_story.lanes(events)] == [(1.0, 5.0), (6.0, None)]


def test_a_refused_command_says_why() -> None:
    data = {"command": "set", "outcome": "Only the steps of the modes ssp and async have a bound of staleness."}
    (event,) = told(Event(1.0, "command", 3, f"Command set staleness=3: {data['outcome']}", None, data))
    assert event["tone"] == "warn"
    assert event["text"].startswith("Set staleness to 3: refused. Only the steps")


def test_time_left() -> None:
    steps = columns([a_round(n, seconds=float(n)) for n in range(1, 41)], ROUND_COLUMNS)  # 0.1 epochs a second
    assert live_words.time_left(steps, {"epochs": 10}) == pytest.approx(60)
    assert live_words.time_left(steps, {"epochs": 10, "max_seconds": 45}) == pytest.approx(5)
    passes = [a_round(n, seconds=float(n), phase="finish", distance=10.0**-n) for n in range(1, 5)]
    finish = columns(passes, ROUND_COLUMNS)
    assert live_words.time_left(finish, {"tolerance": 1e-9}) == pytest.approx(5)
    assert live_words.time_left(columns(passes[:1], ROUND_COLUMNS), {"tolerance": 1e-9}) is None


@pytest.mark.parametrize(
    ("message_", "expected"),
    [
        ("Start it again, or resume it: shoal resume 2026-1.", "Start it again, or resume it with the button on its page."),
        ("It has none yet. Wait (shoal send 2026-1 checkpoint), or start another run.",
         "It has none yet. Wait (the button Checkpoint), or start another run."),
        ("Start a new run for that: shoal train.", "Start a new run for that on the Train page."),
        ("It is running. See: shoal show 2026-1.", "It is running."),
    ],
)  # fmt: skip
def test_words_of_the_command_line_become_those_of_the_page(message_: str, expected: str) -> None:
    assert wording.for_page(message_) == expected


# ------------------------------------------------------------------ the hub


def readers(run: Run) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"live-{run.id}"]


def active(run: Run) -> None:
    """As if its process were about to start: the run is active."""
    (run.directory / "started").unlink()


async def next_event(stream: Any) -> bytes:
    while True:
        found: bytes = await asyncio.wait_for(anext(stream), 10)
        if found.startswith(b"event:"):
            return found


def test_one_reader_for_all_and_none_for_nobody(run: Run, store: Storage) -> None:
    active(run)

    async def watch() -> None:
        hubs = Hubs()
        first = hubs.listen(run)
        assert (await next_event(first)).startswith(b"event: snapshot")
        store.add([a_round(1)])
        await next_event(first)
        second = hubs.listen(run)  # comes later
        snapshot = await next_event(second)
        assert snapshot.startswith(b"event: snapshot")
        assert b'"round":[1]' in snapshot
        store.add([a_round(2)])
        news, same = await asyncio.gather(next_event(first), next_event(second))
        assert news is same
        assert b'"round":[2]' in news
        assert len(readers(run)) == 1
        await first.aclose()
        assert len(readers(run)) == 1
        assert len(hubs.open) == 1
        await second.aclose()
        assert not hubs.open
        await asyncio.to_thread(until, lambda: not readers(run), 5)

    asyncio.run(watch())


def test_the_end_of_a_run_ends_its_streams(run: Run, store: Storage) -> None:
    active(run)

    async def watch() -> None:
        hubs = Hubs()
        stream = hubs.listen(run)
        await next_event(stream)
        store.add([a_round(1)])
        write_json(run.directory / "result.json", {"state": "finished", "cause": "converged"})
        kinds = [found.split(b"\n")[0] async for found in stream if found.startswith(b"event")]
        assert kinds[-1] == b"event: end"
        assert set(kinds[:-1]) == {b"event: update"}
        late = [found async for found in hubs.listen(run)]  # a page of an ended run
        assert b"snapshot" in late[1]
        assert b'"round":[1]' in late[1]
        assert late[2].startswith(b"event: end")
        assert len(late) == 3
        assert not hubs.open

    asyncio.run(watch())


def test_a_server_that_closes_is_not_held_up(run: Run) -> None:
    active(run)

    async def watch() -> None:
        closing = threading.Event()
        stream = Hubs(closing.is_set).listen(run)
        await next_event(stream)
        closing.set()
        assert not [found async for found in stream if not found.startswith(b"event: update")]

    asyncio.run(watch())


def test_a_listener_that_is_too_slow_comes_again() -> None:
    async def fill() -> None:
        listener = Listener()
        for _ in range(BEHIND + 2):
            listener.give([b"news"])
        assert listener.queue.get_nowait() is None
        assert listener.queue.empty()

    asyncio.run(fill())


# ------------------------------------------------------------------ over HTTP

SERVER = """
import sys, uvicorn
from starlette.applications import Starlette
from shoal.dashboard.live import route as stream_route
uvicorn.run(Starlette(routes=stream_route.routes()), port=int(sys.argv[1]), log_level="warning")
"""


@pytest.fixture
def port(home: Path) -> Iterator[int]:
    number = free_port()
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(number)])
    until(lambda: answers(number))
    yield number
    process.send_signal(signal.SIGINT)  # a stream may still be open
    asked = time.monotonic()
    process.wait(timeout=10)
    assert time.monotonic() - asked < 5


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def events_of(answer: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = ""
    for line in answer:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


def ask(port: int, run_id: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", f"/api/runs/{run_id}/stream", headers={"Accept-Encoding": "gzip"})
    return connection, connection.getresponse()


def test_the_stream_over_http(run: Run, store: Storage, port: int) -> None:
    active(run)
    connection, answer = ask(port, run.id)
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Accel-Buffering"] == "no"
    events = events_of(answer)
    assert next(events)[0] == "snapshot"
    recorded = time.monotonic()
    store.add([a_round(1)])
    kind, body = next(events)
    assert kind == "update"
    assert body["rounds"]["round"] == [1]
    assert time.monotonic() - recorded < 5
    for unknown in ("nobody", "..", "%2e%2e", "..%2F..%2Fetc"):
        other, refusal = ask(port, unknown)
        assert refusal.status == 404
        other.close()
    shutil.rmtree(run.directory)
    assert [kind for kind, _ in events] == ["update", "end"]
    connection.close()
    connection, answer = ask(port, made().id)  # an ended one: all of it at once
    assert [kind for kind, _ in events_of(answer)] == ["snapshot", "end"]
    connection.close()


@pytest.fixture
def connections() -> Iterator[list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]]]:
    found: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = []
    yield found
    for connection, answer in found:
        answer.close()
        connection.close()


def test_the_server_ends_while_somebody_listens(
    run: Run, store: Storage, connections: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]], port: int
) -> None:
    active(run)
    connections.append(ask(port, run.id))
    assert (
        next(events_of(connections[0][1]))[0] == "snapshot"
    )  # the fixture ends the server and looks how long that takes


# ------------------------------------------------------------------ the page of a run


def press(page: AppTest, key: str) -> AppTest:
    return checked(page.button(key=key).click().run())


def labels(page: AppTest) -> set[str]:
    return {button.label for button in page.button}


def shown(page: AppTest) -> list[dict[str, Any]]:
    """What the components of the page were given."""
    return [json.loads(element.proto.json) for element in page.get("bidi_component")]


def test_a_run_is_steered_from_its_page(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path), engine="inline", model="ridge")))
    page = open_page("train", run=run.id)
    assert {"Pause", "Checkpoint", "Stop the run"} <= labels(page)
    assert "Resume" not in labels(page)
    until(lambda: controls._workers(run)[1])  # the first sample is there
    page = checked(page.run())
    assert all(page.button(key=f"do:{deed}").disabled for deed in ("kill", "hang", "slow", "add_worker"))
    assert any("This run is one process" in caption.value for caption in page.caption)

    page = press(page, "do:pause")
    assert page.toast[0].value.startswith("Pause: done, in effect from round")
    until(lambda: run.state == "paused")
    page = checked(page.run())
    assert "Resume" in labels(page)
    assert "Pause" not in labels(page)
    press(page, "do:resume")
    until(lambda: run.state == "running")

    page = checked(page.run())
    page.number_input(key="set:learning_rate").set_value(0.01)
    page.number_input(key="set:alpha").set_value(3.0)
    page = press(page, "do:set")
    until(lambda: last(run).learning_rate == 0.01 and last(run).alpha == 3.0)
    assert not any(widget.key == "set:staleness" for widget in page.number_input)  # the mode has none

    page = press(page, "do:stop")
    assert ended(run) == "stopped"
    page = checked(page.run())
    assert {"Resume", "Start the fork"} <= labels(page)
    assert "Pause" not in labels(page)
    assert {"Result", "Training"} <= {tab.label for tab in page.tabs}

    page = press(page, "do:resume")
    training(run)
    page = checked(page.run())
    assert "Pause" in labels(page)
    press(page, "do:stop")
    ended(run)


def last(run: Run) -> Round:
    with metrics_of(run) as storage:
        found = storage.last_round() if storage else None
    assert found is not None
    return found


def test_a_refusal_is_a_plain_sentence(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path), engine="inline")))
    until(lambda: controls._workers(run)[1])

    def script(run_id: str) -> None:
        from shoal.dashboard.live import controls
        from shoal.runs.launch import find_run

        run = find_run(run_id)
        assert run is not None
        controls.send(run, "Kill worker 0", "kill_worker", {"rank": 0})
        controls.bar(run, "running", run.config)

    page = AppTest.from_function(script, args=(run.id,), default_timeout=20).run()
    assert "This run is one process. Start it with worker processes" in said(page)
    assert "--engine" not in said(page)
    run_store.post(run, "stop")
    ended(run)
    page = AppTest.from_function(script, args=(run.id,), default_timeout=20).run()
    assert "is stopped, so it takes no commands" in said(page)
    assert "shoal resume" not in said(page)


def test_a_finished_run_can_be_forked(tmp_path: Path) -> None:
    run = launch(short_run(small_table(tmp_path), engine="inline", test_every=5))
    assert ended(run) == "finished"
    page = open_page("train", run=run.id)
    assert "Resume" not in labels(page)
    page.number_input(key="fork:epochs").set_value(3.0)
    page.text_area(key="fork:more").set_value("nonsense: 1")
    page = press(page, "do:fork")
    assert "Expected the names of knobs, got &#x27;nonsense&#x27;" in said(page)
    page.selectbox(key="fork:step").select_index(-1)  # the first one; the newest is of the full passes
    page.text_area(key="fork:more").set_value("momentum: 0.5")
    page = press(page, "do:fork")
    made_ = [other for other in run_store.list_runs() if other.id != run.id]
    assert len(made_) == 1
    assert page.query_params["run"] == made_[0].id
    assert ended(made_[0]) == "finished"
    config = made_[0].config
    assert (config["epochs"], config["momentum"]) == (3, 0.5)
    assert made_[0].job["forked_from"]["run"] == run.id
    assert f"forked from {run.id}" in said(settle(page))


def test_what_the_page_of_a_run_asks_the_browser_to_draw(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path), engine="inline")))
    tiles, panels = shown(open_page("train", run=run.id))
    assert tiles["url"] == panels["url"] == f"api/runs/{run.id}/stream"
    assert tiles["state"] == "running"
    assert tiles["tells"]
    assert not panels["tells"]
    assert panels["live"]
    keys = [panel["key"] for panel in panels["panels"]]
    assert {"loss", "validation", "distance", "speed", "time", "workers", "timeline", "events", "host", "log"} <= set(
        keys
    )
    series = [s for panel in panels["panels"] if panel["kind"] == "chart" for s in panel["series"]]
    assert all(s["field"] in ROUND_COLUMNS or s["field"] in ("cpu", "memory") or "_" in s["field"] for s in series)
    run_store.post(run, "stop")
    ended(run)
    tiles, panels = shown(open_page("train", run=run.id))
    assert not tiles["live"]
    assert not tiles["tells"]


def test_states_without_a_process(home: Path) -> None:
    failed = made(error={"message": "The disk is full. Resume it with: shoal resume 1."})
    page = open_page("train", run=failed.id)
    assert "The disk is full. Resume it with the button on its page." in said(page)
    assert "Resume" in labels(page)
    interrupted = made()
    page = open_page("train", run=interrupted.id)
    assert "its process was stopped" in said(page)
    assert "Resume" in labels(page)
    page = press(page, "do:resume")  # it has no checkpoint and its table is not there
    assert rounds(interrupted) == 0
    ended(interrupted)
    assert "Expected" in said(settle(page))
    assert "not on this machine" in said(open_page("train", run="nothing"))


def test_a_queued_run_says_so_and_can_be_stopped(tmp_path: Path) -> None:
    data = small_table(tmp_path)
    first = training(launch(endless_run(data, engine="inline")))
    second = launch(endless_run(data, engine="inline"))
    until(lambda: second.state == "queued" and second.pid)
    page = open_page("train", run=second.id)
    assert "In the queue" in said(page)
    assert "Pause" not in labels(page)
    feed = RunFeed(second)
    feed.look()
    assert feed.head["tiles"]["progress"][0] == "Waits for its turn"
    assert "queue" in feed.head["tiles"]["progress"][1]
    feed.close()
    press(page, "do:stop")
    assert ended(second) == "stopped"
    run_store.post(first, "stop")
    ended(first)
