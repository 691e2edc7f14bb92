"""The System page with real runs and real files behind it, without a browser; and the parts it is made of."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from shoal import plugins
from shoal.dashboard.system import about, disk, plugin_check
from shoal.dashboard.system import machine as readings
from shoal.dashboard.system import page as system_page
from shoal.home import jobs_directory
from shoal.runs.commands import post
from shoal.runs.folder import Run
from shoal.runs.launch import launch
from shoal.settings.values import config_from
from support.pages import checked, open_page, said, scrolled
from support.runs import ended, endless_run, run_home, short_run, slots_taken, small_table, training, until, waiting


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with run_home(tmp_path / "home", monkeypatch) as found:
        found.mkdir()
        yield found


def upload(home: Path, letter: str = "a", size: int = 50_000) -> Path:
    path = home / "uploads" / (letter * 24) / "table.csv"
    path.parent.mkdir(parents=True)
    path.write_text("x" * size)
    return path


def open_system() -> AppTest:
    disk.surveyed.clear()
    return open_page("system")


def press(page: AppTest, key: str) -> AppTest:
    return checked(page.button(key=key).click().run())


# ------------------------------------------------------------------ an empty home


def test_a_new_home_has_a_calm_page(home: Path) -> None:
    page = open_system()
    assert "**Nothing is running.**" in page.markdown[0].value
    text = said(page)
    for name in ("Processor", "Memory", "Disk", "Slots"):
        assert f'aria-label="{name}"' in text
    assert "0 of 1" in text  # slots
    assert "Nothing yet: data caches" in text
    assert "There is no log yet" in text
    assert [button.key for button in page.button] == []


def test_versions_and_set_up_are_those_of_this_machine(home: Path) -> None:
    text = said(open_system())
    import numpy
    import streamlit

    for fact in (sys.version.split()[0], numpy.__version__, streamlit.__version__, about.blas(), str(home)):
        assert fact in text


# ------------------------------------------------------------------ what is at work


def test_a_live_run_is_shown_with_its_workers_and_a_queued_one_behind_it(home: Path, tmp_path: Path) -> None:
    data = small_table(tmp_path)
    run = training(launch(endless_run(data)))
    waits = launch(short_run(data))
    waiting(waits)
    until(lambda: any(work.workers for work in readings.Watch().look().work))
    page = open_system()
    text = said(page)
    assert f"process {run.pid} and " in text
    assert text.index("Running") < text.index("Queued")
    assert "1 of 1" in text
    assert "1 run waiting" in text
    child = next(w.pid for w in readings.Watch().look().work[0].workers)
    assert child in {process.pid for process in psutil.Process(run.pid).children(recursive=True)}
    assert f'<td class="n">{child}</td>' in text
    links = [link.proto for link in page.get("page_link")]
    assert [link.query_string for link in links[:2]] == [f"run={run.id}", f"run={waits.id}"]
    post(waits, "stop")
    post(run, "stop")
    assert (ended(run), ended(waits)) == ("stopped", "stopped")


def test_names_from_files_are_shown_as_they_are(home: Path, tmp_path: Path) -> None:
    table = small_table(tmp_path)
    nasty = table.rename(tmp_path / "<img src=x onerror=alert(1)>.csv")
    with slots_taken(0):
        run = launch(short_run(nasty))
        waiting(run)
        text = said(open_system())
        assert "<img src=x" not in text
        assert "&lt;img src=x onerror=alert(1)&gt;.csv" in text
        post(run, "stop")
        assert ended(run) == "stopped"


def test_what_a_process_tree_takes_is_measured(home: Path, tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path))))
    watch = readings.Watch()
    (work,) = watch.look().work
    assert work.tree is not None
    assert work.tree.cpu is None  # there is nothing to compare with yet
    watch._last = None  # a look is good for a while: this one is to be anew
    until(lambda: psutil.Process(run.pid).cpu_times().user > 0)
    time.sleep(0.3)
    (work,) = watch.look().work
    assert work.tree is not None
    assert work.tree.processes >= 2
    assert work.tree.cpu is not None
    assert work.tree.cpu > 0.01
    assert work.tree.memory > 5e6
    assert watch.look() is watch.look()  # many tabs, one look
    post(run, "stop")
    assert ended(run) == "stopped"


def test_slots_that_make_no_sense_are_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SLOTS", "many")
    assert "SHOAL_SLOTS is not a whole number" in said(open_system())


# ------------------------------------------------------------------ disk


def test_cleaning_up_through_the_dialog(home: Path) -> None:
    old, new = upload(home, "a"), upload(home, "b")
    for path in (old, old.parent):
        os.utime(path, (time.time() - 50 * 86_400,) * 2)
    page = open_system()
    assert "2 uploads" in said(page)
    page = press(page, "clean-uploads")
    assert page.radio(key="which-uploads").value == "Only what no run or model uses"
    assert "Removes 2 uploads and frees 115 kB" in said(page)
    page = checked(page.radio(key="which-uploads").set_value("Only what has not changed for some days").run())
    assert "Removes 1 upload and frees 57 kB. Kept: 1 changed in the last 30 days." in said(page)
    page = checked(page.number_input(key="days-uploads").set_value(60).run())
    assert page.button(key="clean-remove").disabled
    page = checked(page.number_input(key="days-uploads").set_value(40).run())
    page = press(page, "clean-remove")
    assert (old.exists(), new.exists()) == (False, True)
    assert "Removed 1 upload; 57 kB are free again." in said(page)
    assert "1 upload, " in said(page)
    assert "Removed 1 upload" not in said(checked(page.run()))  # said once


def test_cancel_removes_nothing(home: Path) -> None:
    path = upload(home)
    page = open_system()
    assert "sys-where" not in said(page), "there is no state of runs yet"
    for name, size in (("step-000000000002.ckpt", 2_000_000), ("archive/step-000000000001.ckpt", 700_000)):
        file = home / "runs" / "20260101-000000-0000001" / "checkpoints" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    disk.placed.clear()
    page = press(page, "clean-uploads")
    where = said(page).partition('id="sys-where"')[2]
    cells = re.findall("<td[^>]*>([^<]*)</td>", where.partition("Checkpoints</th>")[2])
    assert cells[1:3] == ["2.0 MB", "700 kB"]
    page = press(page, "clean-cancel")
    assert path.exists()
    assert "clean-remove" not in [button.key for button in page.button]


def test_what_stays_is_explained(home: Path, tmp_path: Path) -> None:
    data = small_table(tmp_path)
    path = home / "uploads" / ("a" * 24) / "t.csv"
    path.parent.mkdir(parents=True)
    data.rename(path)
    run = launch(config_from({"file": str(path), "target": "y"}))
    assert ended(run) == "finished", run.error
    page = press(open_system(), "clean-uploads")
    assert "There is nothing to remove. Kept: 1 used by a run or model that still exists." in said(page)


# ------------------------------------------------------------------ what is installed


def test_the_bug_report_names_no_files_and_no_secrets(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHOAL_PASSWORD", "hunter2")
    monkeypatch.setenv("HOME", str(tmp_path))
    (home / "password.json").write_text("hunter2")
    upload(home)
    page = open_system()
    text = page.code[0].value
    assert "hunter2" not in text
    assert "table.csv" not in text
    assert str(tmp_path) not in text
    assert "~/home" in text
    assert f"Python               {sys.version.split()[0]}"[:10] in text
    assert "Uploads" in text


BROKEN = """
from shoal import plugins
class Entry:
    name = "half"
    def load(self): {action}
