"""What a model of yes or no, of counts or of positive numbers is worth, drawn from its report alone."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from shoal.dashboard.parts import widget_values
from shoal.dashboard.parts.literal import label, line, notice
from shoal.dashboard.parts.outcome_charts import (
    calibration_chart,
    confusion_chart,
    gains_chart,
    lift_at,
    precision_chart,
    roc_chart,
)
from shoal.lazy.frames import pd
from shoal.results.fit import FitReport
from shoal.results.network import NetworkReport, Worth
from shoal.results.outcome import TENTH, Outcome, OutcomeScores, ThresholdCurve
from shoal.results.thresholds import USUAL, Calls, balance_point, calls_at, cheapest
from shoal.words import number, shortened

CLASS = 24  # letters of a value in the name of a field
SLIDER = "outcome:threshold"  # the probability from which on rows are called yes
TABS = ["Calls", "ROC curve", "Precision and recall", "Gains", "Calibration"]
CARDS = {
    "auc": ("AUC", "The chance that a yes row gets a higher probability than a no row; 0.5 is guessing, 1 perfect."),
    "log_loss": ("Log loss", "The mean surprise at what came, by the probabilities; smaller is better."),
    "pr_auc": ("PR-AUC", "The precision among rows called yes, averaged over how many of the yes rows are found."),
    "accuracy": ("Accuracy", "Share of rows called right at a probability of 0.5."),
    "balanced_accuracy": ("Balanced accuracy", "The mean of the shares called right among yes and among no rows."),
    "f1": ("F1", "Precision and recall of yes in one number, at a probability of 0.5."),
    "brier": ("Brier score", "The mean squared error of the probabilities; smaller is better."),
    "deviance_explained": (
        "Deviance explained",
        "The share of the baseline's deviance that the model removes.",
    ),
    "log_r2": ("R² of logarithms", "The share of the spread of the target's logarithm that the model explains."),
    "log_rmse": (
        "RMSE of logarithms",
        "Typical error of the target's logarithm: 0.1 is about 10 % of the number itself.",
    ),
    "loss_explained": ("Loss explained", "The share of the baseline's loss that the model removes."),
    "pinball": ("Pinball loss", "The mean error, weighed by its side as the quantile asks; smaller is better."),
    "below": ("At or below", "The share of rows that lie at or below the prediction; it is to be the quantile."),
    "huber_loss": ("Huber loss", "The mean error, squared where it is small; smaller is better."),
    "rmse": ("RMSE", "Typical error in the target's own unit; large errors count more."),
    "mae": ("MAE", "Mean size of the errors, in the target's own unit."),
}


def outcome_scores(report: FitReport, outcome: Outcome) -> None:
    """Tiles of the scores on test rows where there are any, each beside the baseline."""
    part, which = outcome.honest, "test rows" if outcome.test.rows else "training rows"
    with st.container(horizontal=True, gap="small", key="scores"):
        for label, value, beside, help_ in outcome_cards(part):
            st.metric(label, value, beside, delta_color="off", delta_arrow="off", help=help_, border=True)
        st.metric("Rows used", f"{report.train.rows + report.test.rows:,}", border=True)
    more = "" if outcome.test.rows else " No rows were kept for testing; on new rows it may do worse."
    tells_apart(outcome)
    called_what(outcome)
    st.caption(f"On {which}. The baseline always predicts {outcome.constant} of the training rows.{more}")


def tells_apart(outcome: Outcome) -> None:
    """Which rows are called yes at a probability that can be moved, the ROC curve, and how honest probabilities are."""
    if outcome.curve is None:
        return
    curve, scores = outcome.curve, outcome.honest.scores
    calls, roc, precision, gains, honest = st.tabs(TABS)
    with calls:
        threshold = _threshold(outcome.yes)
        left, right = st.columns(2, gap="large")
        with left:
            _calls(calls_at(curve, threshold), outcome)
        with right:
            _costs(curve, threshold, outcome)
    with roc:
        _curve("roc", roc_chart(curve, threshold), f"ROC curve, area {number(scores.get('auc'))}")
    with precision:
        alt = f"Precision and recall, average precision {number(scores.get('pr_auc'))}"
        _curve("precision", precision_chart(curve, threshold), alt)
        line("Dotted: the share of yes rows among all, which calling every row yes comes to.")
    with gains:
        lift = lift_at(curve, TENTH)
        _curve("gains", gains_chart(curve, threshold), f"Gains, lift {number(lift)} in the first tenth of rows")
        if lift is not None:
            line(f"The tenth of rows with the highest probabilities has {number(lift)} times as many yes rows as the "
                 "average tenth. Dotted: rows in any order, and in the best.")  # fmt: skip
    with honest:
        figure = calibration_chart(outcome.calibration)
        alt = "; ".join(f"said {one.predicted:.0%}, came {one.actual:.0%}" for one in outcome.calibration)
        _curve("calibration", figure, alt)


def called_what(outcome: Outcome) -> None:
    """Rows of each of several classes by what they are called, as a picture and as a table."""
    if not outcome.several:
        return
    picture, table = st.tabs(["Calls", "Calls as a table"])
    with picture:
        _curve("confusion", confusion_chart(outcome.classes, outcome.confusion), confusion_words(outcome))
        line(f"{confusion_words(outcome)} The darker a field, the larger its share of the rows that are of its class.")
    with table:
        st.dataframe(confusion_table(outcome), hide_index=True, height="content" if len(outcome.classes) < 16 else 560)


def confusion_table(outcome: Outcome) -> pd.DataFrame:
    """One line for each class that rows are; one column for each that they are called."""
    lines = dict(zip(outcome.classes, outcome.confusion, strict=True))
    calls = {f"Called {name}": [line[at] for line in lines.values()] for at, name in enumerate(lines)}
    rows = [sum(line) for line in lines.values()]
    right = [line[at] / sum(line) if sum(line) else None for at, line in enumerate(lines.values())]
    return pd.DataFrame({"Is": list(lines), **calls, "Rows": rows, "Share right": right})


def confusion_words(outcome: Outcome) -> str:
    """The mistakes that are made most."""
    wrong = [
        (count, outcome.classes[is_], outcome.classes[called])
        for is_, line in enumerate(outcome.confusion) for called, count in enumerate(line) if is_ != called and count
    ]  # fmt: skip
    if not wrong:
        return "All rows are called right."
    first = sorted(wrong, key=lambda one: -one[0])[:3]
    named = "; ".join(f"{count:,} '{is_}' called '{called}'" for count, is_, called in first)
    return f"Wrong calls: {sum(one[0] for one in wrong):,}. The most frequent: {named}."


def chosen_threshold() -> float:
    """The probability from which on rows are called yes, as the slider stands."""
    return float(st.session_state.get(SLIDER, USUAL))


def _threshold(yes: str) -> float:
    widget_values.begin(SLIDER, USUAL)
    return st.slider(
        label(f"Called {shortened(yes, CLASS)} from a probability of"), 0.0, 1.0, step=0.001, format="%.3g", key=SLIDER,
        help=label(
            f"A lower one finds more of the rows that are '{yes}', at the cost of calling more of the others so. "
            "Predictions for a file on the Models page are called by it too."
        ),
    )  # fmt: skip


def _costs(curve: ThresholdCurve, threshold: float, outcome: Outcome) -> None:
    """What wrong calls cost at the slider's threshold, and from which one on they cost least."""
    no, yes = outcome.classes
    with st.container(horizontal=True, gap="small"):
        alarm, miss = (
            st.number_input(
                text, min_value=0.0, value=1.0, step=1.0, format="%g", key=f"outcome:{key}", help=label(what)
            )
            for key, text, what in (
                ("alarm", _call_costs(no, yes), f"A false alarm: a row is called '{yes}' that is '{no}'. In any unit."),
                ("miss", _call_costs(yes, no), f"A miss: a row is called '{no}' that is '{yes}'. In the same unit."),
            )
        )
    now, best = calls_at(curve, threshold), cheapest(curve, alarm, miss)
    line(cost_words(now, best, alarm, miss))
    st.button(
        f"Use {best.threshold:g}", key="outcome:cheapest", on_click=_choose, args=(best.threshold,),
        disabled=now.cost(alarm, miss) <= best.cost(alarm, miss), icon=":material/savings:",
    )  # fmt: skip


