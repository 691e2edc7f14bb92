"""What is said about a fit: scores, coefficients as chart and table, the certificate, rows; of a run or a saved model.

A report is that of a run, or of a model file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from shoal.charts.effects import MOST, Coefficient, describe, effects, not_zero
from shoal.dashboard.parts import charts, places, wording
from shoal.dashboard.parts.literal import harmless, line, notice
from shoal.errors import Reason, TrainingError
from shoal.library import saved_models
from shoal.results.fit import FitReport, GradientTraining
from shoal.results.plain import plain
from shoal.runs.launch import Run
from shoal.words import certificate, duration, number, plural, power_of_ten, short

ROWS = 1_000  # of coefficients in one table
PER = {"sd": "One standard deviation", "unit": "One unit"}
ENDINGS = {
    Reason.CONVERGED: "It ended because it came as close to the optimum as was asked for.",
    Reason.STOPPED: "It was stopped by a person.",
}


def show_result(run: Run, report: FitReport) -> None:
    """All about a run that has a result, finished or stopped."""
    scores(report)
    left, right = st.columns([5, 3], gap="large")
    with left:
        coefficients(report, f"coefficients-{run.id}.csv")
    with right:
        saved_model(run, report)
        trust(report)
        training(report)
        rows(report)
        filled(report)
        timings(report)
        _downloads(run)


def subtitle(config: dict[str, Any], name: str) -> str:
    penalty = "" if config.get("model") == "linear" else f" · alpha {short(config.get('alpha'))}"
    ratio = f" · l1_ratio {short(config.get('l1_ratio'))}" if config.get("model") == "elasticnet" else ""
    return f"{name}{penalty}{ratio}"


# ------------------------------------------------------------------ scores


def scores(report: FitReport) -> None:
    tested, part = bool(report.test.rows), report.honest
    which = "test rows" if tested else "training rows"
    cards = [
        (f"R², {which}", number(part.r2), "Share of the target's spread that the model explains; 1 is perfect."),
        *([("R², training rows", number(report.train.r2), "On the rows it was fitted to.")] if tested else []),
        (f"RMSE, {which}", number(part.rmse), "Typical error in the target's own unit; large errors count more."),
        (f"MAE, {which}", number(part.mae), "Mean size of the errors, in the target's own unit."),
        ("Rows used", f"{report.train.rows + report.test.rows:,}", "For training and testing together."),
    ]
    with st.container(horizontal=True, gap="small", key="scores"):
        for label, value, help_ in cards:
            st.metric(label, value, help=help_, border=True)
    if not tested:
        st.caption("No rows were kept for testing, so these scores are on the rows the model was fitted to.")


# ------------------------------------------------------------------ coefficients


def coefficients(report: FitReport, file_name: str) -> None:
    st.subheader("Coefficients", anchor=False)
    per = _per(report)
    intervals = plain(report.inference.coefficients) if report.inference else {}
    found = effects(report.coefficients, report.standardized, intervals, per)
    chart, table = st.tabs(["Chart", "Table"])
    with chart:
        _chart(report, found, per)
    with table:
        _table(report, file_name)


def _per(report: FitReport) -> str:
    """What one step of a column is; there is nothing to choose where columns were not standardised."""
    if report.coefficients == report.standardized:
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


def _chart(report: FitReport, found: list[Coefficient], per: str) -> None:
    if not not_zero(found):
        notice("info", "All coefficients are zero: the penalty is too strong for any column. Try a smaller alpha.")
        return
    figure = charts.coefficient_chart(found, report.target, per)
    alt = describe(found, report.target)
    st.plotly_chart(figure, key="coefficients", config={"displayModeBar": False}, alt=alt)
    line(_chart_note(report, found))


def _chart_note(report: FitReport, found: list[Coefficient]) -> str:
    zero = [c.name for c in found if not c.value]
    hidden = len(found) - len(zero) - MOST
    parts = [f"Intercept {number(report.intercept, 6)}."]
    if report.inference:
        parts.append(f"Whiskers: {report.inference.confidence:.0%} intervals.")
    if zero:
        parts.append(f"Set to zero: {', '.join(zero[:12])}{f' and {len(zero) - 12} more' if len(zero) > 12 else ''}.")
    if hidden > 0:
        parts.append(f"The {MOST} largest are drawn; the table has {hidden:,} more.")
    return " ".join(parts)


def coefficient_table(report: FitReport) -> pd.DataFrame:
    """All coefficients with the intercept first, in the order of the design."""
    values = {"(intercept)": report.intercept, **report.coefficients}
    table = pd.DataFrame(
        {
            "Column": list(values),
            "Coefficient": list(values.values()),
            "Per standard deviation": [None, *report.standardized.values()],
        }
    )
    if report.inference:
        estimates = plain(report.inference.named())
        for key, name in (("std_error", "Std. error"), ("t", "t"), ("p_value", "p"), ("low", "Low"), ("high", "High")):
            table[name] = [(estimates.get(column) or {}).get(key) for column in values]
    return table


def _table(report: FitReport, file_name: str) -> None:
    table = coefficient_table(report)
    shown = largest(table)
    numbers = {name: st.column_config.NumberColumn(format="%.5g") for name in table.columns[1:]}
    st.dataframe(
        shown, hide_index=True, column_config=numbers, height="content" if len(shown) < 16 else 560, placeholder=""
    )
    if len(shown) < len(table):
        line(f"The intercept and the {ROWS - 1:,} largest of {len(table) - 1:,} coefficients; the CSV file has all.")
    st.download_button(
        "Coefficients as CSV", as_csv(table), file_name, "text/csv", icon=":material/download:", on_click="ignore"
    )


def largest(table: pd.DataFrame) -> pd.DataFrame:
    """All rows of a table of coefficients, or the intercept and the largest where a browser would suffer."""
    if len(table) <= ROWS:
        return table
    size = table["Per standard deviation"].abs().fillna(float("inf"))  # of the intercept, which has none
    return table.loc[size.nlargest(ROWS).index.sort_values()]


def as_csv(table: pd.DataFrame) -> str:
    return str(table.assign(Column=table["Column"].map(harmless)).to_csv(index=False))


# ------------------------------------------------------------------ what to know about it


def trust(report: FitReport) -> None:
    """How good the answer can be at best, and what was odd about the data."""
    if report.training:
        title, kind, text = gradient_trust(report.training)
        notice(kind, text, title)
    elif found := report.certificate:
        exact = found.is_exact
        title = "This is the exact optimum" if exact else "This is close to the optimum, not at it"
        notice("success" if exact else "warning", certificate(found.kind, found.relative, found.rests_on), title)
    for warning in report.warnings:
        if not report.training or warning != report.training.not_converged:  # which the box above says
            notice("warning", warning)


def gradient_trust(found: GradientTraining) -> tuple[str, str, str]:
    """Title, kind of box and text: how far from the optimum a gradient run has ended."""
    text = f"{_distance(found)} {_more_epochs(found)}".strip()
    if found.converged:
        return "It converged: this is the optimum for all practical purposes", "success", text
    return "It has not converged", "warning", text


def _distance(found: GradientTraining) -> str:
    away, coefficients_away = found.distance_to_optimum, found.coefficient_distance
    if away is None:
        slope = found.slope
        known = "" if slope is None else f" Its slope is {power_of_ten(slope)} of that at the start."
        return f"The exact optimum of this model is not known.{known}"
    if away == 0:
        return "The objective is at the exact optimum, to the last digit."
    parts = [f"The relative distance of the objective to its exact optimum is {power_of_ten(away)}"]
    if coefficients_away:
        parts.append(f"the coefficients differ by up to {power_of_ten(coefficients_away)} of the largest")
    return f"{'; '.join(parts)}."


def _more_epochs(found: GradientTraining) -> str:
    return "" if found.converged else "Allow more passes, resume it, or use the exact solver."


def training(report: FitReport) -> None:
    """How a gradient run went, in a few figures."""
    if not report.training:
        return
    st.markdown("##### Training")
    line("\n".join(training_facts(report.training)))


def training_facts(found: GradientTraining) -> list[str]:
    facts = [f"{found.epochs:,.6g} passes over the rows in {plural(found.rounds, 'round')}"]
    resolved, ending = found.resolved, found.ending
    if mode := wording.MODES.get(found.mode):
        facts.append(f"Workers: {mode[0].lower()}{mode[1:]}")
    if resolved:
        facts.append(f"Batches of {plural(resolved.batch_size, 'row')}, learning rate {resolved.learning_rate:.4g}")
    if redone := found.ledger.get("redone"):
        facts.append(f"{plural(redone, 'batch').replace('batchs', 'batches')} made again after lost workers")
    if ending.cause:
        facts.append(ENDINGS.get(ending.reason, f"It ended: {ending.cause}."))
    return facts


def rows(report: FitReport) -> None:
    st.markdown("##### Rows")
    counts = {"read from the file": report.rows_read}
    counts |= {
        f"left out: {wording.DROPPED.get(why, why.replace('_', ' '))}": count
        for why, count in report.rows_dropped.items()
    }
    counts |= {"used for training": report.train.rows, "kept for testing": report.test.rows}
    line("\n".join(f"{plural(count, 'row')} {what}" for what, count in counts.items() if count))


def filled(report: FitReport) -> None:
    """Which numbers were missing, and what stood in for them."""
    if not report.filled:
        return
    st.markdown("##### Missing numbers")
    said = [f"{name}: {number(f.value)} in {plural(f.rows, 'row')}" for name, f in report.filled.items()]
    rest = f"\nand {plural(len(said) - 12, 'more column')}" if len(said) > 12 else ""
    line("Replaced as follows.\n" + "\n".join(said[:12]) + rest)


def timings(report: FitReport) -> None:
    seconds = dict(report.timings)
    total = seconds.pop("total", 0.0)
    st.markdown("##### Time")
    slow = sorted(((s, wording.STAGES.get(stage, stage)) for stage, s in seconds.items() if s >= 0.001), reverse=True)
    line(f"{duration(total)} in all\n" + "\n".join(f"{duration(s)} {stage}" for s, stage in slow))


# ------------------------------------------------------------------ what can be done with it


def saved_model(run: Run, report: FitReport) -> None:
    """The way to the version that was saved of this run, or a button that saves one."""
    version = saved_models.version_of(run)
    if version:
        places.link(
            "models", f"Saved model, version {version.number}: plots and predictions", icon=":material/deployed_code:",
            model=version.name, version=str(version.number),
        )  # fmt: skip
    elif run.model_path.exists() and st.button(
        "Save as model", icon=":material/bookmark_add:", key="save-model",
        help="Finished runs are saved by themselves; a stopped one, or one whose model was deleted, when you say so.",
    ):  # fmt: skip
        _save(run, report)


def _save(run: Run, report: FitReport) -> None:
    try:
        version = saved_models.save_run(run, report.as_dict())
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The model was not saved")
        return
    places.go("models", model=version.name, version=str(version.number))


def _downloads(run: Run) -> None:
    st.markdown("##### Take it with you")
    if not run.model_path.exists():
        st.caption("The model file is gone from the run's folder.")
        return
    model_download(run.model_path, f"model-{run.id}.json")
    line(f"Run {run.id}\n{Path(run.config['file']).name}")


def model_download(path: Path, file_name: str) -> None:
    st.download_button(
        "Model as JSON",
        path.read_bytes(),
        file_name,
        "application/json",
        icon=":material/download:",
        on_click="ignore",
        help="A readable file, and all that is needed to predict: shoal predict MODEL.json FILE --out predictions.csv",
    )
