"""The Models page at one of its models."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from support.pages import open_page

NASTY_NAME = "<img src=x onerror=alert(1)> **b** `c` $x$ :smile:"
NAME = "penguins-body_mass_g"


def open_model(view: str = "Coefficients", version: int = 1, **address: str) -> AppTest:
    return open_page("models", model=NAME, version=str(version), view=view, **address)


def links(page: AppTest) -> dict[str, str]:
    return {link.proto.label: link.proto.query_string for link in page.get("page_link")}
