"""The Data page of a file of sparse rows: how full it is, what its label looks like, which columns come most often.

There is nothing to choose to predict: that is the label. What such rows have no way for is said here, before a run.
"""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from shoal.dashboard.parts import places
from shoal.dashboard.parts.literal import line, scroll_text
from shoal.dashboard.tables import recent
from shoal.dashboard.tables.sources import Asked
from shoal.lazy.frames import pd
from shoal.results.answers.table import ColumnLook, SparseLook, TableLook
from shoal.words import plural, short

HAS_NO_WAY = (
    "Linear, ridge, lasso and elastic-net models are fitted to sparse rows exactly or by gradient steps, their penalty "
    "chosen by cross-validation if you like, logistic ones of two labels exactly with a penalty that you name; all "
    "predict for such files. Other models, searches and leaving single columns out are for tables of cells."
)


def sparse_report(found: Asked, result: TableLook, look: SparseLook) -> None:
    if not found.table.is_bundled:
        recent.remember(found.table.key, result.rows, result.width)
    label = result.columns[0]
    with st.container(border=True):
        if result.target:
            line(result.target.why)
        with st.container(horizontal=True):
            held = label.min == label.max
            icon = ":material/model_training:"
            if st.button("Train a model", type="primary", icon=icon, key="train", disabled=held):
                places.go("train", **{**found.address, "target": label.name})
            if st.button("Tune", icon=":material/tune:", key="tune", disabled=held):
                places.go("tune", **{**found.address, "target": label.name})
        line(HAS_NO_WAY)
    _figures(result, look)
    left, right = st.columns(2)
    with left:
        st.header("The label", anchor=False)
        _label_chart(label)
    with right:
        st.header("Most frequent columns", anchor=False)
        st.dataframe(frequent(result, look), hide_index=True, alt="the columns with most values, and in how many rows")
    st.header("First rows", anchor=False)
    scroll_text("\n".join(row[0] for row in result.preview or () if row), "First rows of the file")


def _figures(result: TableLook, look: SparseLook) -> None:
    cards = [
        ("Rows", f"{result.rows:,}", ""),
        ("Columns with a value", f"{look.columns:,}", f"The last one is {look.last}; others up to it have none."),
        ("Values", f"{look.values:,}", f"At most {plural(look.most_in_row, 'value')} in a row."),
        ("Share that is there", f"{look.share:.3%}", "Of all rows times the columns with a value; all others are 0."),
        ("Rows without a value", f"{look.empty_rows:,}", "Only the intercept predicts these."),
    ]
    with st.container(horizontal=True, gap="small", key="sparse-numbers"):
        for name, value, help_ in cards:
            st.metric(name, value, border=True, help=help_ or None)


def _label_chart(label: ColumnLook) -> None:
    line(f"{plural(label.distinct, 'different number')} from {short(label.min)} to {short(label.max)}")
    bars = list(label.histogram or ())
    if len(bars) < 2 or not isinstance(label.min, float) or not isinstance(label.max, float):
        return
    width = label.max / len(bars) - label.min / len(bars)
    middles = [label.min + width * (i + 0.5) for i in range(len(bars))]
    figure = go.Figure(go.Bar(x=middles, y=bars, width=width))
    figure.update_layout(height=300, margin={"l": 10, "r": 10, "t": 10, "b": 10}, bargap=0)
    figure.update_xaxes(title="label")
    figure.update_yaxes(title="rows")
    st.plotly_chart(figure, key="plot:label", config={"displayModeBar": False}, alt="how many rows have which labels")


def frequent(result: TableLook, look: SparseLook) -> pd.DataFrame:
    """The columns with most values."""
    return pd.DataFrame({
        "Column": [name for name, _ in look.frequent],
        "Rows": [count for _, count in look.frequent],
        "Share of rows": [f"{count / max(result.rows, 1):.2%}" for _, count in look.frequent],
    })  # fmt: skip
