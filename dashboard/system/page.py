"""The System page: what is at work, what the machine has left, what takes disk, what is installed, and the log."""

from __future__ import annotations

import html
import re
import time
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.http import access
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.system import about, plugin_check
from shoal.dashboard.system.machine import Look, Watch, Work
from shoal.errors import TrainingError
from shoal.home import dashboard_log, home
from shoal.library.cleaning import Choice, Cleaned, Plan, clean, plan
from shoal.library.inventory import Use, survey
from shoal.library.kinds import Kind, counted, kept_in_words, kind_of, size

REFRESH = 2.0  # seconds between two looks at the machine
SHOWN = 20  # runs and jobs at work; the Runs page has them all
LOG_BYTES, LOG_LINES = 200_000, 400
LEVELS = ("All", "Warnings and errors", "Errors")
LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
FAMILIAR = {"inspect": "look at a file", "predict": "predictions", "diagnose": "diagnostics", "train": "fit"}
STAYS = {"models": "see Models", "other": "needed"}  # where others have a button
STATES = {"running": "good", "preparing": "good", "paused": "wait", "queued": "wait", "stopping": "wait"}

STYLE = """<style>
.sys-meters { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(210px, 44%), 1fr)); gap: 0.75rem; }
.sys-card { border: 1px solid color-mix(in srgb, currentColor 16%, transparent); border-radius: 0.6rem;
  padding: 0.8rem 1rem; min-width: 0; }
.sys-name { font-size: 0.85rem; opacity: 0.75; }
.sys-value { font-size: 1.5rem; font-weight: 600; line-height: 1.35; font-variant-numeric: tabular-nums; }
.sys-more { font-size: 0.82rem; opacity: 0.75; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.sys-bar { height: 6px; border-radius: 3px; margin: 0.4rem 0 0.45rem; overflow: hidden;
  background: color-mix(in srgb, currentColor 13%, transparent); }
.sys-bar > i { display: block; height: 100%; border-radius: 3px; background: #169385; }
.sys-bar.high > i { background: #d55e00; }
.sys-title { font-weight: 600; overflow-wrap: anywhere; }
.sys-chip { display: inline-block; border-radius: 1rem; padding: 0.05rem 0.55rem; margin-left: 0.5rem;
  font-size: 0.78rem; font-weight: 500; background: color-mix(in srgb, currentColor 11%, transparent); }
.sys-chip.good { background: rgba(22, 147, 133, 0.2); }
.sys-table { width: 100%; max-width: 40rem; border-collapse: collapse; margin-top: 0.4rem;
  font-size: 0.85rem; font-variant-numeric: tabular-nums; }
.sys-table th { text-align: left; font-weight: 500; opacity: 0.7; }
.sys-table th, .sys-table td { padding: 0.15rem 0.6rem 0.15rem 0; border: 0; }
.sys-table .n { text-align: right; }
.sys-use { display: grid; grid-template-columns: minmax(0, 1fr) 6.5rem; column-gap: 1rem; align-items: baseline; }
.sys-use .sys-bar { grid-column: 1 / -1; margin: 0.35rem 0 0; }
.sys-use .sys-size { text-align: right; font-weight: 600; font-variant-numeric: tabular-nums; }
.sys-stays { text-align: center; }
.sys-facts { width: 100%; border-collapse: collapse; font-size: 0.9rem; }
.sys-facts th, .sys-facts td { text-align: left; vertical-align: top; border: 0; padding: 0.15rem 0; }
.sys-facts th { font-weight: 400; opacity: 0.75; width: 9.5rem; padding-right: 1rem; }
.sys-facts td { overflow-wrap: anywhere; }
[class*="st-key-use-"] { padding-bottom: 0.35rem; }
</style>"""


def show() -> None:
    st.html(STYLE)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.title("System", anchor=False, width="content")
        _log_out()
    st.caption("What is at work, what the machine has left, and what takes disk space.")
    with st.container(key="sys-live"):
        _at_work()
    st.subheader("Disk space", anchor=False)
    _disk()
    st.subheader("What is installed", anchor=False)
    _installed()
    _log()
    if name := st.session_state.get("cleaning"):
        _clean_up(name)


def _log_out() -> None:
    """The way out, where a password keeps others out."""
    if access.is_locked():
        st.html('<a class="sys-out" href="./logout" target="_self">Log out</a>', width="content")


# ------------------------------------------------------------------ the machine and what works on it


@st.cache_resource
def _watch() -> Watch:
    return Watch()


@st.fragment(run_every=REFRESH)
def _at_work() -> None:
    look = _watch().look()
    st.html(_meters(look))
    st.subheader("At work", anchor=False)
    if not look.work:
        with st.container(border=True):
            st.markdown("**Nothing is running.** Fits, looks at files and predictions show up here while they last.")
            places.link("data", "Choose data for a fit", icon=":material/table_view:")
    for work in look.work[:SHOWN]:
        _work(work)
    if len(look.work) > SHOWN:
        places.link("runs", f"And {len(look.work) - SHOWN} more: see all runs", icon=":material/list_alt:")


