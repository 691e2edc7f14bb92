"""The System page: what is at work, what the machine has left, what takes disk, what is installed, and the log."""

from __future__ import annotations

import html
import re
import time
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.forms import cluster
from shoal.dashboard.http import access
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice, scroll_text
from shoal.dashboard.parts.states import state_of
from shoal.dashboard.system import about, disk, plugin_check
from shoal.dashboard.system.bars import bar
from shoal.dashboard.system.machine import Activity, Look, Watch
from shoal.files.parts import title as table_title
from shoal.home import dashboard_log, home
from shoal.words import MODELS, duration, file_size, plural

REFRESH = 2.0  # seconds between two looks at the machine
SHOWN = 20  # runs and jobs at work; the Runs page has them all
LOG_BYTES, LOG_LINES = 200_000, 400
LEVELS = ("All", "Warnings and errors", "Errors")
LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
FAMILIAR = {"inspect": "look at a file", "predict": "predictions", "diagnose": "diagnostics", "train": "fit",
            "explain": "resamples", "nodes": "look at the cluster", "plan": "plan for more machines"}  # fmt: skip


def show() -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.title("System", anchor=False, width="content")
        _log_out()
    st.caption("What is at work, what the machine has left, and what takes disk space.")
    with st.container(key="sys-live"):
        _at_work()
    cluster.show_all()
    st.header("Disk space", anchor=False)
    disk.show()
    st.header("What is installed", anchor=False)
    _installed()
    _log()
    disk.dialog()


def _log_out() -> None:
    """The way out, where a password keeps others out; people with accounts have it on every page."""
    if access.is_locked() and not access.PEOPLE.are_there:
        st.html('<a class="sys-out" href="./logout" target="_self">Log out</a>', width="content")


# ------------------------------------------------------------------ the machine and what works on it


@st.cache_resource
def _watch() -> Watch:
    return Watch()


@st.fragment(run_every=REFRESH)
def _at_work() -> None:
    look = _watch().look()
    st.html(_meters(look))
    st.header("At work", anchor=False)
    if not look.work:
        with st.container(border=True):
            st.markdown("**Nothing is running.** Fits, looks at files and predictions show up here while they last.")
            places.link("data", "Choose data for a fit", icon=":material/table_view:", **places.CHOOSE)
    for work in look.work[:SHOWN]:
        _work(work)
    if len(look.work) > SHOWN:
        places.link("runs", f"And {len(look.work) - SHOWN} more: see all runs", icon=":material/list_alt:")


def _meters(look: Look) -> str:
    now, slots = look.machine, look.slots
    load = "" if now.load is None else f", load {now.load:.1f}"
    cards = [
        _meter("Processor", now.cpu, f"{now.cpu:.0%}", f"of {plural(now.cores, 'core')}{load}", calm=True),
        _meter(
            "Memory", now.memory_used / now.memory_total, file_size(now.memory_used),
            f"of {file_size(now.memory_total)}",
        ),
        _meter(
            "Disk", now.disk_used / now.disk_total, f"{file_size(now.disk_total - now.disk_used)} free",
            f"of {file_size(now.disk_total)}, where runs and data are kept",
        ),
    ]  # fmt: skip
    if slots is None:
        cards.append(_meter("Slots", 0, "–", "SHOAL_SLOTS is not a whole number of at least 1. Correct or unset it."))
    else:
        waiting = f"{plural(slots.waiting, 'run')} waiting" if slots.waiting else "none waiting"
        if slots.waiting is None:
            waiting = "the queue cannot be read, see the runs that wait"
        more = f"in use by gradient runs; {waiting}"
        cards.append(_meter("Slots", slots.taken / slots.total, f"{slots.taken} of {slots.total}", more, calm=True))
    return f'<div class="sys-meters">{"".join(cards)}</div>'


def _meter(name: str, share: float, value: str, more: str, calm: bool = False) -> str:
    return (
        f'<div class="sys-card"><div class="sys-name">{html.escape(name)}</div>'
        f'<div class="sys-value">{html.escape(value)}</div>{bar(share, name, calm)}'
        f'<div class="sys-more">{html.escape(more)}</div></div>'
    )


def _work(work: Activity) -> None:
    with st.container(border=True, key=f"work-{work.task}-{work.run.id}"):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.html(_what(work), width="stretch")
            if work.task == "train":
                places.link("train", "Open", icon=":material/open_in_new:", run=work.run.id)
        if work.workers:
            st.html(_workers(work))


def _what(work: Activity) -> str:
    config = work.run.config
    name = table_title(str(config.get("file") or ""))
    if work.task == "train":
        title = f"{MODELS.get(str(config.get('model')), 'Model')} of {config.get('target')}, {name}"
    else:
        said = FAMILIAR.get(work.task, work.task.replace("_", " "))
        title = f"{said[:1].upper()}{said[1:]}: {name}"
    known = state_of(work.state)
    chip = f'<span class="sys-chip" style="background: {known.colour}33">{html.escape(known.word)}</span>'
    more = f'<div class="sys-more">{html.escape(_taken(work))}</div>'
    return f'<div class="sys-title">{html.escape(title)}{chip}</div>{more}'


