"""The form that starts a run, as its visitors fill it in."""

from __future__ import annotations

import numpy as np
from streamlit.testing.v1 import AppTest

from shoal.dashboard.tables import uploads
from shoal.runs.launch import Run, find_run
from shoal.settings.config import RunConfig
from support.pages import checked, settle, uploaded, widget

KNOBS = RunConfig.knobs()


def example(rows: int = 40) -> tuple[str, np.ndarray, np.ndarray]:
    """The key of an upload, and what is in it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 2)).round(3)
    y = (1.5 + 2 * X[:, 0] - 3 * X[:, 1] + 0.1 * rng.normal(size=rows)).round(3)
    lines = ["a,b,y", *(f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True))]
    path = uploaded(("\n".join(lines) + "\n").encode(), "table.csv")
    return uploads.key_of(path) or "", X, y


def address(page: AppTest, part: str) -> str:
    """A part of the address: a list until the page itself has set it."""
    value = page.query_params[part]
    return value if isinstance(value, str) else str(value[0])


def start(page: AppTest) -> Run:
    """Press the button; the run that came of it, at its end."""
    page = checked(page.button(key="start").click().run())
    run = find_run(address(page, "run"))
    assert run is not None
    settle(page)
    return run


def yaml_of(page: AppTest) -> str:
    return str(widget(page, "text_area", "Settings as YAML").value)


def apply(page: AppTest, text: str) -> AppTest:
    checked(widget(page, "text_area", "Settings as YAML").set_value(text).run())
    return checked(widget(page, "button", "Apply to the form").click().run())


def labels(page: AppTest) -> set[str]:
    kinds = ("selectbox", "number_input", "button_group", "multiselect", "toggle", "radio", "text_input")
    return {w.label for kind in kinds for w in page.get(kind)}


def answers() -> str:
    """An uploaded table with a yes/no column (ja, nein) that x tells of; the key by which pages know it."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=300).round(3)
    y = np.where(rng.random(300) < 1 / (1 + np.exp(-2 * x)), "ja", "nein")
    lines = ["x,z,y", *(f"{a},{i % 7},{b}" for i, (a, b) in enumerate(zip(x, y, strict=True)))]
    return uploads.key_of(uploaded(("\n".join(lines) + "\n").encode(), "answers.csv")) or ""
