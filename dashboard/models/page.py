"""The Models page: all saved models, or one version of one, by the address. What is drawn in a tab is a module each."""

from __future__ import annotations

import html
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from shoal.dashboard.fits import resamples, trust
from shoal.dashboard.forms import whose
from shoal.dashboard.models import (
    actions as model_actions,
)
from shoal.dashboard.models import (
    diagnostics as diagnostics_view,
)
from shoal.dashboard.models import (
    drift as drift_view,
)
from shoal.dashboard.models import (
    export as export_view,
)
from shoal.dashboard.models import (
    lineage as lineage_view,
)
from shoal.dashboard.models import (
    predict as predict_view,
)
from shoal.dashboard.models import (
    promotion as promotion_view,
)
from shoal.dashboard.models import (
    versions as versions_view,
)
from shoal.dashboard.parts import places, results, tuning, wording
from shoal.dashboard.parts.literal import heading, label, line, notice, section
from shoal.errors import TrainingError
from shoal.library import aliases, saved_models
from shoal.library.saved_models import Model, Version
from shoal.people.belongings import sees_everything
from shoal.results.fit import FitReport
from shoal.results.model import ModelFile
from shoal.shelf.place import not_moved
from shoal.words import MODELS, model_title, number, plural

A_PAGE = 24  # cards; more are a button away
ROWS = {"test": "test rows", "train": "training rows"}
VIEWS = {
    "Coefficients": ":material/bar_chart:",
    "Diagnostics": ":material/scatter_plot:",
    "Predict": ":material/online_prediction:",
    "Drift": ":material/trending_up:",
    "Export": ":material/ios_share:",
    "Lineage": ":material/account_tree:",
    "Versions": ":material/history:",
}


def show() -> None:
    places.arrived()
    try:
        _asked_for()
    except TrainingError as error:  # the database of a team may be away
        notice("error", wording.told(error), "The models cannot be shown now")


def _asked_for() -> None:
    name = st.query_params.get("model", "")
    if not name:
        _list_view()
        return
    name, _, alias = name.partition("@")
    model = saved_models.find_model(name)
    version = _asked_version(model, alias) if model else None
    if model is None or version is None:
        _nothing_there(name, model)
    else:
        _detail_view(model, version)


def _asked_version(model: Model, alias: str) -> Version | None:
    """The version in the address, by its number or an alias; where it names none, the champion, or else the latest."""
    wanted = st.query_params.get("version", "")
    if wanted:
        return model.named(wanted)
    return model.version(aliases.known_aliases(model).get(alias, 0)) if alias else aliases.chosen_version(model)


def _nothing_there(name: str, model: Model | None) -> None:
    st.title("Nothing here", anchor=False)
    if model:
        notice("warning", f"The model {name} has no such version; it may have been deleted.")
        places.link("models", "Open its latest version", icon=":material/deployed_code:", model=model.name)
    else:
        notice("warning", "The address names a model that is not on this machine; it may have been deleted or renamed.")
    places.link("models", "See all models", icon=":material/arrow_back:")


# ------------------------------------------------------------------ all models


def _list_view() -> None:
    st.title("Models", anchor=False)
    models = saved_models.list_models()
    if sees_everything() and (left := not_moved()):
        notice("info", left)
    if not models:
        _empty()
        return
    st.caption("A run becomes a version here when you save its model. It stays when its run is deleted.")
    wanted = st.text_input(
        "Search", placeholder="Search by name, target or file", icon=":material/search:", label_visibility="collapsed"
    )
    found = [model for model in models if _matches(model, wanted)]
    if not found:
        line(f"No model has “{wanted}” in its name, target or file.")
        return
    line(plural(len(found), "model") if len(found) == len(models) else f"{len(found):,} of {len(models):,} models")
    shown = int(st.session_state.get("models:shown", A_PAGE))
    with st.container(key="models"), st.grid(3, min_column_width=300):
        for model in found[:shown]:
            _card(model)
    if len(found) > shown:
        st.button(f"Show {min(A_PAGE, len(found) - shown)} more", on_click=_show_more, args=(shown,))


def _show_more(shown: int) -> None:
    st.session_state["models:shown"] = shown + A_PAGE


def _matches(model: Model, wanted: str) -> bool:
    latest = model.latest
    text = f"{model.name} {latest.target} {latest.file} {latest.known.model if latest.known else ''}".casefold()
    return all(word in text for word in wanted.casefold().split())


def _empty() -> None:
    with st.container(border=True, horizontal_alignment="center"):
        st.space("small")
        st.header(":material/deployed_code: No models yet", anchor=False, text_alignment="center")
        st.markdown(
            "Train one and save it, and it appears here with its scores, its coefficients, plots of its errors "
            "and a form to predict with.",
            text_alignment="center",
        )
        places.link("data", "Choose data to train on", icon=":material/table_view:", **places.CHOOSE)
        st.space("small")