def _meters(look: Look) -> str:
    now, slots = look.machine, look.slots
    load = "" if now.load is None else f", load {now.load:.1f}"
    cards = [
        _meter("Processor", now.cpu, f"{now.cpu:.0%}", f"of {wording.plural(now.cores, 'core')}{load}", calm=True),
        _meter("Memory", now.memory_used / now.memory_total, size(now.memory_used), f"of {size(now.memory_total)}"),
        _meter(
            "Disk", now.disk_used / now.disk_total, f"{size(now.disk_total - now.disk_used)} free",
            f"of {size(now.disk_total)}, where runs and data are kept",
        ),
    ]  # fmt: skip
    if slots is None:
        cards.append(_meter("Slots", 0, "–", "SHOAL_SLOTS is not a whole number of at least 1. Correct or unset it."))
    else:
        waiting = "nobody waits" if not slots.waiting else f"{wording.plural(slots.waiting, 'run')} waiting"
        more = f"in use by gradient runs; {waiting}"
        cards.append(_meter("Slots", slots.taken / slots.total, f"{slots.taken} of {slots.total}", more, calm=True))
    return f'<div class="sys-meters">{"".join(cards)}</div>'


def _meter(name: str, share: float, value: str, more: str, calm: bool = False) -> str:
    return (
        f'<div class="sys-card"><div class="sys-name">{html.escape(name)}</div>'
        f'<div class="sys-value">{html.escape(value)}</div>{_bar(share, name, calm)}'
        f'<div class="sys-more">{html.escape(more)}</div></div>'
    )


def _bar(share: float, name: str, calm: bool = False) -> str:
    """A bar from 0 to 1; one that is nearly full warns, unless it is meant to be full."""
    percent = min(100.0, max(0.0, 100 * share))
    high = " high" if percent > 90 and not calm else ""
    return (
        f'<div class="sys-bar{high}" role="meter" aria-label="{html.escape(name)}" aria-valuemin="0" '
        f'aria-valuemax="100" aria-valuenow="{percent:.0f}"><i style="width: {percent:.1f}%"></i></div>'
    )


def _work(work: Work) -> None:
    with st.container(border=True, key=f"work-{work.task}-{work.run.id}"):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.html(_what(work), width="stretch")
            if work.task == "train":
                places.link("train", "Open", icon=":material/open_in_new:", run=work.run.id)
        if work.workers:
            st.html(_workers(work))


def _what(work: Work) -> str:
    config = work.run.config
    name = Path(str(config.get("file") or "")).name
    if work.task == "train":
        title = f"{wording.MODELS.get(str(config.get('model')), 'Model')} of {config.get('target')}, {name}"
    else:
        said = FAMILIAR.get(work.task, work.task.replace("_", " "))
        title = f"{said[:1].upper()}{said[1:]}: {name}"
    chip = f'<span class="sys-chip {STATES.get(work.state, "")}">{html.escape(work.state)}</span>'
    more = f'<div class="sys-more">{html.escape(_taken(work))}</div>'
    return f'<div class="sys-title">{html.escape(title)}{chip}</div>{more}'


def _taken(work: Work) -> str:
    """What it takes of the machine, in a line."""
    more = "" if work.tree is None or work.tree.processes < 2 else f" and {work.tree.processes - 1} more"
    parts = [] if work.pid is None else [f"process {work.pid}{more}"]
    if work.tree is not None:
        parts += [] if work.tree.cpu is None else [f"{work.tree.cpu:.1f} cores"]
        parts.append(size(work.tree.memory))
    if work.since is not None:
        parts.append(f"for {wording.duration(max(0.0, time.time() - work.since))}")
    if work.state == "queued":
        parts.append(work.run.cause)
    return " · ".join(parts) or "its process is starting"


def _workers(work: Work) -> str:
    head = "<tr><th>Worker</th><th>State</th>"
    head += "".join(f'<th class="n">{name}</th>' for name in ("Process", "CPU", "Memory")) + "</tr>"
    rows = (
        f'<tr><td>{w.rank}</td><td>{html.escape(w.state)}</td><td class="n">{w.pid}</td>'
        f'<td class="n">{w.cpu:.0%}</td><td class="n">{size(w.memory)}</td></tr>'
        for w in work.workers
    )
    return f'<table class="sys-table">{head}{"".join(rows)}</table>'


# ------------------------------------------------------------------ disk


@st.cache_data(ttl=5, show_spinner=False)
def _survey(place: str) -> list[Use]:
    """Of the home at that place, which is an argument so that another home is not answered for."""
    return survey()


