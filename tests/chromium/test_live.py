"""A gradient run watched and steered in real Chromium, while workers, tabs and the dashboard itself come and go."""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from shoal.runs.commands import metrics_of, post
from shoal.runs.launch import Run, find_run, launch, list_runs
from support.brought.example_plugin import distribution
from support.browser import LOOK, Server, Visitor, fits, free_port, needs_chromium, opens, settled
from support.runs import ended, endless_run, run_home, small_table, training, until
from support.training import generated

pytestmark = needs_chromium

PLOT = "[data-panel={}] .js-plotly-plot"
POINTS = 1500
SPREAD = re.compile(r": coefficients from [-\d.e]+ to [-\d.e]+$")
BETWEEN = """sel => {
  const chart = document.querySelector(sel), [one, next] = chart.data[0].x.slice(-2), apart = next - one
  return Plotly.relayout(chart, { "xaxis.range": [one + 0.4 * apart, one + 0.6 * apart] }).then(() => null)
}"""


@pytest.fixture(autouse=True)
def home(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The server's own home, so that it finds what the test starts; nothing is left running in it."""
    with run_home(server.home, monkeypatch) as path:
        monkeypatch.setenv("SHOAL_SLOTS", "8")
        yield path
        for run in list_runs():
            if run.is_active:
                post(run, "stop")
                ended(run)


def started(folder: Path, table: Path | None = None, **knobs: Any) -> Run:
    """A run that goes on, and that leaves the cores to the browser where it can. It says little beside what is asked for: the
    page shows the newest 500 lines of a log."""
    run = launch(endless_run(table or small_table(folder), test_every=5, checkpoint_seconds=60, **knobs))
    os.setpriority(os.PRIO_PROCESS, until(lambda: run.pid), 15)
    training(run)
    for worker in psutil.Process(run.pid).children(recursive=True):
        worker.nice(15)
    return run


def open_run(visitor: Visitor, run: Run) -> Page:
    page = visitor.visit(f"train?run={run.id}")
    has_points(page, 2)
    return page


def points(page: Page, panel: str = "loss") -> list[int]:
    found: list[int] = page.evaluate("sel => document.querySelector(sel)?.data?.[0]?.x ?? []", PLOT.format(panel))
    return found


def has_points(page: Page, count: int) -> None:
    page.wait_for_function(
        "([sel, n]) => (document.querySelector(sel)?.data?.[0]?.x?.length ?? 0) >= n",
        arg=[PLOT.format("loss"), count],
        polling=LOOK,
    )


def into_view(page: Page, selector: str) -> None:
    """Charts that nobody sees are not drawn. In one go: a page that is drawn anew takes its elements away."""
    script = "sel => { const found = document.querySelector(sel); found?.scrollIntoView({ block: 'center' }); return !!found }"
    page.wait_for_function(script, arg=selector, polling=LOOK)


def grows(page: Page) -> None:
    """The chart gets further."""
    into_view(page, PLOT.format("loss"))
    last = points(page)[-1]
    page.wait_for_function(
        "([sel, n]) => document.querySelector(sel)?.data?.[0]?.x?.at(-1) > n",
        arg=[PLOT.format("loss"), last],
        polling=LOOK,
    )


def revision(page: Page) -> int:
    return int(page.evaluate("sel => document.querySelector(sel).layout.datarevision", PLOT.format("loss")))


def updates(page: Page, count: int) -> None:
    page.wait_for_function(
        "([sel, n]) => document.querySelector(sel).layout.datarevision >= n",
        arg=[PLOT.format("loss"), revision(page) + count],
        polling=LOOK,
    )


def state(page: Page, word: str) -> None:
    expect(page.locator("[data-tile=state] .shoal-value")).to_have_text(word)


def paused(page: Page, run: Run) -> None:
    page.get_by_role("button", name="Pause").click()
    state(page, "Paused")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert run.state == "paused"


def shows_the_whole_run(page: Page, run: Run) -> None:
    """Every point is in the store, in order, from the first to the last one, with no gap beyond that of thinning."""
    with metrics_of(run) as storage:
        assert storage is not None
        kept = [record.round for record in storage.rounds(10**9)]
    into_view(page, PLOT.format("loss"))
    whole = "([sel, n]) => { const x = document.querySelector(sel)?.data?.[0]?.x; return x?.at(-1) === n && x }"
    shown = page.wait_for_function(whole, arg=[PLOT.format("loss"), kept[-1]], polling=LOOK)
    places = [
        kept.index(number) for number in shown.json_value()
    ]  # in one look: a page that is drawn anew has no points
    assert places[0] == 0
    apart = [after - before for before, after in itertools.pairwise(places)]
    assert min(apart) >= 1
    assert max(apart) <= (1 if len(kept) <= POINTS else 8 * len(kept) / POINTS)


def stop(page: Page) -> None:
    confirm = page.get_by_role("button", name="Stop the run")
    main = page.get_by_test_id("stMainBlockContainer")  # Streamlit's own header has a Stop while a page is drawn
    opens(main.get_by_role("button", name="Stop", exact=True), confirm)
    confirm.click()


def hovers(page: Page, x: float, y: float) -> Locator:
    """The label below the pointer. A move that falls into the drawing of a zoom is lost."""
    label = page.locator(f"{PLOT.format('loss')} .hoverlayer .legend")
    for step in range(600):
        page.mouse.move(x + step % 2, y)
        if label.is_visible():
            break
        page.wait_for_timeout(200)
    expect(label).to_be_visible()
    return label


def test_zoom_and_hover_survive_updates_and_the_run_obeys(visitor: Visitor, tmp_path: Path) -> None:
    run = started(tmp_path, engine="inline")
    page = open_run(visitor, run)
    expect(page.get_by_role("img", name=re.compile("^Loss over .* Loss 0"))).to_be_visible()
    grows(page)

    box = page.locator(f"{PLOT.format('loss')} .nsewdrag").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.3, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=5)
    page.mouse.up()
    ranges = "sel => document.querySelector(sel)._fullLayout.xaxis.range"
    page.wait_for_function(
        f"([sel, n]) => {{ const r = ({ranges})(sel); return r[1] < n }}",
        arg=[PLOT.format("loss"), points(page)[-1]],
        polling=LOOK,
    )
    before = page.evaluate(ranges, PLOT.format("loss"))
    hovered = hovers(page, box["x"] + box["width"] * 0.5, y)
    updates(page, 20)
    assert page.evaluate(ranges, PLOT.format("loss")) == before
    expect(hovered).to_be_visible()
    page.mouse.move(0, 0)
    expect(hovered).to_have_count(0)
    page.evaluate(BETWEEN, PLOT.format("loss"))  # no point is left near the pointer, as where a long run was thinned
    hovers(page, box["x"] + box["width"] * 0.5, y)
    page.get_by_role("button", name="Reset zoom").first.click()
    page.wait_for_function(
        f"([sel, n]) => ({ranges})(sel)[1] > n", arg=[PLOT.format("loss"), points(page)[-1] - 1], polling=LOOK
    )  # all of it again

    page.get_by_text("Seconds", exact=True).click()
    page.wait_for_function(
        "sel => document.querySelector(sel).layout.xaxis.title.text === 'Seconds of training'",
        arg=PLOT.format("loss"),
        polling=LOOK,
    )
    page.get_by_text("Rounds", exact=True).click()
    paused(page, run)
    shows_the_whole_run(page, run)
    page.get_by_role("button", name="Resume").click()
    state(page, "Running")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    grows(page)
    stop(page)
    expect(page.get_by_role("tab", name="Training")).to_be_visible()
    assert ended(run) == "stopped"
    page.get_by_role("tab", name="Training").click()
    state(page, "Stopped")
    shows_the_whole_run(page, run)
    sources = "[...globalThis.shoalStreams.values()].filter(s => s.source).length"
    assert page.evaluate(sources) == 0  # no stream is left open


