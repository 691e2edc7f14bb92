"""Two or more runs side by side: curves laid over one another, and only what differs (found by `comparison`)."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from functools import partial

import streamlit as st

from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import harmless, line, notice
from shoal.dashboard.parts.states import state_of
from shoal.dashboard.runs import charts as compare_charts
from shoal.dashboard.runs import differences as comparison
from shoal.dashboard.runs.actions import MOST
from shoal.dashboard.runs.charts import AXES, CURVES, Series
from shoal.dashboard.runs.differences import Difference, Side
from shoal.errors import StateError, TrainingError
from shoal.lazy.frames import pd
from shoal.library import accounts, archives
from shoal.metrics import Round
from shoal.results.fit import FitReport
from shoal.runs.commands import metrics_of
from shoal.runs.folder import ACTIVE
from shoal.runs.launch import Run, find_run
from shoal.words import term_shown

USUAL_AXIS = "time"
POINTS = 800  # of a curve: four charts with several curves each are a lot to send
TABLE = 500  # coefficients in the table; the download has them all


def show(named: str) -> None:
    """`named` is the address's list of runs, with commas between them."""
    places.link("runs", "All runs", ":material/arrow_back:")
    st.title("Compare runs", anchor=False)
    runs = _found(list(dict.fromkeys(name for name in named.split(",") if name)))
    if len(runs) < 2:
        notice("info", "Choose two or more runs in the list, then Compare.", "There is nothing to compare")
        return
    sides = comparison.sides([(run.id, accounts.summary_of(run).state, run.config, _report(run)) for run in runs])
    _legend(sides)
    series = {side.letter: _series(run) for side, run in zip(sides, runs, strict=True)}
    _curves(sides, series)
    _settings_and_results(sides)
    _coefficients(sides)
    _downloads(sides, series)


def _found(ids: list[str]) -> list[Run]:
    """The runs that are here; a plain word on each of the others."""
    if len(ids) > MOST:
        notice("info", f"The first {MOST} of {len(ids)} runs are shown: more curves could not be told apart.")
    found = []
    for run_id in ids[:MOST]:
        if run := find_run(run_id):
            found.append(run)
        elif archives.is_archived(run_id):
            notice("warning", f"The run {run_id} is in the archive. Restore it from the list of runs to compare it.")
        else:
            notice("warning", f"The run {run_id} is not on this machine; it may have been deleted.")
    return found


def _report(run: Run) -> FitReport | None:
    try:
        return run.report
    except StateError as error:
        notice("warning", wording.told(error))
        return None


def _legend(sides: Sequence[Side]) -> None:
    """Which line is which run, in words; each leads to its run."""
    cards = [
        f'<a href="train?run={html.escape(side.id, quote=True)}" target="_self">'
        f'<i class="shoal-line-of" style="background: {compare_charts.swatch(i)}"></i>'
        f"<strong>{html.escape(side.title)}</strong>"
        f"<small>{html.escape(f'{state_of(side.state).word} · {comparison.clock(side.id)}')}</small></a>"
        for i, side in enumerate(sides)
    ]
    st.html(f'<div class="shoal-legend">{"".join(cards)}</div>')


def _series(run: Run) -> list[Round]:
    if not run.is_gradient:
        return []
    try:
        with metrics_of(run) as storage:
            return storage.rounds(POINTS) if storage else []
    except TrainingError as error:
        notice("warning", f"The curves of {run.id} could not be read: {wording.told(error)}")
        return []


# ------------------------------------------------------------------ what differs


def _settings_and_results(sides: Sequence[Side]) -> None:
    left, right = st.columns(2, gap="medium") if len(sides) < 3 else (st.container(), st.container())
    with left:
        st.header("Settings that differ", anchor=False)
        settings = comparison.settings(sides)
        if settings:
            _difference_table(settings, sides, "Setting")
        else:
            line("None: the runs have the same settings.")
    with right:
        st.header("Results that differ", anchor=False)
        results = comparison.results(sides)
        if results:
            _difference_table(results, sides, "Result")
        else:
            line("None: the runs came to the same result.")


def _difference_table(found: Sequence[Difference], sides: Sequence[Side], what: str) -> None:
    st.dataframe(
        _frame(found, sides, what), hide_index=True, height="content", placeholder="–",
        column_config={what: st.column_config.TextColumn(pinned=True)}, alt=f"{what}s that differ between the runs",
    )  # fmt: skip


def _frame(found: Sequence[Difference], sides: Sequence[Side], what: str) -> pd.DataFrame:
    columns = {side.letter: [line.values[i] for line in found] for i, side in enumerate(sides)}
    return pd.DataFrame({what: [line.what for line in found], **columns})


# ------------------------------------------------------------------ curves


