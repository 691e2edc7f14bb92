"""Whether a version should be the champion: scored against the one that is, on a table, and given the alias only if it
is not worse; what aliases have meant, and the way back. The scoring is a process elsewhere."""

from __future__ import annotations

import time
from typing import Any

import streamlit as st

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice, section
from shoal.dashboard.parts.waiting import watch
from shoal.dashboard.tables.recent import known_tables
from shoal.errors import TrainingError
from shoal.home import jobs_directory, models_directory
from shoal.lazy.frames import pd
from shoal.library import alias_history, aliases
from shoal.library.alias_history import AliasMove
from shoal.library.saved_models import Model, Version
from shoal.people import acting
from shoal.people.deeds import why_not
from shoal.people.rights import Verb
from shoal.results.answers.comparison import PromotionAnswer
from shoal.results.plain import Malformed
from shoal.runs.folder import Run
from shoal.runs.launch import launch_job
from shoal.settings.values import page_config

WHO = "dashboard"  # where people are not told apart
SHOWN = 50  # moves in the table


def show(model: Model, version: Version) -> None:
    section("The champion")
    champion = aliases.known_aliases(model).get(aliases.CHAMPION)
    if champion == version.number:
        line(f"This version is {model.name}@{aliases.CHAMPION}.")
    else:
        now = f"version {champion}" if champion else "none yet"
        line(
            f"{model.name}@{aliases.CHAMPION} is {now}. This version becomes it if it predicts a table with the target "
            "not worse than that one; the table should have rows that neither was trained on."
        )
        _check(version)
    if job := st.session_state.get(f"promote:{version.label}:job"):
        _answer(Run(jobs_directory() / "promote" / job))
    _history(model)


def _check(version: Version) -> None:
    tables = {table.key: table for table in known_tables()}
    key = f"promote:{version.label}"
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    with left:
        chosen = st.selectbox(
            "Score on", list(tables), format_func=lambda one: tables[one].title, index=None, key=f"{key}:table",
            placeholder="Samples and earlier uploads",
        )  # fmt: skip
    with right:
        held = why_not(Verb.CHANGE, version.directory)
        asked = st.button(
            "Promote if not worse", icon=":material/military_tech:", key=f"{key}:do",
            disabled=not chosen or bool(held), help=held or None,
        )  # fmt: skip
    if asked and chosen:
        arguments = {"model": str(version.model_path), "version": version.label, "alias": aliases.CHAMPION,
                     "who": acting.said(WHO), "not_worse_by": 0.0}  # fmt: skip
        try:
            run = launch_job("promote", page_config(tables[chosen].path), arguments, anew=True)
        except (TrainingError, OSError) as error:
            notice("error", wording.told(error), "The versions could not be scored")
            return
        st.session_state[f"{key}:job"] = run.id


def _answer(run: Run) -> None:
    if run.is_active:
        watch(run, "Scoring both versions")
    elif (result := run.result) is not None:
        try:
            found = PromotionAnswer.from_dict(result)
        except Malformed:  # of another version of the program
            return
        more = [found.comparison.in_words, *found.comparison.notes] if found.comparison else []
        notice("success" if found.promoted else "warning", "\n".join([found.why, *more]))
    else:
        notice("error", wording.told(run.error), "The versions could not be scored")


def _history(model: Model) -> None:
    try:
        moves = alias_history.moves(model.name)[::-1]
    except TrainingError as error:
        notice("warning", wording.told(error))
        return
    if not moves:
        return
    section("What aliases have meant")
    st.dataframe(
        pd.DataFrame([_row(move) for move in moves[:SHOWN]]), hide_index=True, placeholder="–",
        height="content" if len(moves) < 10 else 380, alt="Moves of aliases, the newest first",
    )  # fmt: skip
    before = [number for number in alias_history.earlier(model.name, aliases.CHAMPION) if number in model.numbers]
    held = why_not(Verb.CHANGE, models_directory() / model.name)
    how: dict[str, Any] = {"disabled": bool(held), "help": held or None}
    if before and st.button("Roll the champion back", icon=":material/undo:", key=f"rollback:{model.name}", **how):
        try:
            aliases.roll_back(model, who=acting.said(WHO))
        except (TrainingError, OSError) as error:
            notice("error", wording.told(error))
            return
        st.rerun()


def _row(move: AliasMove) -> dict[str, object]:
    return {
        "When": time.strftime("%Y-%m-%d %H:%M", time.localtime(move.at)), "Alias": move.alias,
        "Version": move.version, "Before": move.before, "Who": move.who, "Why": move.why,
    }  # fmt: skip