def _disk() -> None:
    found = _survey(str(home()))
    total = sum(use.bytes for use in found)
    line(f"{size(total)} in {about.setup()[0][1]}. Nothing is removed by itself; what a run needs is never removed.")
    if done := st.session_state.pop("cleaned", None):
        _say_cleaned(done)
    with st.container(border=True):
        for use in found:
            if use.count:
                _use(use, total)
        nothing = [use.kind.title.lower() for use in found if not use.count]
        if nothing:
            line(f"Nothing yet: {', '.join(nothing)}.")


def _use(use: Use, total: int) -> None:
    kind = use.kind
    since = "" if use.oldest is None or kind.name == "other" else f", the oldest from {_day(use.oldest)}"
    number = "" if kind.name == "other" else f" {counted(kind, use.count)}{since}."
    bar = _bar(use.bytes / max(total, 1), kind.title, calm=True)
    with st.container(horizontal=True, vertical_alignment="center", key=f"use-{kind.name}"):
        st.html(
            f'<div class="sys-use"><div><span class="sys-title">{kind.title}</span>'
            f'<div class="sys-more">{kind.purpose}{number}</div></div>'
            f'<div class="sys-size">{size(use.bytes)}</div>{bar}</div>',
            width="stretch",
        )
        if not kind.cleanable:
            st.html(f'<div class="sys-more sys-stays">{STAYS[kind.name]}</div>', width=110)
        else:
            st.button("Clean up", key=f"clean-{kind.name}", width=110, on_click=_ask_about, args=(kind.name,))


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))


def _ask_about(name: str | None = None) -> None:
    """Open the dialog about a kind, or close it."""
    st.session_state["cleaning"] = name


@st.dialog("Clean up", width="medium", on_dismiss=_ask_about)
def _clean_up(name: str) -> None:
    kind = kind_of(name)
    st.markdown(f"**{kind.title}.** {kind.purpose}")
    st.markdown(f"**Once removed.** {kind.cost}")
    choice = _choice(kind)
    try:
        wanted = plan(name, choice)
    except (TrainingError, OSError) as error:
        notice("error", str(error))
        return
    _say_plan(wanted)
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Cancel", key="clean-cancel"):
            _ask_about()
            st.rerun()
        if st.button("Remove", key="clean-remove", type="primary", disabled=not wanted.items):
            st.session_state["cleaned"] = _cleaned(name, choice)
            _survey.clear()
            _ask_about()
            st.rerun()


def _choice(kind: Kind) -> Choice:
    names = ["All of them", "Only what has not changed for some days"]
    if kind.by_use:
        names.append("Only what no run or model uses")
    default = names[-1] if kind.by_use else names[0]
    said = st.radio("Which", names, index=names.index(default), key=f"which-{kind.name}")
    place = st.container()  # also when it is empty, or what follows is drawn twice for a moment
    if said == names[1]:
        help_ = "Counted from the last change to any of its files."
        days = place.number_input("Days without a change", 0, 3650, 30, help=help_, key=f"days-{kind.name}")
        return Choice(older_than=float(days))
    return Choice(unused=said != names[0])


def _say_plan(wanted: Plan) -> None:
    kept = kept_in_words(wanted.kept)
    if wanted.items:
        notice("info", f"Removes {counted(wanted.kind, len(wanted.items))} and frees {size(wanted.bytes)}. {kept}")
    else:
        notice("info", f"There is nothing to remove. {kept}")


def _cleaned(name: str, choice: Choice) -> Cleaned | str:
    try:
        return clean(name, choice)
    except (TrainingError, OSError) as error:
        return str(error)


def _say_cleaned(done: Cleaned | str) -> None:
    if isinstance(done, str):
        notice("error", done, "Not everything could be removed")
    else:
        freed = f"{size(done.bytes)} are free again."
        notice("success", f"Removed {counted(done.kind, done.count)}; {freed} {kept_in_words(done.kept)}")


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
        ("Memory", f"{size(now.memory_used)} of {size(now.memory_total)} used"),
        ("Disk", f"{size(now.disk_total - now.disk_used)} of {size(now.disk_total)} free"),
        *((use.kind.title, f"{use.count:,}, {size(use.bytes)}") for use in _survey(str(home())) if use.count),
    ]


# ------------------------------------------------------------------ the dashboard's own log


def _log() -> None:
    st.subheader("Log of the dashboard", anchor=False)
    text = _tail(dashboard_log())
    if text is None:
        line("There is no log yet. Each run has a log of its own, on its page.")
        return
    level = st.segmented_control("Show", LEVELS, default=LEVELS[0], key="log-level") or LEVELS[0]
    lines = at_level(text.splitlines(), level)[-LOG_LINES:]
    if lines:
        st.code("\n".join(lines), language=None, height=320, wrap_lines=True)
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