def test_a_killed_worker_is_lost_and_comes_back(visitor: Visitor, tmp_path: Path) -> None:
    run = started(tmp_path, engine="processes", workers=2)
    page = open_run(visitor, run)
    lane = page.locator("[data-panel=workers] tr[data-rank='1']")
    expect(lane).to_contain_text("Work")
    before = lane.locator("td").nth(1).inner_text()
    kill = page.get_by_role("button", name="Kill", exact=True)
    opens(page.get_by_role("button", name="Break it"), kill)
    kill.click()
    happened = page.locator("[data-panel=events] li")
    expect(happened.filter(has_text="Worker 1 is killed, on request.")).to_have_count(1)
    expect(happened.filter(has_text="Worker 1 is gone: killed by signal 9")).to_contain_text("Noticed after")
    expect(happened.filter(has_text="Worker 1 is here")).to_have_count(2)
    expect(happened.filter(has_text="Back after")).to_have_count(1)
    kinds = [line.get_attribute("data-kind") for line in happened.all()]
    assert kinds.index("restarted") < kinds.index("lost") < kinds.index("command")  # the newest is on top
    expect(lane).not_to_contain_text(before)  # another process
    page.get_by_role("button", name="Slow down", exact=True).click()
    expect(lane).to_contain_text("slowed 4 times")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Free it: worker 1").click()
    expect(happened.filter(has_text="Worker 1 is freed, on request.")).to_have_count(1)
    expect(page.get_by_role("button", name="Free it: worker 1")).to_have_count(0)
    into_view(page, "[data-panel=loss]")
    marked = "sel => document.querySelector(sel)?.layout?.annotations?.map(a => a.hovertext).join()"
    page.wait_for_function(
        f"sel => /worker 1 slowed down/.test(({marked})(sel))", arg=PLOT.format("loss"), polling=LOOK
    )
    into_view(page, "[data-panel=timeline]")
    marks = "sel => document.querySelector(sel)?.data?.some(t => t.hovertext?.some(h => h.includes('is gone')))"
    page.wait_for_function(marks, arg=PLOT.format("timeline"), polling=LOOK)
    page.get_by_label("Search the log").fill("IS GONE")
    lines = page.locator("[data-panel=log] li")
    expect(lines).to_have_count(1)
    page.get_by_label("Search the log").fill("")
    page.get_by_label("Lines to show").select_option("error")
    expect(page.locator("[data-panel=log]")).to_contain_text("No line of the log matches.")
    grows(page)
    stop(page)
    assert ended(run) == "stopped"


