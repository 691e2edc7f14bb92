"""The Runs page: the list of all runs, with search, filters and pages; actions and comparisons are elsewhere."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.forms import whose
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import line, notice, section
from shoal.dashboard.parts.states import ARCHIVED, GROUPS, STATES
from shoal.dashboard.runs import actions as run_actions
from shoal.dashboard.runs import columns as run_columns
from shoal.dashboard.runs import compare
from shoal.dashboard.runs.actions import CHOSEN, FRESH, GOING
from shoal.dashboard.runs.listing import (
    EVERY,
    SIZES,
    SORTS,
    Listing,
    View,
    groups,
    headline_words,
    model_words,
    table,
    view_of,
)
from shoal.dashboard.runs.listing import listing as listed
from shoal.dashboard.runs.named_ticks import name_ticks
from shoal.errors import StateError
from shoal.home import runs_directory
from shoal.library import accounts, archives
from shoal.library.accounts import Summary
from shoal.runs.scheduling import keep_going
from shoal.words import MODELS, plural

LAST = "runs_last"  # in the session: the address of the list as it was last shown
REFRESH = 2.0  # seconds between two looks at runs that go on
ROW = 35  # pixels
LETTER, MARGIN = 7, 20  # pixels of a letter in a cell, and beside the text


def show() -> None:
    if "compare" in st.query_params:
        compare.show(st.query_params["compare"])
        return
    if going := st.session_state.pop(GOING, None):
        places.go("train", run=going)
    keep_going()
    view = _asked()
    st.title("Runs", anchor=False)
    try:
        names, runs = accounts.run_names(), accounts.summaries(archived=True)
    except StateError as error:
        notice("error", wording.told(error), "The runs cannot be listed")
        return
    run_actions.watch_jobs()
    if not runs:
        _nothing_yet()
        return
    runs = whose.only_mine(runs, _place)
    _list(runs, view)
    if active := [run for run in runs if run.is_active]:
        _refresh(names, active)


def _place(run: Summary) -> Path:
    return archives.archive_path(run.id) if run.archived else runs_directory() / run.id


def _asked() -> View:
    """What the address asks for. Leaving for a run's page leaves `run` in the history: then, the view before that."""
    address = st.query_params.to_dict()
    if "run" in address:
        address = st.session_state.get(LAST, {})
    st.session_state[LAST] = address
    return view_of(address)


def _nothing_yet() -> None:
    with st.container(border=True, horizontal_alignment="center", gap="small"):
        st.space("small")
        st.header("No runs yet", anchor=False, text_alignment="center")
        st.markdown(
            "Every fit that is started on these pages gets a line here: what it was, how good it is and how long it "
            "took. You can compare runs, go on with them, tag them, and put them away. "
            "A fit in the terminal is here with `--name`, `--register`, `--detach` or `--solver gradient`; "
            "others are over with their command.",
            text_alignment="center",
        )
        places.link("data", "Choose data and start a fit", ":material/table_view:", **places.CHOOSE)
        st.space("small")


def _list(runs: list[Summary], view: View) -> None:
    here = [run for run in runs if view.archived or not run.archived]
    found = listed(here, view)
    _filters(view, found, sum(run.archived for run in runs))
    bar = st.container()
    if found.shown:
        run_columns.chooser()
        for title, own in groups(found.shown, view.sort):
            _table(runs, found, own, title)
        name_ticks("Chosen")
        _pages(view, found)
    else:
        _no_match(view, len(here))
    with bar:
        run_actions.bar(_chosen(runs, found))


@st.fragment(run_every=REFRESH)
def _refresh(names: list[str], active: list[Summary]) -> None:
    """Draw the page again when something is no longer as it was drawn; not under an open dialog."""
    if run_actions.dialog_is_open():
        return
    if accounts.run_names() != names or accounts.have_gone_on(active):
        st.rerun()


# ------------------------------------------------------------------ filters, kept in the address


