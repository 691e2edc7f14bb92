"""A heading for the column of ticks of a table, which Streamlit leaves empty; nothing of it is seen."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

_component = st.components.v2.component(
    "shoal_named_ticks", js=Path(__file__).with_suffix(".js").read_text("utf-8"), isolate_styles=False
)


def name_ticks(name: str) -> None:
    """Below the table; `name` is what somebody hears who does not see the page."""
    _component(key="named-ticks", data={"name": name}, height=1)