@pytest.fixture
def mortal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of this test's own, to be killed."""
    (tmp_path / "home").mkdir()
    with run_home(tmp_path / "home", monkeypatch) as path:
        found = Server(path, free_port())
        found.start()
        yield found
        found.stop()


def test_reload_and_restart_leave_no_gap(mortal: Server, browser: Browser, tmp_path: Path) -> None:
    run = started(tmp_path, engine="inline")
    context = mortal.new_context(browser, viewport={"width": 1280, "height": 900})
    visitor = Visitor(context.new_page(), mortal.url)
    page = open_run(visitor, run)
    grows(page)
    page.reload()
    has_points(page, 2)
    grows(page)

    assert visitor.problems == []
    mortal.stop(signal.SIGKILL)
    expect(page.locator("[data-tile=state]")).to_contain_text("no connection")
    stood = points(page)[-1]
    assert run.state == "running"
    mortal.start()
    page.wait_for_function(
        "([sel, n]) => document.querySelector(sel)?.data?.[0]?.x?.at(-1) > n",
        arg=[PLOT.format("loss"), stood],
        polling=LOOK,
    )
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-connection-state", "CONNECTED")
    paused(page, run)
    expected = "ERR_CONNECTION|ERR_INCOMPLETE|WebSocket|server is not responding|attempting to reach /_stcore/"
    assert [text for text in visitor.problems if not re.search(expected, text)] == []
    shows_the_whole_run(page, run)
    stop(page)
    assert ended(run) == "stopped"
    context.close()