def _card(model: Model) -> None:
    latest = aliases.chosen_version(model)
    card = latest.known
    with st.container(border=True):
        places.link("models", label(model.name), icon=":material/deployed_code:", model=model.name)
        if card is None:
            notice("warning", wording.told(latest.damage))
            return
        part, which = card.honest
        name, score = (card.headline.name, card.headline.honest) if card.headline else ("R²", part.r2)
        about = f"{MODELS.get(card.model, card.model)} model of {latest.target}"
        foot = f"{latest.file} · {versions_of(model, latest)} · {when(latest.created)}"
        st.html(
            f'<div class="shoal-model"><div class="about">{html.escape(about)}</div>'
            f'<div class="score">{number(score, 3)}<small>{name}, {ROWS[which]}</small></div>'
            f'<div class="foot">{html.escape(foot)}</div></div>'
        )


def versions_of(model: Model, version: Version) -> str:
    words = "".join(f" ({word})" for word in aliases.words_of(model, version))
    number_ = f"version {version.number}{words}"
    return number_ if len(model.numbers) == 1 else f"{number_} of {len(model.numbers)}"


def when(seconds: float) -> str:
    """A moment as people say it."""
    ago = time.time() - seconds
    if ago < 60:
        return "just now"
    if ago < 3600:
        return f"{plural(int(ago // 60), 'minute')} ago"
    if ago < 24 * 3600:
        return f"{plural(int(ago // 3600), 'hour')} ago"
    return time.strftime("%-d %b %Y", time.localtime(seconds))


# ------------------------------------------------------------------ one version


def _detail_view(model: Model, version: Version) -> None:
    places.link("models", "All models", icon=":material/arrow_back:")
    try:
        file = version.model
    except TrainingError as error:
        heading(model.name)
        notice("error", wording.told(error), "This version cannot be read")
        model_actions.menu(model, version)
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        with st.container(width="stretch"):
            heading(model.name)
            line(_subtitle(version, file))
        with st.container(horizontal=True, width="content", vertical_alignment="bottom", gap="small"):
            _switcher(model, version)
            whose.sharing(version.directory.parent)
            model_actions.menu(model, version)
    model_actions.note(version)
    results.headline(file.report)
    trust.warned(file.report, open_=0)  # said when it was fitted; who comes back comes for what is below
    results.scores(file.report)
    _views(model, version, file)


def _subtitle(version: Version, file: ModelFile) -> str:
    card, report = version.known, file.report
    title = model_title(report.model, report.target)
    stopped = " · from a stopped run" if card and card.state == "stopped" else ""
    fitted = {"model": report.model, "alpha": report.alpha, "l1_ratio": report.l1_ratio}
    return f"{title} · {results.subtitle(fitted, file.data.file)} · saved {when(version.created)}{stopped}"


def _switcher(model: Model, version: Version) -> None:
    said: dict[int, list[str]] = {model.latest.number: ["latest"]}
    for word, number_ in aliases.known_aliases(model).items():
        said.setdefault(number_, []).append(word)
    st.selectbox(
        "Version", model.numbers, format_func=lambda n: " · ".join([str(n), *said.get(n, [])]),
        width=190, help="Every run that was saved under this name is a version; aliases are words for some of them.",
        **places.chooses(f"version:{model.name}", version.number, lambda chosen: places.amend(version=str(chosen))),
    )  # fmt: skip


def _views(model: Model, version: Version, file: ModelFile) -> None:
    """Only the open tab is drawn; its name is in the address."""
    tabs = dict(zip(VIEWS, st.tabs(list(VIEWS), key="view", bind="query-params"), strict=True))
    if tabs["Coefficients"].open:
        with tabs["Coefficients"]:
            _coefficients(version, file.report, file.config)
    if tabs["Diagnostics"].open:
        with tabs["Diagnostics"]:
            diagnostics_view.show(version, file)
    if tabs["Predict"].open:
        with tabs["Predict"]:
            predict_view.show(version)
    if tabs["Drift"].open:
        with tabs["Drift"]:
            drift_view.show(version)
    if tabs["Export"].open:
        with tabs["Export"]:
            export_view.show(version, file)
    if tabs["Lineage"].open:
        with tabs["Lineage"]:
            lineage_view.show(version, file)
    if tabs["Versions"].open:
        with tabs["Versions"]:
            versions_view.show(model, version)
            promotion_view.show(model, version)


def _coefficients(version: Version, report: FitReport, config: Mapping[str, Any]) -> None:
    left, right = st.columns([5, 3], gap="large")
    with left:
        name = f"coefficients-{version.name}-v{version.number}.csv"
        resamples.coefficients(report, Path(version.model_path), str(config.get("file", "")), name)
    with right:
        trust.trust(report)
        tuning.tuning(report)
        results.training(report)
        results.rows(report)
        results.filled(report)
        section("Take it with you")
        results.model_download(Path(version.model_path), f"{version.name}-v{version.number}.json")
