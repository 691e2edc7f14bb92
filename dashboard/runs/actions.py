"""What can be done to chosen runs: the bar of buttons, the dialogs behind some of them, and the jobs they start."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import entry, line, notice
from shoal.dashboard.parts.waiting import watch
from shoal.dashboard.runs.listing import name_of
from shoal.errors import Standing, TrainingError
from shoal.home import jobs_directory, runs_directory
from shoal.library import archives, notes
from shoal.library.accounts import Summary
from shoal.people.deeds import why_not
from shoal.people.rights import SERVICE, Verb
from shoal.runs import launch
from shoal.runs.documents import RESUMABLE
from shoal.runs.launch import Run, find_run, launch_job
from shoal.settings.config import RunConfig
from shoal.settings.when import is_penalised
from shoal.words import file_size, plural

MOST = 6  # runs side by side: more curves than that nobody can tell apart
NAMED = 8  # runs in a question; of more, just the number
GOES_ON = ("paused", *RESUMABLE)
CHOSEN, FRESH, GOING = "runs_chosen", "runs_fresh", "runs_going"  # in the session: ids, a count, an id
DIALOG, PROBLEM, DONE, WATCHED = "runs_dialog", "runs_problem", "runs_done", "runs_watched"
JOBS = {"archive": "Archiving", "restore": "Restoring"}


def forget_choice() -> None:
    st.session_state[CHOSEN] = []
    st.session_state[FRESH] = st.session_state.get(FRESH, 0) + 1  # a table that knows nothing of the former choice


# ------------------------------------------------------------------ the bar


def bar(chosen: Sequence[Summary]) -> None:
    """All the buttons, always in the same place; those that do not fit the choice are asleep."""
    if problem := st.session_state.pop(PROBLEM, None):
        notice("error", problem, "That did not work")
    if done := st.session_state.pop(DONE, None):
        st.toast(done, icon=":material/check:")
    here = [run for run in chosen if not run.archived]
    ids = [run.id for run in chosen]
    held, new = _held(chosen), why_not(Verb.START, SERVICE)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="runs_actions"):
        if _button("Open", "open_in_full", len(chosen) == len(here) == 1, "Choose one run to open it"):
            places.go("train", run=ids[0])
        fits = 2 <= len(chosen) <= MOST and len(here) == len(chosen)
        _button(
            "Compare", "compare_arrows", fits, f"Choose 2 to {MOST} runs to see what differs", _compare, ids,
        )  # fmt: skip
        all_here = bool(here) and len(here) == len(chosen)
        resumable = all_here and all(run.state in GOES_ON for run in here)
        waits = "For runs that are paused, stopped, failed or interrupted"
        _button("Resume", "play_arrow", resumable, waits, _resume, ids, held=held)
        forkable = len(chosen) == len(here) == 1 and here[0].is_gradient
        anew = "For one gradient run: a new run from a checkpoint"
        _button("Fork", "fork_right", forkable, anew, _ask, "fork", ids, held=new)
        _button("Tags and note", "sell", all_here, "Choose runs", _ask, "about", ids, held=held)
        ended = bool(chosen) and not any(run.is_active for run in chosen)
        stop = "For runs that have ended: stop it first"
        if chosen and not here:
            _button("Restore", "unarchive", True, "", restore, ids, held=held)
        else:
            _button("Archive", "archive", ended and len(here) == len(chosen), stop, archive, ids, held=held)
        _button("Delete", "delete", ended, stop, _ask, "delete", ids, held=held)
        if chosen:
            st.button(
                f"{len(chosen)} chosen", key="runs_clear", icon=":material/close:", type="tertiary",
                on_click=forget_choice, help="Choose none",
            )  # fmt: skip
        else:
            line("Tick runs on the left to act on them.")
    if asked := st.session_state.get(DIALOG):
        _show_dialog(asked[0], [run for run in chosen if run.id in asked[1]])


def _held(chosen: Sequence[Summary]) -> str:
    """Why whoever looks may not change these runs; with none chosen, why they may not change any."""
    if not chosen:
        return why_not(Verb.START, SERVICE)
    folders = (archives.archive_path(run.id) if run.archived else runs_directory() / run.id for run in chosen)
    return why_not(Verb.CHANGE, *folders)


def _button(
    label: str,
    icon: str,
    fits: bool,
    needs: str,
    on_click: Callable[..., None] | None = None,
    *args: Any,
    held: str = "",
) -> bool:
    """`held` says why whoever looks may not do this at all, which counts before what would fit it."""
    return st.button(
        label, key=f"runs_do_{label}", icon=f":material/{icon}:", disabled=bool(held) or not fits,
        help=held or (None if fits else needs), on_click=on_click, args=args or None,
    )  # fmt: skip


def _compare(ids: list[str]) -> None:
    places.stay(compare=",".join(ids))


def _resume(ids: list[str]) -> None:
    """Go on with runs; one by itself is then shown."""
    done = [run_id for run_id in ids if _tried(partial(_resume_one, run_id))]
    forget_choice()
    if len(ids) == len(done) == 1:
        st.session_state[GOING] = done[0]
    elif done:
        st.session_state[DONE] = f"{plural(len(done), 'run')} resumed"


def _resume_one(run_id: str) -> None:
    launch.resume(_run(run_id))


def _run(run_id: str) -> Run:
    """Also of a run that is gone by now: whoever acts on it says so."""
    return find_run(run_id) or Run(runs_directory() / run_id)


def _tried(action: Callable[[], Any]) -> bool:
    """Whether it worked; if not, the page says why."""
    try:
        action()
    except (TrainingError, OSError) as error:
        st.session_state[PROBLEM] = wording.told(error)
        return False
    return True


# ------------------------------------------------------------------ archive and restore: a job, for it may take long


def archive(ids: list[str]) -> None:
    _launch("archive", ids)


def restore(ids: list[str]) -> None:
    _launch("restore", ids)


def is_archived(run_id: str) -> bool:
    return archives.is_archived(run_id)


def _launch(task: str, ids: list[str]) -> None:
    def start() -> None:
        job = launch_job(task, RunConfig(), {"runs": ids}, anew=True)
        st.session_state.setdefault(WATCHED, []).append(str(job.directory))

    _tried(start)
    forget_choice()


def watch_jobs() -> None:
    """Bars of those at work, whichever tab started them, and what became of those that this tab started."""
    for task, what in JOBS.items():
        for job in map(Run, sorted((jobs_directory() / task).glob("*"))):
            mine = str(job.directory) in st.session_state.get(WATCHED, [])
            if job.is_active:
                watch(job, f"{what} {plural(len(job.job.get('runs', [])), 'run')}")
            elif mine:
                _say_outcome(job, task)
                st.session_state[WATCHED].remove(str(job.directory))
                shutil.rmtree(job.directory, ignore_errors=True)


def _say_outcome(job: Run, task: str) -> None:
    result = job.result
    if result is None:
        said = wording.told(job.error) if job.error else "It ended without a word. Nothing was lost; try again."
        notice("error", said, f"{JOBS[task]} failed")
        return
    problems = result.get("problems", {})
    if done := result.get("done"):
        st.toast(f"{plural(len(done), 'run')} {task}d", icon=":material/check:")
    for problem in list(problems.values())[:3]:
        notice("error", wording.told(Standing.read(problem, "failed")))


# ------------------------------------------------------------------ dialogs


def dialog_is_open() -> bool:
    return bool(st.session_state.get(DIALOG))


def _ask(what: str, ids: list[str]) -> None:
    st.session_state[DIALOG] = what, ids


def _close() -> None:
    st.session_state.pop(DIALOG, None)


def _show_dialog(what: str, runs: list[Summary]) -> None:
    titles = {
        "about": "Name, tags and note",
        "delete": f"Delete {plural(len(runs), 'run')}?",
        "fork": "Fork: a new run from a checkpoint",
    }
    bodies = {"about": _about, "delete": _delete, "fork": _fork}
    if not runs:
        _close()
        return
    st.dialog(titles[what], on_dismiss=_close)(partial(bodies[what], runs))()


def _named(runs: Sequence[Summary]) -> None:
    for run in runs[:NAMED]:
        entry(name_of(run), " · ".join(part for part in (run.file_name, run.id) if part))
    if len(runs) > NAMED:
        line(f"and {plural(len(runs) - NAMED, 'more run')}")


def _about(runs: list[Summary]) -> None:
    """One run: its tags and note. Several: tags that all of them get."""
    _named(runs)
    alone = runs[0] if len(runs) == 1 else None
    tags = st.text_input(
        "Tags" if alone else "Tags to add to all of them", " ".join(alone.tags) if alone else "", key="runs_tags",
        placeholder="baseline try-2", help="Short words, with spaces between them. The search finds them.",
    )  # fmt: skip
    note, name = "", None
    if alone:
        name = st.text_input(
            "Name", alone.name, key="runs_name", max_chars=notes.LONGEST_NAME, help="What to call it in lists.",
        )  # fmt: skip
        note = st.text_area(
            "Note", alone.note, key="runs_note", max_chars=notes.LONGEST_NOTE, height=160,
            placeholder="What you tried and what you saw", help="Plain text, for yourself and for others.",
        )  # fmt: skip
    if st.button("Save", type="primary", key="runs_save"):
        try:
            words = notes.tags_in(tags)
            for run in runs:
                before = notes.read(_run(run.id))
                said = (words, note) if alone else ((*before.tags, *words), before.note)
                notes.write(_run(run.id), *said, name)
        except (TrainingError, OSError) as error:
            notice("error", wording.told(error))
            return
        _done("Saved")


def _done(text: str) -> None:
    """Close the dialog and say so."""
    _close()
    st.session_state[DONE] = text
    st.rerun()


def _delete(runs: list[Summary]) -> None:
    packed = [run for run in runs if run.archived]
    folders = [run for run in runs if not run.archived]
    size = sum(archives.size_of(_run(run.id).directory) for run in folders)
    size += sum(archives.archive_size(run.id) for run in packed)
    _named(runs)
    one = len(runs) == 1
    what = (
        "its settings, curves, checkpoints, log and result" if one else "all their settings, curves, logs and results"
    )
    instead = "" if packed else f" To keep {'it' if one else 'them'} out of the way, archive {'it' if one else 'them'}."
    notice(
        "warning",
        f"This removes {what}, and frees {file_size(size)}. It cannot be undone. "
        f"Models that were saved from {'it' if one else 'them'} stay on the Models page.{instead}",
    )
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Keep", key="runs_keep"):
            _close()
            st.rerun()
        if st.button("Delete for good", type="primary", key="runs_delete"):
            _delete_all(runs)


def _delete_all(runs: list[Summary]) -> None:
    freed, count = 0, 0
    try:
        for run in runs:
            freed += archives.delete_archived(run.id) if run.archived else archives.delete(_run(run.id))
            count += 1
    except TrainingError as error:
        st.session_state[PROBLEM] = wording.told(error)
    forget_choice()
    _done(f"{plural(count, 'run')} deleted, {file_size(freed)} free again")


def _fork(runs: list[Summary]) -> None:
    from shoal.training.checkpoints import Checkpoints

    run = _run(runs[0].id)
    _named(runs)
    steps = Checkpoints(run.checkpoints_path, of=run.owner).steps()[::-1]
    if not steps:
        notice("info", "This run has no checkpoint yet to go on from. Wait until it has saved one.")
        return
    config = run.config
    step = st.selectbox(
        "Checkpoint", steps, key="runs_fork_step",
        format_func=lambda s: f"Round {s:,}{' (newest)' if s == steps[0] else ''}",
        help="The new run begins with the weights of this round. Early ones are from the steps, the last ones from "
        "the full passes at the end, where the learning rate no longer counts.",
    )  # fmt: skip
    epochs = st.number_input(
        wording.label_for("epochs"), 0, 1_000_000, int(config.get("epochs", 10)), key="runs_fork_epochs",
        help=wording.help_for("epochs"),
    )  # fmt: skip
    rate = st.number_input(
        "Learning rate (0: automatic)", 0.0, None, float(config.get("learning_rate", 0.0)), format="%g",
        help=wording.help_for("learning_rate"), key="runs_fork_rate",
    )  # fmt: skip
    changes: dict[str, float] = {"epochs": int(epochs), "learning_rate": float(rate)}
    if is_penalised({**RunConfig().as_dict(), **config}):
        alpha = st.number_input(
            wording.label_for("alpha"), 0.0, None, _alpha(config), format="%g", placeholder="as it was chosen",
            help=wording.help_for("alpha"), key="runs_fork_alpha",
        )  # fmt: skip
        changes |= {} if alpha is None else {"alpha": float(alpha)}
    changed = {name: value for name, value in changes.items() if value != config.get(name)}
    if st.button("Start the fork", type="primary", key="runs_fork"):
        try:
            made = launch.fork(run, int(step), changed)
        except (TrainingError, OSError) as error:
            notice("error", wording.told(error))
            return
        _close()
        forget_choice()
        places.go("train", run=made.id)


def _alpha(config: Mapping[str, Any]) -> float | None:
    return None if config.get("alpha") is None else float(config["alpha"])
