"""The script behind every page: page set-up and navigation; each page is a module of its own."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from shoal.dashboard.data import page as data_page
from shoal.dashboard.models import page as models_page
from shoal.dashboard.parts import places, widget_values
from shoal.dashboard.runs import page as runs_page
from shoal.dashboard.search import page as search_page
from shoal.dashboard.system import page as system_page
from shoal.dashboard.train import page as train_page
from shoal.dashboard.tune import page as tune_page

PICTURES = Path(__file__).parent  # our own: Streamlit's icons for a tab come from another server
VIEWS = {
    "data": data_page.show,
    "train": train_page.show,
    "tune": tune_page.show,
    "search": search_page.show,
    "runs": runs_page.show,
    "models": models_page.show,
    "system": system_page.show,
}


def main() -> None:
    st.set_page_config(page_title="Shoal", page_icon=PICTURES / "logo.svg", layout="wide")
    st.logo(PICTURES / "wordmark.svg", size="large")
    chosen = st.navigation([places.page(name, view) for name, view in VIEWS.items()], position="top")
    places.entered(chosen.url_path or "data")
    with widget_values.drawing():
        chosen.run()


main()