def _curves(sides: Sequence[Side], series: Series) -> None:
    st.header("Along the way", anchor=False)
    without = [side.letter for side in sides if not side.is_gradient]
    if without:
        are = "are exact fits" if len(without) > 1 else "is an exact fit"
        line(f"{_and(without)} {are}: solved in one go, with no steps and so no curves.")
    curves = [curve for curve in CURVES if compare_charts.drawn(series, curve)]
    if not curves:
        line("None of these runs has curves to show.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        axis, log = _axis(), _is_log()
    for pair in (curves[:2], curves[2:]):
        for slot, curve in zip(st.columns(2, gap="medium"), pair, strict=False):
            with slot.container(border=True):
                st.markdown(f"**{curve.title}**", help=curve.about)
                figure = compare_charts.curve_chart(series, sides, curve, axis, log)
                alt = compare_charts.describe_curve(series, sides, curve)
                st.plotly_chart(figure, key=f"compare_{curve.key}", config={"displayModeBar": False}, alt=alt)
                drawn = compare_charts.drawn(series, curve)
                if absent := [side.letter for side in sides if side.is_gradient and side.letter not in drawn]:
                    line(f"Not known for {_and(absent)}.")
    if any(side.state in ACTIVE for side in sides):
        st.button("Look again", icon=":material/refresh:", help="Some of these runs still go on.")


def _and(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _axis() -> str:
    asked = st.query_params.get("by", USUAL_AXIS)
    axis = asked if asked in AXES else USUAL_AXIS
    st.segmented_control(
        "Along", list(AXES), format_func=AXES.__getitem__, required=True, **places.chooses("compare_by", axis, _along),
        help="Seconds compare what one waits for. Rounds are steps of the server; epochs make runs with other batches "
        "comparable.",
    )  # fmt: skip
    return axis


def _along(axis: str) -> None:
    places.amend(by=None if axis == USUAL_AXIS else axis)


def _is_log() -> bool:
    """Whether all curves of positive numbers are drawn on a logarithmic axis."""
    log = st.query_params.get("scale") == "log"
    st.toggle(
        "Log scale", **places.chooses("compare_scale", log, lambda on: places.amend(scale="log" if on else None)),
        help="For what falls by orders of magnitude; curves with negative numbers keep their axis.",
    )  # fmt: skip
    return log


# ------------------------------------------------------------------ coefficients


def _coefficients(sides: Sequence[Side]) -> None:
    st.header("Coefficients that differ", anchor=False)
    having = [side for side in sides if side.coefficients]
    if len(having) < 2:
        line("At least two of the runs need a result to compare coefficients.")
        return
    if len({side.config.get("target") for side in having}) > 1:
        line("These runs predict different columns, so their coefficients say nothing about one another.")
        return
    spreads, count = comparison.coefficients(sides)
    if not spreads:
        line(f"None: all {count:,} are the same.")
        return
    same = count - len(spreads)
    drawn = min(len(spreads), compare_charts.MOST)
    most = f"The {drawn} that differ most are drawn. " if drawn < len(spreads) else ""
    others = f"; {'the other one is' if same == 1 else f'the other {same:,} are'} the same" if same else ""
    line(f"{len(spreads):,} of {count:,} differ{others}. {most}")
    chart, table = st.columns([3, 2], gap="medium")
    with chart:
        st.plotly_chart(
            compare_charts.coefficient_chart(spreads, sides), key="compare_coefficients",
            config={"displayModeBar": False}, alt=compare_charts.describe_coefficients(spreads, sides),
        )  # fmt: skip
    with table:
        frame = pd.DataFrame(
            {
                "Column": [term_shown(spread.name) for spread in spreads[:TABLE]],
                **{side.letter: [spread.values[i] for spread in spreads[:TABLE]] for i, side in enumerate(sides)},
                "Apart": [spread.apart for spread in spreads[:TABLE]],
            }
        )
        numbers = {name: st.column_config.NumberColumn(format="%.5g") for name in frame.columns[1:]}
        st.dataframe(
            frame, hide_index=True, column_config=numbers, height="content" if len(frame) < 12 else 460,
            placeholder="–", alt="Coefficients per standard deviation that differ between the runs",
        )  # fmt: skip


# ------------------------------------------------------------------ downloads


def _downloads(sides: Sequence[Side], series: Series) -> None:
    with st.container(horizontal=True):
        st.download_button(
            "What differs as CSV", partial(differences_csv, sides), "comparison.csv", "text/csv",
            icon=":material/download:", on_click="ignore",
        )  # fmt: skip
        if any(series.values()):
            st.download_button(
                "Curves as CSV", partial(curves_csv, sides, series), "curves.csv", "text/csv",
                icon=":material/download:", on_click="ignore",
            )  # fmt: skip


def differences_csv(sides: Sequence[Side]) -> str:
    """Settings, results and coefficients in one table: kind, what, and a column a run."""
    rows = [("kind", "what", *(side.id for side in sides)), ("name", "", *(side.title for side in sides))]
    rows += [("setting", found.what, *found.values) for found in comparison.settings(sides)]
    rows += [("result", found.what, *found.values) for found in comparison.results(sides)]
    for spread in comparison.coefficients(sides)[0]:
        rows.append(("coefficient", term_shown(spread.name), *map(_cell, spread.raw)))
        rows.append(("coefficient per standard deviation", term_shown(spread.name), *map(_cell, spread.values)))
    return _written([[cell if _is_number(cell) else harmless(cell) for cell in row] for row in rows])


def _cell(value: float | None) -> str:
    return "" if value is None else repr(value)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def curves_csv(sides: Sequence[Side], series: Series) -> str:
    head = ["run", "round", "epoch", "seconds", *(curve.key for curve in CURVES)]
    rows = [
        [side.id, *("" if (v := getattr(record, name)) is None else repr(v) for name in head[1:])]
        for side in sides
        for record in series[side.letter]
    ]
    return _written([head, *rows])


def _written(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