def _filters(view: View, found: Listing, archived: int) -> None:
    def chooses(part: str) -> dict[str, Any]:
        """Another list begins at its first page."""
        shown = getattr(view, part)
        shown = list(shown) if isinstance(shown, tuple) else shown
        return places.chooses(f"runs_{part}", shown, lambda said: _turn_to(view, **{part: said}, page=1))

    hidden: dict[str, Any] = {"label_visibility": "collapsed"}
    search, model, solver, sort = st.columns([5, 2, 2, 3], vertical_alignment="bottom")
    search.text_input(
        "Search", placeholder="File, column, tag, note or run", icon=":material/search:",
        help="Every word has to be somewhere in the run's name, file, target, tags or note.",
        **hidden, **chooses("text"),
    )  # fmt: skip
    model.selectbox("Model", [EVERY, *MODELS], format_func=_model_words, **hidden, **chooses("model"))
    solver.selectbox("Solver", [EVERY, *wording.SOLVERS], format_func=_solver_words, **hidden, **chooses("solver"))
    sort.selectbox("Order", list(SORTS), format_func=SORTS.__getitem__, **hidden, **chooses("sort"))
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.pills(
            "State", list(GROUPS), selection_mode="multi", wrap=True,
            format_func=lambda kind: f"{GROUPS[kind]} {found.counts[kind]:,}", **hidden, **chooses("states"),
        )  # fmt: skip
        if archived or view.archived:
            st.toggle(
                f"Show archived ({archived:,})", help="Runs that were packed into the archive. Restore one to open it.",
                **chooses("archived"),
            )  # fmt: skip


def _turn_to(view: View, **changes: Any) -> None:
    """Make this view with some changes the address; fit for callbacks."""
    said: dict[str, Any] = {part: tuple(v) if isinstance(v, list) else v for part, v in changes.items()}
    places.stay(**View(**{**vars(view), **said}).address)


def _model_words(model: str) -> str:
    return "All models" if model == EVERY else MODELS[model]


def _solver_words(solver: str) -> str:
    return "All solvers" if solver == EVERY else wording.SOLVERS[solver]


def _no_match(view: View, count: int) -> None:
    if not count:
        notice("info", "All runs are in the archive. Switch on “Show archived” to see them.", "Nothing to show")
        return
    with st.container(border=True, horizontal_alignment="center", gap="small"):
        st.space("small")
        st.header("No run matches", anchor=False, text_alignment="center")
        st.markdown(f"None of {plural(count, 'run')} fits the search and the filters above.", text_alignment="center")
        keep = View(archived=view.archived, sort=view.sort, size=view.size)
        st.button("Show all runs", icon=":material/filter_alt_off:", on_click=places.stay, kwargs=keep.address)
        st.space("small")


# ------------------------------------------------------------------ the table


def _table(runs: list[Summary], found: Listing, shown: list[Summary], title: str) -> None:
    """These runs; below a heading where they are a group."""
    if title:
        section(f"{title} ({plural(len(shown), 'run')})")
    ids = [run.id for run in shown]
    chosen = st.session_state.get(CHOSEN, [])
    fresh = st.session_state.get(FRESH, 0)
    key = f"runs-{fresh}-{hashlib.sha256(' '.join(ids).encode()).hexdigest()[:12]}"  # rows are chosen by their place
    event = st.dataframe(
        run_columns.chosen(table(shown), shown, found.shown),
        key=key, hide_index=True, on_select="rerun", selection_mode="multi-row",
        selection_default={"selection": {"rows": [i for i, run_id in enumerate(ids) if run_id in chosen]}},
        column_config=_columns(shown), height=ROW * (len(ids) + 1) + 3, row_height=ROW, placeholder="–",
        alt=f"{f'{title}: ' if title else ''}{plural(len(ids), 'run')}; choose rows for the actions above the table",
    )  # fmt: skip
    here = [ids[i] for i in event.selection.rows if i < len(ids)]
    known = {run.id for run in runs}
    st.session_state[CHOSEN] = [r for r in chosen if r in known and r not in ids] + here


def _chosen(runs: list[Summary], found: Listing) -> list[Summary]:
    """What a person ticked and can find in the list: what a search or filter hides is never acted on."""
    wanted = st.session_state[CHOSEN] = [r for r in st.session_state.get(CHOSEN, []) if r in found.ids]
    return [run for run in runs if run.id in wanted]


