"""Text from files shown as it is: no markdown, HTML, formulas or icons in it come to life. Wording is elsewhere."""

from __future__ import annotations

import html
import re

import streamlit as st

ACCENTS = {"error": "209, 73, 91", "warning": "214, 145, 0", "info": "57, 135, 201", "success": "11, 131, 120"}
JOINER = "\u2060"
PLAIN = re.compile(r"[^\W_](?:[^\W_]|(?<=\w)_(?=\w)| (?! )|(?<=\w)[-.,/%()](?=\w))*")  # text that no markdown is in
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def notice(kind: str, text: str, title: str = "") -> None:
    """A coloured box; `kind` is error, warning, info or success. Screen readers hear errors at once."""
    role = "alert" if kind == "error" else "status"
    head = f"<strong>{html.escape(title)}</strong>" if title else ""
    st.html(f'<div class="shoal-notice" role="{role}" style="--accent: {ACCENTS[kind]}">{head}{_escaped(text)}</div>')


def heading(text: str) -> None:
    """What the page is about, with a name from a file in it; a page has one such heading or `st.title`."""
    st.html(f'<h1 class="shoal-heading">{html.escape(text)}</h1>')


def section(text: str) -> None:
    """The small heading of a part; `st.header` is the larger one. Both are of the second level, so none is left out."""
    st.html(f'<h2 class="shoal-section">{html.escape(text)}</h2>')


def scroll_text(text: str, name: str) -> None:
    """Many lines in a box that keys can scroll: that of `st.code` cannot be reached without a mouse."""
    inside = html.escape(text)
    st.html(f'<pre class="shoal-scroll" tabindex="0" role="region" aria-label="{html.escape(name)}">{inside}</pre>')


def line(text: str) -> None:
    """A quiet line of small text."""
    st.html(f'<div class="shoal-line">{_escaped(text)}</div>')


def entry(name: str, about: str) -> None:
    """One item of a list: its name, and a few quiet words below it."""
    st.html(f'<div class="shoal-entry">{html.escape(name)}<small>{html.escape(about)}</small></div>')


def _escaped(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")


def harmless(cell: str) -> str:
    """A text cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def label(text: str) -> str:
    """Text from a file as the label of a widget, which is markdown: every mark escaped, so that it reads as it is.

    Icons, emoji and bare addresses are made after the escapes are gone; an invisible joiner keeps them apart. Names
    without any mark stay as they are: screen readers hear the label with its escapes.
    """
    if PLAIN.fullmatch(text) and "www." not in text.lower():
        return text
    escaped = re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.split()) or " ")
    return re.sub(r"(\\[:@])|(?i:(www)(?=\\\.))", lambda match: f"{match[0]}{JOINER}", escaped)
