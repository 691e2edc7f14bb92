"""One row predicted from a form, at once, and why; whole files are predicted in `predict`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta

import numpy as np
import streamlit as st

from shoal.dashboard.parts import charts, widget_values
from shoal.dashboard.parts.literal import label, line, section
from shoal.dashboard.parts.outcomes import chosen_threshold
from shoal.data.notation.dates import has_times
from shoal.data.notation.grouping import other_mark
from shoal.data.notation.numbers import Notation, notation_from
from shoal.data.terms import MISSING_LEVEL
from shoal.fitting.model_file import SavedModel
from shoal.lazy.frames import pd
from shoal.library.saved_models import Version
from shoal.losses.base import RowLoss
from shoal.losses.multinomial import Multinomial
from shoal.results.fit import PredictionInterval
from shoal.results.outcome import Outcome, by_column, said_of_prediction
from shoal.results.thresholds import USUAL
from shoal.solve.conformal import FROM_BEFORE, between
from shoal.tasks.explain_row import Explained, Value, explain, typical_row
from shoal.words import date_text, listed, number, plural, term_shown, within_words

ASKED = 24  # columns in the form; the others keep their usual value
STEPS = 12  # columns in the waterfall
NO_VALUE, OTHER = "(no value)", "(another name, which the model does not know)"
SUMMED = 1_000  # columns that a sum is told of one by one
LEVEL = 0.9  # of the intervals that are shown
FIRST_DAY, LAST_DAY = date(1, 1, 1), date(9999, 12, 31)


def one_row(version: Version, model: SavedModel) -> None:
    left, right = st.columns([4, 5], gap="large")
    with left:
        row = _form(version, model)
    with right:
        of = ""
        if model.several and model.outcome:
            place, names = _of_classes(model, row, model.outcome), model.outcome.classes
            model, of = model.of_class(place), f"the score of {names[place]}"
        found = explain(model, row)
        _answer(found, model, of, _ends(model, row))
        if not math.isnan(found.prediction) and model.network is None:
            _contributions(found, model, of)


def _ends(model: SavedModel, row: dict[str, Value]) -> tuple[float, float] | None:
    """Those of the interval that follows the rows, where the model has one of the level that is shown."""
    if not (lines := model.lines_at(LEVEL)):
        return None
    at = [np.array([explain(line, row).prediction]) for line in lines]
    low, high = between(at[0], at[1], model.interval_at(LEVEL)[0])
    return float(low[0]), float(high[0])


def _of_classes(model: SavedModel, row: dict[str, Value], outcome: Outcome) -> int:
    """The probabilities of several classes; and the one whose score a person asks about, the likeliest at first."""
    scores = np.array([explain(model.of_class(place), row).prediction for place in range(len(outcome.classes))])
    shares = Multinomial().mean(scores[None])[0]
    likeliest = int(np.argmax(np.nan_to_num(shares)))
    if not np.isnan(shares).any():
        name = outcome.classes[likeliest]
        st.metric(label(f"Likeliest {model.target}"), name, f"probability {100 * shares[likeliest]:.1f} %",
                  delta_color="off", delta_arrow="off", border=True)  # fmt: skip
        table = pd.DataFrame({"Class": outcome.classes, "Probability": shares}).sort_values(
            "Probability", ascending=False
        )
        config = {"Probability": st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=1.0)}
        st.dataframe(table, hide_index=True, column_config=config, height="content" if len(table) < 10 else 380)
        line(likely_words(shares.tolist(), outcome, model.report.prediction_interval))
    chosen = st.selectbox("What moves the score of", outcome.classes, index=likeliest, key="row:class")
    return outcome.classes.index(chosen)


def likely_words(shares: Sequence[float], outcome: Outcome, said: PredictionInterval | None) -> str:
    """Which of several classes are usual for nine in ten rows; or why that is not known."""
    usual = said.half_widths.get(str(LEVEL)) if said else None
    if said is None or usual is None:
        return FROM_BEFORE if said is None else str(said.note)
    kept = [name for name, share in zip(outcome.classes, shares, strict=True)
            if 1 - share <= usual or share == max(shares)]  # fmt: skip
    shown = " and ".join(f"'{name}'" for name in kept)
    return f"The set that holds nine in ten rows like the {plural(said.rows, 'test row')} has {shown} here."


def asked_columns(model: SavedModel) -> list[str]:
    """In the order of the file; where there are many, those that matter most."""
    columns = list(dict.fromkeys([*model.encoding.columns, *model.encoding.known]))
    if len(columns) <= ASKED:
        return columns
    effect = dict.fromkeys(columns, 0.0)
    weights = model.report.coefficients_standardized
    if model.several and model.outcome:
        found = by_column(model.outcome.classes, weights)
        weights = {name: max(map(abs, values)) for name, values in found.items()}
    for term in model.encoding.terms:
        for column in term.columns:
            effect[column] = max(effect[column], abs(weights.get(term.name) or 0.0))
    chosen = set(sorted(columns, key=lambda name: -effect[name])[:ASKED])
    return [name for name in columns if name in chosen]


def _form(version: Version, model: SavedModel) -> dict[str, Value]:
    usual, asked = typical_row(model.encoding), asked_columns(model)
    row = dict(usual)
    rest = len(usual) - len(asked)
    if rest > 0:
        line(f"The {ASKED} columns that matter most; {plural(rest, 'other')} keep their usual value.")
    slots = st.columns(2)
    for place, name in enumerate(asked):
        with slots[place % 2]:
            key = f"row:{version.label}:{name}"
            known = model.encoding.known.get(name)
            row[name] = _asked(name, usual[name], key, model) if known is None else _name(name, known, usual[name], key)
    st.button("Back to the usual values", icon=":material/restart_alt:", on_click=_reset, args=(version,))
    return row


def _asked(name: str, usual: Value, key: str, model: SavedModel) -> float | None:
    written = model.report.dates.get(name)
    if written is None:
        notation = notation_from(model.file.design.written.get(name, ""))
        own = notation is not None and (notation.decimal, notation.thousands) != (".", "")
        return _written(name, float(usual or 0.0), key, notation) if notation and own else _number(name, usual, key)
    return _date(name, float(usual or 0.0), key, has_times(written))


def _date(name: str, usual: float, key: str, times: bool) -> float | None:
    """A day, and its time where the column has times, as days since 1970; None if it was taken away."""
    moment = datetime(1970, 1, 1) + timedelta(seconds=round(usual * 86400))
    widget_values.begin(key, moment.date())
    day = st.date_input(
        label(name), value=None, min_value=FIRST_DAY, max_value=LAST_DAY, format="YYYY-MM-DD", key=key,
        help="Starts at its usual value among the training rows. Empty: missing, and the usual value stands in.",
    )  # fmt: skip
    clock = time()
    if times:
        widget_values.begin(f"{key}:time", moment.time().replace(microsecond=0))
        clock = st.time_input(f"{label(name)} (time of day)", value=None, key=f"{key}:time", step=60) or clock
    if not isinstance(day, date):
        return None
    return (datetime.combine(day, clock) - datetime(1970, 1, 1)).total_seconds() / 86400


def _number(name: str, usual: Value, key: str) -> float | None:
    """A number that can be taken away, which one that comes as the widget's own default cannot."""
    widget_values.begin(key, float(usual or 0.0))
    given: float | None = st.number_input(
        label(name), value=None, step=None, format="%g", key=key, placeholder="missing",
        help="Starts at its usual value among the training rows. Empty: missing, and the usual value stands in.",
    )  # fmt: skip
    return given


