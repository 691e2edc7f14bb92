"""The drop zone for files of any size: it streams to our own route and learns the key that the file got there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from shoal.dashboard.tables import uploads

HERE = Path(__file__).parent
HTML = """
<div class="box">
  <label class="zone">
    <input type="file" multiple aria-label="Choose files">
    <svg viewBox="0 0 24 24" width="28" height="28" fill="none" stroke="currentColor" stroke-width="1.6"
      stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d="M12 15V4m0 0L7.5 8.5M12 4l4.5 4.5M4 15v3.5A1.5 1.5 0 0 0 5.5 20h13a1.5 1.5 0 0 0 1.5-1.5V15"/>
    </svg>
    <span class="words"><span class="label"></span><span class="hint"></span></span>
    <span class="browse" aria-hidden="true">Browse files</span>
  </label>
  <div class="going" hidden>
    <div class="row"><span class="name"></span><button type="button" class="cancel">Cancel</button></div>
    <progress max="1" value="0"></progress>
    <div class="figures"></div>
  </div>
  <p class="problem" role="alert" hidden></p>
  <p class="said" role="status"></p>
</div>
"""
CSS = (HERE / "upload_box.css").read_text("utf-8")
JS = (HERE / "upload_box.js").read_text("utf-8")

_box = st.components.v2.component("shoal_upload_box", html=HTML, css=CSS, js=JS)


def upload_box(label: str, key: str, endings: Sequence[str] = uploads.ENDINGS) -> str | None:
    """Draw the zone. The key of a file (see `uploads.find`) is returned once, in the run after it has arrived."""
    found = _box(
        key=key, data={"label": label, "endings": tuple(endings), "most": uploads.largest()}, on_uploaded_change=_noted
    )
    came = found.uploaded
    return came if isinstance(came, str) and uploads.find(came) else None


def _noted() -> None:
    """Streamlit wants a function for each trigger; the page reads the value itself."""
