"""The cluster that runs of engine ray use: its nodes and free cores, asked for by a process of its own.

A page takes the address from the environment only. Where none is named, a run starts a small cluster of this machine.
"""

from __future__ import annotations

import importlib.util
import os
import time
from typing import Any

import streamlit as st

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.waiting import answered, watch
from shoal.runs import slots
from shoal.runs.launch import Run
from shoal.settings.config import RunConfig
from shoal.words import duration, file_size, plural

ASKED = "cluster:asked"  # whether somebody wants to know again
STALE = 120.0  # seconds after which free cores may be others, and a page asks again
SHOWN = 8  # nodes beside a form; the System page has them all
CANNOT = "The cluster cannot be used"
NO_RAY = "Expected Ray for engine ray, but it is not installed here. Install it with: pip install 'shoal[ray]'."


def show_all() -> None:
    """Every node, for the System page; nothing where no cluster is named."""
    if not (address := os.environ.get(slots.CLUSTER)):
        return
    st.header("Cluster", anchor=False)
    run = _asked(address)
    if run.is_active:
        watch(run, f"The cluster at {address}")
        return
    if run.result is None:
        notice("error", _why(run), CANNOT)
    else:
        line(_summary(run.result, run.started_at))
        rows = [_row(node) for node in run.result["nodes"]]
        st.dataframe(rows, hide_index=True, placeholder="")
    _ask_again_button()


def show_beside(config: RunConfig) -> bool:
    """What a run of this config would find, for the card that starts it; whether it can be started."""
    if config.engine != "ray":
        return True
    if importlib.util.find_spec("ray") is None:
        notice("error", NO_RAY, CANNOT)
        return False
    if not (address := os.environ.get(slots.CLUSTER)):
        own = plural(max(config.workers, slots.cores()), "core")
        line(
            f"A small cluster of this machine is started for the run, with {own}, and is gone at its end. For one that "
            f"is there, start the dashboard with {slots.CLUSTER}=HOST:PORT."
        )
        return True
    run = _asked(address)
    if run.is_active:
        watch(run, f"The cluster at {address}")
        return True
    if run.result is None:
        notice("error", _why(run), CANNOT)
    else:
        line(_summary(run.result, run.started_at))
        _few(run.result["nodes"])
        notice(*places_for(config.workers, run.result["cores"], run.result["free"]))
    _ask_again_button()
    return run.result is not None


def _asked(address: str) -> Run:
    anew = bool(st.session_state.pop(ASKED, False))
    run = answered("nodes", RunConfig(), {"address": address}, anew=anew)
    if not run.is_active and time.time() - (run.started_at or time.time()) > STALE:
        run = answered("nodes", RunConfig(), {"address": address}, anew=True)
    return run


def _why(run: Run) -> str:
    return wording.told(run.error) if run.error else "It did not answer."


def _ask_again_button() -> None:
    st.button("Ask again", icon=":material/refresh:", on_click=_ask_again, key="ask-cluster")


def _ask_again() -> None:
    st.session_state[ASKED] = True


def _summary(found: dict[str, Any], since: float | None) -> str:
    ago = "" if since is None else f", {duration(max(0.0, time.time() - since))} ago"
    return f"{found['address']}: {plural(found['cores'], 'core')}, {found['free']:,} of them free{ago}"


def _row(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "Node": node["address"], "Health": node["state"], "Cores": node["cores"], "Free cores": node["free"],
        "Memory": _of(node, "memory"), "Disk": _of(node, "disk"),
    }  # fmt: skip


def _of(node: dict[str, Any], what: str) -> str:
    if what not in node:
        return "not known"
    return f"{file_size(node[f'{what}_free'])} free of {file_size(node[what])}"


def _few(nodes: list[dict[str, Any]]) -> None:
    """Those that offer cores, most of them first, and what is wrong with one that will be of no use."""
    offering = [node for node in nodes if node["alive"] and node["cores"]]
    if offering:
        rows = [{"Node": node["address"], "Cores": node["cores"], "Free": node["free"]} for node in offering[:SHOWN]]
        st.dataframe(rows, hide_index=True, placeholder="")
    if len(offering) > SHOWN:
        line(f"And {plural(len(offering) - SHOWN, 'node')} more: see the System page.")
    if ill := [f"{node['address']}: {node['state']}." for node in offering if node["state"] != "answers"]:
        more = [f"And {len(ill) - SHOWN:,} more."] if len(ill) > SHOWN else []
        notice("warning", "\n".join([*ill[:SHOWN], *more]), "Nodes that may fail")


def places_for(workers: int, cores: int, free: int) -> tuple[str, str]:
    """What kind of news it is how many workers find a core, and the news."""
    if not cores:
        return "warning", "No node offers a core: the run will wait, up to an hour, until one joins."
    if not free:
        return "warning", "No core is free now: the run will wait, up to an hour, until others end or a node joins."
    if workers > free:
        return "info", f"{free:,} of the {plural(workers, 'worker')} can begin at once; the others wait for a core."
    return "success", f"{plural(workers or free, 'worker')} can begin at once."
