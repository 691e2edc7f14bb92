"""The sliders, ticks and charts of the Tune page, drawn by the browser itself from the answers of `tune_route`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.parts.places import PLOTLY_ADDRESS
from shoal.dashboard.parts.scripts import joined
from shoal.dashboard.parts.wording import ABOUT_MODELS
from shoal.dashboard.tune.state import TuneState
from shoal.people.deeds import why_not
from shoal.people.rights import SERVICE, Verb
from shoal.settings.when import MODELS
from shoal.whatif.answers import RATIOS
from shoal.words import MODELS as NAMES
from shoal.words import per_day

HERE = Path(__file__).parent
PARTS = ("asking", "parts", "charts", "controls", "answer", "columns", "doubt", "actions", "waiting", "view")

_component = st.components.v2.component(
    "shoal_tune_panel",
    css=(HERE / "panel.css").read_text("utf-8"),
    js=joined(HERE, *PARTS),
    isolate_styles=False,  # Plotly puts its own style into the page's head
)

_NAMES = {key: NAMES[key] for key in MODELS}  # least squares only: what sums answer


def tune_panel(
    job: str, key: str, target: str, columns: Sequence[str], targets: Sequence[str], elsewhere: Sequence[str],
    dates: Sequence[str], start: TuneState,
) -> Any:  # fmt: skip
    """Draw it; with another `key` it begins anew at `start`.

    Its answer has `train` (a state to train, once) or `target` (a target that needs another study).
    """
    return _component(
        key=f"tune-{key}",
        data={
            "url": f"api/tune/{job}",
            "plotly": PLOTLY_ADDRESS,
            "target": target,
            "columns": list(columns),
            "targets": list(targets),
            "elsewhere": list(elsewhere),
            "perDay": per_day(dates),
            "refused": why_not(Verb.START, SERVICE),
            "models": [{"key": key, "name": name, "about": ABOUT_MODELS[key]} for key, name in _NAMES.items()],
            "ratios": list(RATIOS),
            "start": asdict(start),
        },
        on_train_change=lambda: None,
        on_target_change=lambda: None,
    )