def test_two_tabs_and_a_phone(visitor: Visitor, browser: Browser, server: Server, tmp_path: Path) -> None:
    run = started(tmp_path, engine="inline")
    page = open_run(visitor, run)
    assert page.evaluate("performance.getEntriesByType('resource').filter(e => /stream$/.test(e.name)).length") <= 1
    context = server.new_context(browser, viewport={"width": 420, "height": 800}, color_scheme="dark", has_touch=True)
    phone = Visitor(context.new_page(), visitor.url)
    small = open_run(phone, run)
    grows(page)
    grows(small)
    fits(small)
    paused(small, run)
    expect(page.get_by_role("button", name="Resume")).to_be_visible()  # the other tab hears of it
    shows_the_whole_run(small, run)
    shows_the_whole_run(page, run)
    stop(page)
    expect(small.get_by_role("tab", name="Training")).to_be_visible()
    assert ended(run) == "stopped"
    expect(page.get_by_role("tab", name="Training")).to_be_visible()
    settled(page)  # until then the button of the pause may be there as well
    page.get_by_role("button", name="Resume").click()
    expect(small.get_by_role("button", name="Pause")).to_be_visible()  # an ended run that goes on is heard of as well
    context.close()
    assert phone.problems == []
    stop(page)
    assert ended(run) == "stopped"
    assert find_run(run.id) is not None


METRIC = """
from shoal.fitting.own_metrics import Metric
class Off(Metric):
    def sums(self, y, predicted, weight):
        return abs(y - predicted).sum(keepdims=True)
    def value(self, sums):
        return sums[0]
"""


def test_shards_and_a_metric_of_a_plug_in_are_shown_and_shards_killed_and_changed_on_the_way(
    visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dashboard needs no plug-in for the metric: the run has it, and says what it comes to."""
    site = tmp_path / "site"
    site.mkdir()
    distribution(site, "plug-off", "shoal.metrics", "round = plug_off:Off", METRIC)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    run = started(tmp_path, generated(tmp_path, columns=24), parameter_shards=2, metrics=["round"])
    page = open_run(visitor, run)
    into_view(page, "[data-panel=own-0]")
    drawn = "([sel, n]) => { const d = document.querySelector(sel)?.data?.[0]; return d?.x?.length >= n && d.y.every((v) => v >= 0) }"
    page.wait_for_function(drawn, arg=[PLOT.format("own-0"), 3], polling=LOOK)
    page.wait_for_function(drawn, arg=[PLOT.format("own-0"), len(points(page, "own-0")) + 1], polling=LOOK)
    for which in ("weights", "gradient"):  # of 24 numbers: no model of three has histograms
        into_view(page, f"[data-panel=spread-{which}]")
        expect(page.locator(f"[data-panel=spread-{which}] [role=img]")).to_have_attribute("aria-label", SPREAD)
        page.wait_for_function(drawn, arg=[PLOT.format(f"spread-{which}"), 8], polling=LOOK)
    into_view(page, "[data-panel=shards]")
    rows = page.locator("[data-panel=shards] tbody tr")
    expect(rows).to_have_text([re.compile("Shard 0.*Here"), re.compile("Shard 1.*Here")])
    before = rows.nth(1).locator("td").nth(1).inner_text()
    post(run, "kill_shard", {"shard": 1})
    expect(rows.nth(1).locator("td").nth(1)).not_to_have_text(before)  # another process
    expect(rows.nth(1)).to_have_text(re.compile("Shard 1.*Here"))
    post(run, "shards", {"count": 1})
    expect(rows).to_have_text([re.compile("Shard 0.*The run's own process.*100 %")])
    expect(page.locator("[data-panel=events]")).to_contain_text("Parameter shard 1 is gone: killed by signal 9")
