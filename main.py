"""The dashboard: `streamlit run main.py`. Page set-up and navigation; what a page shows is in `dashboard/`."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import fit_page
from dashboard.literal import page_style
from run_queue import revive

PICTURES = Path(__file__).parent / "dashboard"  # our own: Streamlit's icons for a tab come from another server


@st.cache_resource
def _revived() -> None:
    """Once, when the dashboard starts: runs that waited when the machine went down take their place again."""
    revive()


def main() -> None:
    _revived()
    st.set_page_config(page_title="Shoal", page_icon=PICTURES / "logo.svg", layout="wide")
    st.logo(PICTURES / "wordmark.svg", size="large")
    page_style()
    pages = [st.Page(fit_page.show, title="Fit", icon=":material/show_chart:", url_path="fit", default=True)]
    st.navigation(pages, position="top").run()


main()