def _written(name: str, usual: float, key: str, notation: Notation) -> float | None:
    """A number with the marks that its column has in the file: a field of numbers would take 1.234,50 otherwise."""
    widget_values.begin(key, notation.text(usual))
    given = st.text_input(
        label(name), key=key, placeholder="missing",
        help=label(
            f"Written as in the training file, such as {notation.example}. Starts at its usual value among the "
            "training rows. Empty: missing, and the usual value stands in."
        ),
    ).strip()  # fmt: skip
    if not given:
        return None
    found = notation.number(given)
    found = Notation().number(given) if found is None else found  # 1234.5 can be nothing else
    if found is None:
        line(f"{name}: expected a number such as {notation.example}, got '{given}'. The usual value stands in.")
    return found


def _name(name: str, known: tuple[str, ...], usual: Value, key: str) -> str | None:
    """A known name, the usual one at first; None for no value, a text that no file has for one that is not known."""
    texts = [level for level in known if level != MISSING_LEVEL]
    widget_values.begin(key, texts.index(usual) if isinstance(usual, str) else len(texts))
    chosen = st.selectbox(
        label(name), range(len(texts) + 2), format_func=[*texts, NO_VALUE, OTHER].__getitem__, key=key,
        help="The names that the training rows had. Starts at the most frequent one.",
    )  # fmt: skip
    if chosen < len(texts):
        return texts[chosen]
    return None if chosen == len(texts) else "\0"


