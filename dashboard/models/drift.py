"""How far the rows that a version has predicted are from those that it was trained on, as a table with words; what is
summed up and how it is judged is in `registry.drift`."""

from __future__ import annotations

import streamlit as st

from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice, section
from shoal.errors import TrainingError
from shoal.lazy.frames import pd
from shoal.library.saved_models import Version
from shoal.registry.drift import report
from shoal.results.answers.drift import LARGE, MISSING, NOTABLE, PSI, SHIFT, UNKNOWN_LEVELS, DriftReport
from shoal.words import plural

PERIODS = {"All days that are kept": None, "Last 7 days": 7, "Last day": 1}  # days with predictions
KINDS = {LARGE: "error", NOTABLE: "warning"}
MEASURES = (
    f"PSI is the population stability index of bins of training: notable from {PSI[0]:g}, large from {PSI[1]:g} "
    f"(Siddiqi 2006). The shift of the mean is in standard deviations of training: notable from {SHIFT[0]:g}, large "
    f"from {SHIFT[1]:g} (Cohen 1988). Unknown levels are notable from {100 * UNKNOWN_LEVELS[0]:g} % of the rows, large "
    f"from {100 * UNKNOWN_LEVELS[1]:g} %; missing values from {100 * MISSING[0]:g} and {100 * MISSING[1]:g} points "
    "more or less. What chance alone does in so few rows is not called drift. Of rows that are predicted only sums are "
    "kept."
)


def show(version: Version) -> None:
    section("Rows predicted, against training")
    chosen = st.selectbox("Rows of", list(PERIODS), key=f"drift:days:{version.label}", width=260)
    try:
        found = report(version, PERIODS[chosen])
    except TrainingError as error:
        notice("info", wording.told(error))
        return
    if not found.columns:
        line(
            "Nothing has been predicted with this version yet. Files, the API and shoal serve count; rows that are "
            "tried in the form do not."
        )
        return
    line(f"{plural(found.rows, 'row')}, predicted from {found.since} to {found.until}.")
    notice(KINDS.get(found.size, "success"), " ".join(filter(None, (found.in_words, found.advice, *found.notes))))
    st.dataframe(
        _table(found), hide_index=True, height="content" if len(found.columns) < 14 else 520, placeholder="–",
        alt="Columns of the model, and how far rows that were predicted are from those of training",
        column_config={
            "PSI": st.column_config.NumberColumn(format="%.2f"),
            "Shift": st.column_config.NumberColumn(format="%.2f"),
            **{name: st.column_config.NumberColumn(format="percent") for name in ("Missing", "In training", "Unknown")},
        },
    )  # fmt: skip
    st.caption(MEASURES)


def _table(found: DriftReport) -> pd.DataFrame:
    return pd.DataFrame([
        {"Column": one.column, "Drift": one.size, "PSI": one.psi, "Shift": one.shift, "Missing": one.missing,
         "In training": one.missing_before, "Unknown": one.unknown, "Why": one.words}
        for one in found.columns
    ])  # fmt: skip
