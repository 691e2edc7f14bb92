"""The Data page on a file that came in."""

from __future__ import annotations

import pandas as pd
from streamlit.testing.v1 import AppTest

from shoal.dashboard.tables import uploads
from support.pages import open_page, settle, uploaded

NASTY = "<img src=x onerror=alert(1)> **b** `c` $x$ :smile:"


def upload(text: str | bytes, name: str = "table.csv") -> str:
    """The key of a file that came in."""
    key = uploads.key_of(uploaded(text.encode() if isinstance(text, str) else text, name))
    assert key is not None
    return key


def view(text: str | bytes, **address: str) -> AppTest:
    return settle(open_page(data=upload(text), **address))


def columns_of(page: AppTest) -> pd.DataFrame:
    return page.data_editor[0].value
