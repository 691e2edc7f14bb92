"""All versions of a model beside one another, and what changed between two: scores, settings, coefficients."""

from __future__ import annotations

import time
from typing import Any, Literal

import streamlit as st

from shoal.dashboard.models import lineage as lineage_view
from shoal.dashboard.parts import wording
from shoal.dashboard.parts.literal import line, notice, section
from shoal.errors import TrainingError
from shoal.lazy.frames import pd
from shoal.library.aliases import known_aliases
from shoal.library.saved_models import Model, Version
from shoal.results.card import ModelCard
from shoal.results.fit import FitReport
from shoal.results.outcome import HEADLINES
from shoal.words import MODELS, term_shown

LISTED = 50  # versions in the table; a card is read for each
PARTS = ("test", "training")
SCORED = (
    "R², test", "R², training", *(f"{name}, {rows}" for name in HEADLINES.values() for rows in PARTS),
    "RMSE, cross-validated", "RMSE, test", "RMSE, training",
)  # fmt: skip
SCORES = {"r2": "R²", "rmse": "RMSE", "mae": "MAE"}


def show(model: Model, version: Version) -> None:
    section("Versions")
    _table(model, version)
    others = [number for number in model.numbers if number != version.number]
    if not others:
        line("This is the only version. Save the model of another run under this name, and it appears beside it.")
        return
    earlier = next((number for number in others if number < version.number), others[0])
    other = st.selectbox(
        "Compare with version", others, index=others.index(earlier), width=220, key=f"compare:{version.label}",
        help="What changed from that version to the one you look at.",
    )  # fmt: skip
    try:
        _comparison(Version(model.name, other), version)
    except TrainingError as error:
        notice("error", wording.told(error))


def _table(model: Model, version: Version) -> None:
    words = known_aliases(model)
    rows = [_row(found, found.number == version.number, words) for found in model.versions[:LISTED]]
    numbers = {name: st.column_config.NumberColumn(format="%.4g") for name in SCORED}
    st.dataframe(_told(pd.DataFrame(rows)), hide_index=True, column_config=numbers, height="content", placeholder="–")
    if len(model.numbers) > LISTED:
        st.caption(f"The newest {LISTED} of {len(model.numbers):,}; the box above reaches all of them.")


def _told(table: pd.DataFrame) -> pd.DataFrame:
    """Without the columns of scores that no version has."""
    return table.drop(columns=[name for name in SCORED if table[name].isna().all()])


def _row(version: Version, current: bool, words: dict[str, int]) -> dict[str, Any]:
    card = version.known or ModelCard(solver="?", model="?", note=wording.told(version.damage))
    return {
        "Version": f"{version.number}{' (shown)' if current else ''}",
        "Aliases": [word for word, number in words.items() if number == version.number],
        "Model": MODELS.get(card.model, card.model),
        "Alpha": card.alpha,
        "R², test": card.test.r2,
        "R², training": card.train.r2,
        **{f"{name}, {rows}": _headline(card, name, rows) for name in HEADLINES.values() for rows in PARTS},
        "RMSE, cross-validated": card.cross_validation.rmse if card.cross_validation else None,
        "RMSE, test": card.test.rmse,
        "RMSE, training": card.train.rmse,
        "Solver": wording.SOLVERS.get(card.solver, card.solver),
        "Saved": time.strftime("%Y-%m-%d %H:%M", time.localtime(version.created)),
        "Note": card.note,
    }


def _headline(card: ModelCard, name: str, rows: str) -> float | None:
    found = card.headline
    return (found.test if rows == "test" else found.train) if found and found.name == name else None


def _comparison(before: Version, now: Version) -> None:
    old, new = before.model, now.model
    scores = score_changes(old.report, new.report)
    names = (f"Version {before.number}", f"Version {now.number}")
    left, right = st.columns([2, 3], gap="large")
    with left:
        section("Scores")
        _shown(scores, "Score", names)
        if old.data.content != new.data.content:
            line("The two were trained on different content of the file, so their scores are of different rows.")
        section("Settings that changed")
        changed = setting_changes(old.config, new.config)
        if changed:
            st.dataframe(pd.DataFrame(changed, columns=["Setting", *names]), hide_index=True, height="content")
        else:
            line("None.")
    with right:
        section("Coefficients that changed")
        coefficients = coefficient_changes(old.report, new.report)
        if coefficients:
            _shown(coefficients, "Column", names)
        else:
            line("None: all coefficients are equal.")


def _shown(rows: list[tuple[str, float | None, float | None, float | None]], what: str, names: tuple[str, str]) -> None:
    table = pd.DataFrame(rows, columns=[what, *names, "Change"])
    numbers = {name: st.column_config.NumberColumn(format="%.5g") for name in table.columns[1:]}
    height: Literal["content"] | int = "content" if len(table) < 14 else 520
    st.dataframe(table, hide_index=True, column_config=numbers, height=height, placeholder="–")


def score_changes(old: FitReport, new: FitReport) -> list[tuple[str, float | None, float | None, float | None]]:
    rows = []
    for which, one, other in (("test rows", old.test, new.test), ("training rows", old.train, new.train)):
        for key, name in SCORES.items():
            before, now = getattr(one, key), getattr(other, key)
            if before is not None or now is not None:
                rows.append((f"{name}, {which}", before, now, _change(before, now)))
        for key, name in HEADLINES.items():
            before, now = (_outcome_score(report, which, key) for report in (old, new))
            if before is not None or now is not None:
                rows.append((f"{name}, {which}", before, now, _change(before, now)))
    return rows


def _outcome_score(report: FitReport, which: str, key: str) -> float | None:
    found = report.outcome
    return (found.test if which == "test rows" else found.train).scores.get(key) if found else None


def coefficient_changes(old: FitReport, new: FitReport) -> list[tuple[str, float | None, float | None, float | None]]:
    """Those that differ, the largest change first; one that is only in one version is a change as well."""
    before = {"(intercept)": old.intercept, **old.coefficients}
    now = {"(intercept)": new.intercept, **new.coefficients}
    rows = [(name, before.get(name), now.get(name)) for name in dict.fromkeys([*now, *before])]
    changed = [(term_shown(name), a, b, _change(a, b)) for name, a, b in rows if a != b]
    return sorted(changed, key=lambda row: -abs((row[2] or 0.0) - (row[1] or 0.0)))


def _change(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else now - before


def setting_changes(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str, str]]:
    knobs = [k for k in dict.fromkeys([*now, *before]) if before.get(k) != now.get(k) and k not in ("file", "out")]
    said = lineage_view.said
    return [(lineage_view.named(k), said(k, before.get(k)), said(k, now.get(k))) for k in knobs]
