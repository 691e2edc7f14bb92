"""Text from files shown as it is: no markdown, HTML, formulas or icons in it come to life. Wording is elsewhere."""

from __future__ import annotations

import html
import re

import streamlit as st

ACCENTS = {"error": "209, 73, 91", "warning": "214, 145, 0", "info": "57, 135, 201", "success": "11, 131, 120"}
JOINER = "\u2060"
PLAIN = re.compile(r"[^\W_](?:[^\W_]|(?<=\w)_(?=\w)| (?! )|(?<=\w)[-.,/%()](?=\w))*")  # text that no markdown is in
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

# The built-in "Download as CSV" of tables writes cells as they are; a spreadsheet would run a column named "=...".
STYLE = """<style>
[data-testid="stElementToolbarButton"]:has([aria-label^="Download as CSV"]) { display: none; }
[data-testid="stMainBlockContainer"] { max-width: 1180px; margin: 0 auto; padding-top: 5rem; }
.st-key-scores > * { flex: 1 1 160px; min-width: 160px; }
.shoal-notice { border-left: 4px solid rgb(var(--accent)); background: rgba(var(--accent), 0.10);
  border-radius: 6px; padding: 0.7rem 1rem; overflow-wrap: anywhere; }
.shoal-notice strong { display: block; margin-bottom: 0.15rem; }
[data-testid="stMainBlockContainer"] h1, .shoal-heading { margin: 0; padding: 0 !important; font-size: 1.9rem;
  line-height: 1.25; overflow-wrap: anywhere; }
[data-testid="stMainBlockContainer"] h1 { padding-bottom: 1rem !important; }
/* What a timer draws anew would fade on every turn. */
[data-stale="true"] { opacity: 1 !important; transition: none !important; }
/* Quiet, but links in it are as clear as elsewhere. */
[data-testid="stCaptionContainer"] { opacity: 1; color: color-mix(in srgb, currentColor 68%, transparent); }
.shoal-entry { min-width: 0; overflow-wrap: anywhere; line-height: 1.3; }
.shoal-entry small { display: block; opacity: 0.75; }
.shoal-line { opacity: 0.75; font-size: 0.9rem; overflow-wrap: anywhere; }
</style>"""


def page_style() -> None:
    st.html(STYLE)


def notice(kind: str, text: str, title: str = "") -> None:
    """A coloured box; `kind` is error, warning, info or success. Screen readers hear errors at once."""
    role = "alert" if kind == "error" else "status"
    head = f"<strong>{html.escape(title)}</strong>" if title else ""
    st.html(f'<div class="shoal-notice" role="{role}" style="--accent: {ACCENTS[kind]}">{head}{_escaped(text)}</div>')


def heading(text: str) -> None:
    st.html(f'<h2 class="shoal-heading">{html.escape(text)}</h2>')


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
