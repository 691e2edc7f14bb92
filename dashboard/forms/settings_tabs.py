"""The same settings as the form's, as YAML to read, change and keep, and as a line for the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from shoal.dashboard.parts import widget_values, wording
from shoal.dashboard.parts.literal import line, notice
from shoal.errors import ConfigError
from shoal.settings.config import RunConfig
from shoal.settings.text import as_yaml, command_line, from_yaml, idle_in
from shoal.settings.values import page_config

HEIGHT = 320  # pixels of the field


def show_yaml(prefix: str, config: RunConfig, take: Callable[[dict[str, Any]], None]) -> None:
    """A field with the settings; `take` is given those that a person wrote, as a callback."""
    everything = st.toggle(
        "Show every setting", key=f"{prefix}:yaml-all", help="Otherwise only those that differ from their defaults."
    )
    text, key = as_yaml(config, everything), f"{prefix}:yaml"
    if st.session_state.get(f"{prefix}:yaml-drawn") != text:
        st.session_state[key] = st.session_state[f"{prefix}:yaml-drawn"] = text  # the form has changed
    widget_values.begin(key, text)
    st.text_area(
        "Settings as YAML", key=key, height=HEIGHT,
        help="Change it and press Apply: the form follows. Names and groups are those of `shoal train --config`.",
    )  # fmt: skip
    problem = _problem(st.session_state[key], config)
    differs = st.session_state[key] != text
    with st.container(horizontal=True):
        st.button(
            "Apply to the form", icon=":material/done:", key=f"{prefix}:yaml-apply",
            disabled=not differs or problem is not None, on_click=_apply, args=(key, config, take),
        )  # fmt: skip
        st.button(
            "Undo my changes", key=f"{prefix}:yaml-undo", disabled=not differs,
            on_click=st.session_state.update, args=({key: text},),
        )  # fmt: skip
        st.download_button("Download", text, "run.yaml", "text/yaml", icon=":material/download:", on_click="ignore")
    if problem:
        notice("error", problem, "This cannot be applied")
    elif differs and (idle := idle_in(st.session_state[key])):
        notice("info", idle)
    with st.expander("To copy", icon=":material/content_copy:"):
        st.code(text, language="yaml", wrap_lines=True)


def _problem(text: str, config: RunConfig) -> str | None:
    try:
        checked(text, config)
    except ConfigError as error:
        return wording.told(error)
    return None


def checked(text: str, config: RunConfig) -> dict[str, Any]:
    """All knobs: those of a text, and the defaults of those that it does not name. `config` is the present one."""
    return page_config(config.file, from_yaml(text)).as_dict()


def _apply(key: str, config: RunConfig, take: Callable[[dict[str, Any]], None]) -> None:
    try:
        values = checked(st.session_state[key], config)
    except ConfigError:
        return  # it is said beside the field
    take(values)


def show_command(config: RunConfig) -> None:
    """The line that does the same in a terminal."""
    found = command_line(config)
    if found is None:
        line("Flags cannot say these settings. Download the YAML and use it like this:")
        found = "shoal train --config run.yaml"
    st.code(found, language="bash", wrap_lines=True)
    st.caption("In a terminal on this machine. `shoal runs` lists the runs of both ways.")