def _reset(version: Version) -> None:
    for key in [key for key in st.session_state if str(key).startswith(f"row:{version.label}:")]:
        del st.session_state[key]


def _answer(
    found: Explained, model: SavedModel, of: str = "", ends: tuple[float, float] | None = None
) -> None:  # fmt: skip
    """The prediction, with the `ends` of an interval that follows the rows; nothing but what to know of it where it is
    the score `of` one class, which is told before."""
    dated = model.report.dates.get(model.target)
    if math.isnan(found.prediction):
        none = [part.column for part in found.parts if math.isnan(part.adds)]
        line(f"No prediction: the model uses a logarithm or root that the value of {listed(none)} does not have.")
        return
    if model.outcome and model.loss:
        _outcome(found.prediction, model.outcome, model.loss, model, ends)
    elif not of:
        shown = _as_target(model)
        text = shown(found.prediction) if dated is None else date_text(found.prediction, has_times(dated))
        st.metric(label(f"Predicted {model.target}"), text, border=True)
        line(interval_words(found.prediction, model.report.prediction_interval, shown=shown, ends=ends))
    for part in found.parts:
        if part.unseen:
            line(f"{part.column}: the model was not trained with this value; it adds nothing to the prediction.")
        elif part.filled:
            line(f"{part.column}: no value; the usual one stands in.")


def _as_target(model: SavedModel) -> Callable[[float], str]:
    """How predictions are shown: with the marks that the target has in the file, as the form has its columns."""
    notation = notation_from(model.file.design.written.get(model.target, "")) or Notation()
    if not notation.thousands:  # large numbers are grouped for the eye all the same
        notation = replace(notation, thousands=other_mark(notation.decimal))
    return lambda value: notation.marked(number(value, 6))


def _outcome(
    score: float, outcome: Outcome, loss: RowLoss, model: SavedModel, ends: tuple[float, float] | None
) -> None:  # fmt: skip
    """The probability of the yes, or the mean; what columns add below is to the score that it follows from."""
    target, said, shown = model.target, model.report.prediction_interval, _as_target(model)
    mean = float(loss.mean(np.array([score]))[0])
    if outcome.classes:
        st.metric(label(f"Probability that {target} is {outcome.yes}"), f"{100 * mean:.1f} %", border=True)
        threshold = chosen_threshold()
        called = outcome.classes[int(mean >= threshold)]
        how = "The likelier value is" if threshold == USUAL else f"From {threshold:g} on it is '{outcome.yes}': called"
        line(f"{how} '{called}'. Log odds: {number(score, 6)}.")
        line(set_words(mean, outcome, said))
    elif outcome.link == "identity":
        st.metric(label(f"Predicted {target}"), shown(mean), border=True)
        line(said_of_prediction(outcome))
        line(interval_words(mean, said, loss, shown, ends))
    else:
        st.metric(label(f"Expected {target}"), shown(mean), border=True)
        line(f"It is e to the power of {number(score, 6)}, the sum below.")
        line(interval_words(mean, said, loss, shown))


