"""One search, by its address: live while it goes on; its trials, its charts, and what can be done with it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from shoal.dashboard.forms import whose
from shoal.dashboard.parts import places, wording
from shoal.dashboard.parts.literal import heading, line, notice
from shoal.dashboard.parts.states import State, state_of
from shoal.dashboard.search import charts as search_charts
from shoal.dashboard.tables import at_hand
from shoal.dashboard.tables.needed import nothing_there
from shoal.dashboard.tables.sources import Asked, table_of
from shoal.errors import Reason, StateError, TrainingError
from shoal.lazy.frames import pd
from shoal.people.deeds import why_not
from shoal.people.rights import Verb
from shoal.runs.documents import BROKEN_OFF
from shoal.runs.folder import ACTIVE
from shoal.search import folder
from shoal.search.folder import Search, find_search
from shoal.search.plan import ENOUGH, Account, SearchPlan, Trial
from shoal.search.space import value_text
from shoal.words import MODELS, duration, plural, power_of_ten

REFRESH = 1.0  # seconds between two looks at a search that goes on
SAID = "search:said"  # in the session: what became of the last click
QUIET = {"displayModeBar": False}
ROW = 35  # pixels
TABLE = 12  # rows that are seen at once


def show(search_id: str) -> None:
    search = find_search(search_id)
    if search is None:
        nothing_there("The address names a search that is not on this machine; it may have been removed.")
        return
    try:
        plan = search.plan
    except StateError as error:
        heading(f"Search {search.id}")
        notice("error", wording.told(error), "This search cannot be read")
        return
    active = search.is_active
    # The same fragment in both cases: one that is drawn late finds the page as it left it.
    st.fragment(_drawn, run_every=REFRESH if active else None)(search, plan, active)


def _drawn(search: Search, plan: SearchPlan, active: bool) -> None:
    if active and not search.is_active:
        st.rerun()
    standing, account = search.standing, search.account
    state = standing.state
    _head(search, plan, state, account)
    if state in BROKEN_OFF or standing.reason == Reason.BAD_STATE:
        notice("error" if state == "failed" else "warning", wording.told(standing), "The search did not finish")
    _controls(search, plan, account, state)
    if said := st.session_state.pop(SAID, None):
        notice(*said)
    if not account.trials:
        _nothing_yet(state)
        return
    _figures(plan, account, state)
    _best(search, account)
    _charts(plan, account)
    _table(plan, account)


def _head(search: Search, plan: SearchPlan, state: str, account: Account) -> None:
    config = search.folder.config
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="search-head"):
        heading(plan.name or f"Search for settings: {MODELS.get(str(config.get('model')), '')} model")
        known = ended_as(state, account)
        st.badge(known.word, icon=known.symbol, color=known.badge)
        whose.sharing(search.directory)
    at_hand.take_up(str(config.get("file", "")))
    table = table_of(str(config.get("file", "")))
    name = table.title if table else str(config.get("file", "")).rpartition("/")[2]
    line(
        f"{config.get('target')} in {name} · soonest within {power_of_ten(plan.reach)} of the exact optimum, "
        f"{duration(plan.seconds)} of training a trial at most · search {search.id}"
    )


def ended_as(state: str, account: Account) -> State:
    """A search that has ended without a trial at the goal is no success."""
    if state == "finished" and not any(trial.state == "reached" for trial in account.trials):
        return State("Finished, goal not reached", "orange", "flag", "#96690a")
    return state_of(state)


def _nothing_yet(state: str) -> None:
    with st.container(border=True):
        if state in ACTIVE:
            line("The first trial is being started: with your own settings, which the others have to beat.")
            st.progress(0.0)
        else:
            line("No trial finished.")


# ------------------------------------------------------------------ what can be done


def _controls(search: Search, plan: SearchPlan, account: Account, state: str) -> None:
    held = why_not(Verb.CHANGE, search.directory)
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="search-controls"):
        if held:
            line(held)
        elif state in ("running", "preparing"):
            if st.button(
                "Stop the search",
                icon=":material/stop:",
                key="search:stop",
                help="Trials that train are tried again later.",
            ):
                _try(lambda: folder.stop(search), "It stops as soon as its trials have ended.")
        elif state == "stopping":
            st.button("Stopping", icon=":material/stop:", disabled=True, key="search:stopping")
        else:
            _continue(search, plan, account)
        if account.best is not None and not held:
            _save(search)
        table = table_of(str(search.folder.config.get("file", "")))
        if table:
            address = Asked(table, {}, search.folder.config.get("target")).address
            places.link("search", "Another search", icon=":material/add:", **address)


def _continue(search: Search, plan: SearchPlan, account: Account) -> None:
    left = plan.trials - account.done
    more = st.number_input(
        "More trials", 1, 10_000, max(1, left if left > 0 else plan.trials), key="search:more", width=190
    )
    if st.button(
        "Continue", icon=":material/play_arrow:", key="search:continue", help="It keeps all that was learnt so far."
    ):
        _try(lambda: folder.go_on(search, account.done + int(more)), "")
        st.rerun()


def _save(search: Search) -> None:
    try:
        version = folder.saved_best(search)
    except TrainingError as error:  # the database of a team may be away
        line(wording.told(error))
        return
    if version is not None:
        places.link(
            "models", f"Saved as {version.name}, version {version.number}", icon=":material/deployed_code:",
            model=version.name, version=str(version.number),
        )  # fmt: skip
    elif st.button("Save the best to Models", type="primary", icon=":material/deployed_code:", key="search:save"):
        _try(lambda: folder.save_best(search), "The model of the best trial is among the models now.")
        st.rerun()


def _try(action: Any, done: str) -> None:
    try:
        action()
    except (TrainingError, OSError) as error:
        st.session_state[SAID] = ("error", wording.told(error))
    else:
        if done:
            st.session_state[SAID] = ("success", done)


# ------------------------------------------------------------------ figures


def _figures(plan: SearchPlan, account: Account, state: str) -> None:
    best, own = account.best, account.own
    with st.container(horizontal=True, key="scores"):
        st.metric("Trials", f"{account.done} of {plan.trials}", help="Done, and planned in total.")
        st.metric(
            "Given up",
            account.count("pruned", "diverged"),
            help="Stopped early: worse than others after the same seconds of training.",
        )
        st.metric("Best so far", _worth(best, plan), help="Seconds to the goal, or how far from the optimum it ended.")
        st.metric("Your own settings", _worth(own, plan), help="The first trial: what the others have to beat.")
    if state in ACTIVE:
        running = [trial for trial in account.trials if trial.state == "running"]
        st.progress(min(1.0, account.done / plan.trials))
        for trial in running:
            at = (
                "is being started"
                if trial.distance is None
                else f"is at {power_of_ten(trial.distance)} after {trial.seconds:.1f} s"
            )
            line(f"Trial {trial.number} {at}: {_words(trial)}")


def _worth(trial: Trial | None, plan: SearchPlan) -> str:
    if trial is None:
        return "–"
    if trial.state == "reached":
        return duration(trial.seconds)
    return "diverged" if trial.state == "diverged" else f"{power_of_ten(trial.distance or 1.0)} left"


def _words(trial: Trial) -> str:
    words = []
    for knob, value in trial.knobs.items():
        text = wording.choice_for(knob, value) if isinstance(value, str) else value_text(knob, value)
        words.append(f"{wording.LABELS[knob]}: {text}")
    return " · ".join(words)


def _best(search: Search, account: Account) -> None:
    best = account.best
    if best is None:
        return
    with st.container(border=True):
        st.markdown(f"**The best so far: trial {best.number}**")
        line(f"{best.cause}\n{_words(best)}")
        with st.container(horizontal=True):
            places.link("train", "See its run", icon=":material/monitoring:", run=best.run)
            table = table_of(str(search.folder.config.get("file", "")))
            if table:
                places.link(
                    "train", "Train with its settings", icon=":material/model_training:", data=table.key, like=best.run
                )


def _charts(plan: SearchPlan, account: Account) -> None:
    """Of trials that are done, so that a chart changes only when there is something new."""
    found = search_charts.scored(account.trials)
    if not found:
        return
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(
            "**Scores, trial by trial**",
            help="Seconds to the goal. A trial that fell short has the whole time and once more of it for every power "
            "of ten that was missing, so that it is above the dotted line.",
        )
        alt = search_charts.describe_history(account.trials, plan)
        st.plotly_chart(search_charts.history_chart(account.trials, plan), key="search_history", config=QUIET, alt=alt)
    with right:
        st.markdown("**Distance to the optimum on the way**", help="The best in orange, those given up dotted.")
        figure, alt = search_charts.course_chart(account, plan), search_charts.describe_courses(account, plan)
        st.plotly_chart(figure, key="search_courses", config=QUIET, alt=alt)
    st.markdown(
        "**What matters**", help="How much a setting decides whether a trial is among the best ones (PED-ANOVA)."
    )
    if account.importance:
        alt = search_charts.describe_importance(account.importance)
        st.plotly_chart(
            search_charts.importance_chart(account.importance), key="search_importance", config=QUIET, alt=alt
        )
    else:
        line(f"This can be told from {ENOUGH} trials on; there are {plural(len(found), 'trial')} with a score so far.")
    st.markdown(
        "**All settings at once**",
        help="Each line is a trial, through the values it had: blue for the best, orange for the last. "
        "A dash stands for a setting that had no effect in that trial.",
    )
    figure, alt = (
        search_charts.parallel_chart(account.trials, plan.space),
        search_charts.describe_parallel(account.trials),
    )
    st.plotly_chart(figure, key="search_parallel", config=QUIET, alt=alt)


def _table(plan: SearchPlan, account: Account) -> None:
    st.markdown("**Trials**")
    frame = pd.DataFrame(search_charts.rows(account.trials, plan.space))
    st.dataframe(
        frame, hide_index=True, height=ROW * (min(TABLE, len(frame)) + 1) + 3, row_height=ROW, placeholder="–",
        column_config={"What happened": st.column_config.TextColumn(width=320)},
        alt=f"{len(frame)} trials, the best first, with their settings and what came of them",
    )  # fmt: skip
    line(f"Trials are ordinary runs with the tag search-…; the list of runs has them too. {_seconds(account)}")


def _seconds(account: Account) -> str:
    return f"The search has been at work for {duration(account.seconds)}."