def _columns(shown: list[Summary]) -> dict[str, Any]:
    config = st.column_config
    tags = sorted({tag for run in shown for tag in run.tags})
    ids = [run.id for run in shown]
    states = [*STATES.values(), ARCHIVED]
    score: dict[str, Any] = {"format": "%.4f", "width": 85}
    return {
        "Open": config.ButtonColumn(
            "", width=75, pinned=True, type="secondary", key=f"open-{ids[0]}", on_click=_open, args=(ids,)
        ),
        "State": config.MultiselectColumn(
            width=105, options=[state.word for state in states], color=[state.colour for state in states],
            help="What the run is doing, or how it ended",
        ),
        "Name": config.TextColumn(width=150, help="What somebody called it; 'Tags and note' changes it"),
        "Model": config.TextColumn(width=_wide_as([model_words(run) for run in shown], 85)),
        "Predicts": config.TextColumn(width=100, help="The column that the model predicts"),
        "File": config.TextColumn(width=125),
        "R² test": config.NumberColumn(
            help="Share of the spread explained, on rows kept for testing; 1 is perfect", **score
        ),
        "Score": config.TextColumn(
            width=_wide_as([headline_words(run) for run in shown], 120),  # Deviance explained 0.0931
            help="Of models that have no R²: AUC of yes or no, the share of deviance explained of others"
        ),
        "R² training": config.NumberColumn(help="The same on the rows it was fitted to", **score),
        "Started": config.TextColumn(width=105),
        "Took": config.TextColumn(width=70, help="Time at work"),
        "Tags": config.MultiselectColumn(width=85, options=tags, color="#7a57a6"),
        "Solver": config.TextColumn(width=130, help="Exact, or gradient steps and how they are synchronised"),
        "Epochs": config.TextColumn(width=80, help="Times that it went over all rows, of those planned"),
        "Distance": config.TextColumn(
            width=80, help="How far the loss is above its optimum, relative to the start; 0 is exact"
        ),
        "Alpha": config.NumberColumn(format="%.4g", width=85, help="How strongly coefficients are pulled to zero"),
        "Search": config.TextColumn(width=150, help="The search that it is a trial of"),
        "RMSE test": config.NumberColumn(
            format="%.4g", help="Typical error on rows kept for testing, in the target's unit"
        ),
        "RMSE training": config.NumberColumn(format="%.4g", help="Typical error on the rows it was fitted to"),
        "Note": config.TextColumn(width=200),
        "Owner": config.TextColumn(width=110, help="Whose run it is"),
        "Host": config.TextColumn(width=110, help="The run host that does it, or did it last"),
        "Exact time": config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", width=150),
        "Run": config.TextColumn(width=190, help="Its name on the command line"),
    }  # fmt: skip


def _wide_as(texts: list[str], least: int) -> int:
    """Pixels that the longest of these needs: none of them is longer than a line."""
    return max(least, LETTER * max(map(len, texts), default=0) + MARGIN)


def _open(ids: list[str]) -> None:
    """A click on a row: `ids` are the rows as they were when it was drawn."""
    clicked = ids[st.session_state[f"open-{ids[0]}"].row]
    if run_actions.is_archived(clicked):
        run_actions.restore([clicked])
    else:
        st.session_state[GOING] = clicked


def _pages(view: View, found: Listing) -> None:
    first = (found.page - 1) * view.size + 1
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        line(f"{first:,} to {first + len(found.shown) - 1:,} of {plural(found.found, 'run')}")
        if found.pages > 1:
            st.pagination(
                found.pages, **places.chooses("runs_page", found.page, lambda n: _turn_to(view, page=n), "default")
            )
        if found.found > SIZES[0]:
            st.selectbox(
                "Runs on a page", SIZES, format_func={n: f"{n} on a page" for n in SIZES}.__getitem__,
                label_visibility="collapsed", width=150,
                **places.chooses("runs_size", view.size, lambda n: _turn_to(view, size=n, page=1)),
            )  # fmt: skip
