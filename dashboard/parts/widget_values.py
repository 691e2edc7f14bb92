"""Values that a page gives its widgets, so that a browser has them too. What the values are is each page's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st

AT_WORK, CUT_OFF = "page~at-work", "page~cut-off"


@contextmanager
def drawing() -> Iterator[None]:
    """One drawing of a page; the next one knows whether it came to its end."""
    st.session_state[CUT_OFF] = st.session_state.get(AT_WORK, False)
    st.session_state[AT_WORK] = True
    yield
    st.session_state[AT_WORK] = False


def draw_anew() -> None:
    """Draw the whole page again, from a fragment of it that has seen what it waited for.

    What the drawing before has told the browser may still lie in the queue of messages, which a new drawing empties:
    it came to its end here, and not there. So it counts as one that was cut off.
    """
    st.session_state[AT_WORK] = True
    st.rerun()


def begin(key: str, value: Any) -> str:
    """Let the widget of that key begin with the value, and keep what a person makes of it; gives the key.

    The browser hears of it with the drawing in which it was given, once. Where the next click cuts that drawing off,
    it is lost on the way, and the browser would show the widget as off, empty or at its least, and soon say that this
    was chosen: a model without intercept, on no test rows. So after such a drawing every value is said again.
    """
    if key not in st.session_state:
        st.session_state[key] = value
    elif st.session_state.get(CUT_OFF, False):
        st.session_state[key] = st.session_state[key]
    return key
