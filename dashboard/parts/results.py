"""What is said about a fit: scores, coefficients as chart and table, the certificate, rows; of a run or a saved model.

A report is that of a run, or of a model file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from shoal.charts.effects import MOST, Coefficient, describe, effects, not_zero
from shoal.dashboard.parts import charts, places, tuning, wording
from shoal.dashboard.parts.literal import harmless, label, line, notice, section
from shoal.dashboard.parts.outcomes import network_part, outcome_scores, score_name
from shoal.errors import Reason, StateError, TrainingError
from shoal.files.model_names import safe_name
from shoal.files.parts import title
from shoal.lazy.frames import pd
from shoal.library import saved_models
from shoal.library.time_spent import time_spent
from shoal.results.fit import FitReport, GradientTraining
from shoal.results.outcome import FACTORS, factor
from shoal.results.plain import plain
from shoal.results.sentences import bands_told, filling, left_out, of_all_rows, three_sentences, usual_range
from shoal.runs.launch import Run
from shoal.runs.made_files import prove_model
from shoal.settings.config import RunConfig
from shoal.settings.when import has_other_loss, is_penalised, mixes_penalties
from shoal.words import compared, duration, number, plural, short, shortened

ROWS = 1_000  # of coefficients in one table
POINTS = 1_500  # rounds of a run that are looked at for where its time went
NAMED = 8  # columns of weight zero that are named below the chart
PER = {"sd": "One standard deviation", "unit": "One unit"}
FORMATS = {"p": "%.2g"}  # 2.9e-20 fits; one more digit, and the power of ten may be cut off
ENDINGS = {
    Reason.CONVERGED: "It ended because it came as close to the optimum as was asked for.",
    Reason.STOPPED: "It was stopped by a person.",
}


def subtitle(config: dict[str, Any], name: str) -> str:
    values = {**RunConfig().as_dict(), **config}
    chosen = "by cross-validation" if config.get("alpha") is None else short(config["alpha"])
    kind = f"{wording.choice_for('shrink', values['shrink']).lower()}, " if has_other_loss(values) else ""
    penalty = f" · {kind}alpha {chosen}" if is_penalised(values) else ""
    ratio = f" · l1_ratio {short(config.get('l1_ratio'))}" if mixes_penalties(values) else ""
    return f"{name}{penalty}{ratio}"


# ------------------------------------------------------------------ scores


def scores(report: FitReport) -> None:
    if report.outcome:
        outcome_scores(report, report.outcome)
    else:
        _line_scores(report)
    _own_scores(report)


def _own_scores(report: FitReport) -> None:
    """What metrics of plug-ins say; their names come from elsewhere."""
    if not report.own_metrics:
        return
    tested = bool(report.test.rows)
    with st.container(horizontal=True, gap="small", key="own-scores"):
        for name, found in report.own_metrics.items():
            shown, which = (found.test, "test rows") if tested else (found.train, "training rows")
            about = f"A plug-in's metric; {found.better} is better. Training rows: {number(found.train)}."
            st.metric(label(f"{name}, {which}"), number(shown), help=label(about), border=True)


def _line_scores(report: FitReport) -> None:
    tested, part = bool(report.test.rows), report.honest
    which = "test rows" if tested else "training rows"
    cards = [
        *tuning.cards(report.cross_validation),
        (f"R², {which}", number(part.r2), "Share of the target's spread that the model explains; 1 is perfect."),
        *([("R², training rows", number(report.train.r2), "On the rows it was fitted to.")] if tested else []),
        (f"RMSE, {which}", number(part.rmse), "Typical error in the target's own unit; large errors count more."),
        (f"MAE, {which}", number(part.mae), "Mean size of the errors, in the target's own unit."),
        ("Rows used", f"{report.train.rows + report.test.rows:,}", "For training and testing together."),
    ]
    with st.container(horizontal=True, gap="small", key="scores"):
        for label, value, help_ in cards:
            st.metric(label, value, help=help_, border=True)
    if not tested and report.cross_validation:
        st.caption("No rows were kept for testing; the cross-validated scores are those for rows not fitted to.")
    elif not tested:
        st.caption("No rows were kept for testing, so these scores are on the rows the model was fitted to.")


def headline(report: FitReport) -> None:
    """What it has come to in a few sentences, and which columns it does without."""
    line(" ".join(filter(None, (*three_sentences(report), usual_range(report), bands_told(report)))))
    if gone := left_out(report):
        line(gone)


# ------------------------------------------------------------------ coefficients


def coefficients(report: FitReport, file_name: str) -> None:
    if report.network:
        network_part(report.network)
        return
    st.header("Coefficients", anchor=False)
    per = _per(report)
    intervals = plain(report.inference.coefficients) if report.inference else tuning.own_intervals(report)
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
        help="One standard deviation makes columns comparable. One unit is the plain coefficient: a gram, a year."
        + (f" Coefficients are changes of the {score_name(report)}." if report.outcome else ""),
    )
    return chosen


def _chart(report: FitReport, found: list[Coefficient], per: str) -> None:
    if not not_zero(found):
        notice("info", "All coefficients are zero: the penalty is too strong for any column. Try a smaller alpha.")
        return
    moved = score_name(report)
    figure = charts.coefficient_chart(found, moved, per)
    alt = describe(found, moved)
    st.plotly_chart(figure, key="coefficients", config={"displayModeBar": False}, alt=alt)
    line(_chart_note(report, found))


def _chart_note(report: FitReport, found: list[Coefficient]) -> str:
    zero = [c.name for c in found if not c.value]
    hidden = len(found) - len(zero) - MOST
    several = report.outcome is not None and report.outcome.several
    parts = [] if several else [f"Intercept {number(report.intercept, 6)}."]
    if report.inference:
        parts.append(f"Whiskers: {report.inference.confidence:.0%} intervals.")
    elif tuning.own_intervals(report):
        parts.append(f"Whiskers: {report.intervals[0].confidence:.0%} intervals; the table says of what.")
    if zero:
        shown = ", ".join(shortened(name, 40) for name in zero[:NAMED])
        rest = f" and {len(zero) - NAMED:,} more; the table has all" if len(zero) > NAMED else ""
        parts.append(f"Set to zero: {shown}{rest}.")
    if said := compared(report.references):
        parts.append(said)
    if hidden > 0:
        parts.append(f"The {MOST} largest are drawn; the table has {hidden:,} more.")
    return " ".join(parts)


def coefficient_table(report: FitReport) -> pd.DataFrame:
    """All coefficients with the intercept first, in the order of the design; what they multiply comes before them."""
    first = report.intercepts
    values = {**first, **report.coefficients}
    table = pd.DataFrame(
        {
            "Column": [report.shown(name) for name in values],
            **_factors(report),
            "Coefficient": list(values.values()),
            "Per standard deviation": [*(None for _ in first), *report.standardized.values()],
        }
    )
    if report.inference:
        estimates = plain(report.inference.named())
        letter = "z" if report.outcome and report.outcome.dispersion is None else "t"
        for key, name in (
            ("std_error", "Std. error"),
            ("t", letter),
            ("p_value", "p"),
            ("low", "Low"),
            ("high", "High"),
        ):
            table[name] = [(estimates.get(column) or {}).get(key) for column in values]
    if report.collinearity and not (report.outcome and report.outcome.several):  # classes have each column once more
        table["VIF"] = [report.collinearity.inflation.get(column) for column in values]
    tuning.add_intervals(table, values, report.intervals)
    return table


def _factors(report: FitReport) -> dict[str, list[float | None]]:
    """Odds ratios, or factors of the mean, with their own intervals where there are any; the intercept has none."""
    if not report.outcome or not (times := FACTORS.get(report.outcome.link)):
        return {}
    name, known = times.capitalize(), report.inference.coefficients if report.inference else {}
    found = {name: [None, *map(factor, report.coefficients.values())]}
    if known:
        estimates = [known.get(column) for column in report.coefficients]
        found[f"{name}, low"] = [None, *(factor(one.low) if one else None for one in estimates)]
        found[f"{name}, high"] = [None, *(factor(one.high) if one else None for one in estimates)]
    return found


def _table(report: FitReport, file_name: str) -> None:
    table = coefficient_table(report)
    shown = largest(table)
    columns = {
        name: st.column_config.NumberColumn(format=FORMATS.get(name, "%.5g"), width=max(75, 36 + 7 * len(name)))
        for name in table.columns[1:]
    }
    columns["Column"] = st.column_config.Column(pinned=True)
    st.dataframe(
        shown, hide_index=True, column_config=columns, height="content" if len(shown) < 16 else 560, placeholder=""
    )
    for meaning in tuning.meanings(report):
        line(meaning)
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


def training(report: FitReport) -> None:
    """How a gradient run went, in a few figures."""
    if not report.training:
        return
    section("Training")
    line("\n".join(training_facts(report.training)))


def training_facts(found: GradientTraining) -> list[str]:
    facts = [f"{found.epochs:,.6g} epochs in {plural(found.rounds, 'round')}"]
    resolved, ending = found.resolved, found.ending
    if mode := wording.MODES.get(found.mode):
        facts.append(f"Workers: {mode[0].lower()}{mode[1:]}")
    if resolved:
        facts.append(f"Batches of {plural(resolved.batch_size, 'row')}, learning rate {resolved.learning_rate:.4g}")
    facts += knobs_at_the_end(found)
    if redone := found.ledger.get("redone"):
        facts.append(f"{plural(redone, 'batch').replace('batchs', 'batches')} made again after lost workers")
    if ending.cause:
        facts.append(ENDINGS.get(ending.reason, f"It ended: {ending.cause}."))
    return facts


def knobs_at_the_end(found: GradientTraining) -> list[str]:
    """Those that may be changed on the way, as they were in force last, with what they were before a person came."""
    begun = {
        name: value for event in reversed(found.events) if event.get("kind") == "command"
        for name, value in ((event.get("data") or {}).get("before") or {}).items()
    }  # fmt: skip
    said = []
    for knob, value in found.in_force.items():
        if value is None or (knob == "compression" and value == "none" and knob not in begun):
            continue
        shown = wording.choice_for(knob, value) if isinstance(value, str) else short(value)
        was = begun.get(knob)
        before = "" if was in (None, value) else f" ({was if isinstance(was, str) else short(was)} at the start)"
        said.append(f"{wording.LABELS.get(knob, knob)}: {shown}{before}")
    return [f"In force at the end: {'; '.join(said)}"] if said else []


def rows(report: FitReport) -> None:
    section("Rows")
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
    section("Missing numbers")
    said = [f"{name}: {filling(report, name)} in {plural(f.rows, 'row')}" for name, f in report.filled.items()]
    rest = f"\nand {plural(len(said) - 12, 'more column')}" if len(said) > 12 else ""
    line(f"Replaced as follows{of_all_rows(report)}.\n" + "\n".join(said[:12]) + rest)


def timings(run: Run) -> None:
    """Where its time went, and what to change."""
    section("Time")
    try:
        spent = time_spent(run, POINTS)
    except StateError as error:
        line(wording.told(error))
        return
    parts = [f"{duration(part.seconds)} {part.name}" for part in spent.stages if part.seconds >= 0.001]
    line(f"{duration(spent.seconds)} in all\n" + "\n".join(parts))
    if spent.workers:
        line("Of the time of its workers: " + ", ".join(f"{part.share:.0%} {part.name}" for part in spent.workers))
    for advice in spent.advice:
        line(" ".join([advice.said, *map(wording.remedied, advice.remedies)]))


# ------------------------------------------------------------------ what can be done with it


def saved_model(run: Run, report: FitReport) -> None:
    """The way to the version that was saved of this run, or a button that saves one."""
    try:
        _saved_or_to_save(run, report)
    except TrainingError as error:  # the database of a team may be away, and the page is about a run
        line(f"Whether its model is saved cannot be told now. {wording.told(error)}")


def _saved_or_to_save(run: Run, report: FitReport) -> None:
    version = saved_models.version_of(run)
    if version:
        places.link(
            "models", f"Saved model, version {version.number}: plots and predictions", icon=":material/deployed_code:",
            model=version.name, version=str(version.number),
        )  # fmt: skip
    elif run.model_path.exists():
        with st.popover("Save as model", icon=":material/bookmark_add:", help="Keep it as a version of a model."):
            usual = saved_models.usual_name(str(run.config.get("file", "")), report.target)
            name = st.text_input(
                "Name of the model", usual, key="save-model:name",
                help="Of a new model, or of one that you have: then this becomes its next version.",
            )  # fmt: skip
            called = safe_name(name.strip() or usual)
            if called != name.strip():
                line(f"It will be called {called}: letters, digits, dots, dashes and underscores.")
            if st.button("Save", type="primary", key="save-model"):
                _save(run, report, called)


def _save(run: Run, report: FitReport, name: str) -> None:
    try:
        version = saved_models.save_run(run, report.as_dict(), name)
    except (TrainingError, OSError) as error:
        notice("error", wording.told(error), "The model was not saved")
        return
    places.go("models", model=version.name, version=str(version.number))


def downloads(run: Run) -> None:
    section("Take it with you")
    if not run.model_path.exists():
        st.caption("The model file is gone from the run's folder.")
        return
    try:
        model_download(prove_model(run.model_path), f"model-{run.id}.json")
    except TrainingError as error:
        notice("error", wording.told(error), "The model file cannot be used")
    line(f"Run {run.id}\n{title(run.config['file'])}")


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
