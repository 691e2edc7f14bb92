"""A finished run: scores, coefficients as chart and table, the certificate, and what to know about the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import charts, wording
from dashboard.literal import harmless, line, notice
from dashboard.wording import duration, number, plural
from run_store import Run

PER = {"sd": "One standard deviation", "unit": "One unit"}


def show_result(run: Run, result: dict[str, Any]) -> None:
    _scores(result)
    left, right = st.columns([5, 3], gap="large")
    with left:
        _coefficients(result)
    with right:
        _trust(result)
        _rows(result)
        _timings(result)
        _downloads(run, result)


def title(config: dict[str, Any]) -> str:
    return f"{wording.MODELS.get(config['model'], config['model'])} model of {config['target']}"


def subtitle(config: dict[str, Any], name: str) -> str:
    penalty = "" if config["model"] == "linear" else f" · alpha {config['alpha']:g}"
    ratio = f" · l1_ratio {config['l1_ratio']:g}" if config["model"] == "elasticnet" else ""
    return f"{name}{penalty}{ratio}"


# ------------------------------------------------------------------ scores


def _scores(result: dict[str, Any]) -> None:
    tested = bool(result["test"]["rows"])
    part = result["test"] if tested else result["train"]
    which = "test rows" if tested else "training rows"
    cards = [
        (f"R², {which}", number(part["r2"]), "Share of the target's spread that the model explains; 1 is perfect."),
        *([("R², training rows", number(result["train"]["r2"]), "On the rows it was fitted to.")] if tested else []),
        (f"RMSE, {which}", number(part["rmse"]), "Typical error in the target's own unit; large errors count more."),
        (f"MAE, {which}", number(part["mae"]), "Mean size of the errors, in the target's own unit."),
        ("Rows used", f"{result['train']['rows'] + result['test']['rows']:,}", "For training and testing together."),
    ]
    with st.container(horizontal=True, gap="small", key="scores"):
        for label, value, help_ in cards:
            st.metric(label, value, help=help_, border=True)
    if not tested:
        st.caption("No rows were kept for testing, so these scores are on the rows the model was fitted to.")


# ------------------------------------------------------------------ coefficients


def _coefficients(result: dict[str, Any]) -> None:
    st.subheader("Coefficients", anchor=False)
    per = _per(result)
    found = charts.coefficients_of(result, per)
    chart, table = st.tabs(["Chart", "Table"])
    with chart:
        _chart(result, found, per)
    with table:
        _table(result)


def _per(result: dict[str, Any]) -> str:
    """What one step of a column is; there is nothing to choose where columns were not standardised."""
    if result["coefficients"] == result["coefficients_standardized"]:
        return "unit"
    chosen: str = st.segmented_control(
        "Effect of",
        list(PER),
        default="sd",
        required=True,
        format_func=PER.__getitem__,
        help="One standard deviation makes columns comparable. One unit is the plain coefficient: a gram, a year.",
    )
    return chosen


def _chart(result: dict[str, Any], found: list[charts.Coefficient], per: str) -> None:
    bars = charts.shown(found)
    if not bars:
        notice("info", "All coefficients are zero: the penalty is too strong for any column. Try a smaller alpha.")
        return
    figure = charts.coefficient_chart(found, result["target"], per)
    alt = charts.describe(found, result["target"])
    st.plotly_chart(figure, key="coefficients", config={"displayModeBar": False}, alt=alt)
    line(_chart_note(result, found))


def _chart_note(result: dict[str, Any], found: list[charts.Coefficient]) -> str:
    zero = [c.name for c in found if not c.value]
    hidden = len(found) - len(zero) - charts.MOST
    parts = [f"Intercept {number(result['intercept'], 6)}."]
    if result["inference"]:
        parts.append(f"Whiskers: {result['inference']['confidence']:.0%} intervals.")
    if zero:
        parts.append(f"Set to zero: {', '.join(zero[:12])}{f' and {len(zero) - 12} more' if len(zero) > 12 else ''}.")
    if hidden > 0:
        parts.append(f"The {charts.MOST} largest are drawn; the table has {hidden:,} more.")
    return " ".join(parts)


def coefficient_table(result: dict[str, Any]) -> pd.DataFrame:
    """All coefficients with the intercept first, in the order of the design."""
    inference = result["inference"] or {}
    estimates = {"(intercept)": inference.get("intercept"), **inference.get("coefficients", {})}
    values = {"(intercept)": result["intercept"], **result["coefficients"]}
    table = pd.DataFrame(
        {
            "Column": list(values),
            "Coefficient": list(values.values()),
            "Per standard deviation": [None, *result["coefficients_standardized"].values()],
        }
    )
    if inference:
        for key, name in (("std_error", "Std. error"), ("t", "t"), ("p_value", "p"), ("low", "Low"), ("high", "High")):
            table[name] = [(estimates.get(column) or {}).get(key) for column in values]
    return table


def _table(result: dict[str, Any]) -> None:
    table = coefficient_table(result)
    numbers = {name: st.column_config.NumberColumn(format="%.5g") for name in table.columns[1:]}
    st.dataframe(
        table, hide_index=True, column_config=numbers, height="content" if len(table) < 16 else 560, placeholder=""
    )
    st.download_button(
        "Coefficients as CSV",
        as_csv(table),
        f"coefficients-{result['run_id']}.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
    )


def as_csv(table: pd.DataFrame) -> str:
    return str(table.assign(Column=table["Column"].map(harmless)).to_csv(index=False))


# ------------------------------------------------------------------ what to know about it


def _trust(result: dict[str, Any]) -> None:
    found = result["certificate"]
    exact = wording.is_exact(found)
    title = "This is the exact optimum" if exact else "This is close to the optimum, not at it"
    notice("success" if exact else "warning", wording.certificate(found), title)
    for warning in result["warnings"]:
        notice("warning", wording.for_page(warning))


def _rows(result: dict[str, Any]) -> None:
    st.markdown("##### Rows")
    counts = {"read from the file": result["rows_read"]}
    counts |= {
        f"left out: {wording.DROPPED.get(why, why.replace('_', ' '))}": count
        for why, count in result["rows_dropped"].items()
    }
    counts |= {"used for training": result["train"]["rows"], "kept for testing": result["test"]["rows"]}
    line("\n".join(f"{plural(count, 'row')} {what}" for what, count in counts.items() if count))


def _timings(result: dict[str, Any]) -> None:
    seconds = dict(result["timings"])
    total = seconds.pop("total")
    st.markdown("##### Time")
    slow = sorted(((s, wording.STAGES.get(stage, stage)) for stage, s in seconds.items() if s >= 0.001), reverse=True)
    line(f"{duration(total)} in all\n" + "\n".join(f"{duration(s)} {stage}" for s, stage in slow))


def _downloads(run: Run, result: dict[str, Any]) -> None:
    st.markdown("##### Take it with you")
    if not run.model_path.exists():
        st.caption("The model file is gone from the run's folder.")
        return
    st.download_button(
        "Model as JSON",
        run.model_path.read_bytes(),
        f"model-{result['run_id']}.json",
        "application/json",
        icon=":material/download:",
        on_click="ignore",
        help="Readable by eye, and enough by itself to predict: shoal predict MODEL.json FILE --out predictions.csv",
    )
    line(f"Run {run.id}\n{Path(run.config['file']).name}")
