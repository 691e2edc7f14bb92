"""What takes disk space, and the dialog that removes some of it; what is found and removed is said in `library`."""

from __future__ import annotations

import time

import streamlit as st

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.system import about
from shoal.dashboard.system.bars import bar
from shoal.errors import TrainingError
from shoal.home import home
from shoal.library.cleaning import Cleaned, CleaningPlan, Criteria, clean, plan
from shoal.library.disk.places import StatePlace, places
from shoal.library.inventory import Use, survey
from shoal.library.kinds import DiskKind, counted, kept_in_words, kind_of
from shoal.words import file_size, listed

STAYS = {"models": "see Models", "other": "needed"}  # where others have a button


@st.cache_data(ttl=5, show_spinner=False)
def surveyed(place: str) -> list[Use]:
    """Of the home at that place, which is an argument so that another home is not answered for."""
    return survey()


def show() -> None:
    found = surveyed(str(home()))
    total = sum(use.bytes for use in found)
    place = about.setup()[0][1]
    line(f"{file_size(total)} in {place}. Nothing is removed automatically; what a run needs is never removed.")
    if done := st.session_state.pop("cleaned", None):
        _say_cleaned(done)
    with st.container(border=True):
        for use in found:
            if use.count:
                _use(use, total)
        if unread := [told for use in found for told in use.unread]:
            told = f"Not counted, since nobody can read it: {listed(unread, 3)}. Check the permissions and the disk."
            notice("warning", told)
        nothing = [use.kind.title.lower() for use in found if not use.count]
        if nothing:
            line(f"Nothing yet: {', '.join(nothing)}.")
        _where()


@st.cache_data(ttl=5, show_spinner=False)
def placed(place: str) -> list[StatePlace]:
    return places()


def _where() -> None:
    """What of the runs' state is where; nothing while there is none."""
    found = placed(str(home()))
    if not any(one.disk or one.archive for one in found):
        return
    st.markdown("**Where the state of runs is**")
    line(
        "Batches, checkpoints and records are on disk; what is in use stays in memory too, and goes from there when "
        "memory is short. Older checkpoints are packed."
    )
    head = "".join(f'<th class="n">{name}</th>' for name in ("In memory", "On disk", "Packed"))
    rows = (f'<tr><th scope="row">{one.name}</th>{"".join(map(_cell, one[1:]))}</tr>' for one in found)
    st.html(f'<table class="sys-table" id="sys-where"><tr><th>State</th>{head}</tr>{"".join(rows)}</table>')


def _cell(size: int | None) -> str:
    return f'<td class="n">{"not known" if size is None else file_size(size) if size else "–"}</td>'


def _use(use: Use, total: int) -> None:
    kind = use.kind
    since = "" if use.oldest is None or kind.name == "other" else f", the oldest from {_day(use.oldest)}"
    number = "" if kind.name == "other" else f" {counted(kind, use.count)}{since}."
    meter = bar(use.bytes / max(total, 1), kind.title, calm=True)
    with st.container(horizontal=True, vertical_alignment="center", key=f"use-{kind.name}"):
        st.html(
            f'<div class="sys-use"><div><span class="sys-title">{kind.title}</span>'
            f'<div class="sys-more">{kind.purpose}{number}</div></div>'
            f'<div class="sys-size">{file_size(use.bytes)}</div>{meter}</div>',
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
        notice("error", wording.told(error))
        return
    _say_plan(wanted)
    with st.container(horizontal=True, horizontal_alignment="right"):
        if st.button("Cancel", key="clean-cancel"):
            _ask_about()
            st.rerun()
        if st.button("Remove", key="clean-remove", type="primary", disabled=not wanted.items):
            st.session_state["cleaned"] = _cleaned(name, choice)
            surveyed.clear()
            _ask_about()
            st.rerun()


def dialog() -> None:
    """Ask again before anything is removed, once a button of `show` was pressed."""
    if name := st.session_state.get("cleaning"):
        _clean_up(name)


def _choice(kind: DiskKind) -> Criteria:
    names = ["All of them", "Only what has not changed for some days"]
    if kind.by_use:
        names.append("Only what no run or model uses")
    default = names[-1] if kind.by_use else names[0]
    said = st.radio("Which", names, index=names.index(default), key=f"which-{kind.name}")
    place = st.container()  # also when it is empty, or what follows is drawn twice for a moment
    if said == names[1]:
        help_ = "Counted from the last change to any of its files."
        days = place.number_input("Days without a change", 0, 3650, 30, help=help_, key=f"days-{kind.name}")
        return Criteria(older_than=float(days))
    return Criteria(unused=said != names[0])


def _say_plan(wanted: CleaningPlan) -> None:
    kept = kept_in_words(wanted.kept)
    if wanted.items:
        notice("info", f"Removes {counted(wanted.kind, len(wanted.items))} and frees {file_size(wanted.bytes)}. {kept}")
    else:
        notice("info", f"There is nothing to remove. {kept}")


def _cleaned(name: str, choice: Criteria) -> Cleaned | str:
    try:
        return clean(name, choice)
    except (TrainingError, OSError) as error:
        return wording.told(error)


def _say_cleaned(done: Cleaned | str) -> None:
    if isinstance(done, str):
        notice("error", done, "Not everything could be removed")
    else:
        freed = f"{file_size(done.bytes)} are free again."
        notice("success", f"Removed {counted(done.kind, done.count)}; {freed} {kept_in_words(done.kept)}")