def _call_costs(is_: str, called: str) -> str:
    """The name of a field for what one kind of wrong calls costs; without quotes, which would be read out as marks."""
    return label(f"Cost if {shortened(is_, CLASS)} is called {shortened(called, CLASS)}")


def _choose(threshold: float) -> None:
    st.session_state[SLIDER] = threshold


def cost_words(now: Calls, best: Calls, alarm: float, miss: float) -> str:
    """The cost at the slider's threshold, the least there is, and where that would be if probabilities were right."""
    cost, least = now.cost(alarm, miss), best.cost(alarm, miss)
    said = f"Wrong calls cost {number(cost)} on these rows."
    if cost <= least:
        return f"{said} No threshold costs less."
    expected = balance_point(alarm, miss)
    by_itself = "" if expected is None else f" By the probabilities alone it would be {number(expected)}."
    return f"{said} They cost least from {best.threshold:g} on: {number(least)}.{by_itself}"


def _curve(name: str, figure: go.Figure, alt: str) -> None:
    st.plotly_chart(figure, key=f"plot:{name}", config={"displayModeBar": False}, alt=alt)


def _calls(found: Calls, outcome: Outcome) -> None:
    no, yes = outcome.classes
    table = pd.DataFrame(
        {"Called": [yes, no], f"is {yes}": [found.hits, found.misses], f"is {no}": [found.alarms, found.passes]}
    )
    st.dataframe(table, hide_index=True)
    shares = {"called right": found.accuracy, f"of '{yes}' found": found.recall, "of calls right": found.precision}
    line("; ".join(f"{100 * share:.1f} % {what}" for what, share in shares.items() if share is not None) + ".")


