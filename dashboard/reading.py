"""What the parser saw of a file, and the options to read it otherwise; the reading itself is a process elsewhere."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from config import BAD_ROW_CHOICES
from dashboard import wording
from dashboard.literal import line, notice
from dashboard.wording import CHOICES, LABELS, help_for, number, plural

AUTO = "found out"
DELIMITERS = {AUTO: None, "comma": ",", "semicolon": ";", "tab": "\t", "bar |": "|", "space": " "}
DECIMALS = {AUTO: None, "point": ".", "comma": ","}
THOUSANDS = {AUTO: None, "none": "", "comma": ",", "point": ".", "space": " ", "apostrophe": "'"}
ENCODINGS = {AUTO: None, "UTF-8": "utf-8", "UTF-16": "utf-16", "Latin-1": "latin-1", "Windows-1252": "cp1252"}
HEADERS = {AUTO: None, "names the columns": True, "is data": False}
QUOTES = {AUTO: None, 'double "': '"', "single '": "'", "none": ""}
COMMENTS = {AUTO: None, "none": "", "#": "#", "%": "%", ";": ";"}
MARKS: dict[str, dict[str, Any]] = {
    "delimiter": DELIMITERS,
    "decimal": DECIMALS,
    "thousands": THOUSANDS,
    "encoding": ENCODINGS,
    "header": HEADERS,
    "quote": QUOTES,
    "comment": COMMENTS,
}


def reading_options(prefix: str, columns: list[str], start: dict[str, Any], open_: bool) -> dict[str, Any]:
    """The folded part with overrides of what was found out; only what the person chose is returned."""
    chosen: dict[str, Any] = {}
    with st.expander("Reading options", icon=":material/tune:", expanded=open_):
        st.caption("How the file is written is found out from the file. If something looks wrong above, say it here.")
        slots = iter(_slots(12))
        for knob, marks in MARKS.items():
            chosen[knob] = marks[_choice(next(slots), prefix, knob, marks, start.get(knob))]
        chosen["skip_lines"] = _lines(next(slots), prefix, start.get("skip_lines"))
        chosen["on_bad_rows"] = _bad_row_choice(next(slots), prefix, start.get("on_bad_rows") or "limit")
        chosen["missing"] = _tokens(next(slots), prefix, start.get("missing"))
        for knob in ("categorical", "numeric"):
            chosen[knob] = _names(next(slots), prefix, knob, columns, start.get(knob) or [])
    return {knob: value for knob, value in chosen.items() if value not in (None, [])}


def _slots(count: int) -> list[Any]:
    return [slot for _ in range(0, count, 3) for slot in st.columns(3)][:count]


def _choice(slot: Any, prefix: str, knob: str, marks: dict[str, Any], now: Any) -> str:
    names = list(marks)
    known = [name for name in names if name != AUTO and now is not None and marks[name] == now]
    chosen: str = slot.selectbox(
        LABELS[knob],
        names,
        index=names.index(known[0]) if known else 0,
        key=f"{prefix}:{knob}",
        help=help_for(knob),
    )
    return chosen


def _lines(slot: Any, prefix: str, now: int | None) -> int | None:
    chosen: int | None = slot.number_input(
        LABELS["skip_lines"],
        min_value=0,
        value=now,
        step=1,
        key=f"{prefix}:skip_lines",
        help=help_for("skip_lines"),
        placeholder=AUTO,
    )
    return chosen


def _bad_row_choice(slot: Any, prefix: str, now: str) -> str:
    chosen: str = slot.selectbox(
        LABELS["on_bad_rows"],
        BAD_ROW_CHOICES,
        index=BAD_ROW_CHOICES.index(now),
        format_func=CHOICES.__getitem__,
        key=f"{prefix}:on_bad_rows",
        help=help_for("on_bad_rows"),
    )
    return chosen


def _names(slot: Any, prefix: str, knob: str, columns: list[str], now: list[str]) -> list[str]:
    chosen: list[str] = slot.multiselect(
        LABELS[knob],
        columns,
        default=[name for name in now if name in columns],
        key=f"{prefix}:{knob}",
        help=help_for(knob),
        placeholder="as found out",
    )
    return chosen


def _tokens(slot: Any, prefix: str, now: Any) -> list[str]:
    text = slot.text_input(
        LABELS["missing"],
        value=",".join(now or []),
        key=f"{prefix}:missing",
        help=f"{help_for('missing')} Write them with commas between: NA,?,-999. An empty field always counts.",
        placeholder="NA, NaN, null, ? and the like",
    )
    return [token.strip() for token in text.split(",") if token.strip()]


def report(found: dict[str, Any]) -> None:
    """Rows, columns, what could not be read, notes, and the first rows."""
    line(summary(found))
    bad = found["bad_rows"]
    if bad["count"]:
        _bad_rows(bad)
    for note in found["notes"]:
        notice("info", wording.for_page(note))
    columns, first = st.tabs(["Columns", "First rows"])
    with columns:
        right = st.column_config.TextColumn(alignment="right")
        st.dataframe(
            column_table(found),
            hide_index=True,
            height="content" if len(found["columns"]) < 12 else 420,
            column_config={
                **dict.fromkeys(("Different values", "Smallest", "Largest"), right),
                "Worth knowing": st.column_config.TextColumn(width=260),
            },
        )
    with first:
        _preview(found)


def summary(found: dict[str, Any]) -> str:
    dialect = found["dialect"]
    names = {mark: name for name, mark in DELIMITERS.items() if mark}
    between = names.get(dialect["delimiter"], dialect["delimiter"])
    mark = "comma" if dialect["decimal"] == "," else "point"
    return (
        f"{plural(found['rows'], 'row')}, {plural(len(found['columns']), 'column')} · "
        f"fields separated by {between} · decimal {mark} · {dialect['encoding'].upper()} · "
        f"{'first row names the columns' if dialect['header'] else 'no header row'}"
    )


def _bad_rows(bad: dict[str, Any]) -> None:
    title = f"{plural(bad['count'], 'row')} could not be read"
    first = "; ".join(f"line {entry['line']}: {entry['problem']}" for entry in bad["first"][:3])
    more = f"; and {bad['count'] - 3:,} more" if bad["count"] > 3 else ""
    way_out = "A fit leaves out up to 1 % of such rows, at most 100; for more, choose so under Reading options."
    notice("warning", f"{first}{more}.\n{way_out}", title)
    if bad["count"] > 3:
        with st.expander("All lines that could not be read" if bad["count"] <= 100 else "The first 100 such lines"):
            table = pd.DataFrame(bad["first"]).rename(columns={"line": "Line", "problem": "What is wrong"})
            st.dataframe(table, hide_index=True)


def column_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a column of the file, in plain words."""
    return pd.DataFrame(
        {
            "Column": column["name"],
            "Type": wording.TYPES.get(column["type"], column["type"]),
            "Missing": column["missing"],
            "Different values": ("" if column["distinct_exact"] else "about ") + f"{column['distinct']:,}",
            "Smallest": _end(column["min"]),
            "Largest": _end(column["max"]),
            "Worth knowing": ", ".join(wording.FLAGS.get(flag, flag) for flag in column["flags"]),
        }
        for column in found["columns"]
    )


def _end(value: Any) -> str:
    if value is None:
        return ""
    return value.removesuffix("T00:00:00Z") if isinstance(value, str) else number(value, 6)


def _preview(found: dict[str, Any]) -> None:
    rows = found.get("preview") or []
    if not rows:
        st.caption("There are no rows below the header.")
        return
    names = [column["name"] for column in found["columns"]]
    st.dataframe(pd.DataFrame(rows, columns=names), hide_index=True, height=320)
    st.caption("As the texts that are in the file, before anything is made of them.")
