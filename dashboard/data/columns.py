"""The table of a file's columns: type, gaps, values, a small histogram, what is worth knowing; types can be changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import streamlit as st

from shoal.dashboard.data.options import read_otherwise
from shoal.dashboard.parts import literal, places, wording
from shoal.dashboard.parts.literal import line, scroll_text
from shoal.dashboard.tables.sources import Asked
from shoal.lazy.frames import pd
from shoal.results.answers.table import ColumnLook, TableLook
from shoal.settings.levels import levels_by_column
from shoal.words import number, plural, shortened

AS_FOUND = "as found"
COMPARED = "Compared with"
REMARKS = "Worth knowing"
EDITED = ("Read as", COMPARED)
READ_AS = {"numeric": "number", "categorical": "names", "exclude": "leave out"}  # knobs, and what a person chooses
MANY = 15  # columns from which there is a search and a limit to the height
SHOWN = 200  # columns at a time
HEIGHT = 560  # pixels
ROW = 44
LONGEST = 34  # characters of a level; a summary is for the eye
NAME = 32  # characters of a name; longer ones are cut in the middle
VALUES = 42  # characters of values that a cell has room for
REMARK = 60  # characters of what is worth knowing that a cell has room for
MISSING, NO_VALUE = "__missing__", "(no value)"  # as a level, and as a person reads and types it
LETTER, EDGE = 6.6, 20  # pixels of a letter, as most are, and beside a text


def column_table(found: Asked, result: TableLook, target: str | None) -> None:
    """The table, with what each column is to be read as open to change."""
    columns = _turned_to(_searched(result.columns))
    if not columns:
        st.caption("No column has a name like that.")
        return
    names = [column.name for column in columns]
    remarks = {column.name: _remarks(column, target) for column in columns}
    # A table remembers its edits. They are of no use in another turn of the address or where other rows are shown.
    key = places.key(f"columns:{found.table.key}:{hash(tuple(names))}")
    st.data_editor(
        described(columns, found.read, target, result.rows_read),
        hide_index=True,
        height="content" if len(columns) <= MANY else HEIGHT,
        row_height=ROW,
        disabled=[title for title in COLUMNS if title not in EDITED],
        column_config={
            **COLUMNS,
            "Column": _name_column(names),
            "Values": _value_column(map(_values, columns)),
            REMARKS: _remark_column(remarks.values()),
        },
        key=key,
        on_change=_edited,
        args=(places.turn(), found, key, columns),
        alt=f"{plural(len(columns), 'column')} of the file, with type, missing values, different values and range",
    )
    if cut := [name for name in names if len(name) > NAME]:
        with st.expander(f"Whole names of {plural(len(cut), 'column')}"):
            scroll_text("\n".join(cut), "Whole names of columns")
    if cut := [f"{c.name}: {whole}" for c in columns if (whole := _whole_values(c)) != _values(c)]:
        with st.expander(f"Whole values of {plural(len(cut), 'column')}"):
            scroll_text("\n".join(cut), "Whole values of columns")
    if cut := [f"{name}: {remark}" for name, remark in remarks.items() if len(remark) > REMARK]:
        with st.expander(f"All that is worth knowing of {plural(len(cut), 'column')}"):
            scroll_text("\n".join(cut), "All that is worth knowing of columns")


def _name_column(names: list[str]) -> Any:
    """As wide as its names need."""
    longest = max(len(shortened(name, NAME)) for name in names)
    return st.column_config.TextColumn(pinned=True, width=max(110, round(EDGE + LETTER * longest)))


def _value_column(values: Iterable[str]) -> Any:
    """As wide as they need, up to a limit from which they stand below the table as well."""
    longest = min(VALUES, max(map(len, values)))
    return st.column_config.TextColumn(
        width=max(150, round(EDGE + LETTER * longest)), help="Smallest and largest; or the most frequent names."
    )


def _remark_column(remarks: Iterable[str]) -> Any:
    """As wide as they need, up to a limit from which they stand below the table as well."""
    longest = min(REMARK, max(map(len, remarks)))
    return st.column_config.TextColumn(width=max(185, round(EDGE + LETTER * longest)))


COLUMNS: dict[str, Any] = {
    "Column": st.column_config.TextColumn(pinned=True),
    "Read as": st.column_config.SelectboxColumn(
        options=[AS_FOUND, *READ_AS.values()],
        required=True,
        width=100,
        help="Change what a column is taken for: numbers, names (each different text its own), or nothing at all.",
    ),
    "Type": st.column_config.TextColumn(width=76, help="What the column is read as now."),
    "Spread": st.column_config.BarChartColumn(
        width=72,
        y_min=0,
        help="Numbers: how many rows from the smallest value (left) to the largest. Names: rows of the most frequent.",
    ),
    "Values": st.column_config.TextColumn(width=170, help="Smallest and largest; or the most frequent names."),
    "Missing": st.column_config.NumberColumn(format="localized", width=66, help="Rows without a value."),
    "Missing %": st.column_config.NumberColumn(format="%.1f %%", width=80, help="Share of the rows without a value."),
    "Different": st.column_config.TextColumn(alignment="right", width=80, help="How many different values there are."),
    REMARKS: st.column_config.TextColumn(width=185),
    COMPARED: st.column_config.TextColumn(
        width=145,
        help="Names: the one that coefficients of the others are differences to. Type another name of that column.",
    ),
}


def _choices(read: dict[str, Any]) -> dict[str, str]:
    return {name: label for knob, label in READ_AS.items() for name in read.get(knob, [])}


def _searched(columns: Sequence[ColumnLook]) -> Sequence[ColumnLook]:
    if len(columns) <= MANY:
        return columns
    wanted = st.text_input(
        "Find a column",
        placeholder=f"Find one of {len(columns):,} columns by a part of its name",
        label_visibility="collapsed",
        icon=":material/search:",
        key="column-search",
    )
    return [column for column in columns if wanted.casefold() in column.name.casefold()]


def _turned_to(columns: Sequence[ColumnLook]) -> Sequence[ColumnLook]:
    """Those of the page that was turned to: a browser does not take the figures of a hundred thousand at once."""
    if len(columns) <= SHOWN:
        return columns
    pages = -(-len(columns) // SHOWN)
    key = f"column-page:{pages}"  # another search begins at its first page
    with st.container(horizontal=True, vertical_alignment="center"):
        page = int(st.number_input("Page of columns", 1, pages, key=key, width=160))
        first = (page - 1) * SHOWN
        shown = columns[first : first + SHOWN]
        line(
            f"Columns {first + 1:,} to {first + len(shown):,} of {len(columns):,} are shown; "
            "turn the page for others, or find them by a part of their name."
        )
    return shown


def described(columns: Sequence[ColumnLook], read: dict[str, Any], target: str | None, rows: int) -> pd.DataFrame:
    """One row a column of the file, in plain words."""
    chosen = _choices(read)
    levels = levels_by_column(read.get("reference", []), [column.name for column in columns])
    return pd.DataFrame(
        {
            "Column": shortened(column.name, NAME),
            "Read as": chosen.get(column.name, AS_FOUND),
            "Type": wording.TYPES.get(column.type, column.type),
            "Spread": list(column.histogram or (count for _, count in column.frequent or ())),
            "Values": _values(column),
            "Missing": column.missing,
            "Missing %": 100 * column.missing / rows if rows else 0.0,
            "Different": column.different,
            REMARKS: _remarks(column, target),
            COMPARED: _compared_with(column, levels),
        }
        for column in columns
    )


def _values(column: ColumnLook) -> str:
    """As many as a cell has room for: a name that ends in the middle would look whole."""
    texts = [f"{shortened(level, LONGEST)} ({count:,})" for level, count in column.frequent or ()]
    if column.min is not None or not texts:
        return _whole_values(column)
    for most in range(len(texts), 1, -1):
        said = ", ".join([*texts[:most], *(["…"] if most < len(texts) else [])])
        if len(said) <= VALUES:
            return said
    return texts[0] if len(texts) == 1 else f"{texts[0]}, …"


def _whole_values(column: ColumnLook) -> str:
    if column.min is not None:
        return f"{_end(column.min)} to {_end(column.max)}"
    frequent = column.frequent or ()
    more = ["…"] if frequent and column.distinct > len(frequent) else []
    return ", ".join([*(f"{level} ({count:,})" for level, count in frequent), *more])


def _end(value: Any) -> str:
    return value.removesuffix("T00:00:00Z") if isinstance(value, str) else number(value, 6)


def _remarks(column: ColumnLook, target: str | None) -> str:
    first = ["the column to predict"] if column.name == target else []
    if column.written:
        first.append(f"written {column.written_told}")
    said = [wording.FLAGS.get(flag, flag) for flag in column.flags]
    if "high_cardinality" in column.flags and "id_like" not in column.flags:  # a key of rows is no use with any limit
        said.append("unless Most levels is raised")
    return ", ".join([*first, *said])


def _compared_with(column: ColumnLook, chosen: dict[str, str]) -> str:
    """The level that was chosen, else the first; what a mark is compared with is that there is none."""
    level = chosen.get(column.name) or _first(column)
    return NO_VALUE if level == MISSING else level


def _first(column: ColumnLook) -> str:
    return MISSING if "mark" in column.flags else next(iter(column.levels or ()), "")


def _edited(turn: int, found: Asked, key: str, columns: Sequence[ColumnLook]) -> None:
    if places.is_over(turn):
        return
    read = found.read
    for row, cells in st.session_state[key]["edited_rows"].items():
        column = columns[int(row)]
        if "Read as" in cells:
            read = changed(read, column.name, cells["Read as"] or AS_FOUND)
        if COMPARED in cells:
            read = compared_with(read, column, cells[COMPARED] or "")
    read_otherwise(found, read)


def compared_with(read: dict[str, Any], column: ColumnLook, level: str) -> dict[str, Any]:
    """The same with another level that those of a column are compared with; without a text of its own, as at first."""
    name, levels = column.name, [*(column.levels or ()), *([MISSING] if column.missing else [])]
    level = MISSING if level == NO_VALUE else level
    if level and level not in levels:
        st.toast(literal.label(f"'{name}' has no name '{level}' to compare with."), icon=":material/info:")
        return read
    rest = [text for text in read.get("reference", []) if not text.startswith(f"{name}=")]
    return {**read, "reference": [*rest, *([f"{name}={level}"] if level and level != _first(column) else [])]}


def changed(read: dict[str, Any], name: str, choice: str) -> dict[str, Any]:
    """The reading options with one column read as something else."""
    if _choices(read).get(name, AS_FOUND) == choice:
        return read
    lists = {knob: [other for other in read.get(knob, []) if other != name] for knob in READ_AS}
    for knob, label in READ_AS.items():
        if label == choice:
            lists[knob].append(name)
    return {**read, **lists}
