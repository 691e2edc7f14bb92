"""The link with which a person ends the session; nothing where there is no password."""

from __future__ import annotations

import streamlit as st

from dashboard import access


def link() -> None:
    """A link of this tab: Streamlit's own links open another one."""
    if access.is_locked():
        st.html('<a href="logout" target="_self" style="color: inherit">Log out</a>')
