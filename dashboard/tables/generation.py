"""Made-up tables on request: how large, the job that makes one, and the wait for it. The making is elsewhere."""

from __future__ import annotations

import streamlit as st

from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import heading, notice
from shoal.dashboard.parts.waiting import asleep, watch
from shoal.dashboard.tables import at_hand
from shoal.dashboard.tables.samples import Sample, generated_sample
from shoal.data.generated import COLUMNS, INTERCEPT, NOISE, ROWS, Shape, shape_at, shortage
from shoal.errors import ConfigError, TrainingError
from shoal.home import jobs_directory
from shoal.runs.launch import Run, launch_job
from shoal.settings.values import page_config
from shoal.words import file_size


def size_form() -> None:
    """How large the table is to be; made in a process of its own."""
    usual = Shape()
    rows = st.number_input(
        "Rows", *ROWS, value=usual.rows, step=100_000, key="generated-rows", help="How many rows the table gets."
    )
    columns = st.number_input(
        "Columns",
        *COLUMNS,
        value=usual.columns,
        step=10,
        key="generated-columns",
        help="How many columns it gets, the one to predict among them.",
    )
    try:
        shape = Shape(int(rows), int(columns))
    except ConfigError as error:
        notice("warning", wording.told(error))
        return
    made = shape.path.is_file()
    st.caption("It is there already." if made else f"About {file_size(shape.bytes)} on disk.")
    why = "" if made else shortage(shape)
    if why:
        notice("warning", why)
    label = "Use it" if made else "Make it"
    usable = asleep()
    usable["disabled"] = not made and (bool(why) or usable["disabled"])
    st.button(label, type="primary", key="generate", on_click=_ask, args=(shape,), width="stretch", **usable)


def _ask(shape: Shape) -> None:
    """Start the making, unless it is made or being made, and go to its address."""
    job = _job_of(shape)
    if not shape.path.is_file() and not (job and job.is_active):
        try:
            config = page_config(shape.path)
            launch_job("generate", config, {"rows": shape.rows, "columns": shape.columns}, anew=True)
        except (TrainingError, OSError) as error:
            st.session_state["problem"] = wording.told(error)
            return
    places.stay(data=generated_sample(shape).key)


def _job_of(shape: Shape) -> Run | None:
    """The job that makes or made this table; an address alone never starts one."""
    for directory in jobs_directory().glob("generate/*"):
        job = Run(directory).job
        if (job.get("rows"), job.get("columns")) == (shape.rows, shape.columns):
            return Run(directory)
    return None


def unmade_view(sample: Sample) -> None:
    """A made-up table that is not there: being made, failed, or not yet asked for."""
    heading(sample.title)
    shape = shape_at(sample.path)
    job = _job_of(shape) if shape else None
    if job and job.is_active:
        watch(job, "Making the table")
        st.caption("It is made in a process of its own. Close this tab if you like; this address finds it again.")
        return
    if job and job.error:
        notice("error", wording.told(job.error), "The table could not be made")
    else:
        notice("info", "This made-up table is not here yet. It can be made, always the same to the last digit.")
    with st.container(horizontal=True):
        if shape:
            st.button("Make it", type="primary", key="generate", on_click=_ask, args=(shape,), **asleep())
        at_hand.other_data("data")


def truth(sample: Sample) -> None:
    """What a fit of a made-up table should find."""
    shape = shape_at(sample.path)
    if shape is None:
        return
    with st.expander("The true coefficients", icon=":material/fact_check:"):
        st.caption(
            f"The column to predict is {INTERCEPT:g} plus each column times its coefficient, plus chance "
            f"with a standard deviation of {NOISE:g}. A fit should find these, the closer the more rows there are."
        )
        table = {"Column": list(shape.coefficients), "True coefficient": list(shape.coefficients.values())}
        st.dataframe(table, hide_index=True, height=250, alt="The true coefficient of each column")