def outcome_cards(part: OutcomeScores) -> list[tuple[str, str, str, str]]:
    """Label, value, that of the baseline, and what it is, of each score that there is."""
    return [
        (label, number(part.scores[key]), f"baseline: {number(part.baseline.get(key))}", help_)
        for key, (label, help_) in CARDS.items()
        if key in part.scores
    ]


def score_name(report: FitReport) -> str:
    """What coefficients change: the target itself, or the score that its mean follows from."""
    if report.outcome is None:
        return report.target
    if report.outcome.link == "identity":
        return report.target
    if report.outcome.several:
        return "score of a class"
    return f"log odds of {report.outcome.yes}" if report.outcome.classes else f"logarithm of {report.target}"


# ------------------------------------------------------------------ a network on a table

WORTH = {
    Worth.BETTER: ("success", "Worth it"),
    Worth.LITTLE: ("info", "Hardly worth it"),
    Worth.SAME: ("info", "Not worth it, as far as these rows show"),
    Worth.WORSE: ("warning", "Not worth it"),
}


def network_part(found: NetworkReport) -> None:
    """Whether it is worth it beside the exact model, and what it is made of; it has no coefficients."""
    if beside := found.beside:
        st.header(f"Beside the exact {beside.model} model", anchor=False)
        kind, title = WORTH[beside.worth] if beside.worth else ("info", "Nobody can tell")
        notice(kind, beside.sentences()[-1], title)
        if beside.network is not None:
            error = "Predicted wrongly" if beside.model == "logistic" else "Typical error (RMSE)"
            table = pd.DataFrame({
                "On the same test rows": ["Neural network", f"Exact {beside.model} model", "Difference"],
                beside.measure.capitalize(): [number(beside.network), number(beside.linear), number(beside.difference)],
                error: [number(beside.network_error), number(beside.linear_error), ""],
                "95 % interval": ["", "", f"{number(beside.low)} to {number(beside.high)}"],
            })  # fmt: skip
            st.dataframe(table, hide_index=True, height="content", placeholder="")
    st.header("Layers", anchor=False)
    parts = pd.DataFrame({"Part": [p.name for p in found.parts], "Parameters": [p.size for p in found.parts]})
    st.dataframe(parts, hide_index=True, height="content", placeholder="")
