"""Which columns the list of runs has: those of a person's choice, any knob among them, kept in the home."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from shoal.dashboard.http.access import PEOPLE
from shoal.dashboard.parts import wording
from shoal.errors import DamagedFile
from shoal.files import sealed
from shoal.home import run_columns_path, runs_directory
from shoal.lazy.frames import pd
from shoal.library import archives
from shoal.library.accounts import Summary
from shoal.people.belongings import thing_at
from shoal.queueing import team
from shoal.runs.launch import Run
from shoal.settings.config import RunConfig

ALWAYS = ("Open",)
USUAL = (
    "Name", "State", "Started", "Model", "Solver", "Predicts", "File", "R² test", "Score", "Alpha", "Took",
    "Tags", "R² training", "Epochs", "Distance", "RMSE test", "RMSE training", "Note", "Exact time", "Run",
)  # fmt: skip
SELDOM = ("Search",)
TEAM = ("Owner", "Host")  # where people have accounts, and where hosts of a team do runs
MAYBE: dict[str, Callable[[Summary], Any]] = {  # columns that take no room where no run has something in them
    "Name": lambda run: run.name,
    "Score": lambda run: run.headline,
    "Tags": lambda run: run.tags,
    "Note": lambda run: run.note,
}
OUTSIDE = ("file", "out", "target", "model", "alpha")  # knobs that have a column of their own


def knobs() -> dict[str, str]:
    """The knobs that can be columns, by what the column is called."""
    found = {wording.LABELS.get(name, name): name for name in RunConfig.knobs() if name not in OUTSIDE}
    taken = (*USUAL, *SELDOM, *TEAM)
    return {f"{label} (setting)" if label in taken else label: name for label, name in found.items()}


def usual() -> list[str]:
    """Those of a team stand beside the state, and take no room elsewhere."""
    return [*USUAL[:2], *TEAM, *USUAL[2:]]


def kept() -> list[str]:
    """As this home has it; the usual ones where nobody has chosen, or what was chosen cannot be read."""
    with contextlib.suppress(OSError, DamagedFile):
        said = sealed.read(run_columns_path(), "runs.json", sealed.never_sealed).get("columns")
        possible = {*USUAL, *SELDOM, *TEAM, *knobs()}
        if isinstance(said, list) and (found := [name for name in said if name in possible]):
            return found
    return usual()


def keep(names: Sequence[str]) -> None:
    path = run_columns_path()
    with contextlib.suppress(OSError):  # without room the usual ones come back
        path.parent.mkdir(parents=True, exist_ok=True)
        sealed.write(path, {"columns": list(names)}, "runs.json")


def chooser() -> None:
    """What is chosen takes effect at once and is there the next time."""
    with st.popover("Columns", icon=":material/view_column:", help="Which columns the list has, settings among them."):
        st.multiselect(
            "Columns of the list", [*USUAL, *SELDOM, *TEAM, *knobs()], kept(), key="runs_columns", on_change=_said,
            help="In this order. Settings are those that a run was started with.",
        )  # fmt: skip
        st.button("As usual", on_click=_forget, icon=":material/undo:", key="runs_columns_usual")


def _said() -> None:
    keep(st.session_state["runs_columns"])


def _forget() -> None:
    run_columns_path().unlink(missing_ok=True)
    st.session_state.pop("runs_columns", None)


def chosen(table: pd.DataFrame, runs: Sequence[Summary], all_: Sequence[Summary]) -> pd.DataFrame:
    """The table with the columns that are wanted, the same for `all_` runs; settings are read only where one is."""
    own, team_wide = knobs(), _of_team(all_)
    empty = {name for name, value in MAYBE.items() if not any(map(value, all_))}
    empty |= {name for name in TEAM if not any(team_wide[name].values())}
    table = table.assign(**{name: [found.get(run.id, "") for run in runs] for name, found in team_wide.items()})
    names = [name for name in kept() if name not in empty]
    wanted = [name for name in names if name in own]
    if wanted:
        configs = [Run(runs_directory() / run.id).config for run in runs]
        table = table.assign(**{name: [_said_of(config.get(own[name])) for config in configs] for name in wanted})
    return table[[*ALWAYS, *names]]


def _of_team(runs: Sequence[Summary]) -> dict[str, dict[str, str]]:
    """By run, whose it is and which host does it or did it last: nothing without accounts, or without hosts."""
    places = {run.id: archives.archive_path(run.id) if run.archived else runs_directory() / run.id for run in runs}
    owners = {name: ", ".join(sorted(thing_at(place).owners)) for name, place in places.items()}
    return {"Owner": owners if PEOPLE.are_there else {}, "Host": team.hosts_of(list(places))}


def _said_of(value: Any) -> str:
    if value is None or value == []:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