def _taken(work: Activity) -> str:
    """What it takes of the machine, in a line."""
    more = "" if work.tree is None or work.tree.processes < 2 else f" and {work.tree.processes - 1} more"
    parts = [] if work.pid is None else [f"process {work.pid}{more}"]
    if work.tree is not None:
        parts += [] if work.tree.cpu is None else [f"{work.tree.cpu:.1f} cores"]
        parts.append(file_size(work.tree.memory))
    if work.since is not None:
        parts.append(f"for {duration(max(0.0, time.time() - work.since))}")
    if work.state == "queued":
        parts.append(wording.told(work.run.standing))
    return " · ".join(parts) or "its process is starting"


def _workers(work: Activity) -> str:
    head = "<tr><th>Worker</th><th>State</th>"
    head += "".join(f'<th class="n">{name}</th>' for name in ("Process", "CPU", "Memory")) + "</tr>"
    rows = (
        f'<tr><td>{w.rank}</td><td>{html.escape(w.state)}</td><td class="n">{w.pid}</td>'
        f'<td class="n">{w.cpu:.0%}</td><td class="n">{file_size(w.memory)}</td></tr>'
        for w in work.workers
    )
    return f'<table class="sys-table">{head}{"".join(rows)}</table>'


# ------------------------------------------------------------------ what is installed


@st.cache_data(ttl=300, show_spinner="Looking at plug-ins")
def _plugins() -> list[dict[str, Any]]:
    return plugin_check.check()


def _installed() -> None:
    left, right = st.columns(2)
    with left, st.container(border=True, height="stretch"):
        st.markdown("**Versions**")
        st.html(_facts(about.versions()))
    with right, st.container(border=True, height="stretch"):
        st.markdown("**Set-up**")
        st.html(_facts(about.setup()))
        st.markdown("**Plug-ins**")
        _show_plugins(_plugins())
    with st.expander("Copy for a bug report", icon=":material/content_copy:"):
        st.caption("Versions, set-up and sizes. It names no file of yours and holds no password.")
        st.code(about.bug_report(_plugins(), _machine_facts()), language=None, wrap_lines=True)


def _facts(facts: about.Facts) -> str:
    rows = (f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>' for name, value in facts)
    return f'<table class="sys-facts">{"".join(rows)}</table>'


def _show_plugins(found: list[dict[str, Any]]) -> None:
    if not found:
        line("None installed. A plug-in adds a penalty, a step rule, a callback or a reader of files.")
    for plugin in found:
        if plugin["problem"]:
            notice("warning", plugin["problem"], f"{plugin['what']} {plugin['name']}".strip())
        else:
            line(f"{plugin['what']} '{plugin['name']}' loads.")


def _machine_facts() -> about.Facts:
    now = _watch().look().machine
    return [
        ("Cores", str(now.cores)),
        ("Memory", f"{file_size(now.memory_used)} of {file_size(now.memory_total)} used"),
        ("Disk", f"{file_size(now.disk_total - now.disk_used)} of {file_size(now.disk_total)} free"),
        *(
            (use.kind.title, f"{use.count:,}, {file_size(use.bytes)}")
            for use in disk.surveyed(str(home()))
            if use.count
        ),
    ]


# ------------------------------------------------------------------ the dashboard's own log


def _log() -> None:
    st.header("Log of the dashboard", anchor=False)
    text = _tail(dashboard_log())
    if text is None:
        line("There is no log yet. Each run has a log of its own, on its page.")
        return
    level = st.segmented_control("Show", LEVELS, default=LEVELS[0], key="log-level") or LEVELS[0]
    lines = at_level(text.splitlines(), level)[-LOG_LINES:]
    if lines:
        scroll_text("\n".join(lines), "Log of the dashboard")
    else:
        line("Nothing of that kind in the newest part of the log." if text else "The log is empty.")


def _tail(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            start = max(0, path.stat().st_size - LOG_BYTES)
            file.seek(start)
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    return text.partition("\n")[2] if start else text


def at_level(lines: list[str], level: str) -> list[str]:
    """Lines at a level or above; one without a level of its own, as in a trace, belongs to the one before it."""
    wanted = {LEVELS[1]: ("WARNING", "ERROR", "CRITICAL"), LEVELS[2]: ("ERROR", "CRITICAL")}.get(level)
    if wanted is None:
        return lines
    kept, now = [], "INFO"
    for text in lines:
        found = LEVEL.search(text[:80])
        now = found[1] if found and not text.startswith((" ", "\t", "Traceback")) else now
        if now in wanted:
            kept.append(text)
    return kept
