"""What can be done to runs that were chosen."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from shoal.home import runs_directory
from shoal.library import accounts, archives, notes
from shoal.runs.folder import Run, find_run
from shoal.runs.launch import launch, list_runs
from support.dashboard.runs_page import EXACT, FIRST, SECOND, asked, awake, choose, many, press, rows
from support.pages import checked, now_on, open_page, said, settle, widget
from support.runs import ended, endless_run, small_table, training, until

# ------------------------------------------------------------------ what fits a choice


def test_actions_fit_the_choice(three: list[Run]) -> None:
    page = open_page("runs")
    assert awake(page) == set()
    assert awake(choose(page, SECOND)) == {"Open", "Fork", "Tags and note", "Archive", "Delete"}
    assert awake(choose(page, EXACT)) == {"Open", "Tags and note", "Archive", "Delete"}
    assert awake(choose(page, EXACT, SECOND)) == {"Compare", "Tags and note", "Archive", "Delete"}
    assert press(page, "2 chosen").session_state["runs_chosen"] == []
    assert awake(page) == set()


def test_a_choice_spans_pages_and_forgets_runs_that_are_gone() -> None:
    many(30)
    page = open_page("runs")
    last = "20260101-000000-0000000"
    page = choose(page, rows(page)[0], last, "gone")
    assert page.session_state["runs_chosen"] == [last, rows(page)[0]]
    assert "Compare" in awake(page)


def test_what_a_search_hides_is_never_acted_on(three: list[Run]) -> None:
    page = choose(open_page("runs"), EXACT, SECOND)
    assert "Delete" in awake(page)
    page = widget(page, "text_input", "Search").set_value("async-only").run()
    assert page.session_state["runs_chosen"] == []
    assert awake(page) == set()
    page = widget(page, "text_input", "Search").set_value("").run()
    assert awake(page) == set()  # nor when it comes back


def test_open_leads_to_the_run(three: list[Run]) -> None:
    page = choose(open_page("runs"), EXACT)
    page = now_on(widget(page, "button", "Open").click().run())
    assert asked(page, "run") == EXACT


def test_active_runs_cannot_be_removed(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path))))
    page = choose(open_page("runs", state="active"), run.id)
    assert rows(page) == [run.id]
    assert awake(page) == {"Open", "Fork", "Tags and note"}
    pid = run.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: not run.is_alive)
    assert "Resume" in awake(choose(open_page("runs"), run.id))


def test_resume_goes_on_and_shows_the_run(tmp_path: Path) -> None:
    run = training(launch(endless_run(small_table(tmp_path))))
    os.kill(run.pid or 0, signal.SIGTERM)
    assert ended(run) == "stopped"
    page = choose(open_page("runs"), run.id)
    page = now_on(widget(page, "button", "Resume").click().run())
    assert asked(page, "run") == run.id
    training(run)


# ------------------------------------------------------------------ tags, delete, archive, fork


def test_tags_and_note_of_one_run(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST), "Tags and note")
    widget(page, "text_input", "Tags").set_value("Baseline no_good/tag")
    page = press(page, "Save")
    assert "Expected tags to be words" in said(page)
    widget(page, "text_input", "Tags").set_value("Baseline try-2")
    widget(page, "text_area", "Note").set_value("better than before")
    page = press(page, "Save")
    assert notes.read(Run(runs_directory() / FIRST)) == notes.About(("baseline", "try-2"), "better than before")
    table = page.dataframe[0].value.set_index("Run")
    assert (list(table.loc[FIRST, "Tags"]), table.loc[FIRST, "Note"]) == (["baseline", "try-2"], "better than before")
    assert "Save" not in [button.label for button in page.button]  # the dialog is closed


def test_tags_for_several_runs_are_added(three: list[Run]) -> None:
    notes.write(Run(runs_directory() / FIRST), ["old"], "kept")
    page = press(choose(open_page("runs"), FIRST, SECOND), "Tags and note")
    assert not page.text_area
    widget(page, "text_input", "Tags to add to all of them").set_value("paper")
    press(page, "Save")
    assert notes.read(Run(runs_directory() / FIRST)) == notes.About(("old", "paper"), "kept")
    assert notes.read(Run(runs_directory() / SECOND)).tags == ("paper",)


def test_delete_asks_first(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST, EXACT), "Delete")
    assert FIRST in said(page)
    assert "cannot be undone" in said(page)
    assert "frees" in said(page)
    page = press(page, "Keep")
    assert rows(page) == [EXACT, SECOND, FIRST]
    page = press(press(page, "Delete"), "Delete for good")
    assert rows(page) == [SECOND]
    assert not (runs_directory() / FIRST).exists()
    assert any("2 runs deleted" in toast.value for toast in page.toast)


def test_a_run_that_goes_on_meanwhile_is_not_deleted(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST), "Delete")
    from shoal.files.locks import lock_file

    lock = lock_file(runs_directory() / FIRST / "lock")
    assert lock is not None
    with lock:
        page = press(page, "Delete for good")
    assert "is at work" in said(page)
    assert find_run(FIRST) is not None


def test_archive_and_restore(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), FIRST, SECOND), "Archive")
    toasts = [toast.value for toast in page.toast]  # said at once where the page takes longer than the job
    page = settle(page)
    assert rows(page) == [EXACT]
    assert archives.is_archived(FIRST)
    assert any("2 runs archived" in text for text in [*toasts, *(toast.value for toast in page.toast)])
    page = open_page("runs", archived="yes")
    assert rows(page) == [EXACT, SECOND, FIRST]
    assert list(page.dataframe[0].value["State"][2]) == ["Archived", "Finished"]
    page = choose(page, FIRST)
    assert awake(page) == {"Restore", "Delete"}
    page = settle(press(page, "Restore"))
    assert find_run(FIRST) is not None
    assert awake(choose(page, SECOND)) == {"Restore", "Delete"}
    page = press(press(page, "Delete"), "Delete for good")
    assert rows(page) == [EXACT, FIRST]
    assert accounts.summaries(archived=True)[-1].archived is False


def test_when_all_are_archived_the_page_says_so(three: list[Run]) -> None:
    for run in three:
        archives.archive(run)
    page = open_page("runs")
    assert "All runs are in the archive" in said(page)
    page = checked(widget(page, "toggle", "Show archived (3)").set_value(True).run())
    assert rows(page) == [EXACT, SECOND, FIRST]


def test_fork_starts_a_run_from_a_checkpoint(three: list[Run]) -> None:
    page = press(choose(open_page("runs"), SECOND), "Fork")
    steps = widget(page, "selectbox", "Checkpoint").options
    assert steps[0].endswith("(newest)")
    widget(page, "selectbox", "Checkpoint").set_value(0)
    widget(page, "number_input", "Penalty strength (alpha)").set_value(3.0)
    page = now_on(widget(page, "button", "Start the fork").click().run())
    (made,) = [run for run in list_runs() if run.id not in (FIRST, SECOND, EXACT)]
    assert asked(page, "run") == made.id
    assert made.job["forked_from"] == {"run": SECOND, "step": 0}
    assert made.config["alpha"] == 3.0
    ended(made)
