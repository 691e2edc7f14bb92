"""What the parser saw of a file, and the options to read it otherwise; the reading itself is a process elsewhere.

The address is the truth: options are drawn from it, and a changed one changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from shoal.dashboard.data import following
from shoal.dashboard.parts import places
from shoal.dashboard.parts.literal import line, notice
from shoal.dashboard.parts.wording import CHOICES, LABELS, default_of, help_for
from shoal.dashboard.tables import choices
from shoal.dashboard.tables.sources import Asked, tidy
from shoal.lazy.frames import pd
from shoal.results.answers.table import BadRows, TableLook
from shoal.settings.config import BAD_ROW_CHOICES, PARTS, RunConfig
from shoal.words import line_told, list_items, list_text, plural

AUTO = "automatic"
DELIMITERS = {AUTO: None, "comma": ",", "semicolon": ";", "tab": "\t", "bar |": "|", "space": " "}
DECIMALS = {AUTO: None, "point": ".", "comma": ","}
THOUSANDS = {AUTO: None, "none": "", "comma": ",", "point": ".", "space": " ", "apostrophe": "'"}
ENCODINGS = {  # every one that is guessed, and some that are not; by the script that it is for
    AUTO: None, "UTF-8": "utf-8", "UTF-16": "utf-16", "Western European (Latin-1)": "latin-1",
    "Western European (Windows-1252)": "cp1252", "Western European (DOS, cp850)": "cp850",
    "Western European (old Macintosh)": "mac-roman", "Central European (Windows-1250)": "cp1250",
    "Central European (ISO 8859-2)": "iso8859-2", "Baltic (Windows-1257)": "cp1257", "Turkish (Windows-1254)": "cp1254",
    "Cyrillic (Windows-1251)": "cp1251", "Cyrillic (KOI8-R)": "koi8-r", "Cyrillic (DOS, cp866)": "cp866",
    "Greek (Windows-1253)": "cp1253", "Hebrew (Windows-1255)": "cp1255", "Arabic (Windows-1256)": "cp1256",
    "Thai (cp874)": "cp874", "Japanese (Shift-JIS)": "cp932", "Japanese (EUC-JP)": "euc_jp",
    "Simplified Chinese (GB 18030)": "gb18030", "Traditional Chinese (Big5)": "big5", "Korean (cp949)": "cp949",
}  # fmt: skip
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
TOKENS = ("missing", "also_missing", "dates", "limits", "one_spelling")
PLACEHOLDERS = {
    "missing": "NA, NaN, null, ? and the like",
    "also_missing": "none",
    "dates": AUTO,
    "limits": "none are read",
    "one_spelling": "none",
}
WRITTEN = (
    "sheet",
    *MARKS,
    "skip_lines",
    "on_bad_rows",
    "parts",
    *TOKENS,
)  # the knobs of this form; types belong to the column table


# ------------------------------------------------------------------ options


def reading_options(found: Asked, open_: bool) -> None:
    """The folded part with overrides of what was detected; each change reads the file again at once."""
    with st.expander("Reading options", icon=":material/tune:", expanded=open_):
        st.caption("How the file is written is detected from its content. If something looks wrong, set it here.")
        with st.grid(3, min_column_width=240):
            for knob, marks in MARKS.items():
                _choice(found, knob, marks)
            _lines(found)
            _words(found, "on_bad_rows", BAD_ROW_CHOICES)
            if found.table.path.is_dir():
                _words(found, "parts", PARTS)
            for knob in TOKENS:
                _tokens(found, knob)
        if any(knob in found.read for knob in WRITTEN):
            st.button(
                "Detect everything again", icon=":material/undo:", on_click=_forget, args=(found,), key="as-found"
            )


def sheet_choice(found: Asked, result: TableLook) -> None:
    """Which sheet of a workbook is read, where it has several."""
    if len(result.sheets) > 1:
        st.selectbox(options=result.sheets, width=420, **_shown(found, "sheet", result.dialect["sheet"]))


def _shown(found: Asked, knob: str, value: Any) -> dict[str, Any]:
    """A widget that shows what the address says, even after the back button, and changes the address."""
    chooses = places.chooses(f"{found.table.key}:{knob}", value, partial(_changed, found, knob))
    return {"label": LABELS[knob], "help": help_for(knob), **chooses}


def _choice(found: Asked, knob: str, marks: dict[str, Any]) -> None:
    now = found.read.get(knob)
    names = {name: mark for name, mark in marks.items() if name != AUTO and mark == now}
    options = list(marks) if now is None or names else [*marks, _other(now)]
    st.selectbox(options=options, **_shown(found, knob, AUTO if now is None else next(iter(names), _other(now))))


def _other(mark: Any) -> str:
    """A mark from the command line or an address for which the list has no name."""
    return f"other: {mark}"


def _lines(found: Asked) -> None:
    common = _shown(found, "skip_lines", found.read.get("skip_lines"))
    st.number_input(min_value=0, max_value=1_000_000, value=None, step=1, placeholder=AUTO, **common)


def _words(found: Asked, knob: str, options: Sequence[str]) -> None:
    now = found.read.get(knob, default_of(knob))
    st.selectbox(options=options, format_func=CHOICES.__getitem__, **_shown(found, knob, now))


def _tokens(found: Asked, knob: str) -> None:
    common = _shown(found, knob, list_text(found.read.get(knob, [])))
    if knob in ("missing", "also_missing"):
        common["help"] += (
            ' Write them with commas between, and one that has a comma in double quotes: NA,-999,"<0,5". '
            "An empty field always counts."
        )
    st.text_input(placeholder=PLACEHOLDERS[knob], **common)


def _changed(found: Asked, knob: str, value: Any) -> None:
    if knob in MARKS:
        value = MARKS[knob].get(value, found.read.get(knob))
    elif knob in TOKENS:
        value = [token.strip() for token in list_items(value) if token.strip()] or RunConfig().as_dict()[knob]
    read_otherwise(found, {**found.read, knob: value})


def _forget(found: Asked) -> None:
    read_otherwise(found, {knob: value for knob, value in found.read.items() if knob not in WRITTEN})


def read_otherwise(found: Asked, read: dict[str, Any]) -> None:
    """Make this how the table is read; fit for callbacks.

    A widget that is new to the browser or to the server says what it holds: that is no choice, and the address may
    have changed meanwhile.
    """
    if (read := tidy(read)) == found.read:
        return
    otherwise = replace(found, read=read)
    stood = following.stand(found) if following.renames(found.read, read) else following.kept(found)
    if stood and (done := following.followed(otherwise, stood, following.look_at_names(otherwise).table)):
        following.remember_lost(done)
        _take(done.found)
    else:  # where the look takes long, choices follow as soon as it is there
        _take(otherwise, stood)


def follow_late(found: Asked, table: TableLook | None) -> None:
    """Take choices over to the names of this reading, `table`, where those were not known at once."""
    stood = following.kept(found)
    done = following.followed(found, stood, table) if following.names_columns(found) else None
    if done and (stood or done.lost):
        following.remember_lost(done)
        _take(done.found)
        if done.found != found:
            st.rerun()


def _take(found: Asked, stood: following.Stand | None = None) -> None:
    if stood:
        following.remember_stand(found, stood)
    choices.keep(found, stood.as_dict() if stood else None)
    places.stay(**found.address)


# ------------------------------------------------------------------ what was seen


def summary(found: TableLook) -> str:
    """How the file is written, in one line."""
    dialect = found.dialect
    names = {mark: name for name, mark in DELIMITERS.items() if mark}
    between = names.get(dialect["delimiter"], dialect["delimiter"])
    mark = "comma" if dialect["decimal"] == "," else "point"
    parts = [f"fields separated by {between}", f"decimal {mark}{found.decimal_told}", dialect["encoding"].upper()]
    if dialect.get("sheet"):
        parts = [f"sheet {dialect['sheet']}"]
    parts.append("first row names the columns" if dialect["header"] else "no header row")
    if dialect["skip_lines"]:
        parts.append(f"{plural(dialect['skip_lines'], 'line')} above the table left out")
    if dialect["comment"]:
        parts.append(f"lines that begin with {dialect['comment']} left out")
    return "Read as: " + " · ".join(parts)


def bad_rows(found: Asked, bad: BadRows) -> None:
    """The rows that could not be read, with their lines in the file, and the way to do without them."""
    count = bad.lost
    if not count:
        return
    lines = [entry.as_dict() for entry in bad.first]
    more = f"; and {count - 1:,} more" if count > 1 else ""
    skipped = found.read.get("on_bad_rows") == "skip"
    rule = "Models leave all of them out." if skipped else "A model leaves out up to 1 % of such rows, at most 100."
    example = f"{line_told(lines[0])}{more}."
    with st.container(horizontal=True, vertical_alignment="center", key="bad-rows"):
        notice("warning", f"{example}\n{rule}", f"{plural(count, 'row')} could not be read")
        if not skipped:
            without = partial(read_otherwise, found, {**found.read, "on_bad_rows": "skip"})
            st.button("Leave them all out", key="skip-bad-rows", on_click=without, width="content")
    if count > 1:
        with st.expander("All lines that could not be read" if count <= 100 else "The first 100 such lines"):
            names = {"file": "File", "line": "Line", "problem": "What is wrong"}
            table = pd.DataFrame(lines).rename(columns=names)
            st.dataframe(table, hide_index=True, alt="Lines of the file that could not be read, and what is wrong")


def preview(found: TableLook) -> None:
    """The first rows, as the texts that are in the file."""
    rows = found.preview
    if not rows:
        st.caption("There are no rows below the header.")
        return
    # Columns go by number: a name may come twice for Arrow, or be taken for a setting of ours.
    names = [column.name for column in found.columns[: len(rows[0])]]
    table = pd.DataFrame(rows, columns=[str(i) for i in range(len(names))])
    config = {str(i): st.column_config.TextColumn(name) for i, name in enumerate(names)}
    st.dataframe(
        table,
        hide_index=True,
        height=250 if len(rows) > 6 else "content",
        column_config=config,
        alt=f"The first {len(rows)} rows of the file, as texts",
    )
    all_ = len(found.columns)
    of = f" in the first {len(names):,} of {all_:,} columns" if len(names) < all_ else ""
    line(
        f"The first {plural(len(rows), 'row')}{of}, as the texts that are in the file, before anything is made of them."
    )