def set_words(p: float, outcome: Outcome, said: PredictionInterval | None) -> str:
    """Which values are usual for nine in ten rows; or why that is not known."""
    if said is None:
        return FROM_BEFORE
    usual = said.half_widths.get(str(LEVEL))
    if usual is None:
        return str(said.note)
    both = max(p, 1 - p) <= usual
    shown = " and ".join(f"'{name}'" for name in (outcome.classes if both else (outcome.classes[int(p >= 0.5)],)))
    return f"The set that holds nine in ten rows like the {plural(said.rows, 'test row')} has {shown} here."


def interval_words(
    prediction: float, said: PredictionInterval | None, loss: RowLoss | None = None,
    shown: Callable[[float], str] = lambda value: number(value, 6), ends: tuple[float, float] | None = None,
) -> str:  # fmt: skip
    """How far off a prediction is likely to be, from the rows kept for testing; or why that is not known."""
    if said is not None and ends is not None:
        return (
            f"Nine in ten new rows like the {plural(said.rows, 'test row')} lie in their intervals, which are as wide "
            f"as rows spread there: here from {shown(ends[0])} to {shown(ends[1])}."
        )
    if said is None:
        return FROM_BEFORE
    width = said.half_widths.get(str(LEVEL))
    if width is None:
        return str(said.note)
    low, high = prediction - width, prediction + width
    within = f"{number(width)} of their prediction"
    if loss is not None and said.spread != "even":
        low, high = (float(end[0]) for end in loss.interval(np.array([prediction]), width, said.spread))
        within = within_words("their prediction", width, said.spread, said.centre, 4)
    return (
        f"Nine in ten new rows like the {plural(said.rows, 'test row')} lie within {within}: "
        f"here from {shown(low)} to {shown(high)}."
    )


def _contributions(found: Explained, model: SavedModel, of: str = "") -> None:
    section("Why this much")
    chart, table = st.tabs(["Against a typical row", "As a sum"])
    scored = {"logit": "the log odds", "log": f"the logarithm of {model.target}"}
    what = scored.get(model.outcome.link, "") if model.outcome else of
    with chart:
        _waterfall(found, what or model.target)
    with table:
        _sum(found, model.report.dates, what or "the prediction")


def _waterfall(found: Explained, target: str) -> None:
    steps = sorted(
        ((term_shown(p.column), p.against_typical) for p in found.parts if p.against_typical), key=lambda s: -abs(s[1])
    )
    if not steps:
        line("This is a typical row. Change a value to see what it adds.")
        return
    if len(steps) > STEPS:
        steps = [*steps[:STEPS], ("all other columns", sum(value for _, value in steps[STEPS:]))]
    figure = charts.contribution_chart(steps, found.typical, found.prediction, target, "A typical row")
    alt = charts.describe_contributions(steps, found.typical, found.prediction, target)
    st.plotly_chart(figure, key="plot:contributions", config={"displayModeBar": False}, alt=alt)


def _sum(found: Explained, dates: Mapping[str, str], what: str) -> None:
    parts = sorted(found.parts, key=lambda part: -abs(part.adds))[:SUMMED] if len(found.parts) > SUMMED else found.parts
    rows = [
        ("(intercept)", "", found.intercept),
        *((term_shown(p.column), _said(p.value, dates.get(p.column)), p.adds) for p in parts),
    ]
    if rest := len(found.parts) - len(parts):
        added = sum(part.adds for part in found.parts) - sum(part.adds for part in parts)
        rows.append((f"{plural(rest, 'other column')}", "", added))
    table = pd.DataFrame(rows, columns=["Column", "Value", "Adds"])
    st.dataframe(
        table, hide_index=True, column_config={"Adds": st.column_config.NumberColumn(format="%.6g")},
        height="content" if len(table) < 14 else 480,
    )  # fmt: skip
    line(f"The sum is {what}: {number(found.prediction, 8)}.")


def _said(value: Value | tuple[Value, Value], written: str | None = None) -> str:
    if isinstance(value, tuple):
        return " × ".join(map(_said, value))
    if value is None:
        return "no value"
    if written is not None and isinstance(value, float):
        return date_text(value, has_times(written))
    return "another name" if value == "\0" else str(value) if isinstance(value, str) else f"{value:g}"