plugins._entries = lambda group, built_in=(): [("broken 1.0", Entry())] if group == plugins.PENALTIES else []
from shoal.dashboard.system import plugin_check
import json; print(json.dumps(plugin_check.found_here()))
"""


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ("raise ImportError('no module named x')", "could not be loaded (ImportError: no module named x)"),
        ("return 1", ""),
    ],
)
def test_plug_ins_and_what_is_wrong_with_them(action: str, problem: str) -> None:
    code = BROKEN.format(action=action)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (found,) = json.loads(done.stdout)
    assert (found["what"], found["name"]) == (plugins.WORDS[plugins.PENALTIES], "half")
    assert problem in found["problem"]
    assert bool(found["problem"]) == bool(problem)


def test_plug_ins_are_looked_at_in_another_process() -> None:
    assert plugin_check.check() == plugin_check.found_here()


# ------------------------------------------------------------------ the log


def test_the_log_shows_its_end_and_can_be_filtered(home: Path) -> None:
    lines = [
        "2026-11-16 07:00:00,000 INFO shoal: started",
        "2026-11-16 07:00:01,000 ERROR shoal: A page failed.",
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in INFO',
        "ValueError: no",
        "2026-11-16 07:00:02,000 WARNING shoal: the disk is nearly full",
        "2026-11-16 07:00:03,000 INFO shoal: the end",
    ]
    (home / "dashboard.log").write_text("\n".join(["x" * 1000] * 300 + lines) + "\n")
    page = open_system()
    assert scrolled(page)[0].endswith("the end")
    assert len(scrolled(page)[0]) <= system_page.LOG_BYTES
    page = checked(page.get("button_group")[0].set_value("Errors").run())
    assert scrolled(page)[0].splitlines() == lines[1:5]
    page = checked(page.get("button_group")[0].set_value("Warnings and errors").run())
    assert scrolled(page)[0].splitlines() == lines[1:6]


# ------------------------------------------------------------------ the cluster


def test_a_cluster_that_does_not_answer_is_said_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Cluster" not in [header.value for header in open_system().header]
    monkeypatch.setenv("SHOAL_CLUSTER", "127.0.0.1:1")
    page = open_system()
    (job,) = map(Run, (jobs_directory() / "nodes").iterdir())
    assert ended(job) == "failed"
    page = checked(page.run())
    assert "Cluster" in [header.value for header in page.header]
    assert "Nobody answers at 127.0.0.1:1" in said(page)
    press(page, "ask-cluster")
