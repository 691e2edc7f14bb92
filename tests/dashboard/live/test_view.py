"""The page of a run, steered and forked from a browser's place, with real processes behind it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from shoal.dashboard.live import controls
from shoal.dashboard.live.feed import HOST_COLUMNS, ROUND_COLUMNS, RunFeed
from shoal.errors import DiskFull, Reason, Remedy, Standing
from shoal.files.locks import lock_file
from shoal.home import queue_directory
from shoal.metrics import Round
from shoal.runs import interruptions, scheduling
from shoal.runs import launch as run_store
from shoal.runs.commands import metrics_of
from shoal.runs.launch import Run, launch
from support.pages import checked, open_page, said, settle
from support.runs import ended, endless_run, made, rounds, short_run, small_table, training, until, waiting


def press(page: AppTest, key: str) -> AppTest:
    return checked(page.button(key=key).click().run())


def labels(page: AppTest) -> set[str]:
    return {button.label for button in page.button}


def shown(page: AppTest) -> list[dict[str, Any]]:
    """What the components of the page were given."""
    return [json.loads(element.proto.json) for element in page.get("bidi_component")]


def _two_workers() -> None:
    import streamlit as st

    from shoal.dashboard.live.controls import break_it
    from shoal.runs.launch import Run

    break_it(Run(st.session_state.directory), st.session_state.here, alone=False)


def test_who_is_to_be_broken_stays_chosen_while_its_next_process_starts(tmp_path: Path) -> None:
    page = AppTest.from_function(_two_workers)
    page.session_state.directory = tmp_path
    for here in ([0, 1], [0], [0, 1]):
        page.session_state.here = here
        page = checked(page.run())
        assert (page.selectbox(key="victim").value, page.selectbox(key="victim").options) == (
            1,
            ["Worker 0", "Worker 1"],
        )


def test_a_run_is_steered_from_its_page(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path), engine="inline", model="ridge", alpha=1.0)))
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
    assert "This run is one process. Start one with worker processes" in said(page)
    assert "--engine" not in said(page)
    run_store.post(run, "stop")
    ended(run)
    page = AppTest.from_function(script, args=(run.id,), default_timeout=20).run()
    assert "is stopped, so it takes no commands" in said(page)
    assert "Resume it first with the button Resume." in said(page)
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
    mine = tmp_path / "mine.txt"
    mine.write_text("what I keep")
    for path in (f"out: {mine}", f"file: {mine}", f"training: {{optimization: {{out: {mine}}}}}"):
        page.text_area(key="fork:more").set_value(path)
        page = press(page, "do:fork")
        assert "A page sets no paths" in said(page)
    assert [other.id for other in run_store.list_runs()] == [run.id]
    assert mine.read_text() == "what I keep"
    page.selectbox(key="fork:step").select_index(-1)  # the first one; the newest is of the full passes
    page.text_area(key="fork:more").set_value("clip: 5")
    page = press(page, "do:fork")
    made_ = [other for other in run_store.list_runs() if other.id != run.id]
    assert len(made_) == 1
    assert page.query_params["run"] == made_[0].id
    assert ended(made_[0]) == "finished"
    config = made_[0].config
    assert (config["epochs"], config["clip"]) == (3, 5)
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
    assert {"gradient", "rate", "throughput", "bytes", "gpu"} <= set(keys)
    assert "staleness" not in keys  # nothing is stale in step
    assert all(s["field"] in {*ROUND_COLUMNS, *HOST_COLUMNS, "gpu"} for s in series)
    run_store.post(run, "stop")
    ended(run)
    tiles, panels = shown(open_page("train", run=run.id))
    assert not tiles["live"]
    assert not tiles["tells"]


def test_states_without_a_process(home: Path) -> None:
    full = DiskFull("The disk is full.", Remedy.run("Make room, then resume it", "resume", "1"))
    failed = made(error={"message": full.message, **Standing.after(full).as_dict()})
    page = open_page("train", run=failed.id)
    assert "The disk is full. Make room, then resume it with the button Resume." in said(page)
    assert failed.standing.reason == Reason.OUT_OF_DISK
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
    waiting(second)
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


def test_a_run_that_was_killed_says_so_while_it_waits_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptions, "FIRST_REST", 60.0)  # this process takes it up, and it rests while we look
    queue_directory().mkdir(parents=True, exist_ok=True)
    with lock_file(queue_directory() / scheduling.WATCH) or contextlib.nullcontext():
        run = training(launch(endless_run(small_table(tmp_path), engine="inline", retries=2)))
        os.kill(run.pid or 0, signal.SIGKILL)
        until(lambda: not run.is_alive)
        scheduling.keep_going()
        assert run.state == "queued"
        page = open_page("train", run=run.id)
        assert "Its process was killed" in said(page)
        assert "it begins with its newest checkpoint" in said(page)
        assert "In the queue" not in said(page)
        press(page, "do:stop")
        assert ended(run) == "stopped"
